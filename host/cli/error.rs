//! What the user reads when something failed, and what the process exits with: one file turns the libraries'
//! errors into both. The shape is that of STYLE: what was being done, the causes, the next step.

use std::error::Error;

use jp_compact_core::formats::Format;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::jail::Missing;
use jp_compact_engine::llm;
use jp_compact_engine::process::ProcessError;
use jp_compact_engine::store::{self, StoreError, StoreErrorKind};
use jp_compact_engine::trust::{self, Grant, grants};
use jp_compact_schema::report::ErrorReport;
use jp_compact_schema::{ANSWER_REFUSED, Mismatch};
use serde::{Serialize, Serializer};

use crate::exit::Exit;
use crate::lines::Lines;

/// How many of a strategy's last lines on stderr are shown.
const LAST_LINES: usize = 40;

/// A failed command.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// What the process exits with.
    pub(crate) code: u8,
    /// What failed.
    pub(crate) message: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to do.
    pub(crate) hint: Option<Hint>,
    /// Not a field of the JSON: the code again, as what it means.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

/// What to do, in lines of the host.
#[derive(Debug, Clone)]
pub(crate) struct Hint(Vec<String>);

impl Hint {
    /// One line, whatever the text holds.
    fn line(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }

    /// A line, and below it the command that it speaks of.
    fn with_command(text: impl Into<String>, command: &str) -> Self {
        Self(vec![text.into(), format!("  {command}")])
    }

    /// Adds its lines.
    pub(crate) fn add_to(&self, text: &mut Lines) {
        let label = std::iter::once("hint: ").chain(std::iter::repeat(""));
        self.0.iter().zip(label).for_each(|(line, label)| text.line(format_args!("{label}{line}")));
    }

    /// A text of the host's own, which may have several lines.
    fn of_host(text: &'static str) -> Self {
        Self(text.lines().map(str::to_owned).collect())
    }
}

impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.join("\n"))
    }
}

impl Report {
    /// A failure of the command itself.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, hint: Option<&str>) -> Self {
        let hint = hint.map(Hint::line);
        Self { code: exit.code(), message: message.into(), causes: Vec::new(), hint, exit }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> Lines {
        self.text_after("error: ")
    }

