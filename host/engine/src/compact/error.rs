//! The errors of a run on one transcript: it cannot be read or written, a strategy fails, or a result is invalid.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jp_compact_core::append::NotAppendable;
use jp_compact_core::index::Unreadable;
use jp_compact_core::validate::Refusal;
use jp_compact_transcripts::{Format, NotUnderstood};

use super::guard::{ConstraintsLost, LintFailed};
use super::strategy_error::StrategyRunError;
use crate::consent::{self, Denial};
use jp_compact_store::StoreError;

/// A run on a transcript failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A transcript cannot be parsed.
    #[error("failed to read {}", path.display())]
    Unreadable { path: PathBuf, source: Unreadable },
    /// A file has no known format.
    #[error("{}", no_format(path, *program))]
    NoFormat {
        path: PathBuf,
        /// The position of the JSON error, if the file is not JSON.
        source: Option<Unreadable>,
        /// An unsupported program with similar transcripts.
        program: Option<&'static str>,
    },
    /// The reader of a format understands too few of the events.
    #[error("failed to understand {}", path.display())]
    NotUnderstood { path: PathBuf, source: NotUnderstood },
    /// The file is the sidecar of a transcript.
    #[error("{} is a sidecar file, not a transcript", path.display())]
    Sidecar { path: PathBuf },
    /// Only a conversation of JP can be forked or continued.
    #[error("{} is a transcript of {format}; only JP's conversations can be {verb}", path.display())]
    NotJp { path: PathBuf, format: Format, verb: &'static str },
    /// The transcript can be read, but not appended to.
    #[error("failed to append to {}", path.display())]
    NotAppendable { path: PathBuf, source: NotAppendable },
    /// The transcript or its overlays changed while the strategies ran, and the result no longer fits.
    #[error("{} changed while it was being compacted", path.display())]
    Stale { path: PathBuf, source: StaleSnapshot },
    /// The transcript has events that the model has not seen.
    #[error("failed to append to {}: it grew while the model answered", path.display())]
    Unseen { path: PathBuf },
    /// The view would violate a lint rule.
    #[error("failed to append to {}: the view would violate a lint rule", path.display())]
    LintFailed { path: PathBuf, source: LintFailed },
    /// The view would lose constraints of the user, and the run requires them.
    #[error("failed to append to {}: the view would lose {}", path.display(), constraint_count(source.0.len()))]
    ConstraintsLost { path: PathBuf, source: ConstraintsLost },
    #[error("{} has no overlay {number}; it has {overlays} {}", path.display(), overlay_noun(*overlays))]
    NoSuchOverlay { path: PathBuf, number: usize, overlays: usize },
    #[error("{}", source.headline(name))]
    Strategy {
        /// The name as the user typed it.
        name: String,
        source: Box<StrategyRunError>,
    },
    /// The run failed after a model had written summaries.
    #[error("{error}")]
    WithSummaries {
        error: Box<Self>,
        /// The texts of the accepted summaries. The user has paid for them, and gets them.
        summaries: Vec<String>,
    },
    #[error("not allowed to ask a model")]
    NotAllowed(#[source] Box<Denial>),
    #[error("not allowed to start the strategy `{strategy}`, which may use the network")]
    NoNetwork {
        strategy: String,
        #[source]
        denial: Box<Denial>,
    },
}

fn constraint_count(count: usize) -> String {
    format!("{count} {} of the user", if count == 1 { "constraint" } else { "constraints" })
}

fn overlay_noun(count: usize) -> &'static str {
    if count == 1 { "overlay" } else { "overlays" }
}

fn no_format(path: &Path, program: Option<&str>) -> String {
    let path = path.display();
    match program {
        None => format!("failed to detect the format of {path}"),
        Some(program) => format!("{path} looks like a transcript of {program}, which is not supported yet"),
    }
}

/// The reason why a result does not fit a transcript that has changed.
#[derive(Debug, thiserror::Error)]
pub enum StaleSnapshot {
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error(transparent)]
    NotAppendable(NotAppendable),
    #[error(transparent)]
    Refused(Box<Refusal>),
    #[error(transparent)]
    LintFailed(LintFailed),
    /// The transcript has events that the model has not seen.
    #[error("the transcript has new events")]
    Unseen,
    /// Another run has changed the overlays, and a check of the result with them failed.
    #[error(transparent)]
    Rejected(Box<Error>),
    /// Another run has changed the overlays, and every strategy is declined now. The report has the reasons.
    #[error("another run has changed the overlays")]
    Declined,
}

impl Error {
    /// Creates the error of a strategy that failed.
    #[must_use]
    pub fn strategy(name: &str, source: impl Into<StrategyRunError>) -> Self {
        Self::Strategy { name: name.to_owned(), source: Box::new(source.into()) }
    }

    /// Returns whether the run was stopped before it asked a model, or before its overlays were appended. A run with
    /// summaries that the user has paid for does not count.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match self {
            Self::Store(StoreError::Unwritable { source, .. }) => source.kind() == ErrorKind::Interrupted,
            Self::Strategy { source, .. } => {
                matches!(&**source, StrategyRunError::Session(error) if error.is_stopped())
            }
            _ => false,
        }
    }

    /// Returns the error without its summaries.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match self {
            Self::WithSummaries { error, .. } => error.plain(),
            plain => plain,
        }
    }

    /// Returns the texts of all summaries that a model wrote and that were not appended.
    #[must_use]
    pub fn lost_summaries(&self) -> Vec<&str> {
        let mut texts = Vec::new();
        if let Self::WithSummaries { summaries, .. } = self {
            texts.extend(summaries.iter().map(String::as_str));
        }
        if let Self::Strategy { source, .. } = self.plain()
            && let StrategyRunError::Refused { summaries, .. } = source.as_ref()
        {
            texts.extend(summaries.iter().map(String::as_str));
        }
        texts
    }
}

impl From<consent::Error> for Error {
    fn from(error: consent::Error) -> Self {
        match error {
            consent::Error::BadModel { strategy, reason } => {
                Self::strategy(&strategy, StrategyRunError::BadOptions { reason })
            }
            consent::Error::Denied(denial) => Self::NotAllowed(denial),
        }
    }
}
