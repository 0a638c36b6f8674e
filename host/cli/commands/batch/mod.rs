//! `jp-compact batch`: compacts folders of transcripts in one run, with a report and gates for CI.

mod ndjson;
mod summary;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use jp_compact_engine::batch::{
    self, BatchConfig, BatchEnd, BatchEvent, Files, GateScope, Gates, Out, PreviousReport, ReportLines,
    Shard, Suite, Tally, Written,
};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::{BatchPlanner, Typed};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::LogLevel;
use jp_compact_schema::report::{GateReport, MissReport, TranscriptReport};
use serde::Serialize;
use serde_json::json;

use crate::args::{Providers, RunArgs, StrategyChoiceArgs, providers, typed_options};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;
use crate::progress::Bar;
use crate::selection::SelectionArgs;
use crate::setup::Setup;

/// Compact folders of transcripts in one run
///
/// Folders are searched recursively, except for ignored files (.gitignore). A PATH may also be a transcript or a pattern. The overlays are appended to each transcript. With --out, the views are written to another folder and the transcripts stay unchanged. A transcript that already has these overlays is skipped. A failing transcript is reported; the others continue.
#[derive(Debug, Parser)]
#[command(
    mut_arg("strategies", |arg| arg.long_help(
        "Run this strategy; repeat the option for several\n\n[default: the strategies of the profile]"
    )),
    mut_arg("profile", |arg| arg.long_help(None)),
    mut_arg("json", |arg| arg.help("Print the report on stdout, in the format of --report")),
    after_help = "Examples:\n  jp-compact batch conversations/ --profile default --report report.json\n  jp-compact batch conversations/ --strategy strip-tools --out views/ --resume --report report.json\n  jp-compact batch . --dry-run --require-saving 30 --require-valid anthropic --junit junit.xml\n  jp-compact batch --ndjson --profile light < records.jsonl > answers.jsonl"
)]
pub(crate) struct Args {
    /// A folder, a transcript, or a pattern such as 'logs/**/events.json'
    #[arg(value_name = "PATH", required_unless_present = "ndjson")]
    paths: Vec<OsString>,
    #[command(flatten)]
    choice: StrategyChoiceArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Use N threads [default: one for each core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Write the views to DIR, and leave the transcripts unchanged
    ///
    /// A view has the relative path of its transcript.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a JSON report to FILE
    ///
    /// During the run, the finished transcripts are in FILE.part.
    #[arg(help_heading = "Report", long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a JUnit report to FILE
    #[arg(help_heading = "Report", long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Compact only part I of N; parts count from 0
    ///
    /// Every transcript is in exactly one part.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Skip the unchanged transcripts that --report lists as done
    #[arg(help_heading = "Report", long, requires = "report")]
    resume: bool,
    #[command(flatten)]
    run_args: RunArgs,
    #[command(flatten)]
    gates: GateArgs,
    #[command(flatten)]
    records: ndjson::RecordArgs,
}

/// Gates: conditions that fail the command after every transcript was compacted.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gates")]
struct GateArgs {
    /// Require that the views save at least PCT % of all tokens
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    require_saving: Option<f64>,
    /// Require that every view passes `lint --provider PROVIDER`
    #[arg(long, value_name = "PROVIDER", value_parser = providers())]
    require_valid: Option<Providers>,
    /// Require that every view has at most this many tokens
    #[arg(long, value_name = "TOKENS")]
    require_fit: Option<u64>,
    /// Require that no view grows
    #[arg(long)]
    forbid_growth: bool,
    /// Allow up to N transcripts to fail
    #[arg(long, value_name = "N")]
    max_failures: Option<u64>,
    /// Succeed even if there is no transcript
    ///
    /// Otherwise the exit code is 4, or 3 with a gate.
    #[arg(long)]
    allow_empty: bool,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a number from 0 to 100".into()),
    }
}

