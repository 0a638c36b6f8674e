//! The error reports of the command line. A report has an exit code, the failed operation, its causes, and one hint
//! with the next command. If several commands can return an error of a library, only this module may choose its exit
//! code and hint.

mod hint;
mod usage;

use std::error::Error;
use std::ffi::OsStr;

use jp_compact_config as config;
use jp_compact_engine::compact::{self, StrategyRunError};
use jp_compact_engine::{plan, query};
use jp_compact_help::{KEYS_HINT, hint_for, hint_for_key, intended_field};
use jp_compact_llm as llm;
use jp_compact_runtime::process::ProcessError;
use jp_compact_runtime::registry::DiscoveryError;
use jp_compact_runtime::session;
use jp_compact_runtime::trust::{self, LockError};
use jp_compact_schema::document::{ErrorReport, Failure};
use jp_compact_schema::{ANSWER_REFUSED, Mismatch};
use jp_compact_sessions::{OpenCode, SessionError};
use jp_compact_store::{StoreError, StoreErrorKind};

use hint::run_hint;
pub(crate) use hint::{DEBUG_OUTPUT_HINT, ErrorHint, missing_permissions_hint};
pub(crate) use usage::usage_error;

use crate::exit::Exit;
use crate::lines::EscapedLines;

/// An error includes at most this many lines from the end of a strategy's stderr.
const STDERR_LINES_MAX: usize = 40;

/// A failed command.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
    /// The failed operation.
    pub(crate) message: String,
    /// The causes, outermost first.
    pub(crate) causes: Vec<String>,
    /// The next step.
    pub(crate) hint: Option<ErrorHint>,
    /// Whether the same input fails again, although most failures of this kind are temporary.
    pub(crate) is_permanent: bool,
    /// Whether a document with this failure was already printed.
    pub(crate) is_printed: bool,
}

impl Report {
    /// Creates a report without causes.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, hint: Option<&str>) -> Self {
        let (message, hint) = (message.into(), hint.map(ErrorHint::line));
        Self { exit, message, causes: Vec::new(), hint, is_permanent: false, is_printed: false }
    }

    /// Returns the report of a failure that is already a part of a document.
    pub(crate) fn from_document(document: &ErrorReport) -> Self {
        let exit = Exit::ALL.into_iter().map(|(exit, _)| exit).find(|exit| exit.code() == document.code);
        let hint = document.hint.clone().map(ErrorHint::line);
        let (message, causes) = (document.message.clone(), document.causes.clone());
        let is_permanent = !document.retryable;
        Self { exit: exit.unwrap_or(Exit::Bug), message, causes, hint, is_permanent, is_printed: false }
    }

    /// Replaces the hint.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        Self { hint: Some(ErrorHint::line(hint)), ..self }
    }

    /// Creates the report of a failed operation of the operating system.
    pub(crate) fn of_system(message: &str, error: &std::io::Error) -> Self {
        let mut report = Self::new(Exit::Transcript, message, None);
        report.causes.push(error.to_string());
        report
    }

    /// Returns the report of a failed write to stdout by a command that may have appended before.
    pub(crate) fn unprinted(error: std::io::Error) -> Self {
        let hint = "everything that was appended before is kept; `jp-compact show` lists the overlays";
        Self::from(error).with_hint(hint.to_owned())
    }

    /// Returns the error of a command without a transcript.
    pub(crate) fn no_transcript() -> Self {
        let hint = "compact a file with `jp-compact FILE`, list the sessions of your agents with `jp-compact list`, \
                    or see `jp-compact -h`";
        Self::new(Exit::Usage, "no TRANSCRIPT was given", Some(hint))
    }

    /// Creates the report of a bug in this program.
    pub(crate) fn bug() -> Self {
        Self::new(Exit::Bug, "failed to finish the command: a bug in jp-compact", None)
    }

    /// Returns the report as text.
    pub(crate) fn text(&self) -> EscapedLines {
        self.text_after("error: ")
    }

    /// Returns the report as text, with another label than `error: `.
    pub(crate) fn text_after(&self, label: &str) -> EscapedLines {
        let mut text = EscapedLines::single(format_args!("{label}{}", self.message));
        if !self.causes.is_empty() {
            text.line("");
            text.line("Caused by:");
            self.causes.iter().for_each(|cause| text.labeled("  ", "  ", cause));
        }
        if let Some(hint) = &self.hint {
            text.line("");
            hint.add_to(&mut text);
        }
        text
    }

    /// Returns the failure as a part of a JSON document.
    pub(crate) fn document(&self) -> ErrorReport {
        let hint = self.hint.as_ref().map(ErrorHint::text);
        let error = ErrorReport::new(self.exit.kind(), self.message.as_str());
        let retryable = error.retryable && !self.is_permanent;
        ErrorReport { causes: self.causes.clone(), hint, retryable, ..error }
    }

    /// Returns the failure as a whole JSON document. Without a transcript, it is a failure of the command.
    pub(crate) fn failure(&self, transcript: Option<&OsStr>) -> Failure {
        let path = transcript.map(|transcript| transcript.to_string_lossy().into_owned());
        Failure { path, error: self.document() }
    }

    /// Records that a document with this failure was printed.
    pub(crate) fn printed(self) -> Self {
        Self { is_printed: true, ..self }
    }
}

