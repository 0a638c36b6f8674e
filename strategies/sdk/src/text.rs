//! Making long text short: its two ends, and how much was between them.

use std::borrow::Cow;

/// So much of a text is not worth a sentence that says it is gone.
const SLACK: usize = 100;

/// The head and the tail of a text that is longer than about `chars_max` characters, and between them how many
/// characters were left out.
#[must_use]
pub fn shorten(text: &str, chars_max: usize) -> Cow<'_, str> {
    // A character is a byte at least.
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
    fn a_short_text_stays_as_it_is() {
        for text in ["", "short", &"x".repeat(110), &"ä".repeat(110)] {
            assert_eq!(shorten(text, 10), text);
        }
    }

    #[test]
    fn a_long_one_keeps_both_ends_and_says_what_is_gone() {
        let text = format!("{}{}{}", "a".repeat(5), "-".repeat(200), "z".repeat(5));
        assert_eq!(shorten(&text, 10), "aaaaa\n[... 200 characters left out ...]\nzzzzz");
        assert_eq!(shorten(&text, 0), "\n[... 210 characters left out ...]\n");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "🦀".repeat(150);
        assert_eq!(shorten(&text, 3), "🦀🦀\n[... 147 characters left out ...]\n🦀");
    }
}
