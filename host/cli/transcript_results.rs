//! The results of the transcripts of a command. A failure must not stop the other transcripts. Results are printed in
//! the order of the arguments.

use std::ffi::OsStr;

use serde::Serialize;
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Prints the result of each transcript, and derives the exit code.
#[derive(Default)]
pub(crate) struct TranscriptResults {
    message: &'static str,
    json: bool,
    quiet: bool,
    all: usize,
    failed: Vec<Exit>,
}

impl TranscriptResults {
    /// `message` is the message of a result in the log.
    pub(crate) fn new(message: &'static str, json: bool, quiet: bool) -> Self {
        Self { message, json, quiet, ..Self::default() }
    }

    /// Prints the result of a transcript.
    pub(crate) fn print(
        &mut self,
        transcript: &OsStr,
        done: Result<(impl Serialize, EscapedLines), Report>,
    ) -> Result<(), Report> {
        self.all += 1;
        match done {
            Ok((document, text)) => {
                if self.json {
                    output::json_line(&document)?;
                } else if !self.quiet {
                    output::info(self.message, &json!({ "report": document }), &text);
                }
            }
            Err(report) => {
                let failure = report.failure(Some(transcript));
                if self.json {
                    output::json_line(&failure)?;
                }
                output::failure(&failure, &report.text());
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
                let text = EscapedLines::single(format_args!("{failed} of {all} transcripts failed"));
                let fields = json!({ "failed": failed, "transcripts": all });
                output::error("some transcripts failed", &fields, &text);
                Exit::SomeFailed
            }
        }
    }
}