/// Reports a failed write to stdout. For any other operation, use [`Report::of_system`].
impl From<std::io::Error> for Report {
    fn from(error: std::io::Error) -> Self {
        Self::of_system("failed to write the output", &error)
    }
}

/// Collects the texts of the errors that caused an error, outermost first.
fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes
}

/// Makes a report from an error of a library.
fn from_library(error: &dyn Error, exit: Exit, hint: Option<ErrorHint>) -> Report {
    let (message, causes) = (error.to_string(), causes(error));
    Report { exit, message, causes, hint, is_permanent: false, is_printed: false }
}

impl From<compact::Error> for Report {
    fn from(error: compact::Error) -> Self {
        let plain = error.plain();
        let mut report = from_library(plain, run_exit(plain), run_hint(plain));
        report.is_permanent = matches!(plain, compact::Error::Store(error) if !error.is_temporary());
        report.causes.extend(stderr_tail(plain));
        let texts = error.lost_summaries();
        report
            .causes
            .extend(texts.iter().map(|text| format!("the text of a summary that was not appended:\n{text}")));
        report
    }
}

impl From<StoreError> for Report {
    fn from(error: StoreError) -> Self {
        compact::Error::from(error).into()
    }
}

impl From<SessionError> for Report {
    fn from(error: SessionError) -> Self {
        let hint = match &error {
            SessionError::NotFound { .. } | SessionError::Ambiguous { .. } | SessionError::Unnamed => {
                "`jp-compact list` lists the sessions"
            }
            SessionError::NoFolder { .. } => "give the new file: `jp-compact fork SESSION DEST`",
            SessionError::NoProgram { .. } => "export the session into a file, and fork that file",
            SessionError::NotStartable { .. } => {
                "`jp-compact fork SESSION --compact` makes the copy, and prints the command that resumes it"
            }
            SessionError::NotReplaceable { .. } => {
                "close the agent, and name a session that `jp-compact list --forks` prints"
            }
            SessionError::NotImported { path, .. } => {
                &format!("the new session is in this file; to see why: `{}`", OpenCode::manual_import(path))
            }
            SessionError::Program { .. } | SessionError::ProgramFailed { .. } => {
                "run the program by hand to see its messages"
            }
            _ => "`jp-compact print SESSION --compacted --as source -o NEW` writes the view to a file",
        };
        match error {
            SessionError::Store(error) => error.into(),
            error => from_library(&error, Exit::Transcript, Some(ErrorHint::line(hint))),
        }
    }
}

