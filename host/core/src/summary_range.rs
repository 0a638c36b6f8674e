//! The range of a new summary: it begins with a turn or with the first step of a turn, and splits no call and no older
//! summary. In an open turn with signed thinking, the step after it must begin with thinking, because providers reject
//! a tool loop that begins without thinking.

use crate::event::Kind;
use crate::open;
use crate::overlap::{self, Overlap};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::render::is_signed;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// Returns the last position at or before `end` at which a summary may end. `None` if there is no such position.
#[must_use]
pub fn last_end(stream: &Stream, pairs: &Pairs, end: Position) -> Option<Position> {
    let Some(step) = end.step.filter(|_| end.turn + 1 == stream.turns()) else { return Some(end) };
    if open::open_reason(stream, pairs, true).is_none() {
        return Some(end);
    }
    let thinks = steps_that_think(stream, end.turn);
    if !thinks.contains(&true) {
        return Some(end);
    }
    let before_thinking = (0..=step).rev().find(|step| thinks.get(step + 1) == Some(&true));
    match before_thinking {
        Some(step) => Some(Position::step(end.turn, step)),
        None => end.turn.checked_sub(1).map(Position::turn),
    }
}

/// Returns for each step of a turn whether it begins with signed thinking.
fn steps_that_think(stream: &Stream, turn: usize) -> Vec<bool> {
    let mut thinks: Vec<Option<bool>> = vec![None; stream.steps().count(turn)];
    for (element, event) in stream.events().iter().enumerate() {
        let step =
            stream.steps().step(element).filter(|_| event.turn == turn && event.kind.is_conversation());
        if let Some(first @ None) = step.and_then(|step| thinks.get_mut(step)) {
            *first = Some(event.kind == Kind::Reasoning && is_signed(stream, element));
        }
    }
    thinks.into_iter().map(Option::unwrap_or_default).collect()
}

/// Returns whether a summary may begin at a position.
#[must_use]
pub fn may_begin(start: Position) -> bool {
    start.step.is_none_or(|step| step == 0)
}

/// Extends a range at its start to the first step of the turn.
#[must_use]
pub fn from_first_step(range: TurnRange) -> TurnRange {
    let start = Position { step: range.start().step.map(|_| 0), ..range.start() };
    TurnRange::between(start, range.end()).unwrap_or(range)
}

/// Returns the largest range within `range` that a summary may have, ignoring older summaries. `range` begins with a
/// turn or its first step. `None` if nothing is left.
#[must_use]
pub fn allowed(stream: &Stream, pairs: &Pairs, range: TurnRange) -> Option<TurnRange> {
    let mut range = range;
    loop {
        let whole = pairs.shrink(stream, range)?;
        // A range that would begin in the middle of a turn begins with the next turn instead.
        let start = Some(whole.start()).filter(|start| may_begin(*start));
        let start = start.unwrap_or(Position::turn(whole.from() + 1));
        let shorter = TurnRange::between(start, last_end(stream, pairs, whole.end())?)?;
        if shorter == range {
            return Some(range);
        }
        range = shorter;
    }
}

/// Extends a range over older summaries, and at its start to the first step of a turn.
#[must_use]
pub fn extend_over_summaries(
    range: TurnRange,
    stream: &Stream,
    pairs: &Pairs,
    accepted: &[TurnRange],
    overlap: Overlap,
) -> TurnRange {
    let mut range = range;
    loop {
        let closed = from_first_step(overlap::extend_over_summaries(range, stream, pairs, accepted, overlap));
        if closed == range {
            return range;
        }
        range = closed;
    }
}
