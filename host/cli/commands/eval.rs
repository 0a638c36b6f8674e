//! `jp-compact eval`: measures how many of the needed names the view of each strategy keeps, and the cost.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_config::{self as config, JpSettings};
use jp_compact_core::select::Selection;
use jp_compact_engine::compact::{self, OnLowSaving, PreparedStrategy, RunSettings};
use jp_compact_engine::consent::Asker;
use jp_compact_eval::{
    EvalGates, EvalOptions, EvalRequest, Evaluation, RecallGate, RowKind, RowSpec, TypedRow, prepare_run,
};
use jp_compact_page::{Texts, eval_page};
use jp_compact_reports::eval as eval_report;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{EvalReport, EvalStatus};

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::html_file;
use crate::human::{counted, relative_path};
use crate::input::{find_transcripts, no_transcript};
use crate::output;
use crate::prices::read_prices;
use crate::setup::Setup;
use jp_compact_help::progress::EvalBar;

/// Measure how much needed information strategies keep
///
/// Each strategy compacts the beginning of each conversation. The rest of the conversation shows which paths, numbers,
/// and names were needed: the assistant used them again before the user or a tool repeated them. The table shows which
/// part of them the view still has, the saved tokens, and the cost. No transcript is changed.
///
/// The row `none` keeps everything, and the row `drop-all` nothing. docs/reference/evidence.md has the definitions.
#[derive(Debug, Parser)]
#[command(
    mut_arg("json", |arg| arg.help("Print one JSON document")),
    mut_arg("prices", |arg| arg.help_heading("Evaluation")),
    mut_arg("long_cache", |arg| arg.help_heading("Evaluation")),
    mut_arg("dry_run", |arg| arg.hide(true)),
    mut_arg("lock_timeout", |arg| arg.hide(true)),
    mut_arg("allow_invalid", |arg| arg.hide(true)),
    after_help = "Examples:\n  jp-compact eval session.jsonl -s strip-tools -s strip-tools:mode=strip-responses\n  jp-compact eval conversations/ -s ./my-strategy --require-recall 90:path --require-saving 40\n  jp-compact eval session.jsonl -s summarize@answers.jsonl --rounds --json > report.json"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, or another agent's file
    ///
    /// Any other folder is searched for transcripts.
    #[arg(value_name = "PATH", required = true)]
    transcripts: Vec<OsString>,
    /// Evaluate this strategy; repeat the option for several rows
    ///
    /// A path contains a `/`, such as ./strip-all. Options follow a colon: NAME:key=value,key=value or NAME:{"key":...}
    /// or NAME:@FILE. With NAME@FILE or NAME@FILE:OPTIONS, the answers of models come from FILE, which --llm-record
    /// wrote.
    #[arg(
        help_heading = "Selection",
        short,
        long = "strategy",
        value_name = "NAME|PATH[@ANSWERS][:OPTIONS]",
        required = true
    )]
    strategies: Vec<TypedRow>,
    /// Cut where N % of the tool output has been seen [default: 40, 60, 80]
    #[arg(help_heading = "Evaluation", long = "cut", value_name = "N", value_parser = parse_cut)]
    cuts: Vec<f64>,
    /// Also compact 1, 2, 3, 5, and 10 times up to the last cut
    #[arg(help_heading = "Evaluation", long)]
    rounds: bool,
    /// Replay the sessions with a context window of N tokens
    #[arg(help_heading = "Evaluation", long, value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,
    /// Compact a replayed session above PCT % of the window
    #[arg(help_heading = "Evaluation", long, value_name = "PCT", default_value = "75", value_parser = parse_percent)]
    threshold: f64,
    /// Report the time of each row. The output then differs between runs
    #[arg(help_heading = "Evaluation", long)]
    timings: bool,
    /// Use N threads [default: one for each core]
    #[arg(help_heading = "Evaluation", short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Also write one HTML page without scripts to FILE
    ///
    /// The page has text of the transcripts. It loads nothing from the network.
    #[arg(help_heading = "Evaluation", long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leave the text of the transcripts out of the page
    ///
    /// Numbers, and names of strategies, tools, and files stay.
    #[arg(help_heading = "Evaluation", long, requires = "html")]
    no_text: bool,
    #[command(flatten)]
    gates: GateArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

