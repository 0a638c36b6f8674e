//! The section `[llm]` of the configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::context_window::{ContextWindow, WindowSource};
use super::model::ModelName;
use super::windows;

/// The section `[llm]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The default model as `provider/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// The number of tokens that models may read and write in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// The number of requests in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_requests: Option<u64>,
    /// Addresses and keys by provider name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Properties of models by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSettings>,
}

impl Settings {
    /// Returns the context window of a model: from the settings, from the built-in table, or from its family.
    #[must_use]
    pub fn context_window(&self, model: &ModelName) -> Option<ContextWindow> {
        self.listed_window(model).or_else(|| self.family_window(model))
    }

    /// Returns the context window of a model from the settings, or from the built-in table.
    pub(super) fn listed_window(&self, model: &ModelName) -> Option<ContextWindow> {
        let configured = self.configured_window(model).map(|tokens| WindowSource::Configured.window(tokens));
        let built_in = || windows::built_in(model.provider(), model.name());
        configured.or_else(|| Some(WindowSource::BuiltIn.window(built_in()?)))
    }

    /// Returns the smallest window in the family of a model. A local server may serve a model with a smaller window
    /// than its family has, so a model of Ollama has no family.
    pub(super) fn family_window(&self, model: &ModelName) -> Option<ContextWindow> {
        let configured = self.providers.get(model.provider()).and_then(|provider| provider.kind);
        let is_ollama = configured.map_or(model.provider() == "ollama", |kind| kind == ProviderKind::Ollama);
        let tokens = windows::smallest_of_family(model.name()).filter(|_| !is_ollama)?;
        Some(WindowSource::Family.window(tokens))
    }

    /// Returns the context window of a model in the settings.
    pub(super) fn configured_window(&self, model: &ModelName) -> Option<u64> {
        self.models.get(&model.to_string()).and_then(|settings| settings.context_window)
    }
}

/// A table `[llm.providers.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// The address, if it is not the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The command that prints the key, with its arguments. It is not run by a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<Vec<String>>,
    /// The API of the provider, if the name does not imply it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProviderKind>,
}

/// The API of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI chat completions and compatible APIs.
    Openai,
    /// Google Gemini.
    Gemini,
    Ollama,
}

/// A table `[llm.models."provider/name"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The context window of the model in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the window of a model with these settings, and its origin.
    fn window(model: &str, settings: &str) -> Option<(u64, WindowSource)> {
        let settings: Settings = toml::from_str(settings).unwrap();
        let window = settings.context_window(&model.parse().unwrap());
        window.map(|window| (window.tokens, window.source))
    }

    #[test]
    fn configured_window_overrides_the_built_in_window() {
        let model = "anthropic/claude-haiku-4-5";
        assert_eq!(window(model, ""), Some((200_000, WindowSource::BuiltIn)));
        let settings = "[models.\"anthropic/claude-haiku-4-5\"]\ncontext_window = 7";
        assert_eq!(window(model, settings), Some((7, WindowSource::Configured)));
        assert_eq!(window("ollama/mine", ""), None);
    }

    #[test]
    fn only_an_assumed_window_causes_a_warning() {
        let warning = |model: &str| {
            let window = Settings::default().context_window(&model.parse().unwrap()).unwrap();
            window.warning(model)
        };
        assert_eq!(warning("openai/gpt-5"), None);
        let text = warning("openai/gpt-9").unwrap();
        assert!(
            text.starts_with("the context window of `openai/gpt-9` is not known; 128000 tokens"),
            "{text}"
        );
    }

    #[test]
    fn model_of_ollama_has_no_family() {
        let family = Some((128_000, WindowSource::Family));
        assert_eq!(window("openrouter/openai/gpt-9", ""), family);
        assert_eq!(window("ollama/gpt-oss:20b", ""), None);
        let lab = |kind: &str| format!("[providers.lab]\nkind = \"{kind}\"\nbase_url = \"http://h\"");
        assert_eq!(window("lab/gpt-9", &lab("openai")), family);
        assert_eq!(window("lab/gpt-9", &lab("ollama")), None);
    }
}
