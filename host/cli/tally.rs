//! Several transcripts in one command: all are tried, and what became of each is told in their order.

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// What became of several transcripts: all are tried.
#[derive(Default)]
pub(crate) struct Tally {
    /// Whether stdout is read by a script.
    json: bool,
    /// Whether nobody wants to know what went well.
    quiet: bool,
    all: usize,
    failed: Vec<Exit>,
}

impl Tally {
    /// Nothing was tried yet.
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, ..Self::default() }
    }

    /// Tells what became of one.
    pub(crate) fn count(
        &mut self,
        transcript: &OsStr,
        done: Result<(Value, Lines), Report>,
    ) -> Result<(), Report> {
        self.all += 1;
        match done {
            Ok((json, text)) => {
                if self.json {
                    output::json_line(&json)?;
                } else if !self.quiet {
                    output::people(&text);
                }
            }
            Err(report) => {
                if self.json {
                    output::json_line(&json!({ "path": transcript.to_string_lossy(), "error": report }))?;
                }
                output::failure(&report, &report.text());
                self.failed.push(report.exit);
            }
        }
        Ok(())
    }

    /// What the command comes to.
    pub(crate) fn exit(&self) -> Exit {
        match self.failed.as_slice() {
            [] => Exit::Done,
            [exit] if self.all == 1 => *exit,
            failed => {
                let (failed, all) = (failed.len(), self.all);
                output::say(format_args!("{failed} of {all} transcripts failed"));
                Exit::SomeFailed
            }
        }
    }
}
