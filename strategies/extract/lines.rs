//! The lines of one text, and which of them always stay.

/// A `Fixed` line with an error or an exit code is cut at three times `line_bytes`, but at no less and no more than these
/// sizes.
const ERROR_BYTES: (usize, usize) = (120, 500);
/// Every other `Fixed` line is cut at `line_bytes`, but at no less and no more than these sizes.
const LAST_LINE_BYTES: (usize, usize) = (40, 160);
/// Words that mark a line as an error.
const ERROR_WORDS: [&str; 4] = ["error", "failed", "panicked", "Traceback"];
/// Words that mark a line with the exit code of a command.
const EXIT_WORDS: [&str; 4] = ["exit code", "exit status", "exited with", "Exit code"];

/// A line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    pub(crate) role: LineRole,
}

/// Whether a line stays, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineRole {
    /// It always stays.
    Fixed,
    /// It stays if its names justify its size.
    Whole,
    /// Only its names can stay, because it is long.
    Names,
}

/// Splits a text into lines. The first and last `edge_lines` lines with text stay, unless they are longer than
/// `line_bytes`. If `is_output` is set, so do errors, exit codes, and the last line.
pub(crate) fn split(text: &str, line_bytes: usize, edge_lines: usize, is_output: bool) -> Vec<Line<'_>> {
    let texts: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let count = texts.len();
    let line = |(index, text): (usize, &'_ str)| -> LineRole {
        let is_edge = index < edge_lines || index + edge_lines >= count;
        let is_last = index + 1 == count;
        let is_short = text.len() <= line_bytes;
        if is_output && (is_last || is_error_or_exit(text)) || is_edge && is_short {
            LineRole::Fixed
        } else if is_short {
            LineRole::Whole
        } else {
            LineRole::Names
        }
    };
    let mut lines = Vec::with_capacity(count);
    for (index, text) in texts.into_iter().enumerate() {
        let role = line((index, text));
        // The rest of a cut line can still show its names.
        let fixed = if role == LineRole::Fixed { cut(text, line_bytes) } else { text };
        lines.push(Line { text: fixed, role });
        if fixed.len() < text.len() {
            lines.push(Line { text: &text[fixed.len()..], role: LineRole::Names });
        }
    }
    lines
}

/// Returns whether a line reports an error or an exit code. A numbered line of a file does not count, even if it
/// contains such a word.
fn is_error_or_exit(line: &str) -> bool {
    !is_numbered(line) && ERROR_WORDS.iter().chain(&EXIT_WORDS).any(|word| line.contains(word))
}

/// Returns whether a line begins with its number in a file, as in the output of tools that read files.
fn is_numbered(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|char: char| char.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(['\u{2192}', '\t', '|'])
}

/// Returns the part of a line that is kept.
fn cut(line: &str, line_bytes: usize) -> &str {
    let bytes_max = match is_error_or_exit(line) {
        true => line_bytes.saturating_mul(3).clamp(ERROR_BYTES.0, ERROR_BYTES.1),
        false => line_bytes.clamp(LAST_LINE_BYTES.0, LAST_LINE_BYTES.1),
    };
    &line[..line.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(text: &str, line_bytes: usize, edge_lines: usize, is_output: bool) -> Vec<LineRole> {
        split(text, line_bytes, edge_lines, is_output).iter().map(|line| line.role).collect()
    }

    #[test]
    fn edges_and_the_last_line_stay() {
        use LineRole::{Fixed, Whole};
        let text = "a\nb\nc\n\nd\ne\n";
        assert_eq!(roles(text, 160, 1, true), [Fixed, Whole, Whole, Whole, Fixed]);
        assert_eq!(roles(text, 160, 2, true), [Fixed, Fixed, Whole, Fixed, Fixed]);
        assert_eq!(roles(text, 160, 0, true), [Whole, Whole, Whole, Whole, Fixed]);
        assert_eq!(roles(text, 160, 0, false), [Whole; 5], "no line of arguments is fixed");
    }

    #[test]
    fn errors_and_exit_codes_stay() {
        use LineRole::{Fixed, Whole};
        let text = "start\nerror: no such file\n2 failed\nthread panicked\nTraceback (most recent)\nexit code 1\nx\nlast";
        let expected = [Whole, Fixed, Fixed, Fixed, Fixed, Fixed, Whole, Fixed];
        assert_eq!(roles(text, 160, 0, true), expected);
    }

    #[test]
    fn numbered_lines_of_a_file_are_not_errors() {
        use LineRole::{Fixed, Whole};
        let text = "  12\u{2192}return error;\n13\tfailed = true\n2 failed\nlast";
        assert_eq!(roles(text, 160, 0, true), [Whole, Whole, Fixed, Fixed]);
    }

    #[test]
    fn only_the_names_of_long_lines_stay() {
        let long = "x".repeat(161);
        assert_eq!(roles(&format!("{long}\nend"), 160, 1, true), [LineRole::Names, LineRole::Fixed]);
    }

    #[test]
    fn long_error_is_cut_at_a_character() {
        let long = format!("error: {}", "ä".repeat(400));
        let lines = split(&long, 160, 0, true);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].text.len() + lines[1].text.len(), long.len());
        assert!((479..=480).contains(&lines[0].text.len()));
        assert_eq!(split(&long, 10, 0, true)[0].text.len(), 119, "an `ä` has two bytes");
        assert_eq!(split(&"x".repeat(99), 10, 0, true)[0].text.len(), 40);
    }
}