impl GateArgs {
    fn to_gates(&self) -> Gates {
        Gates {
            require_saving: self.require_saving,
            require_valid: self.require_valid.as_ref().map(|providers| providers.0.clone()),
            require_fit: self.require_fit,
            forbid_growth: self.forbid_growth,
            max_failures: self.max_failures,
        }
    }
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if args.records.ndjson {
        let request = ndjson::Request {
            args: &args.records,
            allow_empty: args.gates.allow_empty,
            typed: typed(args),
            run_args: &args.run_args,
        };
        return ndjson::run(&request, quiet, environment);
    }
    check_paths(args, environment)?;
    compact_files(args, quiet, environment)
}

fn compact_files(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let start = Instant::now();
    let Setup { planner, progress, .. } = Setup::open(&args.run_args, true, quiet, Asker::User, environment)?;
    let planner = BatchPlanner::open(typed(args), args.out.is_some(), planner)?;
    let files = Files::gather(&args.paths, args.out.as_deref(), args.shard, environment);
    planner.check_profile((0..files.len()).map(|index| files.path(index)))?;
    let report_path = args.report.as_ref().map(|path| environment.cwd.join(path));
    let previous = read_previous_report(args, report_path.as_deref())?;
    let mut lines = begin_report(args, report_path.as_deref(), environment)?;
    let out = args.out.as_deref().map(|out| Out::new(out, environment));
    let gates = args.gates.to_gates();
    let config = BatchConfig {
        files: &files,
        format: args.run_args.input.format,
        jobs: args.jobs.map_or_else(core_count, NonZero::get),
        out: out.as_ref(),
        previous: previous.as_ref(),
        gates: &gates,
        lines: lines.as_ref(),
        looks: lines.is_some() || gates.require_valid.is_some(),
        environment,
    };
    let mut reporter = BatchReporter {
        tally: Tally::new(files.faults().len() as u64),
        bar: Bar::new(quiet, files.len() as u64, files.bytes(), &progress),
        quiet,
        refused: 0,
        hints: BTreeSet::new(),
        is_interrupted: false,
    };
    reporter.report_faults(&files, lines.as_ref())?;
    let run_result = batch::run(&planner, &config, &|error| Report::from(error).document(), |event| {
        reporter.handle(event, &files, lines.as_ref())
    });
    let sync_result = out.as_ref().map_or(Ok(()), Out::finish);
    reporter.bar.finish();
    sync_result.map_err(|error| Report::from(error).with_hint(resume_hint(args)))?;
    let BatchReporter { mut tally, refused, .. } = reporter;
    tally.total.elapsed_ms = (start.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let scope = gate_scope(args, &tally, &files, environment);
    let gate_reports = tally.judge(&gates, scope);
    let is_empty = tally.total.transcripts == 0 && scope == GateScope::All && gates.is_empty();
    let failure = match &run_result {
        Err(error) => {
            let path = report_path.as_deref().unwrap_or(Path::new("on stdout"));
            Some(file_error("write the report", path, error))
        }
        Ok(BatchEnd::Early) => Some(interrupted(args)),
        Ok(BatchEnd::Whole) if is_empty => Some(no_transcript(args)),
        Ok(BatchEnd::Whole) => None,
    };
    if let Ok(end) = &run_result {
        let error = failure.as_ref().map(Report::document);
        let written = Written {
            total: &tally.total,
            gates: &gate_reports,
            error: error.as_ref(),
            complete: *end == BatchEnd::Whole,
        };
        write_reports(args, environment, lines.as_mut(), &written)?;
    }
    if !quiet {
        let text = EscapedLines::single(summary::summary(&tally, &args.run_args));
        let fields = json!({ "dry_run": args.run_args.dry_run, "total": tally.total });
        output::info("finished the batch", &fields, &text);
    }
    if let Some(failure) = failure {
        return Err(if run_result.is_ok() { failure.printed() } else { failure });
    }
    print_missed_gates(&gate_reports);
    let has_only_faults = files.is_empty() && scope != GateScope::Shard && !files.is_elsewhere(environment);
    match exit_code(&tally, &gate_reports, refused) {
        // No path exists. There is no transcript, so no transcript failed.
        Exit::SomeFailed if has_only_faults => Ok(Exit::Transcript),
        exit => Ok(exit),
    }
}

fn read_previous_report(args: &Args, report_path: Option<&Path>) -> Result<Option<PreviousReport>, Report> {
    let Some(path) = report_path.filter(|_| args.resume) else { return Ok(None) };
    match PreviousReport::read(path, args.run_args.dry_run) {
        Ok(previous) => Ok(Some(previous)),
        Err(error) => Err(file_error("resume from the report", path, &error)),
    }
}

/// The transcripts that the gates require.
fn gate_scope(args: &Args, tally: &Tally, files: &Files, environment: &Environment) -> GateScope {
    if args.gates.allow_empty {
        GateScope::AllOrNothing
    } else if tally.total.transcripts == 0 && files.is_elsewhere(environment) {
        // Only this shard is empty.
        GateScope::Shard
    } else {
        GateScope::All
    }
}

fn typed(args: &Args) -> Typed<'_> {
    typed_options(&args.choice, args.selection.selection(), None)
}

