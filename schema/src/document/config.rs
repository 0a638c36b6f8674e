//! The reports of the commands `config ...`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The report of `config`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "config-report"))]
pub struct ConfigReport {
    /// All values, merged, in the form of a configuration file.
    pub config: Map<String, Value>,
    /// The name of the default profile.
    pub default_profile: String,
    /// The profiles by name.
    pub profiles: BTreeMap<String, ProfileReport>,
    /// The conversation's own model.
    pub assistant_model: Option<String>,
    /// The layer of each value, by key.
    pub origins: BTreeMap<String, String>,
    /// Problems that were ignored.
    pub warnings: Vec<String>,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// The strategies, in order.
    pub calls: Vec<CallReport>,
    /// The number of first turns that stay unchanged.
    pub keep_first: Option<usize>,
    /// The number of last turns that stay unchanged.
    pub keep_last: Option<usize>,
    /// The number of newest steps that stay unchanged.
    pub keep_steps: Option<usize>,
    /// The number of tokens of the newest steps that stay unchanged.
    pub keep_tokens: Option<u64>,
    /// The share of the context window that makes a compaction due.
    pub trigger_ratio: Option<f64>,
}

/// A strategy with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct CallReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The options of the strategy.
    pub options: Map<String, Value>,
}

/// The report of `config set` and `config unset`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "config-settings-report"))]
pub struct ConfigSettingsReport {
    /// The files with the settings of the conversation, one for each copy of it. Without settings they do not exist.
    pub files: Vec<String>,
    /// The settings of the conversation, in the form of a configuration file.
    pub settings: Map<String, Value>,
}

/// The report of `config trust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "config-trust-report"))]
pub struct ConfigTrustReport {
    /// The folders with approved values.
    pub approved: Vec<ApprovedFolder>,
    /// Whether this command approved a value.
    pub new: bool,
}

/// The approved values of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ApprovedFolder {
    /// The path of the folder.
    pub path: String,
    /// The values.
    pub values: Vec<ApprovedValue>,
}

/// An approved value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ApprovedValue {
    /// The origin of the value.
    pub origin: String,
    /// The text that the user approved.
    pub rows: Vec<ValueRow>,
    /// The SHA-256 of the value.
    pub sha256: String,
}

/// One line of an approved value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ValueRow {
    /// The name of the setting.
    pub label: String,
    /// The value of the setting.
    pub text: String,
}

/// The report of `config trust --list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "config-approvals-report"))]
pub struct ApprovalsReport {
    /// The folders with approvals.
    pub approved: Vec<ApprovalEntry>,
}

/// The approvals of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ApprovalEntry {
    /// The path of the folder.
    pub path: String,
    /// The SHA-256 of each approved value.
    pub sha256: Vec<String>,
}

/// The report of `config untrust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "config-untrust-report"))]
pub struct ConfigUntrustReport {
    /// The path of the folder.
    pub path: String,
    /// Whether an approval was withdrawn. False if there was none.
    pub withdrawn: bool,
}
