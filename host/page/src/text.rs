//! Texts of a transcript in a page. Long texts are cut, and the number of hidden characters is shown, so that the page
//! stays small.

use maud::{Markup, html};

/// The maximum number of characters of a text.
const CHARS_MAX: usize = 2_000;

/// A text that may be cut.
pub(crate) struct CutText<'a> {
    pub(crate) shown: &'a str,
    /// The number of characters that are not shown.
    pub(crate) hidden: usize,
}

/// Cuts a text after a number of characters.
pub(crate) fn cut(text: &str, chars: usize) -> CutText<'_> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => CutText { shown: &text[..end], hidden: text[end..].chars().count() },
        None => CutText { shown: text, hidden: 0 },
    }
}

/// Returns the sentence that names the method of counting tokens.
pub(crate) fn token_note(estimator: &str) -> String {
    match estimator {
        "pieces" => "Numbers of tokens are estimates.".to_owned(),
        name => format!("Tokens are counted with {name}."),
    }
}

/// Returns a text in a separate box, escaped and cut.
pub(crate) fn block(text: &str) -> Markup {
    let CutText { shown, hidden } = cut(text, CHARS_MAX);
    html! {
        pre {
            (shown)
            @if hidden > 0 { span.muted { "\n[" (grouped(hidden as u64)) " more characters]" } }
        }
    }
}

/// Returns a short text in a line, escaped and cut.
pub(crate) fn inline(text: &str, chars: usize) -> Markup {
    let CutText { shown, hidden } = cut(text, chars);
    html! { code { (shown) @if hidden > 0 { "…" } } }
}

/// Formats a whole number with a comma after each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "ä".repeat(CHARS_MAX + 12);
        let html = block(&text).into_string();
        assert_eq!(html.matches('ä').count(), CHARS_MAX);
        assert!(html.contains("[12 more characters]"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(inline("<b>&", 9).into_string(), "<code>&lt;b&gt;&amp;</code>");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }
}
