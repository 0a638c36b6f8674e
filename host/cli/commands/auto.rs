//! `jp-compact auto`: compacts what has become too large, and nothing else (RFD D17, "Automatic Compaction").

use std::ffi::{OsStr, OsString};

use clap::Parser;
use jp_compact_core::auto::{Verdict, verdict};
use jp_compact_core::estimate::Estimator;
use jp_compact_core::select::Wanted;
use jp_compact_core::{Bound, Stream, Survey, bound};
use jp_compact_engine::compact::{self, OnLowSaving, Opened, Outcome, Ready, Run};
use jp_compact_engine::config::{Config, Foreign, OnFailure, Planned};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::llm::ModelName;
use jp_compact_schema::ContentKind;
use serde_json::{Value, json};

use crate::args::Running;
use crate::commands::compact::bug;
use crate::commands::{change, counted, grouped, short, turns, until_interrupted};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::resolve;
use crate::sent;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::tokens::about;
use crate::told::{as_json, as_text};

/// Compact what has become too large for its model, as configured
///
/// Asking for it is consent, whatever `enabled` says. It is due when what a model is sent has, by estimate, more tokens than `trigger_ratio` of the model's context window, or than `token_threshold`, and the conversation more turns than `min_turns`. It goes on where the last compaction of its kind ended, up to the turns that are kept. A summary that fails leaves the conversation as it was, with a warning, or with exit code 18 where `on_failure` is "fail". These keys stand in `[conversation.compaction.auto]`. Exit code 0 where nothing is due.
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
    /// The context window of the conversation's model, in tokens [default: that of --model, else of its own model, else of the configured one, where it is known]
    ///
    /// Goes before a configured `token_threshold`.
    #[arg(long, value_name = "N")]
    context_window: Option<u64>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if let Some(exit) = resolve::refused(&args.transcripts, args.running.json, quiet, environment)? {
        return Ok(exit);
    }
    until_interrupted(async {
        let mut setup =
            Setup::open(&args.running, args.transcripts.len() > 1, quiet, Asker::User, environment)?;
        let mut tally = Tally::new(args.running.json, quiet);
        for transcript in &args.transcripts {
            let due = Due {
                profile: args.profile.as_deref(),
                context_window: args.context_window,
                estimator: args.running.counting.tokens.estimator(),
                unasked: None,
            };
            let done = one(&due, &mut setup, transcript, environment).await;
            setup.progress.suspend(|| tally.count(transcript, done))?;
        }
        setup.close().await;
        Ok(tally.exit())
    })
}

/// What decides whether a transcript is due, beside the configuration.
pub(crate) struct Due<'a> {
    pub(crate) profile: Option<&'a str>,
    pub(crate) context_window: Option<u64>,
    pub(crate) estimator: Estimator,
    /// What made it run, where the user did not ask for it, and the value is not the user's own.
    pub(crate) unasked: Option<Foreign>,
}

