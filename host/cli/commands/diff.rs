//! `jp-compact diff`: shows what overlays remove, or what the overlays of a dry run would remove. It never writes to a
//! transcript.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use jp_compact_core::estimate::Estimate;
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::{Pairs, Position, Stream, TurnRange};
use jp_compact_diff::{
    Comparison, NoSuchOverlay, OverlayChoice, SizedChanges, StreamedChanges, entry_sizes, overlay_origins,
    view_tokens,
};
use jp_compact_engine::compact::{self, Opened, RunReport};
use jp_compact_engine::consent::Asker;
use jp_compact_page::{DiffPage, Texts, diff_page};
use jp_compact_reports::diff;
use jp_compact_reports::palette::Palette;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{CompactionReport, DiffReport, TokenCounts};

use crate::args::{RunArgs, StrategyChoiceArgs, typed_options};
use crate::error::Report;
use crate::exit::Exit;
use crate::html_file;
use crate::human::relative_path;
use crate::input::{InputTranscript, read_as, stdin_refused};
use crate::interrupt::until_interrupted;
use crate::output;
use crate::reports::compaction;
use crate::selection::SelectionArgs;
use crate::setup::Setup;

/// Show what overlays remove, or what a run would remove
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact diff 17738399468 | less -R\n  jp-compact diff session.jsonl --stat\n  jp-compact diff 17738399468 --overlay 2 --turn 4.10\n  jp-compact diff 17738399468 --strategy strip-tools --keep-last 1 --stat"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, another agent's file, or -
    ///
    /// `-` reads stdin. Without further options, the raw events are compared with the view of all overlays.
    transcript: OsString,
    /// Compare the view without and with these overlays of `jp-compact show`
    ///
    /// Later overlays are left out of both views. For one overlay, the tokens are those that `show` prints for it.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = overlay_number, conflicts_with_all = ["strategies", "profile", "compact", "dry_run", "from", "to", "keep_first", "keep_last", "keep_steps", "keep_tokens", "focus"])]
    overlay: Vec<usize>,
    /// Show only the events of this turn or step: N or N.STEP
    #[arg(long, value_name = "TURN")]
    turn: Option<Position>,
    /// Print a table with a line for each event, without texts
    #[arg(long)]
    stat: bool,
    /// Also write one HTML page without scripts to FILE
    ///
    /// The page has text of the conversation. It loads nothing from the network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Leave the text of the conversation out of the page
    ///
    /// Numbers, and names of strategies, tools, and files stay.
    #[arg(long, requires = "html")]
    no_text: bool,
    #[command(flatten)]
    choice: StrategyChoiceArgs,
    /// Compare with a run of a profile or of JP's inline form
    #[arg(help_heading = "Selection", long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true, conflicts_with_all = ["strategies", "profile"])]
    compact: Option<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

fn overlay_number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected the number of an overlay, 1 or more; `jp-compact show` lists them".into()),
    }
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if is_dry_run(args) {
        let (input, run) = until_interrupted(dry_run(args, quiet, environment))?;
        return report(args, &input, Some(&run), environment);
    }
    let input = read_as(&args.transcript, args.run_args.input.format, environment)?;
    report(args, &input, None, environment)
}

/// Returns whether strategies run: with `--dry-run`, or with an option that selects strategies, turns, or a focus.
fn is_dry_run(args: &Args) -> bool {
    let typed = typed_options(&args.choice, args.selection.selection(), args.compact.as_deref());
    let has_strategies = !typed.strategies.is_empty() || typed.profile.is_some() || typed.inline.is_some();
    args.run_args.dry_run || has_strategies || !typed.selection.is_empty() || args.run_args.focus.is_some()
}

/// A run that appended nothing.
struct DryRun {
    report: RunReport,
    document: CompactionReport,
}

/// Runs the strategies without writing. A model is not asked, but its recorded answers are used.
async fn dry_run(
    args: &Args,
    quiet: bool,
    environment: &Environment,
) -> Result<(InputTranscript, DryRun), Report> {
    if args.transcript == "-" {
        return Err(stdin_refused("cannot run strategies on stdin (`-`)"));
    }
    let mut setup = Setup::open(&args.run_args, false, quiet, Asker::User, environment)?;
    setup.planner.prepare_typed(&args.choice.strategies).await?;
    let typed = typed_options(&args.choice, args.selection.selection(), args.compact.as_deref());
    let opened = setup.read(&args.transcript)?;
    let mut settings = setup.planner.plan(&typed, &opened).await?;
    settings.io.in_memory = true;
    settings.io.dry_run = !settings.io.models.replays();
    let report = compact::compact(&settings, &opened).await?;
    setup.planner.close().await;
    let document = compaction::document(&report, &settings);
    let Opened { place, stream, .. } = opened;
    let input = InputTranscript { path: place.path().to_owned(), id: place.id().map(str::to_owned), stream };
    Ok((input, DryRun { report, document }))
}

