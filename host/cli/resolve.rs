//! Locates the transcripts of a command line before any of them is compacted. If one argument is mistyped, no other
//! transcript must be compacted. This module also suggests the intended command. It must not read a transcript.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use jp_compact_help::intended_command;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_store::{self as store, StoreError};
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::input::{stdin_not_appendable, with_similar_id};
use crate::lines::EscapedLines;
use crate::output;
use crate::transcript_results::TranscriptResults;

/// Lists the names of the commands. Only an unknown argument needs them.
pub(crate) type CommandNames = fn() -> Vec<String>;

/// Locates every transcript. If some cannot be used, prints the errors and returns the exit code. The caller must then
/// compact none.
pub(crate) fn report_unresolved(
    transcripts: &[OsString],
    json: bool,
    quiet: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Option<Exit>, Report> {
    let mut failed = Vec::new();
    for transcript in transcripts {
        if let Some(report) = resolution_error(transcript, transcripts, environment, commands) {
            failed.push((transcript, report));
        }
    }
    let Some((_, first)) = failed.first() else { return Ok(None) };
    // A mistyped argument decides the exit code.
    let is_mistyped = failed.iter().any(|(_, report)| report.exit == Exit::Usage);
    let exit = if is_mistyped { Exit::Usage } else { first.exit };
    let mut results = TranscriptResults::new("located", json, quiet);
    for (transcript, report) in &failed {
        results.print(transcript, Err::<((), EscapedLines), _>(report.clone()))?;
    }
    if let count @ 2.. = transcripts.len() {
        let failed = failed.len();
        let text = format_args!("no transcript was changed: {failed} of {count} transcripts cannot be used");
        let fields = json!({ "failed": failed, "transcripts": count });
        output::error("no transcript was changed", &fields, &EscapedLines::single(text));
    }
    Ok(Some(exit))
}

/// Returns the error of an argument that is not a transcript. `arguments` contains all arguments of the command line.
fn resolution_error(
    transcript: &OsStr,
    arguments: &[OsString],
    environment: &Environment,
    commands: CommandNames,
) -> Option<Report> {
    if transcript == "-" {
        return Some(stdin_not_appendable());
    }
    match store::locate(transcript, environment) {
        Ok(_) => None,
        Err(error) => Some(match possible_command(transcript, environment) {
            Some(argument) if matches!(error, StoreError::NotFound { .. }) => {
                unknown_argument(argument, arguments, environment, &commands())
            }
            _ => with_similar_id(error.into(), transcript, environment),
        }),
    }
}

/// Returns the argument if it may be a mistyped command: it does not look like a path, and no file has this name.
fn possible_command<'a>(transcript: &'a OsStr, environment: &Environment) -> Option<&'a str> {
    let argument =
        transcript.to_str().filter(|argument| !argument.is_empty() && !argument.contains(['/', '.']))?;
    environment.cwd.join(argument).symlink_metadata().is_err().then_some(argument)
}

fn unknown_argument(
    argument: &str,
    arguments: &[OsString],
    environment: &Environment,
    commands: &[String],
) -> Report {
    let message = format!("`{argument}` is not a command, an existing path, or an id");
    let located =
        arguments.iter().find(|other| *other != argument && store::locate(other, environment).is_ok());
    let transcript = located.map_or_else(|| "TRANSCRIPT".to_owned(), |located| quoted(Path::new(located)));
    let hint = match intended_command(argument, commands).as_deref() {
        Some("") => format!("compacting needs no command: `jp-compact {transcript}`"),
        Some("--reset") => format!("`jp-compact {transcript} --reset` removes overlays"),
        Some("--dry-run") => {
            format!("`jp-compact {transcript} --dry-run` shows the effect without appending")
        }
        Some(command) => {
            format!("did you mean `jp-compact {command} {transcript}`? Write a path as `./{argument}`")
        }
        None => match conversation_id(argument) {
            Some(id) => format!("inside the workspace, `jp-compact {id}` compacts that conversation"),
            None => format!("`jp-compact --help` lists the commands; write a path as `./{argument}`"),
        },
    };
    Report::new(Exit::Usage, message, Some(&hint))
}

/// Returns the id if the argument has the form of a conversation's folder name: `ID-TITLE`.
fn conversation_id(argument: &str) -> Option<&str> {
    let (id, _) = argument.split_once('-')?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then_some(id)
}