impl From<config::Error> for Report {
    fn from(error: config::Error) -> Self {
        let error = match error {
            config::Error::Store(error) => return error.into(),
            error => error,
        };
        let hint = match &error {
            config::Error::NotSet { .. } => {
                ErrorHint::line("`jp-compact config TRANSCRIPT --explain` prints the settings")
            }
            config::Error::RejectedSetting { source, .. } if source.allowed_in_user_file => ErrorHint::line(
                "set it in your own configuration: ~/.config/jp-compact/config.toml, `--config` or `--set`",
            ),
            config::Error::Invalid(invalid) if invalid.allowed_in_user_file => ErrorHint::line(
                "set it in your own configuration: ~/.config/jp-compact/config.toml, `--config` or `--set`",
            ),
            config::Error::NoSuchProfile { name, known } => {
                ErrorHint::line(hint_for(name, known, "profiles", "jp-compact config"))
            }
            config::Error::NoValue { key, known } => ErrorHint::line(hint_for_key(key, known)),
            error => {
                let text = causes(error).concat();
                ErrorHint::line(match intended_field(&text) {
                    Some(field) => format!("did you mean `{field}`? {KEYS_HINT}"),
                    None => KEYS_HINT.to_owned(),
                })
            }
        };
        from_library(&error, Exit::Usage, Some(hint))
    }
}

impl From<query::Error> for Report {
    fn from(error: query::Error) -> Self {
        let hint = match error {
            query::Error::Run(error) => return error.into(),
            query::Error::NoAnswer(ref answer) if answer.code == llm::BUDGET_EXHAUSTED => {
                "no turn was appended; raise the budget with `--llm-budget-tokens N` or `--llm-budget-requests N`"
            }
            _ => {
                "no turn was appended; name a model with `--model PROVIDER/NAME`; `jp-compact doctor` shows which API keys are set"
            }
        };
        from_library(&error, Exit::Model, Some(ErrorHint::line(hint)))
    }
}

impl From<llm::RecordingError> for Report {
    fn from(error: llm::RecordingError) -> Self {
        let hint = "`--llm-record FILE` writes this file, and `--llm-replay FILE` reads it";
        let mut report = Self::new(Exit::Usage, "failed to open the recorded answers", Some(hint));
        report.causes.push(error.to_string());
        report.causes.extend(causes(&error));
        report
    }
}

impl From<DiscoveryError> for Report {
    fn from(error: DiscoveryError) -> Self {
        let (exit, hint) = match &error {
            DiscoveryError::NotInstalled { .. } => (
                Exit::NotFound,
                "`cargo build` and `cargo install` build all executables; keep them in one folder",
            ),
            _ => (Exit::Usage, "give an existing folder to --plugin-dir or --trust-dir"),
        };
        from_library(&error, exit, Some(ErrorHint::line(hint)))
    }
}

impl From<LockError> for Report {
    fn from(error: LockError) -> Self {
        let hint = "`jp-compact strategy trust PLUGIN --trust-lock FILE` writes a trust lock";
        from_library(&error, Exit::Usage, Some(ErrorHint::line(hint)))
    }
}

impl From<plan::Error> for Report {
    fn from(error: plan::Error) -> Self {
        let message = error.to_string();
        match error {
            plan::Error::Run(error) => error.into(),
            plan::Error::Config(error) => error.into(),
            plan::Error::Summary(error) => Self { exit: Exit::Model, ..error.into() },
            plan::Error::UnusedFocus { .. } => Self::new(
                Exit::Usage,
                message,
                Some("`--profile heavy` and `--strategy summarize` accept --focus"),
            ),
            plan::Error::ConflictingTurns => {
                let hint = "leave out either the turns after the `:`, or --from, --to and --keep-*";
                Self::new(Exit::Usage, message, Some(hint))
            }
            plan::Error::BadInline { profiles, reason, text } => {
                let hint = hint_for(&text, &profiles, "profiles", "jp-compact config");
                let hint = format!("{hint}; an inline form is for example `r+t` or `s:..-3`");
                let mut report = Self::new(Exit::Usage, message, Some(&hint));
                report.causes.push(format!("it is neither a profile nor an inline form: {reason}"));
                report
            }
            error => {
                let mut report = Self::new(Exit::Transcript, message, None);
                report.causes.extend(error.source().map(ToString::to_string));
                report
            }
        }
    }
}

