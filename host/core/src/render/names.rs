//! The forms of call ids and tool names that providers accept. Texts of other forms are replaced: equal texts get equal
//! replacements, and different texts nearly always get different replacements.

use super::Provider;

/// The accepted form of a name or an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameRules {
    /// The maximum number of characters.
    chars_max: usize,
    /// Accepted characters in addition to letters, digits, `_` and `-`. `None` accepts all.
    extra: Option<&'static str>,
    /// Whether the first character must be a letter or `_`.
    begins_with_letter: bool,
}

/// Accepts any nonempty text.
const NONEMPTY: NameRules = NameRules { chars_max: usize::MAX, extra: None, begins_with_letter: false };
/// Accepts at most 64 letters, digits, `_`, and `-`.
const WORD: NameRules = NameRules { chars_max: 64, extra: Some(""), begins_with_letter: false };

impl NameRules {
    /// Returns the form of tool names that a provider accepts.
    pub(crate) fn for_names(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic | Provider::Openai | Provider::OpenaiResponses => WORD,
            Provider::Gemini => Self { extra: Some(".:"), begins_with_letter: true, ..WORD },
            Provider::Ollama => NONEMPTY,
        }
    }

    /// Returns the form of call ids that a provider accepts.
    pub(crate) fn for_ids(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic => WORD,
            Provider::Openai => Self { chars_max: 40, ..NONEMPTY },
            Provider::OpenaiResponses => Self { chars_max: 64, ..NONEMPTY },
            Provider::Gemini | Provider::Ollama => NONEMPTY,
        }
    }

    /// Returns whether a text has this form.
    pub(crate) fn accepts(self, text: &str) -> bool {
        let accepts_first =
            |first: char| !self.begins_with_letter || first.is_ascii_alphabetic() || first == '_';
        text.chars().next().is_some_and(accepts_first)
            && text.chars().all(|character| self.accepts_character(character))
            && text.chars().count() <= self.chars_max
    }

    fn accepts_character(self, character: char) -> bool {
        let is_word = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        self.extra.is_none_or(|extra| is_word || extra.contains(character))
    }

    /// Returns the text if it has this form. Otherwise replaces invalid characters with `_`, and appends a digest of
    /// the text.
    pub(crate) fn to_accepted(self, text: String) -> String {
        if self.accepts(&text) {
            return text;
        }
        let prefix = if self.begins_with_letter { "_" } else { "" };
        let suffix = format!("_{:08x}", digest(&text));
        let len_max = self.chars_max.saturating_sub(prefix.len() + suffix.len());
        let replace = |character| if self.accepts_character(character) { character } else { '_' };
        let middle: String = text.chars().map(replace).take(len_max).collect();
        format!("{prefix}{middle}{suffix}")
    }
}

/// Returns the 32-bit FNV-1a hash. It is the same in every run.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: NameRules, text: &str, is_accepted: bool) {
        assert_eq!(rules.accepts(text), is_accepted, "{text}");
        let accepted = rules.to_accepted(text.to_owned());
        assert!(rules.accepts(&accepted), "{accepted}");
        assert_eq!(accepted == text, is_accepted, "{accepted}");
    }

    #[test]
    fn replaces_rejected_names_with_accepted_ones() {
        let long = "x".repeat(65);
        for provider in Provider::ALL {
            let (name, id) = (NameRules::for_names(provider), NameRules::for_ids(provider));
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
    fn replaces_different_names_with_different_ones() {
        let accepted = |text: &str| WORD.to_accepted(text.to_owned());
        assert_ne!(accepted("a.b"), accepted("a:b"));
        assert_eq!(accepted("a.b"), accepted("a.b"));
        assert_ne!(accepted(&"x".repeat(65)), accepted(&"x".repeat(66)));
    }
}