/// Begins to collect the lines of the requested reports.
fn begin_report(
    args: &Args,
    report_path: Option<&Path>,
    environment: &Environment,
) -> Result<Option<ReportLines>, Report> {
    if report_path.is_none() && args.junit.is_none() && !args.run_args.json {
        return Ok(None);
    }
    let estimator = args.run_args.counting.tokens.estimator().name();
    let head = (env!("CARGO_PKG_VERSION"), args.run_args.dry_run, estimator);
    let shard = args.shard.map(Into::into);
    let lines = ReportLines::begin(report_path, args.resume, &environment.temp_dir, head, shard);
    let path = report_path.unwrap_or(&environment.temp_dir);
    lines.map(Some).map_err(|error| file_error("begin the report", path, &error))
}

fn no_transcript(args: &Args) -> Report {
    let paths: Vec<_> = args.paths.iter().map(|path| path.to_string_lossy()).collect();
    let message = format!("found no transcript in {}", paths.join(", "));
    Report::new(Exit::Transcript, message, Some("`--allow-empty` makes this a success"))
}

/// Rejects wrong paths on the command line before a transcript is read.
fn check_paths(args: &Args, environment: &Environment) -> Result<(), Report> {
    let absolute = |path: &Path| environment.cwd.join(path);
    let usage_error = |message: &str, hint: &str| Err(Report::new(Exit::Usage, message, Some(hint)));
    if args.paths.iter().any(|path| path == "-") {
        return usage_error(
            "cannot read paths from stdin (`-`)",
            "`jp-compact batch --ndjson` reads records from stdin",
        );
    }
    if args.report.is_some() && args.report.as_deref().map(absolute) == args.junit.as_deref().map(absolute) {
        return usage_error("--report and --junit name the same file", "give each of them its own file");
    }
    if let Some(out) = args.out.as_deref().and_then(|out| absolute(out).canonicalize().ok()) {
        let is_out = |path: &OsString| absolute(Path::new(path)).canonicalize().is_ok_and(|path| path == out);
        if args.paths.iter().any(is_out) {
            let hint = "a view has the relative path of its transcript; give --out another folder";
            return usage_error("--out is the folder of the transcripts", hint);
        }
    }
    for path in [&args.report, &args.junit].into_iter().flatten().map(|path| absolute(path)) {
        if path.is_dir() {
            return Err(file_error("write the report", &path, &io::ErrorKind::IsADirectory.into()));
        }
    }
    Ok(())
}

fn print_missed_gates(gate_reports: &[GateReport]) {
    for report in gate_reports.iter().filter(|report| !report.met) {
        let GateReport { gate, wanted, found, .. } = report;
        let text = format_args!("gate {gate} not met: wanted {wanted}, found {found}");
        output::error("gate not met", report, &EscapedLines::single(text));
    }
}

