//! The hints of error reports. A hint is the next step after an error, usually a command or an option. It must never
//! repeat the cause.

use std::path::Path;

use jp_compact_core::append::NotAppendable;
use jp_compact_core::reply::ReplyViolation;
use jp_compact_core::validate::Refusal;
use jp_compact_engine::compact::{self, StrategyRunError};
use jp_compact_help::hint_for;
use jp_compact_llm as llm;
use jp_compact_runtime::jail::MissingAbility;
use jp_compact_runtime::process::ProcessError;
use jp_compact_runtime::trust::{self, Grant, grants};
use jp_compact_runtime::{registry, session};
use jp_compact_store as store;
use jp_compact_transcripts::Format;

use crate::lines::EscapedLines;

/// The end of the error message about an empty file.
const EMPTY_FILE: &str = "the file is empty, expected a JSON array";

/// The next step, as lines of the host.
#[derive(Debug, Clone)]
pub(crate) struct ErrorHint(pub(super) Vec<String>);

impl ErrorHint {
    /// Creates a hint of one line. Newlines in the text are escaped.
    pub(crate) fn line(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }

    /// Creates a hint with a command on its own line.
    pub(crate) fn with_command(text: impl Into<String>, command: &str) -> Self {
        Self(vec![text.into(), format!("  {command}")])
    }

    /// Returns the hint as plain text.
    pub(crate) fn text(&self) -> String {
        self.0.join("\n")
    }

    /// Appends the hint to a text.
    pub(crate) fn add_to(&self, text: &mut EscapedLines) {
        for (index, line) in self.0.iter().enumerate() {
            let label = if index == 0 { "hint: " } else { "" };
            text.line(format_args!("{label}{line}"));
        }
    }

    /// Creates a hint of one or more lines, without foreign text.
    fn from_host(text: &'static str) -> Self {
        Self(text.lines().map(str::to_owned).collect())
    }
}

pub(super) fn run_hint(error: &compact::Error) -> Option<ErrorHint> {
    use compact::Error as E;
    let formats = || Format::ALL.map(Format::as_str).join(", ");
    let text = match error {
        E::Store(error) => return error.hint().map(ErrorHint::line),
        E::NotAllowed(denial) | E::NoNetwork { denial, .. } => {
            let hint = denial.hint();
            return Some(match denial.command() {
                Some(command) => ErrorHint::with_command(hint, &command),
                None => ErrorHint::line(hint),
            });
        }
        E::Unreadable { source, .. } if source.is_malformed_overlay() => {
            "`--reset` removes all overlays, including malformed ones; the events stay unchanged"
        }
        E::Unreadable { path, .. } if store::is_sidecar_path(path) => {
            "`--reset` removes the sidecar file; the transcript stays unchanged"
        }
        E::Unreadable { source, .. } if source.has_several_conversations() => {
            "`jp-compact batch --ndjson` reads one conversation per line, each as {\"id\": ..., \"transcript\": ...}"
        }
        E::Unreadable { source, .. } if source.to_string().ends_with(EMPTY_FILE) => {
            "nothing was recorded in it yet; `jp-compact list` lists the sessions that have content"
        }
        E::Unreadable { path, .. } if path.file_name().is_none_or(|name| name != "events.json") => {
            "if the detected format is wrong, name the right one with `--format NAME`"
        }
        E::NoFormat { program: Some(_), .. } => {
            return Some(ErrorHint::line(format!(
                "export the conversation in a supported format, and give that file: {}",
                formats()
            )));
        }
        E::NotUnderstood { .. } => {
            return Some(ErrorHint::line(format!(
                "if the format is wrong, name another one with `--format NAME`: {}",
                formats()
            )));
        }
        E::NoFormat { .. } => {
            return Some(ErrorHint::line(format!("name the format with `--format NAME`: {}", formats())));
        }
        E::Sidecar { .. } => "give the transcript itself; it is in the same folder",
        E::NotJp { .. } => "`jp-compact import FILE --to DIR` converts it to a JP conversation",
        E::Unreadable { .. } => "JP's events.json is one JSON array of events",
        E::NotAppendable { source: NotAppendable::EndOfTime, .. } => "`--reset` removes all overlays",
        E::NotAppendable { .. } => "repair or remove that element; commands that only read still work",
        E::Stale { .. } | E::Unseen { .. } => "run the command again",
        E::LintFailed { .. } => "`--allow-invalid` appends the overlays anyway",
        E::ConstraintsLost { .. } => {
            "nothing was appended; allow a longer summary (`-s summarize:max_tokens=N`), keep these turns (`--from`, `--keep-last`), or leave out `--require-constraints`"
        }
        E::NoSuchOverlay { .. } => "`jp-compact show TRANSCRIPT` lists the overlays with their numbers",
        E::Strategy { name, source } => return strategy_hint(name, source),
        _ => return None,
    };
    Some(ErrorHint::from_host(text))
}

