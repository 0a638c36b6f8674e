//! Checks before a strategy or its model is asked: the turns may be summarized already, or too small to save enough.
//! Without these checks, a loop of compactions could cost money.

use jp_compact_core::projection::shown_in_range;
use jp_compact_core::select::Selected;
use jp_compact_core::{Survey, TurnRange};

use super::{PreparedStrategy, percent_of};

/// Returns the reason to decline a summary of these turns without asking a model.
pub(super) fn reason_to_decline(survey: &Survey<'_>, selected: &Selected, min_saving: f64) -> Option<String> {
    // Checks the requested turns, not the extended range. With `--overlap union`, the extended range may be that of an
    // older summary, which the new summary then replaces.
    let requested = selected.requested;
    let covering: Vec<_> = summaries(survey).filter(|(_, summary)| summary.covers(requested)).collect();
    if let Some((number, summary)) = covering.iter().find(|(_, summary)| summary.end() == requested.end()) {
        let verb = if requested.start() == requested.end() { "is" } else { "are" };
        return Some(format!(
            "{requested} {verb} summarized already: overlay {number} is a summary of {summary}; remove it with \
             `--reset={number}`"
        ));
    }
    if covering.iter().any(|(_, summary)| summary.covers(selected.range)) {
        // The view shows none of these turns, so nothing can be saved. The user requested the summary, and gets a
        // warning.
        return None;
    }
    let view_tokens = survey.estimate.view_tokens(&survey.view);
    let max_saving = max_saving(survey, selected.range);
    let is_too_small = (max_saving as f64) < min_saving * view_tokens as f64;
    is_too_small.then(|| {
        format!(
            "no model was asked: a summary of {} could save at most {max_saving} of the view's {view_tokens} tokens; \
             the minimum is {} % (min_saving)",
            selected.range,
            percent_of(min_saving)
        )
    })
}

/// Returns the tokens of a range in the view. A summary of the range cannot save more.
pub(super) fn max_saving(survey: &Survey<'_>, range: TurnRange) -> u64 {
    let in_range = range.has_steps().then(|| survey.turn_table_in(range));
    let turns = in_range.as_ref().unwrap_or(&survey.turns);
    turns.iter().filter(|turn| range.contains(turn.turn)).map(|turn| turn.view_tokens).sum()
}

/// Returns the reason to decline policies for a range that existing summaries replace completely. The newest overlay
/// wins only over older ones of its kind, so a policy has no effect there.
pub(super) fn summarized_reason(
    survey: &Survey<'_>,
    strategy: &PreparedStrategy,
    range: TurnRange,
) -> Option<String> {
    if strategy.traits().writes_summary || survey.stream.overlays().is_empty() {
        return None;
    }
    let shown = shown_in_range(survey.stream, &survey.pairs, range);
    let numbers: Vec<usize> =
        (1..).zip(&shown.overlays).filter(|(_, shown)| shown.summary).map(|(number, _)| number).collect();
    let (first, _) = numbers.split_first().filter(|_| shown.is_summarized)?;
    let verb = if range.start() == range.end() { "is" } else { "are" };
    let list = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let noun = if numbers.len() == 1 { "overlay" } else { "overlays" };
    Some(format!(
        "{range} {verb} summarized ({noun} {list}), and a policy has no effect on a summary; remove it with `--reset={first}`"
    ))
}

/// Returns the numbers and the turns of the existing summaries.
fn summaries<'a>(survey: &'a Survey<'_>) -> impl Iterator<Item = (usize, TurnRange)> + 'a {
    let (overlays, turns) = (survey.stream.overlays(), survey.stream.turns());
    let summaries = (1..).zip(overlays).filter(|(_, overlay)| overlay.summary.is_some());
    summaries.filter_map(move |(number, overlay)| Some((number, overlay.effective_range(turns)?)))
}
