//! Automatic compaction of one transcript, with its report. `auto` uses it, and `query` after its turn.

use std::ffi::OsStr;

use jp_compact_core::auto::{AutoVerdict, verdict};
use jp_compact_core::estimate::Estimator;
use jp_compact_core::select::TypedSelection;
use jp_compact_core::{Stream, Survey, TurnRange};
use jp_compact_engine::compact::{self, RunSettings, StrategyOutcome};
use jp_compact_engine::plan::{Applied, AutoRequest};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{AlwaysReport, AutoReport, TriggerReport, TriggerResult};

use crate::error::Report;
use crate::human::{change, counted, grouped, short};
use crate::lines::EscapedLines;
use crate::reports::{compaction, sent_tokens};
use crate::setup::Setup;
use crate::tokens::about;

/// Runs the profiles of `auto.always`, checks the trigger, and compacts the transcript if that is due.
pub(crate) async fn compact_if_due(
    request: &AutoRequest<'_>,
    setup: &mut Setup<'_>,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(AutoReport, EscapedLines), Report> {
    let mut opened = setup.read(transcript)?;
    let mut config = setup.planner.config(&opened)?;
    if request.context_window.is_some() {
        // A typed window overrides a configured threshold.
        config.auto.token_threshold = None;
    }
    let planned = match request.profile {
        Some(name) => config.named(name)?,
        None => config.by_auto()?,
    };
    let planned = planned.led_by(request.foreign_auto.as_ref());
    let profile = planned.profile.ok_or_else(Report::bug)?;
    let path = short(opened.place.path(), environment);
    let with_path = |line: &str| format!("{path}: {line}");
    let warned = |lines: &mut EscapedLines, what: &str, failure: &Report| {
        lines.append(&failure.text_after(&format!("warning: {path}: {what}: ")));
    };
    setup.planner.check_focus_of(&planned).await?;
    let (mut lines, mut always) = (EscapedLines::new(), Vec::new());
    for (name, planned) in config.auto.always.iter().zip(config.by_always()?) {
        let planned = planned.led_by(request.foreign_auto.as_ref());
        let applied = setup.planner.apply(&config, &planned, TypedSelection::default(), &opened).await?;
        let (mut report, mut warning) = (None, None);
        match applied {
            Applied::Nothing => {}
            Applied::Failed(failure) => {
                let failure = Report::from(*failure);
                warned(&mut lines, &format!("profile `{name}` changed nothing"), &failure);
                warning = Some(failure.document());
            }
            Applied::Done(run, done) => {
                reduction(name, &done, &run).iter().for_each(|line| lines.line(with_path(line)));
                report = Some(compaction::document(&done, &run));
                if !run.io.dry_run {
                    opened = setup.read(transcript)?;
                } else if done.saved() > 0.0 {
                    lines.line(with_path(
                        "the trigger ignores this saving, because a dry run appends nothing",
                    ));
                }
            }
        }
        always.push(AlwaysReport { profile: name.clone(), report, warning });
    }
    let estimator = request.estimator;
    let (model, window) = setup.planner.window(request, &config);
    let verdict = verdict(&Survey::with(&opened.stream, estimator), config.trigger(profile, window));
    let due = matches!(verdict, AutoVerdict::Due { .. });
    let trigger = trigger(&verdict, model.as_deref());
    let mut why = why(verdict, &opened.stream, estimator, model.as_deref());
    let (mut report, mut warning) = (None, None);
    if due {
        match setup.planner.apply(&config, &planned, request.selection, &opened).await? {
            Applied::Nothing => {
                why.push_str("; nothing to compact: every turn since the last compaction is kept");
                lines.line(with_path(&why));
            }
            Applied::Failed(failure) => {
                let failure = Report::from(*failure);
                warned(&mut lines, "nothing was compacted", &failure);
                warning = Some(failure.document());
            }
            Applied::Done(run, done) => {
                lines.append(&compaction::text(&done, &run, environment));
                reduction(&profile.name, &done, &run).iter().for_each(|line| lines.line(with_path(line)));
                report = Some(compaction::document(&done, &run));
            }
        }
    } else {
        lines.line(with_path(&why));
    }
    let document = AutoReport {
        path: opened.place.path().to_string_lossy().into_owned(),
        conversation_id: opened.place.id().map(str::to_owned),
        profile: profile.name.clone(),
        estimator: estimator.name().to_owned(),
        always,
        due,
        why,
        trigger,
        report,
        warning,
    };
    Ok((document, lines))
}

/// The reason why a compaction is due or not, in numbers.
fn trigger(verdict: &AutoVerdict, model: Option<&str>) -> TriggerReport {
    let none = TriggerReport {
        result: TriggerResult::UnknownWindow,
        view_tokens: None,
        threshold: None,
        turns: None,
        min_turns: None,
        model: model.map(str::to_owned),
    };
    let compared = |result, view, threshold| TriggerReport {
        result,
        view_tokens: Some(view),
        threshold: Some(threshold),
        ..none.clone()
    };
    match *verdict {
        AutoVerdict::Due { view, threshold } => compared(TriggerResult::Due, view, threshold),
        AutoVerdict::Small { view, threshold } => compared(TriggerResult::Small, view, threshold),
        AutoVerdict::Short { turns, min_turns } => TriggerReport {
            result: TriggerResult::Short,
            turns: Some(turns),
            min_turns: Some(min_turns),
            ..none
        },
        AutoVerdict::UnknownWindow => none,
    }
}

/// Explains why a compaction is due or not.
fn why(verdict: AutoVerdict, stream: &Stream, estimator: Estimator, model: Option<&str>) -> String {
    let about = about(estimator);
    let (view, threshold) = match verdict {
        AutoVerdict::Due { view, threshold } | AutoVerdict::Small { view, threshold } => {
            (grouped(view), grouped(threshold))
        }
        AutoVerdict::Short { turns, min_turns } => {
            let turns = counted(turns, "turn");
            return format!(
                "not due: the conversation has {turns}, and more than {min_turns} are required (auto.min_turns)"
            );
        }
        AutoVerdict::UnknownWindow => {
            let (whose, why) = match model {
                Some(model) => (format!("the context window of `{model}`"), ""),
                None => ("the context window".to_owned(), " because no model is configured"),
            };
            return format!(
                "skipped: {whose} is unknown{why}; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`"
            );
        }
    };
    let name = estimator.name();
    let has = sent_tokens::view_has(stream);
    if matches!(verdict, AutoVerdict::Due { .. }) {
        format!("due: {has} {about}{view} tokens ({name}), more than {threshold}")
    } else {
        format!("not due: {has} {about}{view} tokens ({name}), and {threshold} are allowed")
    }
}

/// Describes a compaction in one line: turns, profile, reduction.
fn reduction(profile: &str, report: &compact::RunReport, run: &RunSettings) -> Option<String> {
    let made = report.steps.iter().filter_map(|step| match &step.outcome {
        StrategyOutcome::Made(made) => Some(made),
        StrategyOutcome::Declined(_) | StrategyOutcome::Would(_) | StrategyOutcome::Already(_) => None,
    });
    let ranges = made.flatten().filter_map(|made| made.overlay.range());
    let range = ranges.reduce(TurnRange::union)?;
    let (before, after) = (report.tokens_before, report.tokens_after);
    let would = if run.io.dry_run { "would compact" } else { "compacted" };
    Some(format!(
        "auto {would} {range} with profile `{profile}`: {}{} -> {} tokens ({}, {})",
        about(run.io.estimator),
        grouped(before),
        grouped(after),
        change(before, after),
        run.io.estimator.name()
    ))
}