fn strategy_hint(name: &str, error: &StrategyRunError) -> Option<ErrorHint> {
    let text = match error {
        StrategyRunError::Find(error) => return find_hint(name, error),
        StrategyRunError::Trust(error) => return trust_hint(error),
        StrategyRunError::Session(error) => return session_hint(name, error),
        StrategyRunError::NotGranted { command, .. } => {
            return command.as_ref().map(|command| ErrorHint::with_command("grant it with", command));
        }
        StrategyRunError::NoModel => {
            let advice = "give `--model PROVIDER/NAME`, or add these lines to your configuration";
            let mut lines = vec![advice.to_owned()];
            lines.extend(llm::EXAMPLE.lines().map(|line| format!("  {line}")));
            return Some(ErrorHint(lines));
        }
        StrategyRunError::NotContained { missing, .. } => {
            let alternative = "`--sandbox=contained` runs it with your own permissions; use that only for \
                               plugins that you know";
            return Some(ErrorHint::line(format!("{}; {alternative}", remedies(missing))));
        }
        StrategyRunError::BadOptions { .. } => {
            return Some(ErrorHint::line(format!("`jp-compact strategy show {name}` shows its options")));
        }
        StrategyRunError::RefusedBefore { .. } => {
            "nothing was appended; to ask the model again, run `jp-compact TRANSCRIPT --profile ...`"
        }
        StrategyRunError::Refused { refusal, .. } if matches!(**refusal, Refusal::NotClosed { .. }) => {
            "nothing was appended; `--reset=N` removes the older summary, whose number `jp-compact show` prints"
        }
        StrategyRunError::Refused { .. } => return Some(stderr_hint(name)),
        _ => return None,
    };
    Some(ErrorHint::from_host(text))
}

fn find_hint(name: &str, error: &registry::Error) -> Option<ErrorHint> {
    use registry::Error as E;
    let text = match error {
        E::NotFound { is_in_cwd: true, .. } => {
            return Some(ErrorHint::line(format!(
                "for the path, give `{}`; `jp-compact strategy list` lists the names",
                trust::quoted(&Path::new(".").join(name))
            )));
        }
        E::NotFound { known, .. } => {
            let hint = hint_for(name, known, "strategies", "jp-compact strategy list");
            return Some(ErrorHint::line(format!("{hint}; `--plugin-dir DIR` searches another folder")));
        }
        E::NotExecutable { path } => {
            return Some(ErrorHint::line(format!("make it executable with `chmod +x {}`", path.display())));
        }
        E::ReservedName { .. } => "rename the plugin; plugins cannot replace bundled strategies",
        E::Shadows { trusted, .. } => {
            return Some(ErrorHint::line(format!(
                "trust it, remove it, or use the trusted one with `--strategy {}`",
                trust::quoted(trusted)
            )));
        }
        _ => return None,
    };
    Some(ErrorHint::from_host(text))
}

