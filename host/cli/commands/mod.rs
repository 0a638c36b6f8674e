//! The commands, one file each: its arguments, then one function.

pub(crate) mod auto;
pub(crate) mod batch;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consent;
pub(crate) mod doctor;
pub(crate) mod fork;
pub(crate) mod import;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod ndjson;
pub(crate) mod print;
pub(crate) mod query;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod strategy;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jp_compact_core::Stream;
use jp_compact_core::formats::Format;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::{compact as pipeline, store};

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Does work that an interrupt ends: what it was about is dropped, strategies are killed, what they left is
/// removed; a write is never cut in two.
pub(crate) fn until_interrupted<T>(work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    let interrupted = || {
        let hint = "what was reported is done, the rest is as it was";
        Report::new(Exit::Interrupted, "interrupted", Some(hint))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            exit = work => exit,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
        }
    });
    // A name that is being looked up cannot be given up, and would be waited for.
    runtime.shutdown_background();
    done
}

/// A transcript that is only read: of a file, or of stdin for `-`.
pub(crate) struct Read {
    pub(crate) path: PathBuf,
    pub(crate) id: Option<String>,
    pub(crate) stream: Stream,
}

/// Reads a transcript for a command that writes none.
pub(crate) fn read(transcript: &OsStr, environment: &Environment) -> Result<Read, Report> {
    read_as(transcript, None, environment)
}

/// The same, in a format that was named.
pub(crate) fn read_as(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Read, Report> {
    if transcript == "-" {
        let path = PathBuf::from("standard input");
        let stream = pipeline::of_bytes(store::read_stdin()?, format, &path)?;
        warnings(&stream, &path, environment).iter().for_each(|warning| output::warning(warning));
        return Ok(Read { path, id: None, stream });
    }
    let opened = pipeline::open_as(transcript, format, environment)?;
    let found = warnings(&opened.stream, opened.place.path(), environment);
    found.iter().for_each(|warning| output::warning(warning));
    let id = opened.place.id().map(str::to_owned);
    Ok(Read { path: opened.place.path().to_owned(), id, stream: opened.stream })
}

/// What has to be said of a transcript before anything is done with it.
pub(crate) fn warnings(stream: &Stream, path: &Path, environment: &Environment) -> Vec<String> {
    let path = short(path, environment);
    pipeline::warnings(stream).iter().map(|warning| format!("{path}: {warning}")).collect()
}

/// What is compacted is no stream of bytes.
pub(crate) fn only_read() -> Report {
    let hint = "`print -` and `show -` read it; what is compacted is a conversation in its folder";
    Report::new(Exit::Usage, "`-` is stdin, and stdin is only read", Some(hint))
}

/// A path as people read it: from the current folder, where it lies below.
pub(crate) fn short(path: &Path, environment: &Environment) -> String {
    path.strip_prefix(&environment.cwd).unwrap_or(path).display().to_string()
}

/// A number as people read it: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How much smaller, in percent: `-43 %`, `+2 %` when it grew, or `unchanged`.
pub(crate) fn change(before: u64, after: u64) -> String {
    if before == after || before == 0 {
        return "unchanged".into();
    }
    let percent = (after as f64 / before as f64 - 1.0) * 100.0;
    format!("{percent:+.0} %")
}

/// So many of something: `1 turn`, `2 turns`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A range as people read it: `turn 3`, or `turns 3-5`.
pub(crate) fn turns(from: usize, to: usize) -> String {
    if from == to { format!("turn {from}") } else { format!("turns {from}-{to}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([grouped(0), grouped(999), grouped(1_234_567)], ["0", "999", "1,234,567"]);
    }
}