/// The exit code. A missed gate takes precedence over failed transcripts. `refused` is the number of transcripts that
/// failed for lack of trust or consent. If all failures are of this kind, the exit code is, too.
fn exit_code(tally: &Tally, gate_reports: &[GateReport], refused: u64) -> Exit {
    let max_failures = batch::Gate::MaxFailures.as_str();
    if gate_reports.iter().any(|report| !report.met) {
        Exit::Gate
    } else if tally.total.failed == 0 || gate_reports.iter().any(|report| report.gate == max_failures) {
        Exit::Done
    } else if tally.total.failed == refused {
        Exit::NotTrusted
    } else {
        Exit::SomeFailed
    }
}

fn interrupted(args: &Args) -> Report {
    Report::new(Exit::Interrupted, "interrupted", Some(&resume_hint(args)))
}

/// The hint after a run that did not process every transcript.
fn resume_hint(args: &Args) -> String {
    let action = match &args.report {
        Some(_) => "run the same command with --resume",
        None => "run the same command again",
    };
    format!("to continue, {action}; finished transcripts are skipped")
}

/// Writes the requested reports.
fn write_reports(
    args: &Args,
    environment: &Environment,
    lines: Option<&mut ReportLines>,
    written: &Written<'_>,
) -> Result<(), Report> {
    let Some(lines) = lines else { return Ok(()) };
    if args.run_args.json {
        output::data(|out| lines.write(written, out))?;
    }
    if let Some(path) = &args.junit {
        let suite = Suite { total: written.total, gates: written.gates };
        let path = environment.cwd.join(path);
        let result = lines.put(&path, |lines, out| batch::write_junit(lines, &suite, out));
        result.map_err(|error| file_error("write the JUnit report", &path, &error))?;
    }
    if let Some(path) = &args.report {
        let path = environment.cwd.join(path);
        lines.finish(written, &path).map_err(|error| file_error("write the report", &path, &error))?;
    }
    Ok(())
}

/// The report of an operation, such as "write the report", that failed on a file.
fn file_error(operation: &str, path: &Path, error: &io::Error) -> Report {
    let message = format!("failed to {operation} {}", path.display());
    let mut report = Report::new(Exit::Transcript, message, None);
    report.causes.push(error.to_string());
    report
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The limit of printed hints. The report has all of them.
const HINTS_MAX: usize = 8;

/// Prints failures and warnings of transcripts, and counts the results.
struct BatchReporter {
    tally: Tally,
    bar: Bar,
    quiet: bool,
    /// Transcripts that failed for lack of trust or consent.
    refused: u64,
    /// The printed hints, to print each once.
    hints: BTreeSet<String>,
    is_interrupted: bool,
}

impl BatchReporter {
    /// Reports the paths that cannot be searched. Their entries in the report are after those of the transcripts.
    fn report_faults(&mut self, files: &Files, lines: Option<&ReportLines>) -> io::Result<()> {
        for (index, fault) in (files.len()..).zip(files.faults()) {
            let report = batch::fault(fault);
            if let Some(lines) = lines {
                lines.add(index, &serde_json::to_vec(&report).unwrap_or_default())?;
            }
            self.report(&report, false);
        }
        Ok(())
    }

    fn handle(&mut self, event: BatchEvent, files: &Files, lines: Option<&ReportLines>) -> io::Result<()> {
        match event {
            BatchEvent::Finished { place: index, entry: report, line, resumed } => {
                self.bar.advance(files.bytes_of(index));
                self.report(&report, resumed);
                if let Some(lines) = lines {
                    lines.add(index, &line)?;
                }
            }
            // A second interrupt ends the run at once.
            BatchEvent::Interrupted if self.is_interrupted => {}
            BatchEvent::Interrupted => {
                self.is_interrupted = true;
                let text = "interrupted: finishing the transcripts in progress; interrupt again to stop now";
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
                let hint = error.hint.iter().map(|hint| hint.replace("\n  ", " ")).collect::<String>();
                if self.hints.len() < HINTS_MAX && self.hints.insert(hint.clone()) {
                    let line = format_args!("hint: {hint}");
                    self.print(LogLevel::Info, "hint", &json!({ "hint": hint }), line);
                }
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
