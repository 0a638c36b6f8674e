//! Why a command failed, as values: which step, for which file or strategy. Whoever reports it decides what a
//! person reads, and what the process exits with.

pub(crate) mod denied;
mod strategy;

use std::path::PathBuf;

use jp_compact_core::append::NotAppendable;
use jp_compact_core::formats::jp::Unreadable;
use jp_compact_core::formats::{Format, NotUnderstood};
use jp_compact_core::validate::Refusal;
use jp_compact_schema::AnswerError;

use crate::compact::Broken;
use crate::config::Wrong;
use crate::consent::Denial;
use crate::llm::RecordError;
use crate::store::StoreError;

pub use strategy::StrategyFailure;
pub(crate) use strategy::lacks;

/// Why a command failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The store refused.
    Store(StoreError),
    /// A transcript is no stream.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Unreadable,
    },
    /// A file is of no format that is known.
    NoFormat {
        /// The file.
        path: PathBuf,
        /// Where it is no JSON, if that is why.
        source: Option<Unreadable>,
        /// The program that it looks like, if that is one whose transcripts are not supported.
        program: Option<&'static str>,
    },
    /// Too little of a transcript was understood.
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// How much was, and what it looks like.
        source: NotUnderstood,
    },
    /// A file holds the overlays of a transcript, and is none.
    OfAnother {
        /// The file.
        path: PathBuf,
    },
    /// What was asked for can be done to a conversation of JP's alone.
    NotJp {
        /// The file.
        path: PathBuf,
        /// What it is.
        format: Format,
        /// What cannot be done to it, as a verb.
        verb: &'static str,
    },
    /// A transcript can be read, and not appended to.
    NotAppendable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NotAppendable,
    },
    /// The transcript grew while the strategies ran, and what they proposed no longer holds.
    Overtaken {
        /// The file.
        path: PathBuf,
        /// Why it no longer holds.
        source: Overtaken,
    },
    /// What the strategies proposed would make the view break a rule that it keeps.
    Broken {
        /// The file.
        path: PathBuf,
        /// The rules.
        source: Broken,
    },
    /// There is no overlay with this number.
    NoSuchOverlay {
        /// The file.
        path: PathBuf,
        /// The number asked for.
        number: usize,
        /// How many there are.
        overlays: usize,
    },
    /// A strategy could not be found, started or believed.
    Strategy {
        /// Its name, as it was typed.
        name: String,
        /// What went wrong.
        source: Box<StrategyFailure>,
    },
    /// A folder of plugins cannot be searched.
    PluginDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A lock file of trust is none.
    TrustLock {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Something in the configuration is wrong.
    Config(Box<Wrong>),
    /// There is no profile of this name.
    NoSuchProfile {
        /// The name asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A model may not be asked.
    NotAllowed(Box<Denial>),
    /// Who was to be asked gave no answer.
    NoAnswer(AnswerError),
    /// A file of models' answers cannot be read, or not be written.
    Record(RecordError),
    /// The executables that belong to the host are not beside it.
    NotInstalled {
        /// What is missing.
        missing: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
}

/// What became of a proposal when the transcript grew.
#[derive(Debug)]
pub enum Overtaken {
    /// The grown file is no stream.
    Unreadable(Unreadable),
    /// The grown file cannot be appended to.
    NotAppendable(NotAppendable),
    /// The proposal is no longer valid.
    Refused(Refusal),
    /// The view of what is there now would break a rule.
    Broken(Broken),
    /// It holds events that the model which was asked has not seen.
    Unseen,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => write!(out, "{error}"),
            Self::Unreadable { path, .. } => write!(out, "failed to read {}", path.display()),
            Self::NoFormat { path, program: None, .. } => {
                write!(out, "{} is in no format that is known", path.display())
            }
            Self::NoFormat { path, program: Some(program), .. } => {
                write!(out, "{} looks like a transcript of {program}, which is not supported", path.display())
            }
            Self::NotUnderstood { path, .. } => write!(out, "failed to understand {}", path.display()),
            Self::OfAnother { path } => {
                write!(out, "{} holds the overlays of a transcript, and is none", path.display())
            }
            Self::NotJp { path, format, verb } => {
                write!(
                    out,
                    "{} is a transcript of {format}, and only JP's conversations can be {verb}",
                    path.display()
                )
            }
            Self::NotAppendable { path, .. } => write!(out, "failed to append to {}", path.display()),
            Self::Overtaken { path, source } => {
                let doing = if matches!(source, Overtaken::Unseen) {
                    "a model was asked"
                } else {
                    "it was being compacted"
                };
                write!(out, "{} grew while {doing}", path.display())
            }
            Self::Broken { path, .. } => {
                write!(out, "nothing was appended to {}: its view would break a rule", path.display())
            }
            Self::NoSuchOverlay { path, number, overlays } => {
                write!(out, "{} has no overlay {number}, it has {overlays}", path.display())
            }
            Self::Strategy { name, source } => match source.plain() {
                StrategyFailure::NotFound { .. } | StrategyFailure::NotExecutable { .. } => {
                    write!(out, "there is no strategy `{name}`")
                }
                StrategyFailure::ReservedName { .. } => write!(out, "strategy `{name}` is ambiguous"),
                StrategyFailure::Hides { .. } => write!(out, "strategy `{name}` is ambiguous"),
                StrategyFailure::NoPlugin { .. } => write!(out, "there is no strategy at `{name}`"),
                StrategyFailure::NotTrusted(_) => write!(out, "strategy `{name}` is not trusted"),
                StrategyFailure::NotContained { .. }
                | StrategyFailure::NoJail { .. }
                | StrategyFailure::Insecure(_)
                | StrategyFailure::NoState
                | StrategyFailure::NotGranted { .. } => write!(out, "strategy `{name}` may not run"),
                StrategyFailure::BadOptions { .. } => {
                    write!(out, "strategy `{name}` does not take these options")
                }
                StrategyFailure::Reported { .. } => write!(out, "strategy `{name}` reported an error"),
                StrategyFailure::Refused(_) | StrategyFailure::RefusedBefore { .. } => {
                    write!(out, "strategy `{name}` was rejected")
                }
                StrategyFailure::NoModel => {
                    write!(out, "strategy `{name}` needs a model, and none is configured")
                }
                StrategyFailure::Model { .. } => write!(out, "strategy `{name}` got no answer from a model"),
                _ => write!(out, "strategy `{name}` failed"),
            },
            Self::PluginDir { path, .. } => {
                write!(out, "failed to search the plugin folder {}", path.display())
            }
            Self::TrustLock { path, .. } => write!(out, "failed to read the trust lock {}", path.display()),
            Self::Config(wrong) => write!(out, "failed to read the configuration {}", wrong.source),
            Self::NoSuchProfile { name, .. } => write!(out, "there is no profile `{name}`"),
            Self::NotAllowed(_) => write!(out, "no model may be asked"),
            Self::NoAnswer(_) => write!(out, "no model answered"),
            Self::Record(_) => write!(out, "failed to open the file of a model's answers"),
            Self::NotInstalled { missing, folder } => {
                write!(out, "`{missing}` is not in {}, where jp-compact itself is", folder.display())
            }
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Unreadable { source, .. } => Some(source),
            Self::NoFormat { source, .. } => Some(source.as_ref()?),
            Self::NotUnderstood { source, .. } => Some(source),
            Self::NotAppendable { source, .. } => Some(source),
            Self::Overtaken { source, .. } => match source {
                Overtaken::Unreadable(source) => Some(source),
                Overtaken::NotAppendable(source) => Some(source),
                Overtaken::Refused(source) => Some(source),
                Overtaken::Broken(source) => Some(source),
                Overtaken::Unseen => None,
            },
            Self::Broken { source, .. } => Some(source),
            Self::Strategy { source, .. } => Some(source.as_ref()),
            Self::NotAllowed(source) => Some(source.as_ref()),
            Self::NoAnswer(source) => Some(source),
            Self::Record(source) => Some(source),
            Self::PluginDir { source, .. } => Some(source),
            Self::Config(wrong) => Some(wrong.as_ref()),
            // A text and no error; whoever reports it says it as a cause.
            Self::TrustLock { .. }
            | Self::OfAnother { .. }
            | Self::NotJp { .. }
            | Self::NoSuchOverlay { .. }
            | Self::NoSuchProfile { .. }
            | Self::NotInstalled { .. } => None,
        }
    }
}

impl Failure {
    /// The failure of the strategy called `name`.
    #[must_use]
    pub fn of_strategy(name: &str, source: StrategyFailure) -> Self {
        Self::Strategy { name: name.to_owned(), source: Box::new(source) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
