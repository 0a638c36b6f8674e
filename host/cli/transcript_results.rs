//! The results of a command, one for each transcript, in the order of the arguments. A transcript that fails must not
//! stop the others.

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
    /// The number of printed results.
    count: usize,
    /// The exit codes of the failed transcripts.
    failed: Vec<Exit>,
}

impl TranscriptResults {
    /// `message` is the constant message of each result on stderr, with `--log-format json`.
    pub(crate) fn new(message: &'static str, json: bool, quiet: bool) -> Self {
        Self { message, json, quiet, ..Self::default() }
    }

    /// Prints the result of a transcript.
    pub(crate) fn print(
        &mut self,
        transcript: &OsStr,
        result: Result<(impl Serialize, EscapedLines), Report>,
    ) -> Result<(), Report> {
        self.count += 1;
        match result {
            Ok((document, text)) => {
                if self.json {
                    output::json_line(&document).map_err(Report::unprinted)?;
                } else if !self.quiet {
                    output::info(self.message, &json!({ "report": document }), &text);
                }
            }
            Err(report) => {
                let failure = report.failure(Some(transcript));
                if self.json {
                    output::json_line(&failure).map_err(Report::unprinted)?;
                }
                output::failure(&failure, &report.text());
                self.failed.push(report.exit);
            }
        }
        Ok(())
    }

    /// Returns the exit code of the command, and reports the number of failures if it had several transcripts.
    pub(crate) fn exit(&self) -> Exit {
        match self.failed.as_slice() {
            [] => Exit::Done,
            [exit] if self.count == 1 => *exit,
            exits => {
                let (failed, count) = (exits.len(), self.count);
                let text = EscapedLines::single(format_args!("{failed} of {count} transcripts failed"));
                let fields = json!({ "failed": failed, "transcripts": count });
                output::error("some transcripts failed", &fields, &text);
                Exit::SomeFailed
            }
        }
    }
}
