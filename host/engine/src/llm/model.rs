//! A model's name, and which of several names is meant. Asks nobody.

use std::fmt;
use std::str::FromStr;

use super::settings::Settings;
use super::windows;

/// A model: `provider/name`. Only the first slash parts them, for a name may hold others.
///
/// Invariant: both parts are not empty, and hold neither spaces nor controls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelName {
    provider: String,
    name: String,
}

/// A text that names no model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoModelName(String);

impl ModelName {
    /// Who serves it: what stands behind `[llm.providers.`.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What its provider calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its window in tokens: what the settings say, else what is shipped, else unknown.
    #[must_use]
    pub fn context_window(&self, settings: &Settings) -> Option<u64> {
        let known = settings.models.get(&self.to_string()).and_then(|known| known.context_window);
        known.or_else(|| windows::shipped(&self.provider, &self.name))
    }
}

impl FromStr for ModelName {
    type Err = NoModelName;

    fn from_str(text: &str) -> Result<Self, NoModelName> {
        let is_word =
            |part: &&str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
        let (provider, name) = text.split_once('/').ok_or_else(|| NoModelName(text.to_owned()))?;
        if [provider, name].iter().all(is_word) {
            Ok(Self { provider: provider.to_owned(), name: name.to_owned() })
        } else {
            Err(NoModelName(text.to_owned()))
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl fmt::Display for NoModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a model as `provider/name`, such as `anthropic/claude-haiku-4-5`, not `{}`",
            self.0
        )
    }
}

impl std::error::Error for NoModelName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, &str)>) {
        let parsed = text.parse::<ModelName>().ok();
        assert_eq!(parsed.as_ref().map(|model| (model.provider(), model.name())), expect);
        assert_eq!(parsed.map(|model| model.to_string()), expect.map(|_| text.to_owned()));
    }

    #[test]
    fn a_name_has_two_parts() {
        check("anthropic/claude-haiku-4-5", Some(("anthropic", "claude-haiku-4-5")));
        check("openrouter/qwen/qwen3:8b", Some(("openrouter", "qwen/qwen3:8b")));
        for text in ["gpt-5", "/gpt-5", "openai/", "", "open ai/gpt-5", "openai/gpt\n5"] {
            check(text, None);
        }
    }

    #[test]
    fn settings_know_a_window_better_than_the_table() {
        let model: ModelName = "anthropic/claude-haiku-4-5".parse().unwrap();
        assert_eq!(model.context_window(&Settings::default()), Some(200_000));
        let settings = toml::from_str("[models.\"anthropic/claude-haiku-4-5\"]\ncontext_window = 7").unwrap();
        assert_eq!(model.context_window(&settings), Some(7));
        let unknown: ModelName = "ollama/mine".parse().unwrap();
        assert_eq!(unknown.context_window(&Settings::default()), None);
    }
}
