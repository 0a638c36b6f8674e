//! Lines of prose: comments, lists, and sentences. Most of their characters are in plain words.
//!
//! A line is judged by itself. How often its words occur elsewhere must not influence the choice, because `eval` uses
//! rare words to measure what survives. A line that a message or another kept line already
//! shows is never chosen.

use std::cmp::Reverse;
use std::collections::HashSet;

/// The smallest number of words in a line of prose.
const WORDS_MIN: usize = 4;
/// The smallest number of characters in a line of prose, without white space.
const CHARS_MIN: usize = 24;
/// The smallest share of characters in plain words, in percent.
const SHARE_MIN: usize = 70;
/// The maximum size of a line of prose. A longer line is data, or would fill the budget alone.
const BYTES_MAX: usize = 1_000;
/// Marks of comments, headings, and lists in front of the text of a line.
const MARKS: [&str; 15] =
    ["///", "//!", "//", "/**", "/*", "**", "*", "<!--", "--", "#", "-", "+", "\"\"\"", "'''", ">"];

/// Returns the share of a line's characters that are in plain words, in percent. `None` if it is not prose.
pub(crate) fn prose_share(line: &str) -> Option<usize> {
    if line.len() > BYTES_MAX {
        return None;
    }
    let (mut words, mut plain, mut all) = (0, 0, 0);
    for word in without_mark(without_number(line)).split_whitespace() {
        let chars = word.chars().count();
        words += 1;
        all += chars;
        plain += if is_plain(word) { chars } else { 0 };
    }
    let share = (plain * 100).checked_div(all)?;
    (words >= WORDS_MIN && all >= CHARS_MIN && share >= SHARE_MIN).then_some(share)
}

/// Returns whether a word consists of letters, lower-case after the first one, with punctuation around it.
fn is_plain(word: &str) -> bool {
    let word = word.trim_start_matches(['"', '\'', '(', '*', '`', '\u{201c}', '\u{2018}']);
    let word = word
        .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '*', '`', '"', '\'', '\u{201d}', '\u{2019}']);
    let is_part = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(char::is_alphabetic)
            && chars.all(|char| char.is_alphabetic() && !char.is_ascii_uppercase())
    };
    word.split(['-', '\'', '\u{2019}']).all(is_part)
}

/// Returns a line of a file without its number, as in the output of tools that read files.
pub(crate) fn without_number(line: &str) -> &str {
    let text = line.trim();
    let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_numbered = rest.len() < text.len();
    let rest = rest.strip_prefix(['\u{2192}', '\t', '|']).filter(|_| is_numbered);
    rest.map_or(text, str::trim_start)
}

fn without_mark(line: &str) -> &str {
    let list = line.trim_start_matches(|char: char| char.is_ascii_digit());
    if list.len() < line.len()
        && let Some(text) = list.strip_prefix(['.', ')'])
    {
        return text;
    }
    MARKS.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line)
}

/// The lines that the view shows, as hashes.
#[derive(Default)]
pub(crate) struct ShownLines(HashSet<u64>);

impl ShownLines {
    /// Adds a line. Returns whether the view did not show it before.
    pub(crate) fn add(&mut self, line: &str) -> bool {
        self.0.insert(hash(without_number(line)))
    }

    /// Adds all lines of a text.
    pub(crate) fn add_all(&mut self, text: &str) {
        text.lines().for_each(|line| {
            self.add(line);
        });
    }
}

/// FNV-1a. A collision leaves out a line.
fn hash(text: &str) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold)
}

/// Chooses lines of prose until no other one fits into the budget: those with the largest share of plain words first,
/// and of equal ones, the newest. `lines` are in order, each with its index. Returns the chosen indexes.
pub(crate) fn choose_prose<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    shown: &mut ShownLines,
    mut budget: usize,
) -> Vec<usize> {
    let mut found: Vec<(usize, usize, &str)> =
        lines.filter_map(|(index, line)| prose_share(line).map(|share| (share, index, line))).collect();
    found.sort_unstable_by_key(|&(share, index, _)| Reverse((share, index)));
    let mut chosen = Vec::new();
    for (_, index, line) in found {
        let bytes = line.len() + 1;
        if bytes <= budget && shown.add(line) {
            budget -= bytes;
            chosen.push(index);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, is_prose: bool) {
        assert_eq!(prose_share(line).is_some(), is_prose, "{line}");
    }

    #[test]
    fn comments_lists_and_sentences_are_prose() {
        check("    12\u{2192}    // The parser keeps the last state, so that errors have a position.", true);
        check("- The server answers with the newest version", true);
        check("3. Ask the user which folder to delete", true);
        check("Don't write to the well-known folder (it is shared).", true);
        check("Der Dienst l\u{e4}uft weiter, bis \u{e4}ltere Daten gel\u{f6}scht sind.", true);
        check("too few words in", false);
    }

    #[test]
    fn code_and_data_are_not_prose() {
        check("let total = items.iter().map(|item| item.price * item.count).sum::<u64>();", false);
        check("drwxr-xr-x 2 root root 4096 Nov 23 09:54 target", false);
        check("0x1234 0x5678 0x9abc 0xdef0 0x1234 0x5678", false);
        check("", false);
        check(&"words in a very long line ".repeat(60), false);
    }

    #[test]
    fn numbers_of_lines_are_left_out() {
        assert_eq!(without_number("   12\u{2192}\ttext "), "text");
        assert_eq!(without_number("12 apples"), "12 apples");
        assert_eq!(without_number("12|"), "");
        assert_eq!(without_number("|12|"), "|12|");
    }

    #[test]
    fn purest_and_newest_lines_come_first_and_only_once() {
        let lines = [
            "the first sentence of a longer text",
            "7\u{2192}the first sentence of a longer text",
            "the other sentence of a longer text",
            "the other sentence of a longer text, in src/lib.rs",
        ];
        let choose =
            |budget| choose_prose(lines.iter().copied().enumerate(), &mut ShownLines::default(), budget);
        assert_eq!(choose(usize::MAX), [2, 1, 3]);
        assert_eq!(choose(40), [2]);
        let mut shown = ShownLines::default();
        shown.add_all("x\n  the other sentence of a longer text\n");
        assert_eq!(choose_prose(lines.iter().copied().enumerate(), &mut shown, usize::MAX), [1, 3]);
    }
}
