//! Escaped lines, the only text that `output` writes for people. Foreign text must not end a line: its newlines are
//! escaped, or each of its lines is indented and marked. A strategy, model or transcript therefore cannot forge a line
//! of the host.

use std::fmt::{Display, Write as _};

use anstyle::Style;

use crate::escape::{self, Policy};

/// A list prints at most this many entries, which fit one screen.
pub const LISTED_MAX: usize = 40;
/// A line prints at most this many characters. Programs read `--json` instead.
const LINE_CHARS_MAX: usize = 2_000;
/// A wrapped text has lines of about this many characters.
const WRAPPED_CHARS: usize = 72;
/// The mark of each line of a foreign text.
const QUOTE: &str = "| ";

/// Whole lines. Invariant: each is escaped and ends with a newline.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct EscapedLines {
    text: String,
    policy: Policy,
}

impl EscapedLines {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn single(line: impl Display) -> Self {
        let mut lines = Self::new();
        lines.line(line);
        lines
    }

    /// Creates lines for a decision of the user. Every invisible character is escaped, and no line is truncated.
    pub fn for_consent() -> Self {
        Self { text: String::new(), policy: Policy::Consent }
    }

    /// Creates a text of the host with several lines. It may contain a value that the user typed.
    pub fn from_host(text: &str) -> Self {
        let mut lines = Self::new();
        text.lines().for_each(|line| lines.line(line));
        lines
    }

    /// Adds one line. Newlines in it are escaped.
    pub fn line(&mut self, line: impl Display) {
        let line = escape::line_by(&line.to_string(), self.policy);
        // The user must not consent to text that was truncated.
        let limit = line.char_indices().nth(LINE_CHARS_MAX).filter(|_| self.policy == Policy::Text);
        match limit {
            None => self.text.push_str(&line),
            Some((end, _)) => {
                let hidden = line[end..].chars().count();
                // Writing to a String cannot fail.
                let _ = write!(self.text, "{} ... ({hidden} characters more)", &line[..end]);
            }
        }
        self.text.push('\n');
    }

    /// Adds one line in a style. The codes of the style are added after the line was escaped.
    pub fn styled(&mut self, style: Style, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{style}");
        self.line(line);
        self.text.pop();
        let _ = writeln!(self.text, "{style:#}");
    }

    /// Adds a foreign text of several lines, each indented and marked.
    pub fn quote(&mut self, indent: &str, text: &str) {
        for line in text.lines() {
            self.line(format_args!("{indent}{QUOTE}{line}"));
        }
    }

    /// Adds a foreign text. Its first line continues the host's `label`; the other lines are quoted.
    pub fn labeled(&mut self, label: &str, indent: &str, text: &str) {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        self.line(format_args!("{label}{first}"));
        self.quote(indent, rest);
    }

    /// Like [`Self::labeled`], but wraps the quoted lines between words, and quotes at most [`LISTED_MAX`] of them.
    pub fn labeled_wrapped(&mut self, label: &str, indent: &str, text: &str) {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        self.line(format_args!("{label}{first}"));
        let quoted: Vec<_> = rest.lines().flat_map(wrapped).collect();
        self.list(indent, quoted.iter().map(|line| format!("{indent}{QUOTE}{line}")));
    }

    /// Adds the first entries of a list, at most [`LISTED_MAX`], and the number of the others.
    pub fn list<T: Display>(&mut self, indent: &str, entries: impl ExactSizeIterator<Item = T>) {
        let hidden = entries.len().saturating_sub(LISTED_MAX);
        for line in entries.take(LISTED_MAX) {
            self.line(line);
        }
        self.hidden_count(indent, hidden);
    }

    /// Adds the number of entries that are not printed, if there are any.
    pub fn hidden_count(&mut self, indent: &str, count: usize) {
        if count > 0 {
            self.line(format_args!("{indent}... and {count} more; the JSON output lists all"));
        }
    }

