//! The commands, one file each: its arguments, then one function.

pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod print;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod strategy;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jp_compact_core::Stream;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::{compact as pipeline, store};

use crate::error::Report;

/// A transcript that is only read: of a file, or of stdin for `-`.
pub(crate) struct Read {
    pub(crate) path: PathBuf,
    pub(crate) id: Option<String>,
    pub(crate) stream: Stream,
}

/// Reads a transcript for a command that writes none.
pub(crate) fn read(transcript: &OsStr, environment: &Environment) -> Result<Read, Report> {
    if transcript == "-" {
        let path = PathBuf::from("standard input");
        let bytes = store::read_stdin()?;
        let stream =
            Stream::parse(bytes).map_err(|source| Failure::Unreadable { path: path.clone(), source })?;
        return Ok(Read { path, id: None, stream });
    }
    let opened = pipeline::open(transcript, environment)?;
    let id = opened.place.id().map(str::to_owned);
    Ok(Read { path: opened.place.path().to_owned(), id, stream: opened.stream })
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
