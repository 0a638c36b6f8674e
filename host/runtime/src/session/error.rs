//! Errors of a session: the process of a strategy cannot be started, fails, or violates the protocol.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use jp_compact_core::reply::ReplyViolation;
use jp_compact_schema::{AnswerError, ErrorReply, Mismatch};

use crate::jail::{MissingAbility, describe_missing};
use crate::process::{ProcessError, Stderr};
use crate::trust::Grant;

/// A strategy did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path of a shared library is not UTF-8. The arguments in `Launch` are UTF-8.
    #[error("{}: its path is not valid UTF-8", path.display())]
    PathNotText { path: PathBuf },
    /// A jail is required, and this machine has none.
    #[error("a jail is required, but {}", describe_missing(missing))]
    NoJail { missing: Vec<MissingAbility> },
    /// The strategy needs a permission that its description does not ask for.
    #[error("it needs `{need}`, which was not granted")]
    NotGranted { need: String },
    /// The strategy failed, and a missing permission may be the reason.
    #[error(transparent)]
    Lacking(Box<Lacking>),
    #[error("{reason}")]
    BadDescription { reason: String },
    /// The strategy and the host have no protocol version in common.
    #[error(transparent)]
    Version(Mismatch),
    #[error(transparent)]
    Process(ProcessError),
    /// The process ended with an error status or a signal and reported no error.
    #[error("{}", crash_message(*status, *answered))]
    Crashed { status: ExitStatus, answered: bool, stderr: Stderr },
    #[error(transparent)]
    Violation(ReplyViolation),
    /// The strategy reported an error.
    #[error("{} ({})", error.message, error.code)]
    Reported { error: ErrorReply, status: ExitStatus },
    /// The strategy gave up because no model answered.
    #[error("{}", model_message(answer, reason))]
    Model {
        answer: AnswerError,
        /// The strategy's own message.
        reason: String,
    },
}

/// A failure, with the missing permissions that may explain it.
#[derive(Debug)]
pub struct Lacking {
    /// Permissions that the strategy asked for and does not have.
    pub asked: Vec<Grant>,
    /// The permission that its last output hints at.
    pub tried: Option<Grant>,
    /// The command that grants all of them.
    pub command: String,
    pub failure: Error,
}

impl fmt::Display for Lacking {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(out)
    }
}

impl std::error::Error for Lacking {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

fn crash_message(status: ExitStatus, answered: bool) -> String {
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    };
    if answered {
        format!("it answered, but then ended with {ending}; the answer was discarded")
    } else {
        format!("it ended with {ending} without an answer")
    }
}

fn model_message(answer: &AnswerError, reason: &str) -> String {
    if reason.is_empty() || reason.contains(&answer.message) {
        answer.to_string()
    } else {
        format!("{answer}; the strategy reported: {reason}")
    }
}

impl Error {
    /// Creates the error of a request that no process has received, because the sessions were stopped.
    pub(super) fn stopped() -> Self {
        let source = io::Error::new(io::ErrorKind::Interrupted, "the run is stopping");
        Self::Process(ProcessError::Io(source))
    }

    /// Returns whether no process has received the request, because the sessions were stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        // A read or write that a signal interrupts is repeated, so it never causes this error.
        matches!(self.plain(), Self::Process(ProcessError::Io(error)) if error.kind() == io::ErrorKind::Interrupted)
    }

    /// Returns the failure without the guess at its reason.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match self {
            Self::Lacking(lacking) => lacking.failure.plain(),
            other => other,
        }
    }

    /// Converts an error that the strategy reported into [`Error::Model`] if a model gave no answer.
    #[must_use]
    pub fn without_model(self, answer: &AnswerError) -> Self {
        match self {
            Self::Reported { error, .. } => Self::Model { answer: answer.clone(), reason: error.message },
            other => other,
        }
    }

    /// Formats the failure in one line. The line ends with the last line of stderr if the strategy crashed.
    #[must_use]
    pub fn with_stderr_tail(&self) -> String {
        match self {
            Self::Crashed { stderr, .. } if stderr.bytes() > 0 => {
                format!("{self}: {}", stderr.last_lines(1))
            }
            _ => self.to_string(),
        }
    }
}