    /// Adds other lines.
    pub fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text, with its last newline.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Splits a line between words into lines of at most [`WRAPPED_CHARS`], unless a word is longer.
fn wrapped(line: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = line;
    while let Some((limit, _)) = rest.char_indices().nth(WRAPPED_CHARS) {
        let start = rest.len() - rest.trim_start().len();
        let limit = limit.max(start);
        let end = if rest[limit..].starts_with(' ') { Some(limit) } else { rest[..limit].rfind(' ') };
        // A word that is longer than a line stays whole.
        let next = || rest[start..].find(' ').map(|end| start + end);
        let Some(end) = end.filter(|end| *end > start).or_else(next) else { break };
        lines.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JOINERS: [char; 4] = ['\u{200c}', '\u{200d}', '\u{fe0e}', '\u{fe0f}'];

    fn is_harmful(character: &char) -> bool {
        character.is_control() && *character != '\n' || ('\u{2028}'..='\u{202e}').contains(character)
    }

    #[test]
    fn escapes_newlines_in_a_line() {
        assert_eq!(
            EscapedLines::single("a\nerror: b\u{2028}c\r\n").as_str(),
            "a\\nerror: b\\u{2028}c\\u{d}\\n\n"
        );
    }

    #[test]
    fn marks_every_line_of_quoted_text() {
        let mut lines = EscapedLines::new();
        lines.labeled("  ", "  ", "it failed\nhint: run this\n\n  error: no");
        assert_eq!(lines.as_str(), "  it failed\n  | hint: run this\n  | \n  |   error: no\n");
    }

    #[test]
    fn wraps_long_lines_between_words() {
        let text = format!("the text:\n{}\n\n    {}\nend", "word ".repeat(20).trim(), "y".repeat(90));
        let mut lines = EscapedLines::new();
        lines.labeled_wrapped("- ", "  ", &text);
        let first = "word ".repeat(14);
        let expected = format!(
            "- the text:\n  | {}\n  | word word word word word word\n  | \n  |     {}\n  | end\n",
            first.trim(),
            "y".repeat(90)
        );
        assert_eq!(lines.as_str(), expected);
    }

    #[test]
    fn wrapping_keeps_every_character_except_spaces() {
        for text in ["", " ", &"ü ".repeat(100), &"\u{3042}".repeat(200), &format!("{} x", " ".repeat(80))] {
            let joined = wrapped(text).concat();
            assert_eq!(joined.replace(' ', ""), text.replace(' ', ""), "{text}");
        }
    }

    #[test]
    fn truncated_list_ends_with_count_of_the_rest() {
        let mut lines = EscapedLines::new();
        lines.list("  ", 0..LISTED_MAX + 7);
        assert_eq!(lines.as_str().lines().count(), LISTED_MAX + 1);
        assert!(lines.as_str().ends_with("  ... and 7 more; the JSON output lists all\n"));
        let mut lines = EscapedLines::new();
        lines.list("  ", 0..LISTED_MAX);
        assert_eq!(lines.as_str().lines().count(), LISTED_MAX);
    }

    #[test]
    fn truncates_long_lines() {
        let lines = EscapedLines::single("x".repeat(LINE_CHARS_MAX + 5));
        assert!(lines.as_str().ends_with("x ... (5 characters more)\n"), "{}", lines.as_str());
    }

    #[test]
    fn consent_lines_are_not_truncated() {
        let mut lines = EscapedLines::for_consent();
        lines.line(format_args!("asks read:/{},network", "x".repeat(LINE_CHARS_MAX)));
        assert!(lines.as_str().ends_with(",network\n"), "{}", lines.as_str());
    }

    proptest! {
        #[test]
        fn foreign_text_adds_neither_lines_nor_control_characters(
            label in "[a-z]{0,5}", foreign in "(\\PC|\\pC|[\n\r\u{b}\u{85}\u{2028}\u{2029}\u{1b}]){0,40}", consent: bool,
        ) {
            let mut lines = if consent { EscapedLines::for_consent() } else { EscapedLines::new() };
            lines.line(format_args!("{label}: {foreign}"));
            lines.labeled(&label, "  ", &foreign);
            lines.labeled_wrapped("  | ", "  ", &foreign);
            let text = lines.as_str();
            let (first, rest) = text.split_once('\n').unwrap();
            prop_assert!(first.starts_with(&label));
            prop_assert!(rest.lines().skip(1).all(|line| line.starts_with("  | ")));
            prop_assert_eq!(text.chars().find(is_harmful), None);
            prop_assert!(!consent || !text.contains(JOINERS));
        }
    }
}
