//! The errors of the configuration.

use super::origin::ConfigError;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, a key, or a value is invalid.
    #[error("failed to read the configuration {}", .0.source)]
    Invalid(#[source] Box<ConfigError>),
    /// A setting for a conversation is invalid.
    #[error("failed to set `{setting}`")]
    RejectedSetting { setting: String, source: Box<ConfigError> },
    /// The key to remove is not set.
    #[error("failed to unset `{key}`: the conversation does not set it")]
    NotSet { key: String },
    /// There is no folder for the settings of the conversation.
    #[error("failed to find a folder for the settings of the conversation")]
    NoSettingsFile,
    /// The settings of a conversation cannot be written.
    #[error(transparent)]
    Store(#[from] jp_compact_store::StoreError),
    #[error("there is no profile `{name}`")]
    NoSuchProfile { name: String, known: Vec<String> },
    #[error("the configuration has no value for `{key}`")]
    NoValue { key: String, known: Vec<String> },
}
