//! The section `[llm]` of the configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Returns the context window of a model in tokens: from the settings, or from the built-in table.
    #[must_use]
    pub fn context_window(&self, model: &ModelName) -> Option<u64> {
        self.configured_window(model).or_else(|| windows::built_in(model.provider(), model.name()))
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
    /// Ollama.
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

    #[test]
    fn configured_window_precedes_shipped_one() {
        let model: ModelName = "anthropic/claude-haiku-4-5".parse().unwrap();
        assert_eq!(Settings::default().context_window(&model), Some(200_000));
        let settings: Settings =
            toml::from_str("[models.\"anthropic/claude-haiku-4-5\"]\ncontext_window = 7").unwrap();
        assert_eq!(settings.context_window(&model), Some(7));
        let unknown: ModelName = "ollama/mine".parse().unwrap();
        assert_eq!(Settings::default().context_window(&unknown), None);
    }
}
