//! The texts of automatic compaction: its decision, and its effect.

use jp_compact_core::auto::AutoVerdict;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::{Stream, TurnRange};
use jp_compact_engine::compact::{RunReport, RunSettings, StrategyOutcome};
use jp_compact_terminal::numbers::{counted, grouped, percent_change};

use crate::sent_tokens::{counting_method, estimate_prefix, view_has};

/// Explains why a compaction is due or not.
#[must_use]
pub fn explain(verdict: AutoVerdict, stream: &Stream, estimator: Estimator, model: Option<&str>) -> String {
    let has_tokens = |tokens| {
        let (subject, prefix) = (view_has(stream), estimate_prefix(estimator));
        format!("{subject} {prefix}{} tokens ({})", grouped(tokens), counting_method(estimator.name()))
    };
    match verdict {
        AutoVerdict::Due { view, threshold } => {
            format!("due: {}, more than {}", has_tokens(view), grouped(threshold))
        }
        AutoVerdict::Small { view, threshold } => {
            format!("not due: {}, and {} are allowed", has_tokens(view), grouped(threshold))
        }
        AutoVerdict::Short { turns, min_turns } => {
            let turns = counted(turns, "turn");
            format!(
                "not due: the conversation has {turns}, and more than {min_turns} are required (auto.min_turns)"
            )
        }
        AutoVerdict::UnknownWindow => {
            let cause = match model {
                Some(model) => format!("the context window of `{model}` is unknown"),
                None => "the context window is unknown because no model is configured".to_owned(),
            };
            format!(
                "skipped: {cause}; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`"
            )
        }
    }
}

/// Describes a compaction in one line: turns, profile, reduction. `None` if nothing was compacted.
#[must_use]
pub fn reduction(profile: &str, report: &RunReport, run: &RunSettings) -> Option<String> {
    let overlays = report.steps.iter().filter_map(|step| match &step.outcome {
        StrategyOutcome::NewOverlays(overlays) => Some(overlays),
        StrategyOutcome::Declined(_) | StrategyOutcome::WouldAsk(_) | StrategyOutcome::AlreadyExists(_) => {
            None
        }
    });
    let ranges = overlays.flatten().filter_map(|made| made.overlay.range());
    let range = ranges.reduce(TurnRange::union)?;
    let own_view = (report.tokens_before, report.tokens_after);
    let (before, after) = report.sent_by_jp.as_ref().map_or(own_view, |jp| (jp.before, jp.after));
    let verb = if run.io.dry_run { "would compact" } else { "compacted" };
    Some(format!(
        "auto {verb} {range} with profile `{profile}`: {}{} -> {} tokens ({}, {})",
        estimate_prefix(run.io.estimator),
        grouped(before),
        grouped(after),
        percent_change(before, after),
        counting_method(run.io.estimator.name())
    ))
}