/// One transcript: what always runs, then the trigger, then what is due.
pub(crate) async fn one(
    asked: &Due<'_>,
    setup: &mut Setup<'_>,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(Value, Lines), Report> {
    let mut opened = setup.read(transcript)?;
    let mut config = setup.config(&opened)?;
    if asked.context_window.is_some() {
        // What was typed goes before what is configured.
        config.auto.token_threshold = None;
    }
    let planned = match asked.profile {
        Some(name) => config.named(name)?,
        None => config.by_auto()?,
    };
    let planned = planned.led_by(asked.unasked.as_ref());
    let profile = planned.profile.ok_or_else(bug)?;
    let path = short(opened.place.path(), environment);
    let told = |line: &str| format!("{path}: {line}");
    let warned = |lines: &mut Lines, what: &str, failure: &Report| {
        lines.append(&failure.text_after(&format!("warning: {path}: {what}: ")));
    };
    if setup.has_focus() {
        // Wrong usage is that whether anything is due or not.
        let strategies = setup.prepare_calls(&planned).await?;
        setup.check_focus(&strategies)?;
    }
    let (mut lines, mut always) = (Lines::new(), Vec::new());
    for (name, planned) in config.auto.always.iter().zip(config.by_always()?) {
        let planned = planned.led_by(asked.unasked.as_ref());
        let applied = apply(setup, &config, &planned, &opened).await?;
        let (mut report, mut warning) = (Value::Null, None);
        match applied {
            Applied::Nothing => {}
            Applied::Failed(failure) => {
                warned(&mut lines, &format!("profile `{name}` did nothing"), &failure);
                warning = Some(plain(&failure));
            }
            Applied::Done(run, done) => {
                reduction(name, &done, &run).iter().for_each(|line| lines.line(told(line)));
                report = as_json(&done, &run);
                if !run.dry_run {
                    opened = setup.read(transcript)?;
                } else if done.saved() > 0.0 {
                    lines.line(told("the trigger does not count that: nothing is appended by a dry run"));
                }
            }
        }
        always.push(json!({ "profile": name, "report": report, "warning": warning }));
    }
    let estimator = asked.estimator;
    let (model, window) = window(asked, setup, &config);
    let verdict = verdict(&Survey::with(&opened.stream, estimator), config.trigger(profile, window));
    let due = matches!(verdict, Verdict::Due { .. });
    let mut why = why(verdict, &opened.stream, estimator, model.as_deref());
    let (mut report, mut warning) = (Value::Null, None);
    if due {
        match apply(setup, &config, &planned, &opened).await? {
            Applied::Nothing => {
                why.push_str("; nothing to compact: no turn is newer than the last compaction, but those that are kept");
                lines.line(told(&why));
            }
            Applied::Failed(failure) => {
                warned(&mut lines, "nothing was compacted", &failure);
                warning = Some(plain(&failure));
            }
            Applied::Done(run, done) => {
                lines.append(&as_text(&done, &run, environment));
                reduction(&profile.name, &done, &run).iter().for_each(|line| lines.line(told(line)));
                report = as_json(&done, &run);
            }
        }
    } else {
        lines.line(told(&why));
    }
    let json = json!({
        "path": opened.place.path().to_string_lossy(),
        "conversation_id": opened.place.id(),
        "profile": profile.name,
        "always": always,
        "due": due,
        "why": why,
        "estimator": estimator.name(),
        "report": report,
        "warning": warning,
    });
    Ok((json, lines))
}

/// A failure's text, for programs.
fn plain(failure: &Report) -> String {
    failure.text_after("").as_str().trim_end().to_owned()
}

/// What came of a profile.
enum Applied {
    /// No turn is newer than its last compaction, but those that are kept.
    Nothing,
    /// A summary failed, and the conversation goes on as it was: J-CLI's graceful degradation.
    Failed(Box<Report>),
    /// What the strategies did.
    Done(Box<Run>, Box<compact::Report>),
}

