//! The results of the transcripts of a command. A failure must not stop the other transcripts. Results are printed in
//! the order of the arguments.

use std::ffi::OsStr;

use serde_json::{Value, json};

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Prints the result of each transcript, and derives the exit code.
#[derive(Default)]
pub(crate) struct TranscriptResults {
    json: bool,
    quiet: bool,
    all: usize,
    failed: Vec<Exit>,
}

impl TranscriptResults {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, ..Self::default() }
    }

    /// Prints the result of a transcript.
    pub(crate) fn print(
        &mut self,
        transcript: &OsStr,
        done: Result<(Value, EscapedLines), Report>,
    ) -> Result<(), Report> {
        self.all += 1;
        match done {
            Ok((json, text)) => {
                if self.json {
                    output::json_line(&json)?;
                } else if !self.quiet {
                    output::print_lines(&text);
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

    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        match self.failed.as_slice() {
            [] => Exit::Done,
            [exit] if self.all == 1 => *exit,
            failed => {
                let (failed, all) = (failed.len(), self.all);
                output::print_line(format_args!("{failed} of {all} transcripts failed"));
                Exit::SomeFailed
            }
        }
    }
}
