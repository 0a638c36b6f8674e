//! `jp-compact auto`: compacts what has become too large, and nothing else (RFD D17, "Automatic Compaction").

use std::ffi::{OsStr, OsString};

use clap::Parser;
use jp_compact_core::auto::{Verdict, verdict};
use jp_compact_core::select::Wanted;
use jp_compact_core::{Bound, Survey};
use jp_compact_engine::compact::{self, OnLowSaving, Opened, Outcome, Ready, Run};
use jp_compact_engine::config::{Config, OnFailure, Profile};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_schema::ContentKind;
use serde_json::{Value, json};

use crate::args::Running;
use crate::commands::{change, grouped, short, turns, until_interrupted};
use crate::error::Report;
use crate::escape;
use crate::exit::Exit;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::tokens::about;
use crate::told::{as_json, as_text};

/// Compact what has become too large for its model, as configured
///
/// Asking for it is consent: `auto.enabled` is about `query`. It is due when the view, by estimate, has more tokens than `auto.trigger_ratio` of the model's window, or than `auto.token_threshold`, and the conversation more turns than `auto.min_turns`. Exit code 0 where nothing is due.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact auto 17738399468\n  jp-compact auto 17738399468 --context-window 200000 --dry-run\n  jp-compact auto 17738399468 --set conversation.compaction.auto.profile=heavy"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, or a conversation's id
    #[arg(value_name = "TRANSCRIPT", required = true)]
    transcripts: Vec<OsString>,
    /// The profile to run [default: auto.profile]
    #[arg(short, long, value_name = "NAME")]
    profile: Option<String>,
    /// How many tokens the conversation's model takes [default: those of --model, else of its own]
    #[arg(long, value_name = "N")]
    context_window: Option<u64>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    until_interrupted(async {
        let mut setup = Setup::open(&args.running, args.transcripts.len() > 1, quiet, environment)?;
        let mut tally = Tally::new(args.running.json, quiet);
        for transcript in &args.transcripts {
            let done = one(args, &mut setup, transcript, environment).await;
            setup.progress.suspend(|| tally.count(transcript, done))?;
        }
        setup.close().await;
        Ok(tally.exit())
    })
}

/// One transcript: what always runs, then the trigger, then what is due.
async fn one(
    args: &Args,
    setup: &mut Setup<'_>,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(Value, String), Report> {
    let mut opened = compact::open(transcript, environment)?;
    let config = setup.config(&opened)?;
    let profile = config.profile(args.profile.as_deref().unwrap_or(&config.auto.profile))?;
    let (mut lines, mut always) = (Vec::new(), Vec::new());
    for name in &config.auto.always {
        let (run, done) = apply(setup, &config, config.profile(name)?, &opened).await?;
        let report = done?;
        lines.extend(reduction(name, &report, &run).map(|line| told(&opened, environment, &line)));
        always.push(json!({ "profile": name, "report": as_json(&report, &run) }));
        if !run.dry_run {
            opened = compact::open(transcript, environment)?;
        }
    }
    let estimator = args.running.tokens.estimator();
    let verdict = {
        let survey = Survey::with(&opened.stream, estimator);
        verdict(&survey, config.trigger(profile, window(args, setup, &config)))
    };
    let mut json = json!({
        "path": opened.place.path().to_string_lossy(),
        "conversation_id": opened.place.id(),
        "profile": profile.name,
        "always": always,
        "due": matches!(verdict, Verdict::Due { .. }),
        "why": verdict.to_string(),
        "estimator": estimator.name(),
        "report": null,
        "warning": null,
    });
    if !matches!(verdict, Verdict::Due { .. }) {
        lines.push(told(&opened, environment, &verdict.to_string()));
        return Ok((json, lines.join("\n")));
    }
    let (run, done) = apply(setup, &config, profile, &opened).await?;
    match done {
        Ok(report) => {
            lines.push(as_text(&report, &run, environment));
            lines.extend(
                reduction(&profile.name, &report, &run).map(|line| told(&opened, environment, &line)),
            );
            json["report"] = as_json(&report, &run);
        }
        Err(failure) if writes_summaries(&run.strategies) && matches!(failure, Failure::Strategy { .. }) => {
            let mut report = Report::from(failure);
            if config.auto.on_failure == OnFailure::Fail {
                report.exit = Exit::Model;
                return Err(report);
            }
            // J-CLI's graceful degradation: the conversation goes on as it was.
            let text = report.text();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            json["warning"] = text.into();
            lines.push(format!("warning: nothing was compacted: {text}"));
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok((json, lines.join("\n")))
}

/// Runs a profile from where the last compaction of its kinds ended.
async fn apply(
    setup: &mut Setup<'_>,
    config: &Config,
    profile: &Profile,
    opened: &Opened,
) -> Result<(Run, Result<compact::Report, Failure>), Report> {
    let strategies = setup.prepare_calls(&profile.calls).await?;
    let kinds: Vec<ContentKind> =
        strategies.iter().flat_map(|ready| &ready.described.description.produces).copied().collect();
    let keep = config.keep(Some(profile));
    let from = opened.stream.after_last_overlay_of(&kinds).max(keep.first);
    let wanted = Wanted { from: Some(Bound::Turn(from)), to: None, keep };
    let run = setup.run(strategies, config, wanted, OnLowSaving::Decline);
    let done = compact::compact(&run, opened).await;
    Ok((run, done))
}

/// The window of the model that the conversation is for: as typed, else of the model that was, else of its own,
/// else of the one that is configured.
fn window(args: &Args, setup: &Setup<'_>, config: &Config) -> Option<u64> {
    let of = |model: &str| setup.models.context_window(model);
    args.context_window.or_else(|| match setup.models.wish() {
        Some(wish) => of(&wish.to_string()),
        None => {
            let own = config.assistant_model.as_deref().and_then(of);
            own.or_else(|| config.llm.model.as_deref().and_then(of))
        }
    })
}

fn writes_summaries(strategies: &[Ready]) -> bool {
    strategies.iter().any(|ready| ready.described.description.produces.contains(&ContentKind::Summary))
}

/// What was compacted in one line: turns, profile, reduction.
fn reduction(profile: &str, report: &compact::Report, run: &Run) -> Option<String> {
    let made = report.steps.iter().filter_map(|step| match &step.outcome {
        Outcome::Made(made) => Some(made),
        Outcome::Declined(_) | Outcome::Would(_) => None,
    });
    let ranges = made.flatten().map(|made| (made.overlay.from_turn, made.overlay.to_turn));
    let (from, to) = ranges.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)))?;
    let (before, after) = (report.tokens_before, report.tokens_after);
    Some(format!(
        "auto: {}, profile {profile}, {}{} -> {} tokens ({}, {})",
        turns(from, to),
        about(run.estimator),
        grouped(before),
        grouped(after),
        change(before, after),
        run.estimator.name()
    ))
}

fn told(opened: &Opened, environment: &Environment, line: &str) -> String {
    escape::line(&format!("{}: {line}", short(opened.place.path(), environment)))
}