fn trust_hint(error: &trust::Error) -> Option<ErrorHint> {
    use trust::Error as E;
    let text = match error {
        E::NotTrusted(candidate) => {
            let advice = "review the plugin, then trust it with";
            return Some(ErrorHint::with_command(advice, &candidate.command()));
        }
        E::Insecure(insecure) => {
            let is_foreign = matches!(insecure.why, trust::Why::Owner(_));
            let copy = if is_foreign { ", and so does a copy in a folder of your own" } else { "" };
            let remedy = insecure.remedy();
            return Some(ErrorHint::line(format!("{remedy} prevents changes by other users{copy}")));
        }
        E::NotCovered { .. } => {
            "write the interpreter as an absolute path, or as `/usr/bin/env NAME` without options"
        }
        E::NoState => "set HOME, or XDG_STATE_HOME to an absolute path",
        E::BadManifest { .. } => "`jp-compact schema manifest` prints the schema of a manifest",
        E::Version(mismatch) => mismatch.hint(),
        _ => return None,
    };
    Some(ErrorHint::from_host(text))
}

fn session_hint(name: &str, error: &session::Error) -> Option<ErrorHint> {
    use session::Error as E;
    if let E::Lacking(permissions) = error {
        return Some(missing_permissions_hint(
            &permissions.asked,
            permissions.tried.as_ref(),
            &permissions.command,
        ));
    }
    let text = match error {
        E::Version(mismatch) => mismatch.hint(),
        E::Model { answer, .. } if answer.code == llm::BUDGET_EXHAUSTED => {
            "nothing was appended; raise the budget with `--llm-budget-tokens N` or `--llm-budget-requests N`"
        }
        E::Model { .. } => "nothing was appended",
        E::NoJail { missing } => {
            let alternative = "`--sandbox=contained` runs strategies without a jail";
            return Some(ErrorHint::line(format!("{}; {alternative}", remedies(missing))));
        }
        E::Process(ProcessError::Deadline { .. }) => "`--deadline 5m` allows more time",
        E::Reported { error, .. } => {
            let hint = error.hint.as_ref();
            return hint.map(|hint| ErrorHint::line(format!("`{name}` suggests: {hint}")));
        }
        E::BadDescription { .. } => {
            "`jp-compact schema description` prints the schema of the answer to `describe`"
        }
        E::Violation(ReplyViolation::NotAMessage { .. }) => DEBUG_OUTPUT_HINT,
        E::Violation(_) => "nothing was appended; `jp-compact schema reply` prints the schema of a reply",
        E::Crashed { .. } => return Some(stderr_hint(name)),
        _ => return None,
    };
    Some(ErrorHint::from_host(text))
}

/// The hint after a line on stdout that is not a message.
pub(crate) const DEBUG_OUTPUT_HINT: &str =
    "stdout is only for replies; print debug text to stderr (`>&2` in a shell, `file=sys.stderr` in Python)";

fn stderr_hint(name: &str) -> ErrorHint {
    ErrorHint::line(format!("nothing was appended; `jp-compact -v ...` prints the stderr of `{name}`"))
}

/// Returns the hint of a failure that missing permissions may have caused. `asked` has the permissions that the
/// strategy asked for, `tried` one that it seems to have needed. `command` grants all of them.
pub(crate) fn missing_permissions_hint(asked: &[Grant], tried: Option<&Grant>, command: &str) -> ErrorHint {
    let mut lines = Vec::new();
    if !asked.is_empty() {
        lines.push(format!("these permissions were not granted: {};", grants::joined(asked)));
    }
    if let Some(grant) = tried {
        let action = match grant {
            Grant::Subprocess => "start another process (in a script, `exec PROGRAM` avoids that)",
            Grant::Network => "reach the network",
            Grant::Runtime(_) => "start its interpreter",
            _ => "read a file without permission",
        };
        lines.push(format!("it seems to have tried to {action}, and `{grant}` was not granted;"));
    }
    let condition = if tried.is_some() { ", and you want to allow it" } else { "" };
    if let Some(last) = lines.last_mut() {
        last.push_str(&format!(" if that caused the failure{condition}, grant it with"));
    }
    lines.push(format!("  {command}"));
    ErrorHint(lines)
}

/// Returns the steps that make a jail available.
fn remedies(missing: &[MissingAbility]) -> String {
    missing.iter().map(|ability| ability.remedy).collect::<Vec<_>>().join("; ")
}
