//! Shortening of long texts, and the fences of code blocks.

use std::borrow::Cow;
use std::ops::Range;

/// The minimum number of characters to remove, because the note about the removal takes characters, too.
const SLACK: usize = 100;

/// Shortens a text to about `chars_max` characters: its beginning, a note with the number of removed characters, and
/// its end. A text that is only slightly longer is returned unchanged.
#[must_use]
pub fn shorten(text: &str, chars_max: usize) -> Cow<'_, str> {
    removed_part(text, chars_max).map_or(Cow::Borrowed(text), |removed| without(text, &removed).into())
}

/// Shortens a text like [`shorten`], but never removes only a part of a closed code block. A reader could take the rest
/// for the whole block.
#[must_use]
pub fn shorten_between_blocks(text: &str, chars_max: usize) -> Cow<'_, str> {
    let Some(mut removed) = removed_part(text, chars_max) else { return text.into() };
    for block in fenced_blocks(text) {
        if block.start < removed.end && removed.start < block.end {
            removed = removed.start.min(block.start)..removed.end.max(block.end);
        }
    }
    without(text, &removed).into()
}

/// Returns the bytes to remove. `None` for a text that is short enough.
fn removed_part(text: &str, chars_max: usize) -> Option<Range<usize>> {
    // A character has at least one byte.
    if text.len() <= chars_max.saturating_add(SLACK) {
        return None;
    }
    let chars = text.chars().count();
    if chars <= chars_max.saturating_add(SLACK) {
        return None;
    }
    let (head, tail) = (chars_max.div_ceil(2), chars_max / 2);
    let byte = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(byte, _)| byte);
    Some(byte(head)..byte(chars - tail))
}

fn without(text: &str, removed: &Range<usize>) -> String {
    let count = text[removed.clone()].chars().count();
    format!("{}\n[... {count} characters left out ...]\n{}", &text[..removed.start], &text[removed.end..])
}

/// Returns the marks that open or close a fenced code block: three or more.
#[must_use]
pub fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let length = line.chars().take_while(|other| *other == mark).count();
    // A line that contains the mark again is inline code.
    (length >= 3 && !line[length..].contains(mark)).then(|| &line[..length])
}

/// Returns whether a line closes the block that `opening` opened.
#[must_use]
pub fn closes_fence(line: &str, opening: &str) -> bool {
    fence_mark(line).is_some_and(|end| end.starts_with(opening))
        && line.trim().trim_matches(['`', '~']).is_empty()
}

/// Returns the bytes of the fenced code blocks of a text, with their fences. An unclosed block is not included.
fn fenced_blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match open {
            Some((opening, from)) if closes_fence(line, opening) => {
                blocks.push(from..end);
                open = None;
            }
            Some(_) => {}
            None => open = fence_mark(line).map(|mark| (mark, start)),
        }
        start = end;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_unchanged() {
        for text in ["", "short", &"x".repeat(110), &"ä".repeat(110)] {
            assert_eq!(shorten(text, 10), text);
        }
    }

    #[test]
    fn long_text_keeps_both_ends_and_counts_removed_characters() {
        let text = format!("{}{}{}", "a".repeat(5), "-".repeat(200), "z".repeat(5));
        assert_eq!(shorten(&text, 10), "aaaaa\n[... 200 characters left out ...]\nzzzzz");
        assert_eq!(shorten(&text, 0), "\n[... 210 characters left out ...]\n");
    }

    #[test]
    fn multibyte_characters_are_not_split() {
        let text = "🦀".repeat(150);
        assert_eq!(shorten(&text, 3), "🦀🦀\n[... 147 characters left out ...]\n🦀");
    }

    #[test]
    fn a_code_block_is_removed_completely_or_not_at_all() {
        let block = |name: &str| format!("```\n{name} {}\n```\n", name.repeat(300));
        let text = format!("head\n{}between\n{}tail\n", block("a"), block("b"));
        for chars_max in [100, 200, 300, 400] {
            let short = shorten_between_blocks(&text, chars_max);
            for name in ["a", "b"] {
                assert!(!short.contains(&format!("{name}{name}")) || short.contains(&block(name)), "{short}");
            }
            assert!(short.starts_with("head\n") && short.ends_with("tail\n"), "{short}");
            assert!(short.contains(" characters left out ...]"), "{short}");
        }
        let unclosed = format!("```\n{}", "x".repeat(900));
        assert_eq!(shorten_between_blocks(&unclosed, 100), shorten(&unclosed, 100));
    }
}
