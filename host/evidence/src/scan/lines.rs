//! Lines that report an error: they contain `error`, `failed`, `panicked`, or `Traceback`.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("error|failed|panicked|Traceback").expect("the expression is constant"));

/// Returns the positions of the lines with an error, without white space around them.
pub fn error_lines(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut line_end = 0;
    MARK.find_iter(text).filter_map(move |mark| {
        // A line with two marks counts once.
        if mark.start() < line_end {
            return None;
        }
        let start = text[..mark.start()].rfind('\n').map_or(0, |newline| newline + 1);
        line_end = text[mark.end()..].find('\n').map_or(text.len(), |newline| mark.end() + newline);
        let line = &text[start..line_end];
        let start = start + (line.len() - line.trim_start().len());
        Some(start..start + line.trim().len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_a_mark_is_an_error() {
        let text = "  error: no file\r\nok\n3 failed, 1 error\nTraceback (most recent\nError\n";
        let lines: Vec<_> = error_lines(text).map(|span| &text[span]).collect();
        assert_eq!(lines, ["error: no file", "3 failed, 1 error", "Traceback (most recent"]);
        assert_eq!(error_lines("error").count(), 1);
        assert_eq!(error_lines("").count(), 0);
    }
}
