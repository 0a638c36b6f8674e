//! What is configured of models: the section `[llm]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::model::ModelName;

/// The section `[llm]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The model that is asked where nothing nearer names one: `provider/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// How many tokens models may read and write in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// How many requests models may be sent in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_requests: Option<u64>,
    /// Addresses and keys, by the provider's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Provider>,
    /// What is known of models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Known>,
}

/// A table `[llm.providers.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Where it is, in place of its own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The command that prints the key, with its arguments; no shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<Vec<String>>,
    /// Whose interface it speaks, where its name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

/// Whose interface a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Anthropic's messages.
    Anthropic,
    /// OpenAI's chat completions, and everything compatible with them.
    Openai,
    /// Google's Gemini.
    Gemini,
    /// Ollama.
    Ollama,
}

/// A table `[llm.models."provider/name"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// How many tokens the model takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}