/// Gates: conditions that every strategy must meet. Otherwise the exit code is 3.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gates")]
struct GateArgs {
    /// Require a recall of N % for each of paths, numbers, and identifiers
    ///
    /// With a class, the recall of that class: path, number, identifier, word, command, error, quote, or constraint.
    #[arg(long, value_name = "N[:CLASS]")]
    require_recall: Vec<RecallGate>,
    /// Require that the views save at least PCT % of the prefixes
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    require_saving: Option<f64>,
    /// Require that a compaction pays back after at most N requests
    #[arg(long, value_name = "N", value_parser = parse_requests)]
    require_break_even: Option<f64>,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a number from 0 to 100".into()),
    }
}

fn parse_cut(text: &str) -> Result<f64, String> {
    match parse_percent(text) {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent),
        _ => Err("expected a number above 0 and below 100".into()),
    }
}

fn parse_requests(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(requests) if f64::is_finite(requests) && requests >= 0.0 => Ok(requests),
        _ => Err("expected a number of requests".into()),
    }
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let gates = EvalGates {
        recall: args.gates.require_recall.clone(),
        saving: args.gates.require_saving,
        break_even: args.gates.require_break_even,
    };
    let options = options(args, environment)?;
    let transcripts = find_transcripts(&args.transcripts, environment);
    if transcripts.is_empty() {
        return Err(no_transcript(&args.transcripts));
    }
    let mut evaluation = evaluate(args, &options, &transcripts, quiet, environment)?;
    if let Some(failure) = failure_of_all(&evaluation.report) {
        return Err(failure);
    }
    make_paths_relative(&mut evaluation.report, environment);
    let gates_met = gates.check(&mut evaluation.report);
    write_page(args, &evaluation, environment)?;
    let report = evaluation.report;
    if args.run_args.json {
        output::json_line(&report)?;
    } else {
        output::text(&eval_report::text(&report))?;
    }
    conclude(&report, gates_met, args.run_args.json)
}

/// Evaluates without gates and without output.
pub(crate) fn measure(args: &Args, quiet: bool, environment: &Environment) -> Result<EvalReport, Report> {
    let transcripts = find_transcripts(&args.transcripts, environment);
    let evaluation = evaluate(args, &options(args, environment)?, &transcripts, quiet, environment)?;
    match failure_of_all(&evaluation.report) {
        Some(failure) => Err(failure),
        None => Ok(evaluation.report),
    }
}

fn write_page(args: &Args, evaluation: &Evaluation, environment: &Environment) -> Result<(), Report> {
    let Some(file) = &args.html else { return Ok(()) };
    let texts = if args.no_text { Texts::Hidden } else { Texts::Shown };
    html_file::write(file, &eval_page(evaluation, texts), environment)
}

fn options(args: &Args, environment: &Environment) -> Result<EvalOptions, Report> {
    let mut options = EvalOptions {
        rounds: args.rounds,
        timings: args.timings,
        page: args.html.is_some(),
        window: args.window,
        threshold_percent: args.threshold,
        ..EvalOptions::new(args.run_args.counting.tokens.estimator(environment)?)
    };
    if !args.cuts.is_empty() {
        options.cuts.clone_from(&args.cuts);
    }
    if let Some(prices) = read_prices(&args.run_args, environment)? {
        options.prices = prices;
    }
    Ok(options)
}

/// A row with its planner.
struct PlannedRow<'a> {
    /// The index of the planner.
    planner: usize,
    typed: &'a TypedRow,
    strategy: PreparedStrategy,
}

