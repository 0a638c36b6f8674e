//! `jp-compact query`: asks the conversation's model and appends the turn. It can compact before the turn, and it
//! compacts after the turn if a compaction is due (RFD 064, "The `--compact` Flag on `query`").

use std::ffi::OsString;

use clap::Parser;
use jp_compact_config::Config;
use jp_compact_core::append::NewTurn;
use jp_compact_core::select::RequestedSelection;
use jp_compact_engine::compact::{self, OnLowSaving, Opened};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::AutoRequest;
use jp_compact_engine::query;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::Completion;
use jp_compact_schema::document::{CompactionReport, QueryReport};
use serde_json::json;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::input::open_as;
use crate::interrupt::append_until_interrupted;
use crate::lines::EscapedLines;
use crate::reports::compaction;
use crate::selection::SelectionArgs;
use crate::setup::Setup;
use crate::{automatic, escape, output};

/// Ask the conversation's model, and append the turn
///
/// The model receives the view and TEXT. It has no tools; earlier calls and their results are sent as text. Its answer
/// is printed on stdout. With --compact, the conversation is compacted first, unless that saves too little. That
/// compaction remains even if the model fails. After the turn, the conversation is compacted if `auto` is enabled and a
/// compaction is due.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact query 17738399468 --compact -- Continue\n  jp-compact query 17738399468 --compact=heavy --model anthropic/claude-haiku-4-5 -- Why?"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, or an id
    #[arg(value_name = "TRANSCRIPT")]
    transcript: OsString,
    /// The message to the model
    #[arg(value_name = "TEXT", value_parser = nonblank)]
    text: String,
    /// Compact first, with a profile or JP's inline form
    ///
    /// Without a value, this runs the default profile.
    #[arg(long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true)]
    compact: Option<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

fn nonblank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the prompt is empty".into());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    args.selection.require(args.compact.is_some(), "--compact")?;
    append_until_interrupted(args.run_args.dry_run, async {
        let mut setup = Setup::open(&args.run_args, false, quiet, Asker::Query, environment)?;
        let outcome = run_steps(args, quiet, &mut setup, environment).await;
        setup.planner.close().await;
        outcome.map(|()| Exit::Done)
    })
}

/// Compacts, asks the model, appends the turn, and compacts again if that is due.
async fn run_steps(
    args: &Args,
    quiet: bool,
    setup: &mut Setup<'_>,
    environment: &Environment,
) -> Result<(), Report> {
    let is_shown = !quiet && !args.run_args.json;
    let mut opened = open_as(&args.transcript, args.run_args.input.format, environment)?;
    let config = setup.planner.config(&opened)?;
    setup.planner.check_query_focus(args.compact.as_deref(), &config).await?;
    let mut document = QueryReport {
        path: opened.place.path().to_string_lossy().into_owned(),
        conversation_id: opened.place.id().map(str::to_owned),
        dry_run: args.run_args.dry_run,
        compaction: None,
        turn: None,
        model: None,
        answer: None,
        usage: None,
        auto: None,
        error: None,
    };
    if let Some(profile) = &args.compact {
        let (report, text) = compact_before(args, profile, setup, &config, &opened, environment).await?;
        if is_shown {
            output::info("compacted", &json!({ "report": report }), &text);
        }
        document.compaction = Some(report);
        opened = open_as(&args.transcript, args.run_args.input.format, environment)?;
    }
    let turn_outcome = if args.run_args.dry_run {
        if is_shown {
            let path = relative_path(opened.place.path(), environment);
            let text = format_args!("{path}: dry run, no model was called and no turn appended");
            let fields = json!({ "path": opened.place.path().to_string_lossy() });
            output::info("dry run", &fields, &EscapedLines::single(text));
        }
        query::check(&opened).map_err(Report::from)
    } else {
        ask_and_append(args, setup, &config, &opened, &mut document).await
    };
    if turn_outcome.is_ok() && !args.run_args.dry_run && config.auto.enabled {
        let request = AutoRequest {
            profile: None,
            context_window: args.run_args.models.context_window,
            selection: RequestedSelection::default(),
            estimator: args.run_args.counting.tokens.estimator(environment)?,
            foreign_auto: config.foreign_auto(),
        };
        match automatic::compact_if_due(&request, setup, &args.transcript, environment).await {
            Ok((report, text)) => {
                automatic::limit_warning(&report, environment)
                    .iter()
                    .for_each(|warning| output::warning(warning));
                if is_shown && (report.due || !report.always.is_empty()) {
                    output::info("checked the size", &json!({ "report": report }), &text);
                }
                document.auto = Some(report);
            }
            Err(report) => return Err(print_failure(args, document, report)?),
        }
    }
    match turn_outcome {
        Err(report) => Err(print_failure(args, document, report)?),
        Ok(()) if args.run_args.json => output::json_line(&document).map_err(Report::unprinted),
        Ok(()) => Ok(()),
    }
}

/// Compacts before the turn with a profile or an inline form, unless that saves too little.
async fn compact_before(
    args: &Args,
    profile: &str,
    setup: &mut Setup<'_>,
    config: &Config,
    opened: &Opened,
    environment: &Environment,
) -> Result<(CompactionReport, EscapedLines), Report> {
    let selection = args.selection.selection();
    let run = setup.planner.plan_inline(profile, selection, config, OnLowSaving::Decline).await?;
    let report = compact::compact(&run, opened).await?;
    Ok((compaction::document(&report, &run), compaction::text(&report, &run, environment)))
}

/// Asks the model, prints its answer, and appends the turn. The user has paid for the answer, so it is printed before
/// the append can fail.
async fn ask_and_append(
    args: &Args,
    setup: &Setup<'_>,
    config: &Config,
    opened: &Opened,
    document: &mut QueryReport,
) -> Result<(), Report> {
    let clock = args.run_args.now.map_or(Clock::System, Clock::Fixed);
    let asked_at = clock.now();
    let allowed = query::allow(setup.planner.models(), config, &setup.planner.consent(config))?;
    let answer = query::ask(opened, &args.text, setup.planner.models(), &allowed).await?;
    let Completion { text, model, usage } = &answer;
    document.model = Some(model.clone());
    document.answer = Some(text.clone());
    document.usage = *usage;
    if !args.run_args.json {
        output::data(|out| writeln!(out, "{}", escape::text(text.trim_end())))?;
    }
    let turn = NewTurn { request: &args.text, asked_at, response: text, answered_at: clock.now() };
    query::append(opened, &turn, args.run_args.lock_timeout).await?;
    document.turn = Some(opened.stream.turns());
    Ok(())
}

/// With `--json`, prints the failure in the document of the finished steps. Returns the report for the exit code.
fn print_failure(args: &Args, mut document: QueryReport, report: Report) -> Result<Report, Report> {
    if args.run_args.json {
        document.error = Some(report.document());
        output::json_line(&document).map_err(Report::unprinted)?;
    }
    Ok(report.printed())
}
