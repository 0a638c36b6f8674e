//! The messages of a running batch: failures, warnings, and missed gates of transcripts. It also counts the results.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use jp_compact_engine::batch::{self, BatchEvent, FoundFiles, ReportLines, Tally};
use jp_compact_schema::document::{ErrorReport, LogLevel};
use jp_compact_schema::report::{MissReport, TranscriptReport};
use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;
use jp_compact_help::progress::BatchProgress;

/// The maximum number of printed hints. The report has all of them.
const HINTS_MAX: usize = 8;

/// Prints failures and warnings of transcripts, and counts the results.
pub(super) struct BatchReporter {
    pub(super) tally: Tally,
    pub(super) bar: BatchProgress,
    quiet: bool,
    /// The number of transcripts that failed for lack of trust or consent.
    pub(super) refused: u64,
    /// The hints that were already printed.
    hints: BTreeSet<String>,
    is_interrupted: bool,
    /// The files that are named like a session, but have other content.
    pub(super) others: Vec<PathBuf>,
}

impl BatchReporter {
    pub(super) fn new(tally: Tally, bar: BatchProgress, quiet: bool) -> Self {
        Self {
            tally,
            bar,
            quiet,
            refused: 0,
            hints: BTreeSet::new(),
            is_interrupted: false,
            others: Vec::new(),
        }
    }

    /// Reports the paths that cannot be searched. Their entries in the report follow the entries of the transcripts.
    pub(super) fn report_faults(
        &mut self,
        files: &FoundFiles,
        lines: Option<&ReportLines>,
    ) -> io::Result<()> {
        for (index, fault) in (files.len()..).zip(files.faults()) {
            let report = batch::failed_search_entry(fault);
            if let Some(lines) = lines {
                lines.add(index, &serde_json::to_vec(&report).unwrap_or_default())?;
            }
            self.report(&report, false);
            report.error.iter().for_each(|error| self.print_hint(error));
        }
        Ok(())
    }

    pub(super) fn handle(
        &mut self,
        event: BatchEvent,
        files: &FoundFiles,
        lines: Option<&ReportLines>,
    ) -> io::Result<()> {
        match event {
            BatchEvent::Finished { index, entry: report, line, resumed } => {
                self.bar.advance(files.bytes_of(index));
                self.report(&report, resumed);
                if let Some(lines) = lines {
                    lines.add(index, &line)?;
                }
            }
            BatchEvent::NotReported { index } => {
                self.bar.advance(files.bytes_of(index));
                // Many programs write `.json` files. After an interrupt, a file may be a transcript that was not read.
                let path = files.path(index);
                let is_other = !self.is_interrupted && path.extension() != Some("json".as_ref());
                self.others.extend(is_other.then_some(path));
            }
            // A second interrupt ends the run immediately.
            BatchEvent::Interrupted if self.is_interrupted => {}
            BatchEvent::Interrupted => {
                self.is_interrupted = true;
                let text = "interrupted: finishing the requests in progress; interrupt again to stop now";
                self.print(LogLevel::Warn, "interrupted", &json!({}), text);
            }
        }
        Ok(())
    }

    fn print(
        &self,
        level: LogLevel,
        message: &'static str,
        fields: &impl Serialize,
        line: impl std::fmt::Display,
    ) {
        self.bar.suspend(|| output::log(level, message, fields, &EscapedLines::single(line)));
    }

    /// Prints a hint on one line, unless it was already printed.
    fn print_hint(&mut self, error: &ErrorReport) {
        let Some(hint) = &error.hint else { return };
        let hint = hint.replace("\n  ", " ");
        if self.hints.len() < HINTS_MAX && self.hints.insert(hint.clone()) {
            let line = format_args!("hint: {hint}");
            self.print(LogLevel::Info, "hint", &json!({ "hint": hint }), line);
        }
    }

    /// Counts a result, and prints its failure, warnings, and missed gates.
    fn report(&mut self, report: &TranscriptReport, resumed: bool) {
        self.tally.add(report, resumed);
        if let Some(error) = &report.error {
            let causes: String = error.causes.iter().map(|cause| format!(": {cause}")).collect();
            let line = format_args!("failed: {}: {}{causes}", report.path, error.message);
            let fields = json!({ "path": report.path, "error": error });
            self.print(LogLevel::Error, "failed", &fields, line);
            if error.code == Exit::NotTrusted.code() {
                self.refused += 1;
                self.print_hint(error);
            } else if error.hint.as_ref().is_some_and(|hint| hint.contains("--resume")) {
                self.print_hint(error);
            }
        }
        if !self.quiet {
            let path = &report.path;
            for warning in &report.warnings {
                let line = format_args!("warning: {path}: {warning}");
                let fields = json!({ "path": path, "warning": warning });
                self.print(LogLevel::Warn, "warning", &fields, line);
            }
            for MissReport { gate, found } in &report.gates {
                let fields = json!({ "path": path, "gate": gate, "found": found });
                let line = format_args!("gate {gate}: {path}: {found}");
                self.print(LogLevel::Error, "gate missed", &fields, line);
            }
        }
    }
}
