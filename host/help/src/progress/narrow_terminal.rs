//! The terminal that the progress is drawn on. Its last columns stay free: when a user presses Ctrl-C, the terminal itself
//! writes `^C` at the cursor. After a full line, this would move the cursor to the next line, and a line of progress would
//! remain.

use std::io;

use console::Term;
use indicatif::TermLike;

/// The columns of `^C`, twice, because a user may press it twice.
const FREE_COLUMNS: u16 = 4;

/// Stderr without its last columns.
#[derive(Debug)]
pub(super) struct NarrowTerminal(Term);

impl NarrowTerminal {
    /// Returns `None` if stderr is not a terminal.
    pub(super) fn stderr() -> Option<Self> {
        let terminal = Term::buffered_stderr();
        terminal.is_term().then_some(Self(terminal))
    }
}

impl TermLike for NarrowTerminal {
    fn width(&self) -> u16 {
        progress_width(self.0.size().1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the columns for the progress on a terminal of this width.
fn progress_width(columns: u16) -> u16 {
    columns.saturating_sub(FREE_COLUMNS).max(1)
}
