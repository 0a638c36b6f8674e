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
    running: RunArgs,
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
    #[arg(long, value_name = "PCT", value_parser = percent)]
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
    /// Succeed without any transcript
    ///
    /// Otherwise that is exit code 4, or 3 if there is a gate.
    #[arg(long)]
    allow_empty: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    number
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "expected a number from 0 to 100".into())
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
            running: &args.running,
        };
        return ndjson::run(&request, quiet, environment);
    }
    check(args, environment)?;
    let began = Instant::now();
    let Setup { planner, progress, .. } = Setup::open(&args.running, true, quiet, Asker::User, environment)?;
    let planner = BatchPlanner::open(typed(args), args.out.is_some(), planner)?;
    let files = Files::gather(&args.paths, args.out.as_deref(), args.shard, environment);
    planner.check_profile((0..files.len()).map(|place| files.path(place)))?;
    let report = args.report.as_ref().map(|path| environment.cwd.join(path));
    let known = match report.as_deref().filter(|_| args.resume) {
        Some(path) => {
            let known = PreviousReport::read(path, args.running.dry_run);
            Some(known.map_err(|error| unwritten("resume from the report", path, &error))?)
        }
        None => None,
    };
    let mut lines = begin_report(args, report.as_deref(), environment)?;
    let out = args.out.as_deref().map(|out| Out::new(out, environment));
    let gates = args.gates.to_gates();
    let config = BatchConfig {
        files: &files,
        format: args.running.input.format,
        jobs: args.jobs.map_or_else(cores, NonZero::get),
        out: out.as_ref(),
        previous: known.as_ref(),
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
    };
    let (first, mut interrupts) = (files.len(), 0);
    for (number, fault) in files.faults().iter().enumerate() {
        let report = batch::fault(fault);
        if let Some(lines) = &lines {
            lines.add(first + number, &serde_json::to_vec(&report).unwrap_or_default())?;
        }
        reporter.report(&report, false);
    }
    let ended = batch::run(&planner, &config, &|error| Report::from(error).document(), |event| {
        match event {
            BatchEvent::Finished { place, entry: report, line, resumed } => {
                reporter.bar.advance(files.bytes_of(place));
                reporter.report(&report, resumed);
                if let Some(lines) = &lines {
                    lines.add(place, &line)?;
                }
            }
            BatchEvent::Interrupted => {
                interrupts += 1;
                if interrupts == 1 {
                    let text =
                        "interrupted: finishing the transcripts in progress; interrupt again to stop now";
                    reporter.print(LogLevel::Warn, "interrupted", &json!({}), text);
                }
            }
        }
        Ok(())
    });
    let synced = out.as_ref().map_or(Ok(()), Out::finish);
    reporter.bar.finish();
    synced.map_err(|error| Report::from(error).with_hint(to_continue(args)))?;
    let BatchReporter { mut tally, refused, .. } = reporter;
    tally.total.elapsed_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let scope = match args.gates.allow_empty {
        true => GateScope::AllOrNothing,
        // The other shards are searched only if this one is empty.
        false if tally.total.transcripts == 0 && files.is_elsewhere(environment) => GateScope::Shard,
        false => GateScope::All,
    };
    let verdicts = tally.judge(&gates, scope);
    let complete = matches!(ended, Ok(BatchEnd::Whole));
    let is_empty = tally.total.transcripts == 0 && scope == GateScope::All && gates.is_empty();
    let failed = match ended.as_ref() {
        Err(error) => {
            Some(unwritten("write the report", report.as_deref().unwrap_or(Path::new("on stdout")), error))
        }
        Ok(_) if !complete => Some(interrupted(args)),
        Ok(_) => is_empty.then(|| empty(args)),
    };
    if ended.is_ok() {
        let error = failed.as_ref().map(Report::document);
        let error = error.as_ref();
        let written = Written { total: &tally.total, gates: &verdicts, error, complete };
        write(args, environment, lines.as_mut(), &written)?;
    }
    if !quiet {
        let text = EscapedLines::single(summary::summary(&tally, &args.running));
        let fields = json!({ "dry_run": args.running.dry_run, "total": tally.total });
        output::info("finished the batch", &fields, &text);
    }
    if let Some(failed) = failed {
        return Err(if ended.is_ok() { failed.printed() } else { failed });
    }
    let is_nothing = files.is_empty() && scope != GateScope::Shard && !files.is_elsewhere(environment);
    match verdict(&tally, &verdicts, refused) {
        // Only paths that do not exist: nothing was done, and this is not a failure of some transcripts.
        Exit::SomeFailed if is_nothing => Ok(Exit::Transcript),
        exit => Ok(exit),
    }
}

fn typed(args: &Args) -> Typed<'_> {
    typed_options(&args.choice, args.selection.selection(), None)
}

/// The report that collects the lines, if the user wants one.
fn begin_report(
    args: &Args,
    report: Option<&Path>,
    environment: &Environment,
) -> Result<Option<ReportLines>, Report> {
    if report.is_none() && args.junit.is_none() && !args.running.json {
        return Ok(None);
    }
    let estimator = args.running.counting.tokens.estimator().name();
    let head = (env!("CARGO_PKG_VERSION"), args.running.dry_run, estimator);
    let shard = args.shard.map(Into::into);
    let lines = ReportLines::begin(report, args.resume, &environment.temp_dir, head, shard);
    let path = report.unwrap_or(&environment.temp_dir);
    lines.map(Some).map_err(|error| unwritten("begin the report", path, &error))
}

