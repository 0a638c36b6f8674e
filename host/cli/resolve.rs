//! The transcripts of a command line, located before anything runs, because a mistyped argument must not compact the
//! others. This module suggests the intended command. It must not read a transcript.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_store::{self as store, StoreError};
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::input::stdin_is_only_read;
use crate::lines::EscapedLines;
use crate::output;
use crate::transcript_results::TranscriptResults;

/// Lists the names of the commands. Only an unknown argument needs them.
pub(crate) type CommandNames = fn() -> Vec<String>;

/// Words of other programs, and the argument that does the same here. Empty: no argument is needed.
const ELSEWHERE: [(&str, &str); 12] = [
    ("undo", "--reset"),
    ("reset", "--reset"),
    ("revert", "--reset"),
    ("restore", "--reset"),
    ("preview", "--dry-run"),
    ("diff", "--dry-run"),
    ("dry-run", "--dry-run"),
    ("compact", ""),
    ("run", ""),
    ("list", "show"),
    ("view", "print"),
    ("check", "lint"),
];

/// Locates every transcript. If one is not found, prints the errors and returns the exit code; then none may be compacted.
pub(crate) fn report_unresolved(
    transcripts: &[OsString],
    json: bool,
    quiet: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Option<Exit>, Report> {
    let failed: Vec<_> = transcripts
        .iter()
        .filter_map(|transcript| {
            Some((transcript, resolution_error(transcript, transcripts, environment, commands)?))
        })
        .collect();
    let Some((_, first)) = failed.first() else { return Ok(None) };
    // A mistyped argument decides the exit code.
    let exit = failed.iter().map(|(_, report)| report.exit).find(|exit| *exit == Exit::Usage);
    let exit = exit.unwrap_or(first.exit);
    let mut results = TranscriptResults::new("located", json, quiet);
    for (transcript, report) in &failed {
        results.print(transcript, Err::<((), EscapedLines), _>(report.clone()))?;
    }
    if let all @ 2.. = transcripts.len() {
        let failed = failed.len();
        let text = format_args!("no transcript was changed: {failed} of {all} transcripts cannot be used");
        let fields = json!({ "failed": failed, "transcripts": all });
        output::error("no transcript was changed", &fields, &EscapedLines::single(text));
    }
    Ok(Some(exit))
}

fn resolution_error(
    transcript: &OsStr,
    all: &[OsString],
    environment: &Environment,
    commands: CommandNames,
) -> Option<Report> {
    if transcript == "-" {
        return Some(stdin_is_only_read());
    }
    match store::locate(transcript, environment) {
        Ok(_) => None,
        Err(error) => Some(match possible_command(transcript, environment) {
            Some(argument) if matches!(error, StoreError::NotFound { .. }) => {
                unknown_argument(argument, all, environment, &commands())
            }
            _ => error.into(),
        }),
    }
}

/// Returns an argument that may be a mistyped command: neither a path by its characters nor an existing one.
fn possible_command<'a>(transcript: &'a OsStr, environment: &Environment) -> Option<&'a str> {
    let argument =
        transcript.to_str().filter(|argument| !argument.is_empty() && !argument.contains(['/', '.']))?;
    environment.cwd.join(argument).symlink_metadata().is_err().then_some(argument)
}

fn unknown_argument(
    argument: &str,
    all: &[OsString],
    environment: &Environment,
    commands: &[String],
) -> Report {
    let message = format!("`{argument}` is not a command, an existing path, or an id");
    let other = all.iter().find(|other| *other != argument && store::locate(other, environment).is_ok());
    let other = other.map_or_else(|| "TRANSCRIPT".to_owned(), |other| quoted(Path::new(other)));
    let hint = match suggest(argument, commands).as_deref() {
        Some("") => format!("compacting needs no command: `jp-compact {other}`"),
        Some("--reset") => format!("`jp-compact {other} --reset` removes overlays"),
        Some("--dry-run") => format!("`jp-compact {other} --dry-run` shows the effect without appending"),
        Some(command) => {
            format!("did you mean `jp-compact {command} {other}`? Write a path as `./{argument}`")
        }
        None => match id(argument) {
            Some(id) => format!("inside the workspace, `jp-compact {id}` compacts that conversation"),
            None => format!("`jp-compact --help` lists the commands; write a path as `./{argument}`"),
        },
    };
    Report::new(Exit::Usage, message, Some(&hint))
}

/// The id in the folder name of a conversation.
fn id(argument: &str) -> Option<&str> {
    let (digits, _) = argument.split_once('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits).filter(|digits| !digits.is_empty())
}

/// Returns the command or option that the user probably meant. Empty if no command is needed.
fn suggest(argument: &str, commands: &[String]) -> Option<String> {
    let argument = argument.to_lowercase();
    let names = commands.iter().map(|command| (command.as_str(), command.as_str()));
    let candidates = names
        .chain(ELSEWHERE)
        .map(|(name, meant)| (levenshtein_distance(name, &argument), name.len(), meant));
    // At most half of the letters differ, and at most two.
    let similar = candidates.filter(|(distance, letters, _)| *distance <= 2 && distance * 2 <= *letters);
    similar.min_by_key(|(distance, ..)| *distance).map(|(.., meant)| meant.to_owned())
}

/// The Levenshtein distance in bytes.
fn levenshtein_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (row_index, letter) in left.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], row_index + 1);
        for (column, byte) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != byte);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argument: &str, expected: Option<&str>) {
        let commands = ["print", "query", "show", "stats", "schema", "strategy"].map(str::to_owned);
        assert_eq!(suggest(argument, &commands).as_deref(), expected);
    }

    #[test]
    fn suggests_nearest_command() {
        check("prin", Some("print"));
        check("shwo", Some("show"));
        check("Stat", Some("stats"));
        check("schemas", Some("schema"));
        check("strategies", None);
    }

    #[test]
    fn recognizes_words_of_other_programs() {
        check("undo", Some("--reset"));
        check("reset", Some("--reset"));
        check("preview", Some("--dry-run"));
        check("dryrun", Some("--dry-run"));
        check("compact", Some(""));
    }

    #[test]
    fn suggests_nothing_for_distant_words() {
        for argument in ["conversation", "cat", "x", "nowhere", "ünïcode"] {
            check(argument, None);
        }
    }
}
