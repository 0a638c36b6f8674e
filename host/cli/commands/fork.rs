//! `jp-compact fork`: copies a conversation, or its last turns, to a new folder (RFD 064, "The `--compact` Flag on
//! `fork`"), or the view of another agent's session to a new session. It must not write to the source.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_core::fork::ForkEffect;
use jp_compact_engine::compact::{self, OnLowSaving, Opened, RunSettings};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::fork::{self, ForkPlan};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::ForkReport;
use jp_compact_store as store;
use jp_compact_transcripts::Format;
use serde_json::json;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, overlay_range, relative_path};
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;
use crate::reports::compaction;
use crate::selection::SelectionArgs;
use crate::session_fork::{self, SessionForkRequest};
use crate::session_source::{SessionSource, session_source};
use crate::setup::Setup;

/// Copy a conversation, or the view of another agent's session
///
/// A conversation of JP: events are copied byte for byte, including the config deltas before the first copied turn. In
/// the copy, that turn is turn 0. A policy is clipped to the copied turns. A summary that also covers other turns is
/// dropped, and a note reports it. The source is not changed. If --compact fails, the copy remains, without the
/// compaction.
///
/// A session of another agent: the copy is a new session with new ids, in the place where the agent looks for its
/// sessions. It has the events of the view, and does not depend on the source. The output is the command that resumes
/// the new session. If --compact fails, there is no copy.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact fork 17738399468 .jp/conversations/17738399470-shorter --last 5\n  jp-compact fork .jp/conversations/17738399468-review ./copy --compact=heavy\n  jp-compact fork 3dee0fbb --compact",
    mut_arg("focus", |argument| argument.requires("compact"))
)]
pub(crate) struct Args {
    /// A conversation, or a session: its path, or its id in `list`
    #[arg(value_name = "SESSION")]
    transcript: OsString,
    /// The new folder or file; it must not exist
    ///
    /// A conversation of JP requires it. [default: the place where the agent looks for its sessions]
    #[arg(value_name = "DEST")]
    dest: Option<PathBuf>,
    /// Copy only the last N turns of JP's conversation [default: all]
    #[arg(long, value_name = "N")]
    last: Option<NonZero<usize>>,
    /// Compact the copy with a profile or JP's inline form
    ///
    /// Without a value, this runs the default profile of the copy.
    #[arg(long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true)]
    compact: Option<String>,
    /// Hide this earlier fork from its agent when the new one is written
    ///
    /// FORK is a path or an id. The file of the fork gets the hidden name `.NAME.replaced` in the same folder. A
    /// session that is not a fork, and a fork that was written in the last minute, are refused.
    #[arg(long, value_name = "FORK")]
    replace: Option<OsString>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    args.selection.require(args.compact.is_some(), "--compact")?;
    match session_source(&args.transcript, args.run_args.input.format, environment)? {
        SessionSource::Opened(source) if source.stream.format() == Format::Jp => {
            fork_conversation(args, &source, quiet, environment)
        }
        session => fork_session(args, session, quiet, environment),
    }
}

/// Copies a session of another agent.
fn fork_session(
    args: &Args,
    source: SessionSource,
    quiet: bool,
    environment: &Environment,
) -> Result<Exit, Report> {
    if args.last.is_some() {
        let hint =
            "a session is copied as a whole; `--compact --keep-last N` compacts the turns before the last N";
        return Err(Report::new(Exit::Usage, "--last is only for JP's conversations", Some(hint)));
    }
    until_interrupted(async {
        let request = SessionForkRequest {
            dest: args.dest.as_deref(),
            profile: args.compact.as_deref(),
            selection: args.selection.selection(),
            run_args: &args.run_args,
            quiet,
            command: "fork",
            is_started: false,
            replace: args.replace.as_deref(),
            client: None,
        };
        let fork = session_fork::fork(source, &request, environment).await?;
        if args.run_args.json {
            output::json_line(&fork.document).map_err(|error| {
                Report::from(error)
                    .with_hint("`jp-compact list --forks` lists the forks that were made".to_owned())
            })?;
        } else {
            // After a dry run there is no session to resume.
            if !args.run_args.dry_run {
                output::texts([EscapedLines::single(&fork.session.resume)])?;
            }
            output::info("forked", &json!({ "report": fork.document }), &fork.text);
        }
        Ok(Exit::Done)
    })
}

