//! Checks before a model is asked: the turns may be summarized already, or too small to save enough. Without these
//! checks, a loop of compactions could cost money.

use jp_compact_core::select::Selected;
use jp_compact_core::{Survey, TurnRange};

/// Returns the reason to decline a summary of these turns without asking a model.
pub(super) fn not_worth_it(survey: &Survey<'_>, selected: &Selected, min_saving: f64) -> Option<String> {
    // Checks the requested turns, not the extended range: with `--overlap union`, one summary may replace an older
    // summary and cover it.
    let requested = selected.requested;
    let around: Vec<_> = summaries(survey).filter(|(_, older)| older.covers(requested)).collect();
    if let Some((number, older)) = around.iter().find(|(_, older)| older.end() == requested.end()) {
        return Some(format!(
            "{requested} {} summarized already: overlay {number} is a summary of {older}; remove it with \
             `--reset={number}`",
            if requested.start() == requested.end() { "is" } else { "are" }
        ));
    }
    if around.iter().any(|(_, older)| older.covers(selected.range)) {
        // The view shows none of these turns, so nothing can be saved. The user asked for it, and gets a warning.
        return None;
    }
    let view = survey.estimate.view_tokens(&survey.view);
    let turns = survey.turns.iter().filter(|turn| selected.range.contains(turn.turn));
    let most: u64 = turns.map(|turn| turn.view_tokens).sum();
    let least = min_saving * view as f64;
    ((most as f64) < least).then(|| {
        format!(
            "no model was asked: a summary of {} could save at most {most} of the view's {view} tokens; the minimum \
             is {} % (min_saving)",
            selected.range,
            min_saving * 100.0
        )
    })
}

/// Returns the existing summaries with their numbers and turns.
fn summaries<'a>(survey: &'a Survey<'_>) -> impl Iterator<Item = (usize, TurnRange)> + 'a {
    let (overlays, turns) = (survey.stream.overlays(), survey.stream.turns());
    let numbered = (1..).zip(overlays).filter(|(_, overlay)| overlay.summary.is_some());
    numbered.filter_map(move |(number, overlay)| Some((number, overlay.reach(turns)?)))
}
