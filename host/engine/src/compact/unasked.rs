//! When a model is not worth asking: what it could save at most, and what has been summarised already. So no
//! loop of compactions starts, nor costs money.

use jp_compact_core::select::Selected;
use jp_compact_core::{Survey, TurnRange};

/// Why a summary of these turns is declined before a model is asked for it.
pub(super) fn not_worth_it(survey: &Survey<'_>, selected: &Selected, min_saving: f64) -> Option<String> {
    // What was asked for, not what that was extended to: one summary in place of an older one and a part of it is
    // what `--overlap union` is for.
    let requested = selected.requested;
    let around: Vec<_> = summaries(survey).filter(|(_, older)| older.covers(requested)).collect();
    if let Some((number, older)) = around.iter().find(|(_, older)| older.to() == requested.to()) {
        return Some(format!(
            "{requested} {} summarised already: overlay {number} is a summary of {older}, and nothing asked for is \
             newer; `--reset={number}` removes it",
            if requested.from() == requested.to() { "is" } else { "are" }
        ));
    }
    if around.iter().any(|(_, older)| older.covers(selected.range)) {
        // It shows nothing in the view that could be saved. Somebody asked for just that, and is warned.
        return None;
    }
    let view = survey.estimate.view_tokens(&survey.view);
    let turns = survey.turns.iter().filter(|turn| selected.range.contains(turn.turn));
    let most: u64 = turns.map(|turn| turn.view_tokens).sum();
    let least = min_saving * view as f64;
    ((most as f64) < least).then(|| {
        format!(
            "no model was asked: a summary of {} could save {most} of the view's {view} tokens at most, and {} % is \
             the least (min_saving)",
            selected.range,
            min_saving * 100.0
        )
    })
}

/// The summaries that there are, with their numbers and the turns that they stand for.
fn summaries<'a>(survey: &'a Survey<'_>) -> impl Iterator<Item = (usize, TurnRange)> + 'a {
    let (overlays, turns) = (survey.stream.overlays(), survey.stream.turns());
    let numbered = (1..).zip(overlays).filter(|(_, overlay)| overlay.summary.is_some());
    numbered.filter_map(move |(number, overlay)| Some((number, overlay.reach(turns)?)))
}