/// Copies a conversation of JP.
fn fork_conversation(
    args: &Args,
    source: &Opened,
    quiet: bool,
    environment: &Environment,
) -> Result<Exit, Report> {
    if args.replace.is_some() {
        let hint = "name a fork of a session; `jp-compact list --forks` lists the forks";
        return Err(Report::new(Exit::Usage, "--replace does not accept JP's conversations", Some(hint)));
    }
    let Some(dest) = &args.dest else {
        let hint =
            "give the folder of the new conversation, for example .jp/conversations/17738399470-shorter";
        return Err(Report::new(Exit::Usage, "the folder of the new conversation is missing", Some(hint)));
    };
    let dest = store::check_destination(dest, environment)?;
    let plan = fork::plan(source, args.last.map(NonZero::get))?;
    let dry_run = args.run_args.dry_run;
    let mut document = plan.document(source, &dest, dry_run);
    let mut text = plan_text(source, &plan, &dest, dry_run, environment);
    let Some(profile) = &args.compact else {
        if !dry_run {
            fork::write(source, &plan, &dest, environment)?;
        }
        print(args, &document, &text)?;
        return Ok(Exit::Done);
    };
    until_interrupted(async {
        let mut setup = Setup::open(&args.run_args, false, quiet, Asker::User, environment)?;
        // This plan is made without the copy, so an error in it is reported before the copy exists.
        let mut copy = Opened::new(source.place.clone(), None, plan.stream.clone().into());
        let mut run = plan_run(&mut setup, profile, args, &copy).await?;
        // A dry run has no copy to append to.
        run.io.in_memory = dry_run;
        if !dry_run {
            fork::write(source, &plan, &dest, environment)?;
            copy = compact::open(dest.as_os_str(), environment)?;
            run = plan_run(&mut setup, profile, args, &copy).await?;
        }
        let outcome = compact::compact(&run, &copy).await;
        setup.planner.close().await;
        match outcome {
            Ok(mut report) => {
                if dry_run {
                    (report.path, report.id) = (dest.join("events.json"), None);
                }
                document.report = Some(compaction::document(&report, &run));
                text.append(&compaction::text(&report, &run, environment));
                print(args, &document, &text)?;
                Ok(Exit::Done)
            }
            Err(error) => {
                let report = Report::from(error);
                document.error = Some(report.document());
                print(args, &document, &text)?;
                Err(report.printed())
            }
        }
    })
}

/// Plans the compaction of the copy with the copy's configuration, and checks the consent to call a model.
async fn plan_run(
    setup: &mut Setup<'_>,
    profile: &str,
    args: &Args,
    copy: &Opened,
) -> Result<RunSettings, Report> {
    let config = setup.planner.config(copy)?;
    let selection = args.selection.selection();
    let run = setup.planner.plan_inline(profile, selection, &config, OnLowSaving::Warn).await?;
    run.allow()?;
    Ok(run)
}

fn print(args: &Args, document: &ForkReport, text: &EscapedLines) -> Result<(), Report> {
    if args.run_args.json {
        output::json_line(document)?;
    } else {
        output::info("forked", &json!({ "report": document }), text);
    }
    Ok(())
}

fn plan_text(
    source: &Opened,
    plan: &ForkPlan,
    dest: &Path,
    dry_run: bool,
    environment: &Environment,
) -> EscapedLines {
    let effects = &plan.fork.effects;
    let copied_turns = match plan.fork.removed_turns {
        0 => counted(plan.stream.turns(), "turn"),
        _ => format!("the last {} of {}", plan.stream.turns(), counted(source.stream.turns(), "turn")),
    };
    let verb = if dry_run { "would be copied" } else { "copied" };
    let mut text = EscapedLines::single(format_args!(
        "{}: {copied_turns} {verb} from {}, {}",
        relative_path(dest, environment),
        relative_path(source.place.path(), environment),
        counted(plan.stream.overlays().len(), "overlay")
    ));
    let clipped = effects.iter().filter(|effect| **effect == ForkEffect::Clipped).count();
    if clipped > 0 {
        text.line(format_args!("  {} clipped to the copied turns", counted(clipped, "overlay")));
    }
    let mut notes = Vec::new();
    for ((effect, overlay), number) in effects.iter().zip(source.stream.overlays()).zip(1..) {
        if *effect == ForkEffect::SummaryDropped {
            let range = overlay_range(overlay);
            notes.push(format!(
                "  note: dropped the summary of {range} (overlay {number}), because not all of its turns are copied"
            ));
        }
    }
    text.list("  ", notes.into_iter());
    text
}
