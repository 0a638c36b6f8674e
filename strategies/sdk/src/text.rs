//! Shortening of long texts.

use std::borrow::Cow;

/// The minimum number of characters to remove. The note about the removal would be about as long.
const SLACK: usize = 100;

/// Shortens a text to about `chars_max` characters: its beginning, a note with the number of removed characters, and its
/// end. Returns a text that is only slightly longer unchanged.
#[must_use]
pub fn shorten(text: &str, chars_max: usize) -> Cow<'_, str> {
    // A character has at least one byte.
    if text.len() <= chars_max + SLACK {
        return text.into();
    }
    let chars = text.chars().count();
    if chars <= chars_max + SLACK {
        return text.into();
    }
    let (head, tail) = (chars_max.div_ceil(2), chars_max / 2);
    let place = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(place, _)| place);
    let (end, start) = (place(head), place(chars - tail));
    let cut = chars - head - tail;
    format!("{}\n[... {cut} characters left out ...]\n{}", &text[..end], &text[start..]).into()
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
}
