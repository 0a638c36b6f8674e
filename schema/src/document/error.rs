//! The error of a command, a transcript, a record, or a tool. All of them have this shape.

use serde::{Deserialize, Serialize};

/// The document of a command or a transcript that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "failure"))]
pub struct Failure {
    /// The path of the transcript, as given. Absent if the command itself failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The error.
    pub error: ErrorReport,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ErrorReport {
    /// The exit code of this failure in a run with only this transcript.
    pub code: u8,
    /// The kind of failure. A kind has one code.
    pub kind: ErrorKind,
    /// The error message.
    pub message: String,
    /// The causes, outermost first.
    pub causes: Vec<String>,
    /// The next step for the user.
    pub hint: Option<String>,
    /// Whether the same input may succeed later.
    pub retryable: bool,
}

impl ErrorReport {
    /// Creates an error of this kind, without causes and hint.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code: kind.code(),
            kind,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            retryable: kind.is_retryable(),
        }
    }
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// A bug in jp-compact.
    Bug,
    /// The arguments, the options, or the configuration are invalid.
    Usage,
    /// A gate was not met.
    GateNotMet,
    /// The transcript cannot be read or written, or is invalid.
    TranscriptInvalid,
    /// The line is not a valid record.
    BadRecord,
    /// The line is too long.
    RecordTooLarge,
    /// Another program uses or changed the transcript.
    Conflict,
    /// A strategy was not found, or its name is ambiguous.
    StrategyNotFound,
    /// A strategy is not trusted or not confined, a grant is missing, or a model is not allowed.
    StrategyNotTrusted,
    /// The manifest or the description of a strategy is invalid.
    StrategyInvalid,
    /// A strategy crashed, was killed, or could not start.
    StrategyCrashed,
    /// A strategy missed its deadline.
    Deadline,
    /// A strategy violated the protocol.
    ProtocolViolation,
    /// A strategy reported an error.
    StrategyError,
    /// The host rejected the compactions of a strategy.
    Refused,
    /// No model answered, or the budget is used up.
    ModelUnavailable,
    /// Some of several transcripts failed.
    SomeFailed,
    /// A strategy's protocol is too old.
    ProtocolTooOld,
    /// A strategy's protocol is too new.
    ProtocolTooNew,
    /// The command was interrupted.
    Interrupted,
}

impl ErrorKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [Self; 20] = [
        Self::Bug,
        Self::Usage,
        Self::GateNotMet,
        Self::TranscriptInvalid,
        Self::BadRecord,
        Self::RecordTooLarge,
        Self::Conflict,
        Self::StrategyNotFound,
        Self::StrategyNotTrusted,
        Self::StrategyInvalid,
        Self::StrategyCrashed,
        Self::Deadline,
        Self::ProtocolViolation,
        Self::StrategyError,
        Self::Refused,
        Self::ModelUnavailable,
        Self::SomeFailed,
        Self::ProtocolTooOld,
        Self::ProtocolTooNew,
        Self::Interrupted,
    ];

    /// Returns the exit code of the command.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Bug => 1,
            Self::Usage => 2,
            Self::GateNotMet => 3,
            Self::TranscriptInvalid | Self::BadRecord | Self::RecordTooLarge => 4,
            Self::Conflict => 5,
            Self::StrategyNotFound => 10,
            Self::StrategyNotTrusted => 11,
            Self::StrategyInvalid => 12,
            Self::StrategyCrashed => 13,
            Self::Deadline => 14,
            Self::ProtocolViolation => 15,
            Self::StrategyError => 16,
            Self::Refused => 17,
            Self::ModelUnavailable => 18,
            Self::SomeFailed => 19,
            Self::ProtocolTooOld => 20,
            Self::ProtocolTooNew => 21,
            Self::Interrupted => 130,
        }
    }

    /// Returns whether the same input may succeed later, for most failures of this kind. See [`ErrorReport::retryable`].
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict | Self::Deadline | Self::ModelUnavailable | Self::StrategyCrashed)
    }
}
