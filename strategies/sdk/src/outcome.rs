//! What a strategy returns, and how that becomes the one terminal line of a reply.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use jp_compact_schema::{
    AnswerError, CompactRequest, Decline, Diagnostic, ErrorReply, NeedRequest, Needs, Payload, Reply,
    ResultReply,
};
use serde::de::DeserializeOwned;

/// How a request ends well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The host validates the compactions and appends all of them, or none.
    Result {
        /// At least one.
        compactions: Vec<Payload>,
        /// What the user should know about the conversation.
        diagnostics: Vec<Diagnostic>,
    },
    /// The host reports the reason and appends nothing.
    Decline(String),
    /// The host gets the answers, then sends the request again with `answers` and `state`.
    Needs {
        /// What is needed, by a key that no earlier round has used.
        requests: BTreeMap<String, NeedRequest>,
        /// Comes back as it is; 64 KiB at most.
        state: Option<String>,
    },
}

impl Outcome {
    /// One compaction and nothing to remark.
    #[must_use]
    pub fn propose(payload: Payload) -> Self {
        Self::Result { compactions: vec![payload], diagnostics: Vec::new() }
    }

    /// Nothing to do, and why.
    #[must_use]
    pub fn decline(reason: impl Into<String>) -> Self {
        Self::Decline(reason.into())
    }
}

/// Why a strategy cannot answer. The host fails with these words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyError {
    /// For programs, in `snake_case`.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the same request may succeed later.
    pub transient: bool,
    /// What the user can do.
    pub hint: Option<String>,
}

impl StrategyError {
    /// An error with a code of the strategy's own.
    pub fn new(code: impl Into<String>, message: impl Display) -> Self {
        Self { code: code.into(), message: message.to_string(), transient: false, hint: None }
    }

    /// The options make no sense: code `options_invalid`.
    pub fn options_invalid(message: impl Display) -> Self {
        Self::new("options_invalid", message)
    }

    /// The strategy is at fault: code `internal`.
    pub fn internal(message: impl Display) -> Self {
        Self::new("internal", message)
    }

    /// The same, with what the user can do.
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

/// The options of a request as a type of the strategy's own.
///
/// # Errors
///
/// They do not fit: `options_invalid`.
pub fn options<T: DeserializeOwned>(request: &CompactRequest) -> Result<T, StrategyError> {
    request.options_as().map_err(StrategyError::options_invalid)
}

/// The terminal line of request `id`.
pub(crate) fn reply(id: &str, outcome: Result<Outcome, StrategyError>) -> Reply {
    let id = id.to_owned();
    match outcome {
        Ok(Outcome::Result { compactions, diagnostics }) => {
            Reply::Result(ResultReply { id, compactions, diagnostics })
        }
        Ok(Outcome::Decline(reason)) => Reply::Decline(Decline { id, reason }),
        Ok(Outcome::Needs { requests, state }) => Reply::Needs(Needs { id, requests, state }),
        Err(StrategyError { code, message, transient, hint }) => {
            Reply::Error(ErrorReply { id, code, message, transient, hint })
        }
    }
}
