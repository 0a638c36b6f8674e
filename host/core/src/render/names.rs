//! The forms of call ids and tool names that providers accept. Others are replaced: equal texts by equal replacements,
//! and different texts by different ones.

use super::Provider;

/// The accepted form of a name or an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameRules {
    /// Maximum number of characters.
    chars_max: usize,
    /// Accepted characters in addition to letters, digits, `_` and `-`. `None` accepts all.
    others: Option<&'static str>,
    /// Whether the first character must be a letter or `_`.
    begins_with_letter: bool,
}

/// Any nonempty text.
const ANY: NameRules = NameRules { chars_max: usize::MAX, others: None, begins_with_letter: false };
const WORD: NameRules = NameRules { chars_max: 64, others: Some(""), begins_with_letter: false };

impl NameRules {
    /// Returns the form of tool names that a provider accepts.
    pub(crate) fn name(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic | Provider::Openai | Provider::OpenaiResponses => WORD,
            Provider::Gemini => Self { others: Some(".:"), begins_with_letter: true, ..WORD },
            Provider::Ollama => ANY,
        }
    }

    /// Returns the form of call ids that a provider accepts.
    pub(crate) fn id(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic => WORD,
            Provider::Openai => Self { chars_max: 40, ..ANY },
            Provider::OpenaiResponses => Self { chars_max: 64, ..ANY },
            Provider::Gemini | Provider::Ollama => ANY,
        }
    }

    /// Returns whether a text has this form.
    pub(crate) fn takes(self, text: &str) -> bool {
        let is_letter = |first: char| first.is_ascii_alphabetic() || first == '_';
        let first = text.chars().next();
        first.is_some_and(|first| !self.begins_with_letter || is_letter(first))
            && text.chars().all(|character| self.takes_character(character))
            && text.chars().count() <= self.chars_max
    }

    fn takes_character(self, character: char) -> bool {
        let is_word = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        self.others.is_none_or(|others| is_word || others.contains(character))
    }

    /// Returns the text or its replacement, in which `_` replaces invalid characters and a digest of the text follows.
    pub(crate) fn accepted(self, text: String) -> String {
        if self.takes(&text) {
            return text;
        }
        let digest = format!("_{:08x}", digest(&text));
        let begin = if self.begins_with_letter { "_" } else { "" };
        let room = self.chars_max.saturating_sub(digest.len() + begin.len());
        let fits = |character| if self.takes_character(character) { character } else { '_' };
        let plain: String = text.chars().map(fits).take(room).collect();
        format!("{begin}{plain}{digest}")
    }
}

/// FNV-1a of 32 bits, because the digest must be the same in every run.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allowed: NameRules, text: &str, taken: bool) {
        assert_eq!(allowed.takes(text), taken, "{text}");
        let accepted = allowed.accepted(text.to_owned());
        assert!(allowed.takes(&accepted), "{accepted}");
        assert_eq!(accepted == text, taken, "{accepted}");
    }

    #[test]
    fn replaces_rejected_names_by_accepted_ones() {
        let long = "x".repeat(65);
        for provider in Provider::ALL {
            let (name, id) = (NameRules::name(provider), NameRules::id(provider));
            let is_ollama = provider == Provider::Ollama;
            let is_google = provider == Provider::Gemini;
            check(name, "read_file", true);
            check(name, "functions.Bash:0", is_ollama || is_google);
            check(name, "größe", is_ollama);
            check(name, "7up", !is_google);
            check(name, &long, is_ollama);
            check(name, "", false);
            check(id, "call_1", true);
            check(id, "functions.Bash:0", provider != Provider::Anthropic);
            check(id, &long, is_ollama || is_google);
        }
    }

    #[test]
    fn keeps_different_names_different() {
        let accepted = |text: &str| WORD.accepted(text.to_owned());
        assert_ne!(accepted("a.b"), accepted("a:b"));
        assert_eq!(accepted("a.b"), accepted("a.b"));
        assert_ne!(accepted(&"x".repeat(65)), accepted(&"x".repeat(66)));
    }
}
