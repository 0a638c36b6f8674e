//! One line of stderr with `--log-format json`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message on stderr, with `--log-format json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "log-line"))]
pub struct LogLine {
    /// The level.
    pub level: LogLevel,
    /// The text in `message`, and each value in its own member. The text never contains a value.
    pub fields: Map<String, Value>,
}

/// The level of a message on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// Payloads and events.
    Trace,
    /// Single steps.
    Debug,
    /// Results, and information.
    Info,
    /// A problem that was ignored.
    Warn,
    /// A failure.
    Error,
}
