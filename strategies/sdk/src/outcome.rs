//! The result of a strategy, and its conversion to the terminal line of a reply.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use jp_compact_schema::{
    AnswerError, CompactRequest, Decline, Diagnostic, ErrorReply, NeedRequest, Needs, Payload,
    RemainingNeeds, Reply, ResultReply,
};
use serde::de::DeserializeOwned;

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Compactions. The host validates them, and appends all or none.
    Result {
        /// The compactions. At least one.
        compactions: Vec<Payload>,
        /// Remarks to the user about the conversation.
        diagnostics: Vec<Diagnostic>,
        /// The greatest number of merges between a summary and the raw events. `None` if no model wrote a summary.
        merges: Option<u32>,
    },
    /// Nothing to compact. The host reports this reason.
    Decline(String),
    /// Needs. The host fulfills them, then sends the request again with `answers` and `state`.
    Needs {
        /// The needs by key. Without `limits.needs_many`, a key of an earlier round must not be reused.
        requests: BTreeMap<String, NeedRequest>,
        /// Data that the host returns unchanged. At most 64 KiB, or 1 MiB with `limits.needs_many`.
        state: Option<String>,
        /// An estimate of the needs of all later rounds, so that the host can refuse a run that exceeds the budget before
        /// it asks a model.
        remaining: Option<RemainingNeeds>,
    },
}

impl Outcome {
    /// Returns a result with one compaction.
    #[must_use]
    pub fn propose(payload: Payload) -> Self {
        Self::Result { compactions: vec![payload], diagnostics: Vec::new(), merges: None }
    }

    /// Returns a decline with this reason.
    #[must_use]
    pub fn decline(reason: impl Into<String>) -> Self {
        Self::Decline(reason.into())
    }
}

/// The error of a strategy. The compaction fails with this error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyError {
    /// The code for programs, in `snake_case`.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// Whether the same request may succeed later.
    pub transient: bool,
    /// The next step for the user.
    pub hint: Option<String>,
}

impl StrategyError {
    /// Creates an error with this code.
    pub fn new(code: impl Into<String>, message: impl Display) -> Self {
        Self { code: code.into(), message: message.to_string(), transient: false, hint: None }
    }

    /// Creates an error with the code `options_invalid`.
    pub fn options_invalid(message: impl Display) -> Self {
        Self::new("options_invalid", message)
    }

    /// Creates an error with the code `internal`, for bugs of the strategy.
    pub fn internal(message: impl Display) -> Self {
        Self::new("internal", message)
    }

    /// Adds the next step for the user.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<io::Error> for StrategyError {
    fn from(error: io::Error) -> Self {
        Self::internal(error)
    }
}

impl From<AnswerError> for StrategyError {
    fn from(error: AnswerError) -> Self {
        Self::new(error.code, error.message)
    }
}

/// Deserializes the options of a request to a type of the strategy.
///
/// # Errors
///
/// The options do not fit the type (code `options_invalid`).
pub fn options<T: DeserializeOwned>(request: &CompactRequest) -> Result<T, StrategyError> {
    request.options_as().map_err(StrategyError::options_invalid)
}

/// Returns the terminal line for the request `id`.
pub(crate) fn terminal_reply(id: &str, outcome: Result<Outcome, StrategyError>) -> Reply {
    let id = id.to_owned();
    match outcome {
        Ok(Outcome::Result { compactions, diagnostics, merges }) => {
            Reply::Result(ResultReply { id, compactions, diagnostics, merges })
        }
        Ok(Outcome::Decline(reason)) => Reply::Decline(Decline { id, reason }),
        Ok(Outcome::Needs { requests, state, remaining }) => {
            Reply::Needs(Needs { id, requests, state, remaining })
        }
        Err(StrategyError { code, message, transient, hint }) => {
            Reply::Error(ErrorReply { id, code, message, transient, hint })
        }
    }
}