/// Runs a profile, each of its strategies from where the last compaction of its kinds ended.
async fn apply(
    setup: &mut Setup<'_>,
    config: &Config,
    planned: &Planned<'_>,
    opened: &Opened,
) -> Result<Applied, Report> {
    let strategies = setup.prepare_calls(planned).await?;
    let keep = config.keep(planned.profile);
    let kept = Wanted { from: Some(Bound::Turn(keep.first)), to: Some(Bound::FromEnd(keep.last)), keep };
    let mut run = setup.run(strategies, config, kept, OnLowSaving::Decline);
    let (stream, now) = (&opened.stream, run.now);
    run.strategies.retain_mut(|ready| {
        // A rule of JP's brings turns of its own.
        let Wanted { from, to, .. } = ready.range.unwrap_or(kept);
        let Some(range) = bound::resolve(stream, from, to, now) else { return false };
        let description = &ready.described.description;
        // Whoever is told the earlier summaries takes them in, and begins where they do.
        let merges = description.wants("previous_summaries");
        let last = if merges { 0 } else { stream.after_last_overlay_of(&description.produces) };
        let from = last.max(range.from());
        let (first, last) = (Bound::Turn(from), Bound::Turn(range.to()));
        ready.range = Some(Wanted { from: Some(first), to: Some(last), keep });
        from <= range.to()
    });
    if run.strategies.is_empty() {
        return Ok(Applied::Nothing);
    }
    match compact::compact(&run, opened).await {
        Ok(report) => Ok(Applied::Done(Box::new(run), Box::new(report))),
        Err(failure) if is_of_summary(&failure, &run.strategies) => {
            let report = Report::from(failure);
            match config.auto.on_failure {
                OnFailure::Fail => Err(Report { exit: Exit::Model, code: Exit::Model.code(), ..report }),
                OnFailure::Continue => Ok(Applied::Failed(Box::new(report))),
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Whether what failed is a summary, and not something that would fail again whatever a model says.
fn is_of_summary(failure: &Failure, strategies: &[Ready]) -> bool {
    let Failure::Strategy { name, source } = failure else { return false };
    let descriptions = strategies.iter().map(|ready| &ready.described.description);
    !matches!(source.plain(), StrategyFailure::BadOptions { .. })
        && descriptions
            .filter(|description| description.name == *name)
            .any(|description| description.produces.contains(&ContentKind::Summary))
}

/// The model that the conversation is for, and its window: as typed, else of the model that was, else of its own,
/// else of the one that is configured.
fn window(asked: &Due<'_>, setup: &Setup<'_>, config: &Config) -> (Option<String>, Option<u64>) {
    let models: Vec<&ModelName> = match setup.models.wish() {
        Some(wish) => vec![wish],
        None => config.assistant_model.iter().chain(&config.llm.model).collect(),
    };
    let known = models.iter().find_map(|model| setup.models.context_window(model));
    (models.first().map(ToString::to_string), asked.context_window.or(known))
}

/// Whether it is due in words, and what that was decided by.
fn why(verdict: Verdict, stream: &Stream, estimator: Estimator, model: Option<&str>) -> String {
    let about = about(estimator);
    let (view, threshold) = match verdict {
        Verdict::Due { view, threshold } | Verdict::Small { view, threshold } => {
            (grouped(view), grouped(threshold))
        }
        Verdict::Short { turns, min_turns } => {
            let turns = counted(turns, "turn");
            return format!(
                "nothing is due: the conversation has {turns}, and more than {min_turns} are needed (auto.min_turns)"
            );
        }
        Verdict::UnknownWindow => {
            let (whose, why) = match model {
                Some(model) => (format!("the context window of `{model}`"), ""),
                None => ("the context window".to_owned(), ", for no model is named"),
            };
            return format!(
                "skipped: {whose} is not known{why}; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`"
            );
        }
    };
    let name = estimator.name();
    let has = sent::view_has(stream);
    if matches!(verdict, Verdict::Due { .. }) {
        format!("due: {has} {about}{view} tokens ({name}), more than {threshold}")
    } else {
        format!("nothing is due: {has} {about}{view} tokens ({name}), and {threshold} are allowed")
    }
}

/// What was compacted in one line: turns, profile, reduction.
fn reduction(profile: &str, report: &compact::Report, run: &Run) -> Option<String> {
    let made = report.steps.iter().filter_map(|step| match &step.outcome {
        Outcome::Made(made) => Some(made),
        Outcome::Declined(_) | Outcome::Would(_) | Outcome::Already(_) => None,
    });
    let ranges = made.flatten().map(|made| (made.overlay.from_turn, made.overlay.to_turn));
    let (from, to) = ranges.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)))?;
    let (before, after) = (report.tokens_before, report.tokens_after);
    let would = if run.dry_run { "would compact" } else { "compacted" };
    Some(format!(
        "auto {would} {} with profile `{profile}`: {}{} -> {} tokens ({}, {})",
        turns(from, to),
        about(run.estimator),
        grouped(before),
        grouped(after),
        change(before, after),
        run.estimator.name()
    ))
}
