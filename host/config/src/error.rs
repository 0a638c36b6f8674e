//! The errors of the configuration.

use super::origin::ConfigError;

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file, a key, or a value is invalid.
    #[error("failed to read the configuration {}", .0.source)]
    Invalid(#[source] Box<ConfigError>),
    #[error("there is no profile `{name}`")]
    NoSuchProfile { name: String, known: Vec<String> },
}
