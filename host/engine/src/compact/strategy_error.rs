//! The errors of one strategy in a run, from its name to its payload.

use std::io;
use std::path::PathBuf;

use jp_compact_core::validate::Refusal;
use jp_compact_llm as llm;
use jp_compact_runtime::jail::{MissingAbility, describe_missing};
use jp_compact_runtime::{registry, session, trust};
use jp_compact_schema::ANSWER_REFUSED;

/// A strategy cannot be used, or its result is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StrategyRunError {
    #[error(transparent)]
    Find(#[from] registry::Error),
    #[error(transparent)]
    Trust(#[from] trust::Error),
    #[error(transparent)]
    Session(#[from] session::Error),
    /// The plugin may only run in a jail, and this machine has none.
    #[error("{} is not bundled, and cannot run in a jail: {}", path.display(), describe_missing(missing))]
    NotContained { path: PathBuf, missing: Vec<MissingAbility> },
    /// The strategy needs a permission that was not granted.
    #[error("it needs `{need}`, which was not granted")]
    NotGranted {
        need: String,
        /// The command that grants it.
        command: Option<String>,
    },
    #[error("{reason}")]
    BadOptions { reason: String },
    /// The events cannot be written to the file that the strategy reads.
    #[error("failed to write the events to its spool file")]
    Spool(#[source] io::Error),
    #[error("no model is set by its options, the command line, the settings, or the conversation")]
    NoModel,
    /// The payload violates a rule.
    #[error("{refusal}")]
    Refused {
        refusal: Box<Refusal>,
        /// The texts of the summaries that a model may have written. The user has paid for them, and gets them.
        summaries: Vec<String>,
    },
    /// The answer of a model to the same request was rejected before.
    #[error("no model was asked, because an earlier answer to this request was rejected: {reason}")]
    RefusedBefore { reason: String },
}

impl StrategyRunError {
    /// Returns the message that names the strategy. The error itself is the cause.
    pub(super) fn headline(&self, name: &str) -> String {
        use session::Error as Session;
        match self {
            Self::Find(error) => find_headline(error, name),
            Self::Trust(trust::Error::NotTrusted(_)) => format!("strategy `{name}` is not trusted"),
            Self::Trust(trust::Error::Insecure(_) | trust::Error::NoState)
            | Self::NotContained { .. }
            | Self::NotGranted { .. } => format!("strategy `{name}` may not run"),
            Self::Trust(trust::Error::PathNotText { .. }) => format!("failed to find a strategy at `{name}`"),
            Self::BadOptions { .. } => format!("strategy `{name}` does not take these options"),
            Self::Refused { .. } | Self::RefusedBefore { .. } => {
                format!("the result of strategy `{name}` was rejected")
            }
            Self::NoModel => format!("strategy `{name}` needs a model, and none is configured"),
            Self::Session(error) => match error.plain() {
                Session::PathNotText { .. } => format!("failed to find a strategy at `{name}`"),
                Session::NoJail { .. } | Session::NotGranted { .. } => {
                    format!("strategy `{name}` may not run")
                }
                Session::Reported { .. } => format!("strategy `{name}` reported an error"),
                Session::Model { .. } => format!("strategy `{name}` got no answer from a model"),
                _ => format!("strategy `{name}` failed"),
            },
            Self::Trust(_) | Self::Spool(_) => format!("strategy `{name}` failed"),
        }
    }
}

fn find_headline(error: &registry::Error, name: &str) -> String {
    match error {
        registry::Error::ReservedName { .. } | registry::Error::Shadows { .. } => {
            format!("strategy `{name}` is ambiguous")
        }
        registry::Error::NoPlugin { .. } => format!("failed to find a strategy at `{name}`"),
        _ => format!("failed to find strategy `{name}`"),
    }
}

impl StrategyRunError {
    /// Returns whether a model answered, and the answer was rejected.
    pub(super) fn is_rejected_answer(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Session(error) => match error.plain() {
                session::Error::Model { answer, .. } => llm::is_of_model(&answer.code),
                session::Error::Reported { error, .. } => error.code == ANSWER_REFUSED,
                _ => false,
            },
            _ => false,
        }
    }
}
