//! When a model is not worth asking: what it could save at most, and what has been summarised already. So no
//! loop of compactions starts, nor costs money.

use jp_compact_core::select::Selected;
use jp_compact_core::{Survey, TurnRange};

/// Why a summary of these turns is declined before a model is asked for it.
pub(super) fn not_worth_it(survey: &Survey<'_>, selected: &Selected, min_saving: f64) -> Option<String> {
    let range = selected.range;
    if let Some(older) = summarised(survey, selected) {
        return Some(format!(
            "{range} {} summarised already, by the summary of {older}; `--reset=N` removes that first",
            if range.from() == range.to() { "is" } else { "are" }
        ));
    }
    let view = survey.estimate.view_tokens(&survey.view);
    let turns = survey.turns.iter().filter(|turn| range.contains(turn.turn));
    let most: u64 = turns.map(|turn| turn.view_tokens).sum();
    let least = min_saving * view as f64;
    ((most as f64) < least).then(|| {
        format!(
            "no model was asked: {range} could save {most} of {view} tokens at most, and {} % is the least",
            min_saving * 100.0
        )
    })
}

/// The older summary that covers these turns, where none of them is newer than it. A part from the middle of an
/// older one is another matter: somebody asked for just that.
fn summarised(survey: &Survey<'_>, selected: &Selected) -> Option<TurnRange> {
    let stream = survey.stream;
    let summaries = stream.overlays().iter().filter(|overlay| overlay.summary.is_some());
    let mut reached = summaries.filter_map(|overlay| overlay.reach(stream.turns()));
    reached.find(|older| older.covers(selected.range) && older.to() == selected.range.to())
}