fn report(
    args: &Args,
    input: &InputTranscript,
    run: Option<&DryRun>,
    environment: &Environment,
) -> Result<Exit, Report> {
    let stream = input.stream.stream();
    let range = args.turn.map(|position| range_of(stream, position)).transpose()?;
    let choice = choice(args, input, run)?;
    let pairs = Pairs::new(stream);
    let comparison = Comparison::new(stream, &pairs, &choice);
    let estimator = args.run_args.counting.tokens.estimator(environment)?;
    let estimate = Estimate::new(stream, estimator);
    let changes = SizedChanges::new(&comparison, &estimate, range);
    let tokens = match run {
        Some(run) => run.document.tokens,
        None => view_tokens(&comparison, &choice, &estimate),
    };
    let origins = origins(stream, run);
    let report = DiffReport {
        path: input.path.to_string_lossy().into_owned(),
        format: input.stream.format().to_string(),
        conversation_id: input.id.clone(),
        dry_run: run.is_some(),
        estimator: estimator.name().to_owned(),
        tokens,
        saved: tokens.saved_of_view(),
        events: changes.counts,
        overlays: changes.overlays(&choice.after, |index| origins.get(index).cloned().flatten()),
        declines: run.map(|run| run.document.declines.clone()).unwrap_or_default(),
        would: run.map(|run| run.document.would.clone()).unwrap_or_default(),
        nothing: run.and_then(|run| run.document.nothing.clone()),
        changes: StreamedChanges { changes: &changes, with_hunks: !args.stat },
    };
    if let Some(file) = &args.html {
        let entries = entry_sizes(&comparison, &estimate);
        let name = input.id.clone().unwrap_or_else(|| relative_path(&input.path, environment));
        let page = DiffPage { name: &name, report: &report, changes: &changes, entries: &entries };
        let texts = if args.no_text { Texts::Hidden } else { Texts::Shown };
        html_file::write(file, &diff_page(&page, texts), environment)?;
    }
    if args.run_args.json {
        output::json_line(&report)?;
        return Ok(Exit::Done);
    }
    let palette = Palette::new(output::has_colors_on_stdout());
    let jp_note = jp_note(stream, &choice, &tokens);
    let sums = diff::sums(&report, jp_note.as_deref());
    if args.stat {
        output::texts([diff::stat(&changes, &palette), sums])?;
    } else {
        let texts = changes.changes.iter().map(|change| diff::change_text(&changes, change, &palette));
        output::texts(texts.chain([sums]))?;
    }
    Ok(Exit::Done)
}

/// Returns the range of a turn or step of the stream.
fn range_of(stream: &Stream, position: Position) -> Result<TurnRange, Report> {
    let turns = stream.turns();
    let steps = stream.steps().count(position.turn);
    let exists = position.turn < turns && position.step.is_none_or(|step| step < steps);
    match TurnRange::between(position, position).filter(|_| exists) {
        Some(range) => Ok(range),
        None => {
            let turn = position.turn;
            let hint = match (position.step, turns, steps) {
                (_, 0, _) => "the transcript has no turns".to_owned(),
                (Some(_), _, 0) if turn < turns => format!("turn {turn} has no steps"),
                (Some(_), _, 1..) if turn < turns => {
                    format!("the steps of turn {turn} are 0 to {}; `show --steps` lists them", steps - 1)
                }
                _ => format!("the turns are 0 to {}", turns - 1),
            };
            Err(Report::new(Exit::Usage, format!("the transcript has no {}", place(position)), Some(&hint)))
        }
    }
}

fn place(position: Position) -> String {
    let noun = if position.step.is_some() { "step" } else { "turn" };
    format!("{noun} {position}")
}

/// Returns the overlays whose views are compared.
fn choice(args: &Args, input: &InputTranscript, run: Option<&DryRun>) -> Result<OverlayChoice, Report> {
    let overlays = input.stream.overlays();
    if let Some(run) = run {
        let new = run.report.new_overlays().map(|(_, new)| new.overlay.clone());
        return Ok(OverlayChoice::added(overlays, new));
    }
    if args.overlay.is_empty() {
        return Ok(OverlayChoice::all(overlays));
    }
    OverlayChoice::of_numbers(overlays, &args.overlay).map_err(|NoSuchOverlay(number)| {
        let (path, overlays) = (input.path.clone(), overlays.len());
        compact::Error::NoSuchOverlay { path, number, overlays }.into()
    })
}

/// Returns the strategy of each overlay and its version, from the receipts and from the run.
fn origins(stream: &Stream, run: Option<&DryRun>) -> Vec<Option<(String, String)>> {
    let mut origins = overlay_origins(stream);
    for (step, _) in run.iter().flat_map(|run| run.report.new_overlays()) {
        origins.push(Some((step.strategy.clone(), step.version.clone())));
    }
    origins
}

/// Explains the difference between the compared views and the views that JP sends.
fn jp_note(stream: &Stream, choice: &OverlayChoice, tokens: &TokenCounts) -> Option<String> {
    let jp = tokens.jp.filter(|_| stream.is_jp())?;
    let difference = jp_view_with(stream, &Pairs::new(stream), &choice.after)?.difference;
    Some(format!("JP sends {} -> {} tokens: {difference}", jp.view_before, jp.view_after))
}
