//! One automatic compaction, with the range of `auto`: policies begin after the last overlay that has the same kind of
//! content, and a summary includes the ranges of all earlier summaries. Its overlays are added to the earlier ones.

use jp_compact_core::projection::project;
use jp_compact_core::select::{self, Selection};
use jp_compact_core::{Bound, Position, Stream, View};
use jp_compact_engine::compact::{self, Error, RunSettings};
use jp_compact_engine::plan::range_to_compact;

use crate::cuts::summary_tokens;
use crate::options::whole_selection;
use crate::subject::{StoredOverlays, Subject};

/// The result of a compaction that continues earlier ones.
pub(crate) struct AutomaticOutcome {
    pub(crate) view: View,
    pub(crate) tokens: u64,
    /// Whether the compaction added an overlay.
    pub(crate) is_changed: bool,
    /// The tokens that a model read and wrote.
    pub(crate) summary: (u64, u64),
}

/// Compacts a prefix with its earlier overlays. New overlays are added to `overlays`.
pub(crate) async fn compact_again(
    subject: &Subject<'_>,
    run: &mut RunSettings,
    events: usize,
    has_ended: bool,
    overlays: &mut StoredOverlays,
) -> Result<AutomaticOutcome, Error> {
    let opened = subject.prefix(events, has_ended, overlays)?;
    let to = if has_ended { None } else { end_of_steps(subject, events, &opened.stream) };
    let selection = Selection { to: to.map(Bound::At), ..whole_selection() };
    let mut has_range = false;
    for strategy in &mut run.strategies {
        let selected =
            select::resolve_without_survey(opened.stream.stream(), &|_| 0, selection, run.io.now).ok();
        let description = &strategy.described.description;
        let range = selected.and_then(|selected| range_to_compact(description, &opened.stream, selected));
        has_range |= range.is_some();
        strategy.range = range.map(|range| {
            let (from, to) = (Some(Bound::At(range.start())), Some(Bound::At(range.end())));
            Selection { from, to, ..Selection::default() }
        });
    }
    if !has_range {
        let view = project(&opened.stream);
        let tokens = subject.estimate.for_part(&opened.stream).view_tokens(&view);
        return Ok(AutomaticOutcome { view, tokens, is_changed: false, summary: (0, 0) });
    }
    // Only the compactions at the cuts report broken rules, because rendering a large prefix for each provider is
    // expensive.
    let providers = std::mem::take(&mut run.policy.providers);
    let result = compact::compact_with_view(run, &opened).await;
    run.policy.providers = providers;
    run.strategies.iter_mut().for_each(|strategy| strategy.range = None);
    let compacted = result?;
    let is_changed = compacted.stored_overlays().is_some_and(|array| overlays.extend(array));
    let view = compacted.survey.view;
    let summary = match is_changed {
        // A summary replaces all earlier summaries, so the model reads the raw events again.
        true => summary_tokens(subject, &view, run, compacted.report.tokens_raw),
        false => (0, 0),
    };
    Ok(AutomaticOutcome { view, tokens: compacted.report.tokens_after, is_changed, summary })
}

/// Returns the last step of a prefix, if its last turn continues in the session. An overlay on the whole turn would
/// also apply to the events that follow. If no step of that turn has begun, returns the end of the turn before it.
fn end_of_steps(subject: &Subject<'_>, events: usize, prefix: &Stream) -> Option<Position> {
    let last = prefix.turns().checked_sub(1)?;
    subject.session.events.get(events).filter(|next| next.turn == last)?;
    match prefix.steps().count(last).checked_sub(1) {
        Some(step) => Some(Position::step(last, step)),
        None => last.checked_sub(1).map(Position::turn),
    }
}
