//! Constraints: the sentences of the user with a binding word. They are at risk even if nothing names them later.

use std::sync::LazyLock;

use regex::Regex;

static BINDING: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)\b(?:never|always|must|don['\u{2019}]t|do not|only|from now on)\b";
    Regex::new(words).expect("the expression is constant")
});

/// Returns the constraints in a text of the user, in order. Sentences end with their line, and after `.`, `!`, or `?` and
/// a space.
pub fn constraints(text: &str) -> impl Iterator<Item = &str> {
    // Most texts have no binding word, and some are very long.
    let text = if BINDING.is_match(text) { text } else { "" };
    text.lines().flat_map(sentences).map(str::trim).filter(|sentence| BINDING.is_match(sentence))
}

fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.as_bytes().windows(2).position(|pair| matches!(pair, [b'.' | b'!' | b'?', b' ']));
        match end {
            Some(end) => {
                rest = Some(&text[end + 2..]);
                Some(&text[..=end])
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(constraints(text).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn constraints_are_sentences_with_a_binding_word() {
        check("Hello. Never touch main! Thanks", &["Never touch main!"]);
        check("a must\n- always b? c only", &["a must", "- always b?", "c only"]);
        check("Version 1.2 must stay.\r\nok", &["Version 1.2 must stay."]);
        check("Don't do that. From now on use tabs", &["Don't do that.", "From now on use tabs"]);
        check("don\u{2019}t", &["don\u{2019}t"]);
        check("mustard is commonly nevermore", &[]);
        check("", &[]);
    }
}
