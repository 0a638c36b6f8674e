//! The width of a text in columns of a terminal. A wide character, as in Chinese text, takes two columns, and a combining
//! character takes none.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the number of columns that a text takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Adds spaces to the end of a text that is narrower than the column.
#[must_use]
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// Cuts a text that is wider than the column. The end is replaced with `mark`, which takes one column.
#[must_use]
pub fn cut_end(text: &str, width: usize, mark: char) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let kept = text.chars().take_while(|character| take_room(&mut room, *character));
    kept.chain([mark]).collect()
}

/// Cuts a text that is wider than the column. The start is replaced with `…`.
#[must_use]
pub fn cut_start(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let kept = text.chars().rev().take_while(|character| take_room(&mut room, *character)).count();
    let skipped = text.chars().count() - kept;
    // A combining character belongs to the removed character before it.
    let end = text.chars().skip(skipped).skip_while(|character| character.width() == Some(0));
    ['…'].into_iter().chain(end).collect()
}

/// Subtracts the width of a character. Returns whether there was room for it.
fn take_room(room: &mut usize, character: char) -> bool {
    let rest = room.checked_sub(character.width().unwrap_or(1));
    *room = rest.unwrap_or(0);
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, end_cut: &str, start_cut: &str) {
        assert_eq!((&*cut_end(text, width, '…'), &*cut_start(text, width)), (end_cut, start_cut));
        assert!(columns(end_cut) <= width && columns(start_cut) <= width);
    }

    #[test]
    fn cut_text_fits_the_columns() {
        check("abcd", 4, "abcd", "abcd");
        check("abcde", 4, "abc…", "…cde");
        check("一二三", 6, "一二三", "一二三");
        check("一二三", 5, "一二…", "…二三");
        check("一二三", 4, "一…", "…三");
        check("ae\u{301}i", 3, "ae\u{301}i", "ae\u{301}i");
        check("ae\u{301}i", 2, "a…", "…i");
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!([padded("一", 4), padded("ab", 4), padded("abcde", 4)], ["一  ", "ab  ", "abcde"]);
    }
}
