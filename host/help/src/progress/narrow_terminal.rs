//! The terminal that the progress is drawn on. Its last columns stay free: when a user presses Ctrl-C, the terminal itself
//! writes `^C` at the cursor. After a full line, this would move the cursor to the next line, and a line of progress would
//! remain.

use std::io;
use std::sync::{Mutex, PoisonError};

use console::{Term, measure_text_width};
use indicatif::TermLike;

/// The columns of `^C`, twice, because a user may press it twice.
const FREE_COLUMNS: u16 = 4;

/// Stderr without its last columns. indicatif fills each line and expects the terminal to wrap it, so this type wraps it.
#[derive(Debug)]
pub(super) struct NarrowTerminal {
    terminal: Term,
    /// The column of the cursor, from 0.
    column: Mutex<usize>,
}

impl NarrowTerminal {
    /// Returns `None` if stderr is not a terminal.
    pub(super) fn stderr() -> Option<Self> {
        let terminal = Term::buffered_stderr();
        terminal.is_term().then(|| Self { terminal, column: Mutex::new(0) })
    }

    fn set_column(&self, column: usize) {
        *self.column.lock().unwrap_or_else(PoisonError::into_inner) = column;
    }
}

impl TermLike for NarrowTerminal {
    fn width(&self) -> u16 {
        progress_width(self.terminal.size().1)
    }

    fn height(&self) -> u16 {
        self.terminal.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.set_column(0);
        self.terminal.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let mut column = self.column.lock().unwrap_or_else(PoisonError::into_inner);
        self.terminal.write_str(&wrapped(text, usize::from(self.width()), &mut column))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.set_column(0);
        self.terminal.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.terminal.flush()
    }
}

/// Returns the columns for the progress on a terminal of this width.
fn progress_width(columns: u16) -> u16 {
    columns.saturating_sub(FREE_COLUMNS).max(1)
}

/// Wraps a text that is written at `column`, and sets `column` to its end. A full line is wrapped only before the next
/// character, as terminals do.
fn wrapped(text: &str, width: usize, column: &mut usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for character in text.chars() {
        let columns = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if matches!(character, '\r' | '\n') {
            *column = 0;
        } else if *column > 0 && *column + columns > width {
            wrapped.push('\n');
            *column = columns;
        } else {
            *column += columns;
        }
        wrapped.push(character);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_leaves_columns_free() {
        assert_eq!(progress_width(80), 76);
        assert_eq!(progress_width(3), 1);
    }

    #[test]
    fn full_lines_are_wrapped_before_the_next_character() {
        let mut column = 0;
        assert_eq!(wrapped("abcd", 4, &mut column), "abcd");
        assert_eq!(column, 4);
        assert_eq!(wrapped("ef", 4, &mut column), "\nef");
        assert_eq!(column, 2);
        assert_eq!(wrapped("  \rghij", 4, &mut column), "  \rghij");
        assert_eq!(wrapped("█…klm", 4, &mut column), "\n█…kl\nm");
        assert_eq!(column, 1);
        assert_eq!(wrapped("a", 0, &mut 0), "a", "a character that never fits is written");
    }
}