fn empty(args: &Args) -> Report {
    let paths: Vec<_> = args.paths.iter().map(|path| path.to_string_lossy()).collect();
    let message = format!("found no transcript in {}", paths.join(", "));
    Report::new(Exit::Transcript, message, Some("`--allow-empty` makes this a success"))
}

/// Rejects wrong arguments before a transcript is read.
fn check(args: &Args, environment: &Environment) -> Result<(), Report> {
    let at = |path: &Path| environment.cwd.join(path);
    let wrong = |message: &str, hint: &str| Err(Report::new(Exit::Usage, message, Some(hint)));
    if args.paths.iter().any(|path| path == "-") {
        return wrong(
            "cannot read paths from stdin (`-`)",
            "`jp-compact batch --ndjson` reads records from stdin",
        );
    }
    if args.report.is_some() && args.report.as_deref().map(at) == args.junit.as_deref().map(at) {
        return wrong("--report and --junit name the same file", "give each of them its own file");
    }
    if let Some(out) = args.out.as_deref().and_then(|out| at(out).canonicalize().ok())
        && args.paths.iter().any(|path| at(Path::new(path)).canonicalize().is_ok_and(|path| path == out))
    {
        let hint = "a view has the relative path of its transcript; give --out another folder";
        return wrong("--out is the folder of the transcripts", hint);
    }
    for path in [&args.report, &args.junit].into_iter().flatten().map(|path| at(path)) {
        if path.is_dir() {
            return Err(unwritten("write the report", &path, &io::ErrorKind::IsADirectory.into()));
        }
    }
    Ok(())
}

/// The exit code. A missed gate precedes failed transcripts. If every failure is for lack of trust or consent, so is the
/// exit code, because the transcripts are valid.
fn verdict(tally: &Tally, verdicts: &[GateReport], refused: u64) -> Exit {
    let missed = verdicts.iter().filter(|gate| !gate.met);
    let mut exit = Exit::Done;
    for missed in missed {
        let GateReport { gate, wanted, found, .. } = missed;
        let text = format_args!("gate {gate} not met: wanted {wanted}, found {found}");
        output::error("gate not met", &missed, &EscapedLines::single(text));
        exit = Exit::Gate;
    }
    let allowed = verdicts.iter().any(|gate| gate.gate == batch::Gate::MaxFailures.as_str());
    match tally.total.failed {
        0 => exit,
        _ if exit != Exit::Done || allowed => exit,
        failed if failed == refused => Exit::NotTrusted,
        _ => Exit::SomeFailed,
    }
}

fn interrupted(args: &Args) -> Report {
    Report::new(Exit::Interrupted, "interrupted", Some(&to_continue(args)))
}

/// The hint after a run that did not end.
fn to_continue(args: &Args) -> String {
    let how = match &args.report {
        Some(_) => "run the same command with --resume",
        None => "run the same command again",
    };
    format!("to continue, {how}; finished transcripts are skipped")
}

/// Writes the requested reports.
fn write(
    args: &Args,
    environment: &Environment,
    lines: Option<&mut ReportLines>,
    written: &Written<'_>,
) -> Result<(), Report> {
    let Some(lines) = lines else { return Ok(()) };
    if args.running.json {
        output::data(|out| lines.write(written, out))?;
    }
    if let Some(path) = &args.junit {
        let suite = Suite { total: written.total, gates: written.gates };
        let path = environment.cwd.join(path);
        let done = lines.put(&path, |lines, out| batch::write_junit(lines, &suite, out));
        done.map_err(|error| unwritten("write the JUnit report", &path, &error))?;
    }
    if let Some(path) = &args.report {
        let path = environment.cwd.join(path);
        lines.finish(written, &path).map_err(|error| unwritten("write the report", &path, &error))?;
    }
    Ok(())
}

fn unwritten(doing: &str, path: &Path, error: &io::Error) -> Report {
    let mut report = Report::new(Exit::Transcript, format!("failed to {doing} {}", path.display()), None);
    report.causes.push(error.to_string());
    report
}

fn cores() -> usize {
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
}

impl BatchReporter {
    fn print(
        &self,
        level: LogLevel,
        message: &'static str,
        fields: &impl Serialize,
        line: impl std::fmt::Display,
    ) {
        self.bar.suspend(|| output::log(level, message, fields, &EscapedLines::single(line)));
    }

    fn report(&mut self, report: &TranscriptReport, resumed: bool) {
        self.tally.add(report, resumed);
        if let Some(error) = &report.error {
            let causes: String = error.causes.iter().map(|cause| format!(": {cause}")).collect();
            let line = format_args!("failed: {}: {}{causes}", report.path, error.message);
            let failure = json!({ "path": report.path, "error": error });
            self.print(LogLevel::Error, "failed", &failure, line);
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
                self.print(
                    LogLevel::Error,
                    "gate missed",
                    &fields,
                    format_args!("gate {gate}: {path}: {found}"),
                );
            }
        }
    }
}
