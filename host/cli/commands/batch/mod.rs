//! `jp-compact batch`: compacts folders of transcripts in one run, with a report and gates for CI.

mod finish;
mod ndjson;
mod reporter;

use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use jp_compact_engine::batch::{
    self, BatchConfig, FoundFiles, Gates, PreviousReport, ReportLines, Shard, Tally, ViewFolder,
};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::{BatchPlanner, CommandLineChoice};
use jp_compact_runtime::environment::Environment;

use crate::args::{Providers, RunArgs, StrategyChoiceArgs, providers, typed_options};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::SHUTDOWN;
use crate::output;
use crate::selection::SelectionArgs;
use crate::setup::Setup;
use finish::{FinishedBatch, file_error};
use jp_compact_help::progress::BatchProgress;
use reporter::BatchReporter;

/// Compact folders of transcripts in one run
///
/// Folders are searched recursively, except for ignored files (.gitignore). A PATH may also be a transcript or a pattern.
/// Overlays are appended to the transcripts. With --out, views are written to another folder instead. A transcript that
/// already has these overlays is skipped. A failing transcript is reported; the others continue.
#[derive(Debug, Parser)]
#[command(
    mut_arg("strategies", |arg| arg.long_help(
        "Run this strategy; repeat the option for several\n\n[default: the strategies of the profile]"
    )),
    mut_arg("profile", |arg| arg.long_help(None)),
    mut_arg("json", |arg| arg.help("Print the report to stdout, as JSON like --report")),
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
    /// During the run, FILE.part has one line for each finished transcript.
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
    /// Append policies even if the view then shows more tokens
    ///
    /// Without this option, such policies are declined.
    #[arg(long)]
    restore: bool,
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
    fn to_gates(&self, require_constraints: bool) -> Gates {
        Gates {
            require_saving: self.require_saving,
            require_valid: self.require_valid.as_ref().map(|providers| providers.0.clone()),
            require_constraints,
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
            restore: args.restore,
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
    let planner = BatchPlanner::open(typed(args), args.out.is_some(), args.restore, planner)?;
    let files = FoundFiles::gather(&args.paths, args.out.as_deref(), args.shard, environment);
    planner.check_profile((0..files.len()).map(|index| files.path(index)))?;
    let report_path = args.report.as_ref().map(|path| environment.cwd.join(path));
    let previous = read_previous_report(args, report_path.as_deref())?;
    let mut lines = begin_report(args, report_path.as_deref(), environment)?;
    let out = args.out.as_deref().map(|out| ViewFolder::new(out, environment));
    let gates = args.gates.to_gates(args.run_args.require_constraints);
    let config = BatchConfig {
        files: &files,
        format: args.run_args.input.format,
        jobs: args.jobs.map_or_else(core_count, NonZero::get),
        out: out.as_ref(),
        previous: previous.as_ref(),
        gates: &gates,
        report_lines: lines.as_ref(),
        checks_lint: lines.is_some() || gates.require_valid.is_some(),
        environment,
        shut_down: &SHUTDOWN,
    };
    let bar = BatchProgress::new(
        output::hides_progress(quiet, environment),
        files.len() as u64,
        files.bytes(),
        &progress,
    );
    let mut reporter = BatchReporter::new(Tally::new(files.faults().len() as u64), bar, quiet);
    reporter.report_faults(&files, lines.as_ref())?;
    let run_result = batch::run(&planner, &config, &|error| Report::from(error).document(), |event| {
        reporter.handle(event, &files, lines.as_ref())
    });
    let sync_result = out.as_ref().map_or(Ok(()), ViewFolder::finish);
    reporter.bar.finish();
    sync_result.map_err(|error| Report::from(error).with_hint(finish::resume_hint(args).to_owned()))?;
    let BatchReporter { mut tally, refused, mut others, .. } = reporter;
    // The threads find the files in any order.
    others.sort_unstable();
    tally.total.elapsed_ms = (start.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    FinishedBatch {
        args,
        files: &files,
        gates: &gates,
        previous: previous.as_ref(),
        tally,
        refused,
        others,
        result: run_result,
        environment,
    }
    .conclude(lines.as_mut(), quiet)
}

fn read_previous_report(args: &Args, report_path: Option<&Path>) -> Result<Option<PreviousReport>, Report> {
    let Some(path) = report_path.filter(|_| args.resume) else { return Ok(None) };
    match PreviousReport::read(path, args.run_args.dry_run) {
        Ok(previous) => Ok(Some(previous)),
        Err(error) => Err(file_error("resume from the report", path, &error)),
    }
}

fn typed(args: &Args) -> CommandLineChoice<'_> {
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
    let estimator = args.run_args.counting.tokens.estimator(environment)?.name();
    let head = (env!("CARGO_PKG_VERSION"), args.run_args.dry_run, estimator);
    let shard = args.shard.map(Into::into);
    let lines = ReportLines::begin(report_path, args.resume, &environment.temp_dir, head, shard);
    let path = report_path.unwrap_or(&environment.temp_dir);
    lines.map(Some).map_err(|error| file_error("begin the report", path, &error))
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
            let hint = "each view would replace its transcript; give --out another folder";
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

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}
