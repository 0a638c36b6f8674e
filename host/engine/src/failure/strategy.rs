//! What can go wrong with one strategy, from its name to its payload.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use jp_compact_core::reply::Violation;
use jp_compact_core::validate::Refusal;
use jp_compact_schema::reply::ANSWER_REFUSED;
use jp_compact_schema::{AnswerError, ErrorReply, Mismatch};

use super::denied;
use crate::jail::Missing;
use crate::llm;
use crate::process::{ProcessError, Stderr};
use crate::registry::MANIFEST_FILE;
use crate::session::Confined;
use crate::trust::{Candidate, Grant, Insecure, grants};

/// What went wrong with one strategy.
#[derive(Debug)]
#[non_exhaustive]
pub enum StrategyFailure {
    /// No plugin bears the name.
    NotFound {
        /// Those that there are.
        known: Vec<String>,
        /// Where they were looked for.
        folders: Vec<PathBuf>,
    },
    /// A file bears the name, and is not executable.
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// A plugin bears the name of a bundled strategy.
    ReservedName {
        /// The plugin.
        plugin: PathBuf,
        /// The bundled one.
        bundled: PathBuf,
    },
    /// It is not trusted, and another of its name is that would run without it.
    Hides {
        /// The plugin.
        plugin: PathBuf,
        /// The one that is trusted.
        trusted: PathBuf,
    },
    /// What lies at a path is no plugin.
    NoPlugin {
        /// The path.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Its manifest is none, or cannot be followed.
    BadManifest {
        /// The plugin's folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Its bytes are not trusted.
    NotTrusted(Box<Candidate>),
    /// Others could change it.
    Insecure(Insecure),
    /// It starts something that trust cannot cover.
    NotCovered {
        /// Its file or folder.
        path: PathBuf,
        /// What that is.
        what: String,
    },
    /// There is no folder for trust.
    NoState,
    /// What belongs to trust cannot be written.
    Unwritable {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not bundled, was not allowed to run without a jail, and there is none for it.
    NotContained {
        /// The plugin.
        path: PathBuf,
        /// What the machine lacks.
        missing: Vec<Missing>,
    },
    /// A jail was asked for, and there is none.
    NoJail {
        /// What the machine lacks.
        missing: Vec<Missing>,
    },
    /// It needs what nobody granted.
    NotGranted {
        /// What it needs.
        need: String,
        /// The command that grants it, where there is one.
        command: Option<String>,
    },
    /// It failed, and what was not granted may be why.
    Lacking {
        /// What it asked for and was not granted.
        asked: Vec<Grant>,
        /// What it seems to have tried without the grant for it.
        tried: Option<Grant>,
        /// The command that grants both.
        command: String,
        /// How it failed.
        source: Box<Self>,
    },
    /// Its executable cannot be read.
    Unreadable {
        /// The executable.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Its description is none, or none of ours.
    BadDescription {
        /// What is wrong.
        what: String,
    },
    /// No common version of the protocol.
    Version(Mismatch),
    /// Its options are wrong.
    BadOptions {
        /// What is wrong.
        what: String,
    },
    /// Its events could not be put where it reads them.
    Spool(std::io::Error),
    /// The process did not end by itself.
    Process(ProcessError),
    /// It crashed, or was killed, without saying why.
    Crashed {
        /// How it ended.
        status: ExitStatus,
        /// Whether it had answered before.
        answered: bool,
        /// Its last words.
        stderr: Stderr,
    },
    /// Its output is no reply.
    Violation(Violation),
    /// It reported an error itself.
    Reported {
        /// What it said.
        error: ErrorReply,
        /// How it ended.
        status: ExitStatus,
    },
    /// It needs a model, and nobody names one.
    NoModel,
    /// It gave up when no model answered.
    Model {
        /// What it was told.
        answer: AnswerError,
        /// What it said to that.
        said: String,
    },
    /// Its payload is refused.
    Refused(Refusal),
    /// What a model wrote for it was refused before, and it was not asked the same again.
    RefusedBefore {
        /// Why it was refused.
        reason: String,
    },
}

impl std::fmt::Display for StrategyFailure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound { known, folders } => {
                let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
                write!(out, "found in {}: {}", folders.join(", "), known.join(", "))
            }
            Self::NotExecutable { path } => write!(out, "{} is not executable", path.display()),
            Self::ReservedName { plugin, bundled } => {
                write!(out, "{} bears the name of the bundled {}", plugin.display(), bundled.display())
            }
            Self::Hides { plugin, trusted } => {
                write!(out, "{} is not trusted, and hides {}, which is", plugin.display(), trusted.display())
            }
            Self::NoPlugin { path, what } => write!(out, "{}: {what}", path.display()),
            Self::BadManifest { path, what } => write!(out, "{}: {what}", path.join(MANIFEST_FILE).display()),
            Self::NotTrusted(candidate) => {
                let path = candidate.plugin.real.display();
                let changed = if candidate.changed { ": it changed since it was trusted" } else { "" };
                write!(out, "{path} (sha256 {}){changed}", candidate.sha256)?;
                candidate.runs().iter().try_for_each(|runs| write!(out, "; it runs {}", runs.real.display()))
            }
            Self::Insecure(insecure) => write!(out, "{insecure}"),
            Self::NotCovered { path, what } => write!(out, "{}: {what}", path.display()),
            Self::Lacking { source, .. } => write!(out, "{source}"),
            Self::NoState => write!(out, "there is no folder to keep trusted plugins in"),
            Self::Unwritable { path, .. } => write!(out, "failed to write to {}", path.display()),
            Self::NotContained { path, missing } => {
                let lacks = lacks(missing);
                write!(out, "{} is not bundled, and there is no jail to run it in: {lacks}", path.display())
            }
            Self::NoJail { missing } => {
                write!(out, "`--sandbox=require` asks for a jail, and there is none: {}", lacks(missing))
            }
            Self::NotGranted { need, .. } => write!(out, "it needs `{need}`, which was not granted"),
            Self::Unreadable { path, .. } => write!(out, "failed to read {}", path.display()),
            Self::BadDescription { what } | Self::BadOptions { what } => write!(out, "{what}"),
            Self::Version(mismatch) => write!(out, "{mismatch}"),
            Self::Spool(_) => write!(out, "failed to write its events into a file for it"),
            Self::Process(error) => write!(out, "{error}"),
            Self::Crashed { status, answered: false, .. } => {
                write!(out, "it ended with {} and no answer", ending(*status))
            }
            Self::Crashed { status, .. } => {
                write!(
                    out,
                    "it answered, and then ended with {}: nothing is taken from a process that fails",
                    ending(*status)
                )
            }
            Self::Violation(violation) => write!(out, "{violation}"),
            Self::Reported { error, .. } => write!(out, "{} ({})", error.message, error.code),
            Self::NoModel => write!(
                out,
                "nobody names one: not its options, the command line, the settings or the conversation"
            ),
            Self::Model { answer, said } if said.is_empty() || said.contains(&answer.message) => {
                write!(out, "{answer}")
            }
            Self::Model { answer, said } => write!(out, "{answer}; it said: {said}"),
            Self::Refused(refusal) => write!(out, "{refusal}"),
            Self::RefusedBefore { reason } => {
                write!(out, "no model was asked again for what was refused before: {reason}")
            }
        }
    }
}

/// What a machine lacks, for people.
pub(crate) fn lacks(missing: &[Missing]) -> String {
    let what: Vec<_> = missing.iter().map(|missing| missing.what).collect();
    format!("this machine lacks {}", what.join(" and "))
}

/// How a process ended, for people.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

impl std::error::Error for StrategyFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } | Self::Unwritable { source, .. } | Self::Spool(source) => {
                Some(source)
            }
            Self::Process(error) => error.source(),
            Self::Lacking { source, .. } => source.source(),
            _ => None,
        }
    }
}