fn evaluate(
    args: &Args,
    options: &EvalOptions,
    transcripts: &[OsString],
    quiet: bool,
    environment: &Environment,
) -> Result<Evaluation, Report> {
    let (files, sets) = (&args.run_args.configured.files, &args.run_args.configured.sets);
    let jp = JpSettings::read(environment, None, None);
    let config = config::load_for_all(environment, transcripts, files, sets, jp)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut setups: Vec<(Option<&PathBuf>, Setup<'_>)> = Vec::new();
    let mut planned = Vec::new();
    for typed in &args.strategies {
        let answers = typed.answers.as_ref();
        let planner = match setups.iter().position(|(file, _)| *file == answers) {
            Some(planner) => planner,
            None => {
                let run_args = run_args_of(args, answers, environment);
                setups.push((answers, Setup::open(&run_args, true, quiet, Asker::User, environment)?));
                setups.len() - 1
            }
        };
        let (_, setup) = &mut setups[planner];
        let mut strategies =
            runtime.block_on(setup.planner.prepare_typed(std::slice::from_ref(&typed.spec)))?;
        let Some(strategy) = strategies.pop() else { continue };
        planned.push(PlannedRow { planner, typed, strategy });
    }
    let run_settings = |row: &PlannedRow<'_>| -> RunSettings {
        let (_, setup) = &setups[row.planner];
        let strategies = vec![row.strategy.clone()];
        let mut run =
            setup.planner.run_settings(strategies, &config, Selection::default(), OnLowSaving::Warn);
        prepare_run(&mut run);
        run.io.sessions = setup.planner.thread_sessions();
        run
    };
    // A missing consent concerns every transcript, so it is reported before the first one is read.
    for row in &planned {
        run_settings(row).allow()?;
    }
    let controls = RowSpec::fixed_controls();
    let rows: Vec<RowSpec> = controls.into_iter().chain(planned.iter().map(row_spec)).collect();
    let make_runs = || {
        let controls = rows.iter().take(rows.len() - planned.len()).map(|_| None);
        controls.chain(planned.iter().map(|row| Some(run_settings(row)))).collect()
    };
    let paths: Vec<PathBuf> = transcripts.iter().map(PathBuf::from).collect();
    let format = args.run_args.input.format;
    let request = EvalRequest {
        transcripts: &paths,
        rows: &rows,
        options,
        jobs: args.jobs.map_or_else(core_count, NonZero::get),
        open: &|path| compact::open_as(path.as_os_str(), format, environment),
        make_runs: &make_runs,
        describe: &|error| Report::from(error).document(),
    };
    let bar = EvalBar::new(output::hides_progress(quiet, environment), (paths.len() * rows.len()) as u64);
    let evaluation = jp_compact_eval::evaluate(&request, |rows| bar.add_rows(rows as u64));
    bar.finish();
    runtime.shutdown_background();
    evaluation.map_err(|error| Report::of_system("failed to start a thread", &error))
}

/// Returns the arguments of a run. The recorded answers of a row replace the answers of `--llm-replay`.
fn run_args_of(args: &Args, answers: Option<&PathBuf>, environment: &Environment) -> RunArgs {
    let mut run_args = args.run_args.clone();
    if let Some(file) = answers {
        run_args.models = run_args.models.with_answers(environment.cwd.join(file));
    }
    run_args
}

fn row_spec(row: &PlannedRow<'_>) -> RowSpec {
    RowSpec {
        kind: RowKind::Strategy,
        name: row.strategy.described.description.name.clone(),
        label: row.typed.typed.clone(),
        options: row.strategy.options.clone(),
        answers: row.typed.answers.as_ref().map(|file| file.to_string_lossy().into_owned()),
    }
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Replaces absolute paths. Otherwise a report would depend on the folder of the checkout.
fn make_paths_relative(report: &mut EvalReport, environment: &Environment) {
    let make_relative = |path: &mut String| *path = relative_path(Path::new(&*path), environment);
    report.transcripts.iter_mut().for_each(|transcript| make_relative(&mut transcript.path));
    report.strategies.iter_mut().filter_map(|row| row.failed_on.as_mut()).for_each(make_relative);
}

/// Returns the first failure if no transcript could be read.
fn failure_of_all(report: &EvalReport) -> Option<Report> {
    let mut failures = report.transcripts.iter().map(|transcript| transcript.error.as_ref());
    let first = failures.next()??;
    failures.all(|failure| failure.is_some()).then(|| Report::from_document(first))
}

/// Returns the exit code. A missed gate takes precedence, unless only failed strategies miss it.
fn conclude(report: &EvalReport, gates_met: bool, is_printed: bool) -> Result<Exit, Report> {
    let is_failed = |label: &str| {
        let mut rows = report.strategies.iter();
        rows.any(|row| row.label == label && row.status == EvalStatus::Failed)
    };
    let misses = report.gates.iter().flat_map(|gate| &gate.failures);
    let failed_rows = report.strategies.iter().filter(|row| row.status == EvalStatus::Failed).count();
    let failed_transcripts = report.transcripts.iter().filter(|one| one.error.is_some()).count();
    let failure = if misses.clone().any(|miss| !is_failed(&miss.strategy)) || (!gates_met && failed_rows == 0)
    {
        let missed = report.gates.iter().filter(|gate| !gate.met).count();
        Report::new(Exit::Gate, format!("{} not met", counted(missed, "gate")), None)
    } else if failed_rows + failed_transcripts > 0 {
        let mut parts = Vec::new();
        if failed_rows > 0 {
            parts.push(counted(failed_rows, "strategy").replace("strategys", "strategies"));
        }
        if failed_transcripts > 0 {
            parts.push(counted(failed_transcripts, "transcript"));
        }
        Report::new(Exit::SomeFailed, format!("{} failed", parts.join(" and ")), None)
    } else {
        return Ok(Exit::Done);
    };
    Err(if is_printed { failure.printed() } else { failure })
}
