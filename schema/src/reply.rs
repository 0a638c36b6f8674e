//! The reply of a strategy: any number of `progress` and `log` lines, then exactly one terminal line.
//!
//! This module parses single lines. It must not decide whether a payload fits the request: that is the host's task.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use crate::compaction::Payload;
use crate::line::from_line;
use crate::needs::Needs;
use crate::strict;

/// One line from a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "generate", schemars(transform = crate::generate::accept_unknown_types))]
#[non_exhaustive]
pub enum Reply {
    /// Progress. The host displays it and continues to read.
    Progress(Progress),
    /// A log line. The host logs it and continues to read.
    Log(Log),
    /// Terminal. The host validates every payload, and appends either all of them or none.
    Result(ResultReply),
    /// Terminal. The host reports the reason and appends nothing. This is not a failure.
    Decline(Decline),
    /// Terminal for this round. The host fulfills the needs and sends the request again.
    Needs(Needs),
    /// Terminal. The host appends nothing and fails with this error.
    Error(ErrorReply),
    /// A message of an unknown type. The host ignores it and continues to read.
    #[serde(other)]
    Unknown,
}

impl Reply {
    /// Parses one line, with or without its line end.
    ///
    /// # Errors
    ///
    /// The line is not a JSON object, has no `type`, or is a malformed message of a known type.
    pub fn parse(line: &str) -> serde_json::Result<Self> {
        let line = line.as_bytes();
        // Parses the line twice. Serde's buffer for tagged enums would accept an array as an object, and a number as
        // a variant's name.
        Ok(match from_line::<MessageType>(line)?.r#type.as_str() {
            "progress" => Self::Progress(from_line(line)?),
            "log" => Self::Log(from_line(line)?),
            "result" => Self::Result(from_line(line)?),
            "decline" => Self::Decline(from_line(line)?),
            "needs" => Self::Needs(from_line(line)?),
            "error" => Self::Error(from_line(line)?),
            _ => Self::Unknown,
        })
    }

    /// Returns the id of the request, or `None` for a message of an unknown type.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Progress(progress) => Some(&progress.id),
            Self::Log(log) => Some(&log.id),
            Self::Result(result) => Some(&result.id),
            Self::Decline(decline) => Some(&decline.id),
            Self::Needs(needs) => Some(&needs.id),
            Self::Error(error) => Some(&error.id),
            Self::Unknown => None,
        }
    }

    /// Returns whether this line ends the reply.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Decline(_) | Self::Needs(_) | Self::Error(_))
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(line.get()).map_err(de::Error::custom)
    }
}

#[derive(Deserialize)]
struct MessageType {
    r#type: String,
}

/// The progress of the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Progress {
    /// The request's id.
    pub id: String,
    /// The number of finished steps.
    pub done: u64,
    /// The total number of steps, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// A description of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line for the host's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Log {
    /// The request's id.
    pub id: String,
    /// The level.
    #[serde(deserialize_with = "strict::variant")]
    pub level: Level,
    /// The text.
    pub message: String,
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Single steps.
    Trace,
    /// Details for the author of the strategy.
    Debug,
    /// Information for users who asked for verbose output.
    Info,
    /// A warning for every user.
    Warn,
    /// An error for every user. It does not end the reply.
    Error,
}

/// The compactions that the strategy proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ResultReply {
    /// The request's id.
    pub id: String,
    /// The compactions. A strategy without a compaction declines instead.
    #[serde(deserialize_with = "strict::objects")]
    #[cfg_attr(feature = "generate", schemars(length(max = crate::version::COMPACTIONS_MAX)))]
    pub compactions: Vec<Payload>,
    /// Remarks to the user about the conversation.
    #[serde(default, deserialize_with = "strict::objects", skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The greatest number of merges between a summary and the raw events: 0 if the model read the events themselves.
    /// The host records it in the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<u32>,
}

/// A remark of the strategy about the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Diagnostic {
    /// The severity.
    #[serde(deserialize_with = "strict::variant")]
    pub severity: Severity,
    /// The code for programs, in `snake_case`.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// The turn that the diagnostic is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The event that the diagnostic is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information.
    Info,
    /// A probable problem.
    Warning,
    /// An error. The result remains valid.
    Error,
}

/// The strategy has nothing to compact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Decline {
    /// The request's id.
    pub id: String,
    /// The reason for people, in a few words.
    pub reason: String,
}

/// The error code for an unusable answer of a model. The host treats it like an invalid payload.
pub const ANSWER_REFUSED: &str = "answer_refused";

/// The strategy failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ErrorReply {
    /// The request's id.
    pub id: String,
    /// The code for programs: `options_invalid`, `request_invalid`, `protocol_unsupported`, `internal`,
    /// `answer_refused`, or the strategy's own code in `snake_case`.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
    /// The next step for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
