//! The end of a batch: the gates, the reports, the summary, and the exit code.

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_engine::batch::{
    self, BatchEnd, BatchError, FoundFiles, GateScope, Gates, PreviousReport, ReportLines, ReportSummary,
    Suite, Tally,
};
use jp_compact_reports::batch as batch_report;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::report::GateReport;
use serde_json::json;

use super::Args;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// A batch after its last transcript.
pub(super) struct FinishedBatch<'a> {
    pub(super) args: &'a Args,
    pub(super) files: &'a FoundFiles,
    pub(super) gates: &'a Gates,
    pub(super) previous: Option<&'a PreviousReport>,
    pub(super) tally: Tally,
    /// The number of transcripts that failed for lack of trust or consent.
    pub(super) refused: u64,
    /// The files that are named like a session, but have other content.
    pub(super) others: Vec<PathBuf>,
    pub(super) result: Result<BatchEnd, BatchError>,
    pub(super) environment: &'a Environment,
}

impl FinishedBatch<'_> {
    /// Writes the requested reports, prints the summary, and returns the exit code.
    pub(super) fn conclude(&self, lines: Option<&mut ReportLines>, quiet: bool) -> Result<Exit, Report> {
        let scope = self.gate_scope();
        let gate_reports = self.tally.evaluate_gates(self.gates, scope);
        let failure = self.failure(scope);
        if let (Ok(end), Some(lines)) = (&self.result, lines) {
            let error = failure.as_ref().map(Report::document);
            let written = ReportSummary {
                total: &self.tally.total,
                gates: &gate_reports,
                error: error.as_ref(),
                complete: *end == BatchEnd::Complete,
            };
            self.write_reports(lines, &written)?;
        }
        if !quiet {
            if let Some(line) = batch_report::other_files(&self.others) {
                let fields = json!({ "files": self.others });
                output::info("skipped files that are not transcripts", &fields, &EscapedLines::single(line));
            }
            let text = EscapedLines::single(batch_report::summary(&self.tally, self.args.run_args.dry_run));
            let fields = json!({ "dry_run": self.args.run_args.dry_run, "total": self.tally.total });
            output::info("finished the batch", &fields, &text);
        }
        match failure {
            Some(failure) if self.result.is_ok() => Err(failure.printed()),
            Some(failure) => Err(failure),
            None => {
                print_missed_gates(&gate_reports);
                Ok(self.exit_code(&gate_reports, scope))
            }
        }
    }

    /// Returns which part of all transcripts the gates cover.
    fn gate_scope(&self) -> GateScope {
        if self.args.gates.allow_empty {
            GateScope::AllOrEmpty
        } else if self.tally.total.transcripts == 0
            && self.files.other_shards_have_transcripts(self.environment)
        {
            // Only this shard is empty.
            GateScope::Shard
        } else {
            GateScope::All
        }
    }

    /// Returns the failure of the batch itself. Failed transcripts and missed gates do not count.
    fn failure(&self, scope: GateScope) -> Option<Report> {
        let is_empty = self.tally.total.transcripts == 0 && scope == GateScope::All && self.gates.is_empty();
        match &self.result {
            Err(BatchError::Start(error)) => Some(Report::of_system("failed to start the batch", error)),
            Err(BatchError::Report(error)) => {
                let path = self.args.report.as_ref().map(|path| self.environment.cwd.join(path));
                let path = path.as_deref().unwrap_or(&self.environment.temp_dir);
                Some(file_error("write the report", path, error))
            }
            Ok(BatchEnd::Stopped) => {
                Some(Report::new(Exit::Interrupted, "interrupted", Some(resume_hint(self.args))))
            }
            Ok(BatchEnd::Complete) if is_empty => {
                let paths: Vec<_> = self.args.paths.iter().map(|path| path.to_string_lossy()).collect();
                let message = format!("found no transcript in {}", paths.join(", "));
                Some(Report::new(Exit::Transcript, message, Some("`--allow-empty` makes this a success")))
            }
            Ok(BatchEnd::Complete) => None,
        }
    }

    fn write_reports(&self, lines: &mut ReportLines, written: &ReportSummary<'_>) -> Result<(), Report> {
        if self.args.run_args.json {
            output::data(|out| lines.write(written, out))?;
        }
        if let Some(path) = &self.args.junit {
            let suite = Suite { total: written.total, gates: written.gates };
            let path = self.environment.cwd.join(path);
            let result = lines.write_other_file(&path, |lines, out| batch::write_junit(lines, &suite, out));
            result.map_err(|error| file_error("write the JUnit report", &path, &error))?;
        }
        if let Some(path) = &self.args.report {
            let path = self.environment.cwd.join(path);
            let previous = self.previous.filter(|_| !written.complete);
            previous
                .map_or(Ok(()), |previous| previous.keep_unreached(lines))
                .and_then(|()| lines.finish(written, &path))
                .map_err(|error| file_error("write the report", &path, &error))?;
        }
        Ok(())
    }

    /// Returns the exit code. A missed gate takes precedence over failed transcripts. If each failed transcript lacks trust
    /// or consent, the exit code reports that.
    fn exit_code(&self, gate_reports: &[GateReport], scope: GateScope) -> Exit {
        let max_failures = batch::Gate::MaxFailures.as_str();
        let failed = self.tally.total.failed;
        if gate_reports.iter().any(|report| !report.met) {
            Exit::Gate
        } else if failed == 0 || gate_reports.iter().any(|report| report.gate == max_failures) {
            Exit::Done
        } else if failed == self.refused {
            Exit::NotTrusted
        } else if self.files.is_empty()
            && scope != GateScope::Shard
            && !self.files.other_shards_have_transcripts(self.environment)
        {
            // Without any transcript, only the given paths failed.
            Exit::Transcript
        } else {
            Exit::SomeFailed
        }
    }
}

fn print_missed_gates(gate_reports: &[GateReport]) {
    for report in gate_reports.iter().filter(|report| !report.met) {
        let GateReport { gate, wanted, found, .. } = report;
        let text = format_args!("gate {gate} not met: wanted {wanted}, found {found}");
        output::error("gate not met", report, &EscapedLines::single(text));
    }
}

/// Returns the hint after a run that did not process every transcript.
pub(super) fn resume_hint(args: &Args) -> &'static str {
    if args.report.is_some() {
        "to continue, run the same command with --resume; finished transcripts are skipped"
    } else if args.out.is_some() {
        "to continue, give `--out` another folder; with `--report FILE`, `--resume` skips finished transcripts"
    } else if args.run_args.dry_run {
        "run the same command again"
    } else {
        "to continue, run the same command again; finished transcripts are skipped"
    }
}

/// Returns the report of an operation, such as "write the report", that failed on a file.
pub(super) fn file_error(operation: &str, path: &Path, error: &io::Error) -> Report {
    let message = format!("failed to {operation} {}", path.display());
    let mut report = Report::new(Exit::Transcript, message, None);
    report.causes.push(error.to_string());
    report
}