impl StrategyFailure {
    /// The failure itself, without what might explain it.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match self {
            Self::Lacking { source, .. } => source.plain(),
            other => other,
        }
    }

    /// Whether a model did answer, and the answer is what was refused.
    pub(crate) fn is_refusal(&self) -> bool {
        match self.plain() {
            Self::Refused(_) => true,
            Self::Model { answer, .. } => llm::is_of_model(&answer.code),
            Self::Reported { error, .. } => error.code == ANSWER_REFUSED,
            _ => false,
        }
    }

    /// The same after a model gave no answer: what the strategy reports then is that, whatever it calls it.
    #[must_use]
    pub fn without_model(self, answer: &AnswerError) -> Self {
        match self {
            Self::Reported { error, .. } => Self::Model { answer: answer.clone(), said: error.message },
            other => other,
        }
    }

    /// The failure in one line, with the last one of the strategy's own where it crashed.
    pub(crate) fn with_last_words(&self) -> String {
        match self {
            Self::Crashed { stderr, .. } if stderr.bytes() > 0 => {
                format!("{self}: {}", stderr.last_lines(1))
            }
            _ => self.to_string(),
        }
    }

    /// The failure of a plugin that ran. Where it was not granted all that it asked for, or seems to have tried
    /// what takes a grant, that is said with it.
    #[must_use]
    pub fn of_run(self, confined: &Confined) -> Self {
        let cleared = &confined.cleared;
        let may_explain = matches!(
            self,
            Self::Crashed { .. } | Self::Process(_) | Self::Reported { .. } | Self::Violation(_)
        );
        if !may_explain || cleared.plugin.bundled() {
            return self;
        }
        let (asked, tried) = (cleared.missing(), denied::tried(&self, confined));
        if asked.is_empty() && tried.is_none() {
            return self;
        }
        let more: Vec<Grant> = asked.iter().cloned().chain(tried.clone()).collect();
        let command = cleared.command(&grants::with(cleared.permissions.clone(), &more));
        Self::Lacking { asked, tried, command, source: Box::new(self) }
    }
}
