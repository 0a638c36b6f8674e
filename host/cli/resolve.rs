//! The transcripts of a command line, found before anything runs: a mistyped argument must not compact the others.
//! Nothing here reads a transcript.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory as _;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::store::{self, StoreError};
use jp_compact_engine::trust::quoted;

use crate::args::Cli;
use crate::commands::only_read;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use crate::tally::Tally;

/// What other programs call things: the argument that does it here.
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

/// Finds every transcript. Those that cannot be found are reported; then nothing may be done to any of them, and the
/// command exits with this.
pub(crate) fn refused(
    transcripts: &[OsString],
    json: bool,
    quiet: bool,
    environment: &Environment,
) -> Result<Option<Exit>, Report> {
    let failed: Vec<_> = transcripts
        .iter()
        .filter_map(|transcript| Some((transcript, failure(transcript, transcripts, environment)?)))
        .collect();
    let Some((_, first)) = failed.first() else { return Ok(None) };
    // What was mistyped is reported as that, whatever else is missing.
    let exit = failed.iter().map(|(_, report)| report.exit).find(|exit| *exit == Exit::Usage);
    let exit = exit.unwrap_or(first.exit);
    let mut tally = Tally::new(json, quiet);
    for (transcript, report) in &failed {
        tally.count(transcript, Err(report.clone()))?;
    }
    if let all @ 2.. = transcripts.len() {
        let failed = failed.len();
        output::say(format_args!("nothing was done: {failed} of {all} transcripts cannot be used"));
    }
    Ok(Some(exit))
}

fn failure(transcript: &OsStr, all: &[OsString], environment: &Environment) -> Option<Report> {
    if transcript == "-" {
        return Some(only_read());
    }
    match store::locate(transcript, environment) {
        Ok(_) => None,
        Err(error) => Some(match word(transcript, environment) {
            Some(word) if matches!(error, StoreError::NotFound { .. }) => unknown(word, all, environment),
            _ => Failure::from(error).into(),
        }),
    }
}

/// An argument that may be meant as a command. A path has a slash or a dot in it, or something is there.
fn word<'a>(transcript: &'a OsStr, environment: &Environment) -> Option<&'a str> {
    let word = transcript.to_str().filter(|word| !word.is_empty() && !word.contains(['/', '.']))?;
    environment.cwd.join(word).symlink_metadata().is_err().then_some(word)
}

fn unknown(word: &str, all: &[OsString], environment: &Environment) -> Report {
    let message = format!("`{word}` is neither a command, nor an existing path, nor an id");
    let other = all.iter().find(|other| *other != word && store::locate(other, environment).is_ok());
    let other = other.map_or_else(|| "TRANSCRIPT".to_owned(), |other| quoted(Path::new(other)));
    let hint = match near(word).as_deref() {
        Some("") => format!("`jp-compact {other}` compacts; it has no command of its own"),
        Some("--reset") => format!("`jp-compact {other} --reset` removes overlays"),
        Some("--dry-run") => format!("`jp-compact {other} --dry-run` shows what would be done"),
        Some(command) => {
            format!("`jp-compact {command} {other}` is a command; a path is given as `./{word}`")
        }
        None => match id(word) {
            Some(id) => format!("`jp-compact {id}` is that conversation, inside its workspace"),
            None => format!("`jp-compact --help` lists the commands; a path is given as `./{word}`"),
        },
    };
    Report::new(Exit::Usage, message, Some(&hint))
}

/// The id in the name of a conversation's folder.
fn id(word: &str) -> Option<&str> {
    let (digits, _) = word.split_once('-')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits).filter(|digits| !digits.is_empty())
}

/// The command or the flag that a word was probably meant for. Nothing in it for what needs no command.
fn near(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let cli = Cli::command();
    let names = cli.get_subcommands().map(|command| (command.get_name(), command.get_name()));
    let all = names.chain(ELSEWHERE).map(|(name, meant)| (edits(name, &word), name.len(), meant));
    // No more than half of the letters are wrong, and never more than two.
    let near = all.filter(|(edits, letters, _)| *edits <= 2 && edits * 2 <= *letters);
    near.min_by_key(|(edits, ..)| *edits).map(|(.., meant)| meant.to_owned())
}

/// How many letters have to be put in, left out or replaced to make one word of the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place + 1);
        for (column, byte) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != byte);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        assert_eq!(near(word).as_deref(), expected);
    }

    #[test]
    fn a_mistyped_command_is_the_nearest_one() {
        check("prin", Some("print"));
        check("shwo", Some("show"));
        check("Stat", Some("stats"));
        check("schemas", Some("schema"));
        check("strategies", None);
    }

    #[test]
    fn words_of_other_programs_are_known() {
        check("undo", Some("--reset"));
        check("reset", Some("--reset"));
        check("preview", Some("--dry-run"));
        check("dryrun", Some("--dry-run"));
        check("compact", Some(""));
    }

    #[test]
    fn other_words_are_near_nothing() {
        for word in ["conversation", "cat", "x", "nowhere", "ünïcode"] {
            check(word, None);
        }
    }
}