/// Returns the last lines that the strategy wrote to stderr, if they may explain the failure.
fn stderr_tail(error: &compact::Error) -> Option<String> {
    let compact::Error::Strategy { source, .. } = error else { return None };
    let StrategyRunError::Session(error) = source.as_ref() else { return None };
    let (session::Error::Crashed { stderr, .. }
    | session::Error::Process(ProcessError::Deadline { stderr, .. })) = error.plain()
    else {
        return None;
    };
    let lines = stderr.last_lines(STDERR_LINES_MAX);
    if lines.trim().is_empty() {
        return None;
    }
    Some(format!("the last lines of its stderr:\n{lines}"))
}

fn run_exit(error: &compact::Error) -> Exit {
    use compact::Error as E;
    match error {
        E::Store(error) => match error.kind() {
            StoreErrorKind::Conflict => Exit::Conflict,
            StoreErrorKind::Unreadable | StoreErrorKind::Unwritable => Exit::Transcript,
        },
        E::Unreadable { .. }
        | E::NotAppendable { .. }
        | E::NoFormat { .. }
        | E::NotUnderstood { .. }
        | E::Sidecar { .. }
        | E::NotJp { .. } => Exit::Transcript,
        E::Stale { .. } | E::Unseen { .. } => Exit::Conflict,
        E::LintFailed { .. } => Exit::Refused,
        E::ConstraintsLost { .. } => Exit::Gate,
        E::NoSuchOverlay { .. } => Exit::Usage,
        E::NotAllowed(_) | E::NoNetwork { .. } => Exit::NotTrusted,
        E::Strategy { source, .. } => strategy_exit(source),
        _ => Exit::Bug,
    }
}

fn strategy_exit(error: &StrategyRunError) -> Exit {
    match error {
        StrategyRunError::Find(_) | StrategyRunError::Trust(trust::Error::PathNotText { .. }) => {
            Exit::NotFound
        }
        StrategyRunError::Trust(trust::Error::BadManifest { .. }) => Exit::BadDescription,
        StrategyRunError::Trust(trust::Error::Version(mismatch)) => version_exit(mismatch),
        StrategyRunError::Trust(_)
        | StrategyRunError::NotContained { .. }
        | StrategyRunError::NotGranted { .. } => Exit::NotTrusted,
        StrategyRunError::BadOptions { .. } => Exit::Usage,
        StrategyRunError::Refused { .. } | StrategyRunError::RefusedBefore { .. } => Exit::Refused,
        StrategyRunError::NoModel => Exit::Model,
        StrategyRunError::Session(error) => session_exit(error.plain()),
        _ => Exit::Crashed,
    }
}

fn session_exit(error: &session::Error) -> Exit {
    use session::Error as E;
    match error {
        E::PathNotText { .. } => Exit::NotFound,
        E::NoJail { .. } | E::NotGranted { .. } => Exit::NotTrusted,
        E::BadDescription { .. } => Exit::BadDescription,
        E::Version(mismatch) => version_exit(mismatch),
        E::Process(ProcessError::Deadline { .. }) => Exit::Deadline,
        E::Process(
            ProcessError::OutputTooLarge { .. }
            | ProcessError::PrivateDirTooLarge(_)
            | ProcessError::PipesHeldOpen,
        )
        | E::Violation(_) => Exit::Violation,
        E::Reported { error, .. } if error.code == ANSWER_REFUSED => Exit::Refused,
        E::Reported { .. } => Exit::Reported,
        // The model answered, but the strategy could not use the answer.
        E::Model { answer, .. } if llm::is_of_model(&answer.code) => Exit::Refused,
        E::Model { .. } => Exit::Model,
        _ => Exit::Crashed,
    }
}

fn version_exit(mismatch: &Mismatch) -> Exit {
    match mismatch {
        Mismatch::StrategyTooOld { .. } => Exit::TooOld,
        _ => Exit::TooNew,
    }
}
