//! The search for the transcripts of a command line, before any of them is compacted. If one argument is mistyped, no
//! other transcript must be compacted. This module also suggests the intended command. It must not read a transcript.

use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use jp_compact_help::{COMMANDS_OF_CONVERSATION, intended_command};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_store::{self as store, StoreError};
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::input::{session_hint, stdin_refused, with_similar_id};
use crate::lines::EscapedLines;
use crate::output;
use crate::transcript_results::TranscriptResults;

/// Lists the names of the commands. Only an unknown argument needs them.
pub(crate) type CommandNames = fn() -> Vec<String>;

/// The names of the commands, listed on first use.
type KnownCommands = LazyCell<Vec<String>, CommandNames>;

/// Locates every transcript. If some cannot be used, prints the errors and returns the exit code. The caller must then
/// compact none.
pub(crate) fn report_unresolved(
    transcripts: &[OsString],
    json: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Option<Exit>, Report> {
    let mut failed = Vec::new();
    let commands = LazyCell::new(commands);
    // The words after a mistyped command are its arguments, and not transcripts.
    let begins_with_command =
        transcripts.first().and_then(|first| mistyped_command(first, environment, &commands)).is_some();
    let checked = if begins_with_command { &transcripts[..1] } else { transcripts };
    for transcript in checked {
        if let Some(report) = resolution_error(transcript, transcripts, environment, &commands) {
            failed.push((transcript, report));
        }
    }
    let Some((_, first)) = failed.first() else { return Ok(None) };
    // A mistyped argument decides the exit code.
    let is_mistyped = failed.iter().any(|(_, report)| report.exit == Exit::Usage);
    let exit = if is_mistyped { Exit::Usage } else { first.exit };
    let mut results = TranscriptResults::new("located", json, false);
    for (transcript, report) in &failed {
        results.print(transcript, Err::<((), EscapedLines), _>(report.clone()))?;
    }
    if let count @ 2.. = checked.len() {
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
    commands: &KnownCommands,
) -> Option<Report> {
    if transcript == "-" {
        return Some(stdin_refused("cannot append to stdin (`-`)"));
    }
    match store::locate(transcript, environment) {
        Ok(_) => None,
        Err(error) => Some(match possible_command(transcript, environment) {
            Some(argument) if matches!(error, StoreError::NotFound { .. }) => {
                unknown_argument(argument, arguments, environment, commands)
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

/// Returns the command that the user probably meant with this word, if the word is not a transcript.
fn mistyped_command(word: &OsStr, environment: &Environment, commands: &KnownCommands) -> Option<String> {
    let typed = possible_command(word, environment)?;
    let is_unknown = matches!(store::locate(word, environment), Err(StoreError::NotFound { .. }));
    intended_command(typed, commands).filter(|command| is_unknown && commands.contains(command))
}

/// Returns the command line that the user probably meant. A mistyped first word is replaced.
fn intended_line(command: &str, argument: &str, arguments: &[OsString], transcript: &str) -> String {
    let is_first = arguments.first().is_some_and(|first| first == argument);
    let words: Vec<_> = match arguments {
        [_, rest @ ..] if is_first && !rest.is_empty() => {
            rest.iter().map(|word| quoted(Path::new(word))).collect()
        }
        _ if is_first && !COMMANDS_OF_CONVERSATION.contains(&command) => Vec::new(),
        _ => vec![transcript.to_owned()],
    };
    ["jp-compact".to_owned(), command.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
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
            let line = intended_line(command, argument, arguments, &transcript);
            format!("did you mean `{line}`? Write a path as `./{argument}`")
        }
        None => session_hint(argument, environment).unwrap_or_else(|| match conversation_id(argument) {
            Some(id) => format!("inside the workspace, `jp-compact {id}` compacts that conversation"),
            None => format!("`jp-compact --help` lists the commands; write a path as `./{argument}`"),
        }),
    };
    Report::new(Exit::Usage, message, Some(&hint))
}

/// Returns the id if the argument has the form of a conversation's folder name: `ID-TITLE`.
fn conversation_id(argument: &str) -> Option<&str> {
    let (id, _) = argument.split_once('-')?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then_some(id)
}