    /// The same, where it is no error of the command.
    pub(crate) fn text_after(&self, label: &str) -> Lines {
        let mut text = Lines::of(format_args!("{label}{}", self.message));
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
}

impl Report {
    /// As it stands in the report of a batch.
    pub(crate) fn in_report(self) -> ErrorReport {
        let Self { code, message, causes, hint, .. } = self;
        ErrorReport { code, message, causes, hint: hint.map(|Hint(lines)| lines.join("\n")) }
    }
}

impl From<std::io::Error> for Report {
    fn from(error: std::io::Error) -> Self {
        let mut report = Self::new(Exit::Transcript, "failed to write the output", None);
        report.causes.push(error.to_string());
        report
    }
}

impl From<Failure> for Report {
    fn from(failure: Failure) -> Self {
        let mut causes = Vec::new();
        let mut cause = failure.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        if let Failure::TrustLock { what, .. } = &failure {
            causes.push(what.clone());
        }
        causes.extend(last_words(&failure));
        let exit = exit(&failure);
        Self { code: exit.code(), message: failure.to_string(), causes, hint: hint(&failure), exit }
    }
}

/// The end of what the strategy wrote to stderr, where that tells more.
fn last_words(failure: &Failure) -> Option<String> {
    let Failure::Strategy { source, .. } = failure else { return None };
    let (StrategyFailure::Crashed { stderr, .. }
    | StrategyFailure::Process(ProcessError::Deadline { stderr, .. })) = source.plain()
    else {
        return None;
    };
    let lines = stderr.last_lines(LAST_LINES);
    (!lines.trim().is_empty()).then(|| format!("its last words on stderr:\n{lines}"))
}

fn exit(failure: &Failure) -> Exit {
    match failure {
        Failure::Store(error) => match error.kind() {
            StoreErrorKind::Conflict => Exit::Conflict,
            StoreErrorKind::Unreadable | StoreErrorKind::Unwritable => Exit::Transcript,
        },
        Failure::Unreadable { .. }
        | Failure::NotAppendable { .. }
        | Failure::NoFormat { .. }
        | Failure::NotUnderstood { .. }
        | Failure::OfAnother { .. }
        | Failure::NotJp { .. } => Exit::Transcript,
        Failure::Overtaken { .. } => Exit::Conflict,
        Failure::Broken { .. } => Exit::Refused,
        Failure::NoSuchOverlay { .. }
        | Failure::PluginDir { .. }
        | Failure::TrustLock { .. }
        | Failure::Config(_)
        | Failure::NoSuchProfile { .. }
        | Failure::Record(_) => Exit::Usage,
        Failure::NotAllowed(_) => Exit::NotTrusted,
        Failure::NoAnswer(_) => Exit::Model,
        Failure::NotInstalled { .. } => Exit::NotFound,
        Failure::Strategy { source, .. } => match source.plain() {
            StrategyFailure::NotFound { .. }
            | StrategyFailure::NotExecutable { .. }
            | StrategyFailure::NoPlugin { .. }
            | StrategyFailure::ReservedName { .. }
            | StrategyFailure::Hides { .. } => Exit::NotFound,
            StrategyFailure::NotTrusted(_)
            | StrategyFailure::Insecure(_)
            | StrategyFailure::NotCovered { .. }
            | StrategyFailure::NoState
            | StrategyFailure::Unreadable { .. }
            | StrategyFailure::Unwritable { .. }
            | StrategyFailure::NotContained { .. }
            | StrategyFailure::NoJail { .. }
            | StrategyFailure::NotGranted { .. } => Exit::NotTrusted,
            StrategyFailure::BadDescription { .. } | StrategyFailure::BadManifest { .. } => {
                Exit::BadDescription
            }
            StrategyFailure::Version(Mismatch::StrategyTooOld { .. }) => Exit::TooOld,
            StrategyFailure::Version(_) => Exit::TooNew,
            StrategyFailure::BadOptions { .. } => Exit::Usage,
            StrategyFailure::Process(ProcessError::Deadline { .. }) => Exit::Deadline,
            StrategyFailure::Process(
                ProcessError::OutputTooLarge { .. }
                | ProcessError::PrivateDirTooLarge(_)
                | ProcessError::PipesHeldOpen,
            )
            | StrategyFailure::Violation(_) => Exit::Violation,
            StrategyFailure::Reported { error, .. } if error.code == ANSWER_REFUSED => Exit::Refused,
            StrategyFailure::Reported { .. } => Exit::Reported,
            StrategyFailure::Refused(_) | StrategyFailure::RefusedBefore { .. } => Exit::Refused,
            StrategyFailure::NoModel => Exit::Model,
            // It was asked and answered, and no payload can be made of that.
            StrategyFailure::Model { answer, .. } if llm::is_of_model(&answer.code) => Exit::Refused,
            StrategyFailure::Model { .. } => Exit::Model,
            _ => Exit::Crashed,
        },
        _ => Exit::Bug,
    }
}

fn hint(failure: &Failure) -> Option<Hint> {
    if let Failure::Strategy { source, .. } = failure
        && let StrategyFailure::Lacking { asked, tried, command, .. } = source.as_ref()
    {
        return Some(lacking(asked, tried.as_ref(), command));
    }
    let text = match failure {
        Failure::Store(error) => return error.hint().map(Hint::line),
        Failure::NotAllowed(denial) => {
            let hint = denial.hint();
            return Some(match denial.command() {
                Some(command) => Hint::with_command(hint, &command),
                None => Hint::line(hint),
            });
        }
        Failure::Unreadable { source, .. } if source.is_of_overlay() => {
            "`--reset` removes overlays, malformed ones too, and leaves the events as they are"
        }
        Failure::Unreadable { path, .. } if store::is_beside(path) => {
            "`--reset` removes what lies beside the transcript, and leaves the transcript as it is"
        }
        Failure::Unreadable { source, .. } if source.is_of_several() => {
            "`jp-compact batch --ndjson` reads one conversation a line, each as {\"id\": ..., \"transcript\": ...}"
        }
        Failure::Unreadable { path, .. } if path.file_name().is_none_or(|name| name != "events.json") => {
            "`--format NAME` says what it is, where it was taken for something else"
        }
        Failure::NoFormat { program: Some(_), .. } => {
            return Some(Hint::line(format!(
                "these formats can be read: {}",
                Format::ALL.map(Format::as_str).join(", ")
            )));
        }
        Failure::NotUnderstood { .. } => {
            return Some(Hint::line(format!(
                "`--format NAME` names another format: {}",
                Format::ALL.map(Format::as_str).join(", ")
            )));
        }
        Failure::NoFormat { .. } => {
            return Some(Hint::line(format!(
                "`--format NAME` says what it is: {}",
                Format::ALL.map(Format::as_str).join(", ")
            )));
        }
        Failure::OfAnother { .. } => "give the transcript itself, beside which that file lies",
        Failure::NotJp { .. } => "`jp-compact import FILE --to DIR` makes a conversation of JP's of it",
        Failure::Unreadable { .. } => "a transcript is JP's events.json: one JSON array of events",
        Failure::NotAppendable { .. } => "mend or remove that element; reading commands work as it is",
        Failure::Overtaken { .. } => "run it again on what is there now",
        Failure::Broken { .. } => "`--allow-invalid` appends it all the same",
        Failure::NoSuchOverlay { .. } => "`jp-compact show TRANSCRIPT` lists them with their numbers",
        Failure::PluginDir { .. } => "give an existing folder to --plugin-dir",
        Failure::NoAnswer(error) if error.code == llm::BUDGET_EXHAUSTED => {
            "no turn was appended; `--llm-budget-tokens N` and `--llm-budget-requests N` allow more"
        }
        Failure::NoAnswer(_) => {
            "no turn was appended; `--model PROVIDER/NAME` says who is asked, `jp-compact doctor` which keys are set"
        }
        Failure::Record(_) => "`--llm-record FILE` writes such a file, and `--llm-replay FILE` reads it",
        Failure::TrustLock { .. } => {
            "`jp-compact strategy trust PLUGIN --trust-lock FILE` writes such a file"
        }
        Failure::Config(wrong) if wrong.is_the_users => {
            "your own configuration, ~/.config/jp-compact/config.toml, `--config` and `--set` may say it"
        }
        Failure::Config(_) => "`jp-compact config --example` prints a file with every key",
        Failure::NoSuchProfile { known, .. } => {
            return Some(Hint::line(format!("there are {}", known.join(", "))));
        }
        Failure::NotInstalled { .. } => {
            "`cargo build` and `cargo install` make every executable; keep them in one folder"
        }
        Failure::Strategy { name, source } => match source.plain() {
            StrategyFailure::NotFound { .. } => "--plugin-dir DIR adds a folder to look in",
            StrategyFailure::NotExecutable { path } => {
                return Some(Hint::line(format!("`chmod +x {}` makes it one", path.display())));
            }
            StrategyFailure::ReservedName { .. } => {
                "rename the plugin; a bundled strategy cannot be replaced"
            }
            StrategyFailure::Hides { trusted, .. } => {
                return Some(Hint::line(format!(
                    "trust it, remove it, or name the one you mean by its path: `--strategy {}`",
                    trust::quoted(trusted)
                )));
            }
            StrategyFailure::NotTrusted(candidate) => {
                let text = "look at what it does, then trust these bytes with";
                return Some(Hint::with_command(text, &candidate.command()));
            }
            StrategyFailure::Insecure(insecure) => {
                return Some(Hint::line(format!("{} keeps others from changing it", insecure.remedy())));
            }
            StrategyFailure::NotCovered { .. } => {
                "name the interpreter by its absolute path, or as `/usr/bin/env NAME` without options"
            }
            StrategyFailure::NoState => "set HOME, or XDG_STATE_HOME to an absolute path",
            StrategyFailure::NotGranted { command, .. } => {
                return command.as_ref().map(|command| Hint::with_command("grant it with", command));
            }
            StrategyFailure::NoModel => {
                let lead = "give `--model PROVIDER/NAME`, or add these lines to the configuration";
                let example = llm::EXAMPLE.lines().map(|line| format!("  {line}"));
                return Some(Hint(std::iter::once(lead.to_owned()).chain(example).collect()));
            }
            StrategyFailure::Model { answer, .. } if answer.code == llm::BUDGET_EXHAUSTED => {
                "nothing was appended; `--llm-budget-tokens N` and `--llm-budget-requests N` allow more"
            }
            StrategyFailure::Model { .. } => "nothing was appended",
            StrategyFailure::BadManifest { .. } => {
                "`jp-compact schema manifest` prints what a manifest may hold"
            }
            StrategyFailure::NotContained { missing, .. } => {
                let way_down = "`--sandbox=contained` runs it with your own permissions: do that only if you know \
                                what it does";
                return Some(Hint::line(format!("{}; {way_down}", remedies(missing))));
            }
            StrategyFailure::NoJail { missing } => {
                let way_down = "`--sandbox=contained` runs strategies without one";
                return Some(Hint::line(format!("{}; {way_down}", remedies(missing))));
            }
            StrategyFailure::BadOptions { .. } => {
                return Some(Hint::line(format!("`jp-compact strategy show {name}` shows its options")));
            }
            StrategyFailure::Version(mismatch) => mismatch.hint(),
            StrategyFailure::Process(ProcessError::Deadline { .. }) => {
                "`--deadline 5m` gives it more time; a description has to come within 2 s"
            }
            StrategyFailure::Reported { error, .. } => {
                let hint = error.hint.as_ref();
                return hint.map(|hint| Hint::line(format!("`{name}` suggests: {hint}")));
            }
            StrategyFailure::BadDescription { .. } => {
                "`jp-compact schema description` prints what a strategy has to answer `describe` with"
            }
            StrategyFailure::Violation(_) => {
                "nothing was appended; `jp-compact schema reply` prints what a strategy may answer"
            }
            StrategyFailure::RefusedBefore { .. } => {
                "nothing was appended; `jp-compact TRANSCRIPT --profile ...` asks again"
            }
            StrategyFailure::Refused(_) | StrategyFailure::Crashed { .. } => {
                return Some(Hint::line(format!(
                    "nothing was appended; `jp-compact -v ...` shows what `{name}` writes to stderr"
                )));
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(Hint::of_host(text))
}

/// Which grants may be what it failed for, and the command that gives them.
pub(crate) fn lacking(asked: &[Grant], tried: Option<&Grant>, command: &str) -> Hint {
    let mut why = Vec::new();
    if !asked.is_empty() {
        why.push(format!("it asked for {}, which was not granted;", grants::line(asked)));
    }
    if let Some(grant) = tried {
        let what = match grant {
            Grant::Subprocess => "start another process (in a script, `exec` before a program starts none)",
            Grant::Network => "reach the network",
            Grant::Runtime(_) => "start its interpreter",
            _ => "read what it may not",
        };
        why.push(format!("it seems to have tried to {what}, and `{grant}` was not granted;"));
    }
    let allow = if tried.is_some() { ", and you want to allow it" } else { "" };
    if let Some(last) = why.last_mut() {
        last.push_str(&format!(" if it fails for that{allow}, grant it with"));
    }
    why.push(format!("  {command}"));
    Hint(why)
}

/// What gives a machine its jail.
fn remedies(missing: &[Missing]) -> String {
    missing.iter().map(|missing| missing.remedy).collect::<Vec<_>>().join("; ")
}

/// What the store says, for a command that has no engine call around it.
impl From<StoreError> for Report {
    fn from(error: StoreError) -> Self {
        Failure::from(error).into()
    }
}
