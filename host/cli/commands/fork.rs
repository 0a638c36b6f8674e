//! `jp-compact fork`: a conversation's last turns in a folder of their own (RFD 064, "The `--compact` Flag on
//! `fork`").

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_core::fork::Fate;
use jp_compact_core::select::Wanted;
use jp_compact_engine::compact::{self, OnLowSaving, Opened, Run};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::fork::{self, Plan};
use jp_compact_engine::store;
use serde_json::{Value, json};

use crate::args::Running;
use crate::commands::{compact::named, counted, short, turns, until_interrupted};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;
use crate::setup::Setup;
use crate::told::{as_json, as_text};

/// Copy a conversation, or its last turns, with the overlays that are about them
///
/// The events are copied byte for byte, config deltas before the first turn that stays too. Overlays are counted from that turn: policies are clipped to the turns that stay, a summary that also tells of others is dropped, and that is said. The source is only read. Where --compact fails, the fork stands as it was copied.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact fork 17738399468 .jp/conversations/17738399470-shorter --last 5\n  jp-compact fork .jp/conversations/17738399468-review ./copy --compact=heavy"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, or a conversation's id
    #[arg(value_name = "TRANSCRIPT")]
    transcript: OsString,
    /// The new conversation's folder, which is not there yet
    #[arg(value_name = "DEST")]
    dest: PathBuf,
    /// Copy the last N turns alone [default: all]
    #[arg(long, value_name = "N")]
    last: Option<NonZero<usize>>,
    /// Compact the fork: with its default profile, a PROFILE, or JP's inline form
    #[arg(long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true)]
    compact: Option<String>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let source = compact::open_as(&args.transcript, args.running.written.format, environment)?;
    let dest = store::free(&args.dest, environment)?;
    let plan = fork::plan(&source, args.last.map(NonZero::get))?;
    let dry_run = args.running.dry_run;
    let mut json = as_json_of(&source, &plan, &dest, dry_run);
    let mut text = as_text_of(&source, &plan, &dest, dry_run, environment);
    let Some(form) = &args.compact else {
        if !dry_run {
            fork::write(&source, &plan, &dest, environment)?;
        }
        tell(args, quiet, &json, &text)?;
        return Ok(Exit::Done);
    };
    until_interrupted(async {
        let mut setup = Setup::open(&args.running, false, quiet, Asker::User, environment)?;
        // What is wrong with the profile or its strategies is found out before anything is made.
        let mut forked = Opened { place: source.place.clone(), beside: None, stream: plan.stream.clone() };
        let mut run = prepare(&mut setup, form, &forked).await?;
        // A dry run has no fork that could be written to; the source is only read.
        run.hands_over = dry_run;
        if !dry_run {
            fork::write(&source, &plan, &dest, environment)?;
            forked = compact::open(dest.as_os_str(), environment)?;
            run = prepare(&mut setup, form, &forked).await?;
        }
        let done = compact::compact(&run, &forked).await;
        setup.close().await;
        match done {
            Ok(mut report) => {
                if dry_run {
                    (report.path, report.id) = (dest.join("events.json"), None);
                }
                json["report"] = as_json(&report, &run);
                text.append(&as_text(&report, &run, environment));
                tell(args, quiet, &json, &text)?;
                Ok(Exit::Done)
            }
            Err(failure) => {
                let report = Report::from(failure);
                json["error"] = json!(report);
                tell(args, quiet, &json, &text)?;
                Err(report)
            }
        }
    })
}

/// What runs on the fork, by its own configuration.
async fn prepare(setup: &mut Setup<'_>, form: &str, forked: &Opened) -> Result<Run, Report> {
    let config = setup.config(forked)?;
    let planned = named(form, &config)?;
    let strategies = setup.prepare_calls(&planned).await?;
    let wanted = Wanted { from: None, to: None, keep: config.keep(planned.profile) };
    let run = setup.run(strategies, &config, wanted, OnLowSaving::Warn);
    // Nothing is written where a model would be needed and may not be asked.
    run.allow()?;
    Ok(run)
}

fn tell(args: &Args, quiet: bool, json: &Value, text: &Lines) -> Result<(), Report> {
    if args.running.json {
        output::json_line(json)?;
    } else if !quiet {
        output::people(text);
    }
    Ok(())
}

fn as_json_of(source: &Opened, plan: &Plan, dest: &Path, dry_run: bool) -> Value {
    let numbers = |fate: Fate| -> Vec<usize> {
        let of_all = plan.fork.overlays.iter().zip(1_usize..);
        of_all.filter(|(other, _)| **other == fate).map(|(_, number)| number).collect()
    };
    json!({
        "path": dest.join("events.json").to_string_lossy(),
        "source": source.place.path().to_string_lossy(),
        "dry_run": dry_run,
        "turns": plan.stream.turns(),
        "cut": plan.fork.cut,
        "overlays": {
            "kept": numbers(Fate::Kept),
            "clipped": numbers(Fate::Clipped),
            "gone": numbers(Fate::Gone),
            "summary_dropped": numbers(Fate::Cut),
        },
        "report": null,
        "error": null,
    })
}

fn as_text_of(source: &Opened, plan: &Plan, dest: &Path, dry_run: bool, environment: &Environment) -> Lines {
    let fates = &plan.fork.overlays;
    let count = |fate: Fate| fates.iter().filter(|other| **other == fate).count();
    let of = match plan.fork.cut {
        0 => counted(plan.stream.turns(), "turn"),
        _ => format!("the last {} of {}", plan.stream.turns(), counted(source.stream.turns(), "turn")),
    };
    let verb = if dry_run { "would be copied" } else { "copied" };
    let overlays = plan.stream.overlays().len();
    let mut lines = Lines::of(format_args!(
        "{}: {of} {verb} from {}, {}",
        short(dest, environment),
        short(source.place.path(), environment),
        counted(overlays, "overlay")
    ));
    if let clipped @ 1.. = count(Fate::Clipped) {
        lines.line(format_args!("  {} clipped to the turns that stay", counted(clipped, "overlay")));
    }
    let numbered = (1_usize..).zip(fates.iter().zip(source.stream.overlays()));
    let dropped: Vec<_> = numbered.filter(|(_, (fate, _))| **fate == Fate::Cut).collect();
    lines.list(
        "  ",
        dropped.iter().map(|(number, (_, overlay))| {
            let range = turns(overlay.from_turn, overlay.to_turn);
            format!("  note: the summary of {range} (overlay {number}) is dropped: not all of its turns stay")
        }),
    );
    lines
}
