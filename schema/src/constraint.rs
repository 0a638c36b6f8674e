//! The constraints of a conversation: the sentences in which the user sets a rule. Host and strategies share this
//! definition, so a host can check whether a strategy kept the constraints. It must be the same as in PROTOCOL.md.

/// The words that make a sentence a constraint.
const BINDING: [&str; 8] =
    ["never", "always", "must", "don't", "don\u{2019}t", "do not", "only", "from now on"];

/// Returns the constraints of a message of the user: its sentences with a binding word, in order. A sentence ends at a
/// line end, and after `.`, `!`, or `?` if a space follows.
pub fn constraints(message: &str) -> impl Iterator<Item = &str> {
    message.lines().flat_map(sentences).filter(|sentence| is_binding(sentence))
}

/// Returns the sentences of a line.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.as_bytes().windows(2).position(|pair| matches!(pair, [b'.' | b'!' | b'?', b' ']));
        let (sentence, others) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = others;
        Some(sentence.trim())
    })
}

fn is_binding(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    BINDING.iter().any(|word| contains_words(&lower, word))
}

/// Returns whether a text contains these words. A part of a longer word does not count.
fn contains_words(text: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + words.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &[&str]) {
        assert_eq!(constraints(message).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn finds_sentences_with_a_binding_word() {
        check("Fix it. Never touch vendor/! Thanks.", &["Never touch vendor/!"]);
        check("From now on, write tests first.\r\nGo on.", &["From now on, write tests first."]);
        check("Please DO NOT push.", &["Please DO NOT push."]);
        check("Don\u{2019}t push. don't rebase", &["Don\u{2019}t push.", "don't rebase"]);
        check("It must be 1.5 s at most", &["It must be 1.5 s at most"]);
        check("  - Only a.rs may change  ", &["- Only a.rs may change"]);
    }

    #[test]
    fn part_of_a_word_does_not_bind() {
        check("A commonly used mustard; only_x; nevertheless.", &[]);
        check("", &[]);
        check("...\n\n. ! ?", &[]);
    }
}
