//! The bounds of a range as the user types them, and their resolution to turns and steps (RFD 064, "Range bounds";
//! docs/reference/store.md#ranges). A bound is resolved to an absolute position when the compaction is made.

use std::str::FromStr;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

use crate::position::Position;
use crate::stream::Stream;
use crate::turn::TurnRange;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `5` or `5.2`: this turn or step, from 0.
    At(Position),
    /// `-3`: this number of turns before the last.
    FromEnd(usize),
    /// `5h`: the turn that began about this long ago.
    Ago(SignedDuration),
    /// `last`: the turn or step after the greatest end of all overlays that are not stale.
    AfterLast,
    /// The first turn that began more than this long after the first event: `--keep-first 5h`, or `keep_first = "5h"`
    /// in JP's own rules.
    WithinFirst(SignedDuration),
}

impl Bound {
    /// Creates the bound of a whole turn.
    #[must_use]
    pub const fn turn(turn: usize) -> Self {
        Self::At(Position::turn(turn))
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "last" {
            return Ok(Self::AfterLast);
        }
        // JP counts turns from 1, and writes them in this form.
        if let Some(turn) = text.strip_prefix('@').filter(|turn| is_number(turn)) {
            let number: usize = turn.parse().map_err(|error| format!("`{text}`: {error}"))?;
            let turn = number
                .checked_sub(1)
                .ok_or("`@0` is not a turn: the first turn is `@1`, or `0` without `@`")?;
            return Ok(Self::turn(turn));
        }
        if let Some(turns) = text.strip_prefix('-')
            && is_number(turns)
        {
            return turns.parse().map(Self::FromEnd).map_err(|error| format!("`{text}`: {error}"));
        }
        if let Some((turn, step)) = text.split_once('.')
            && is_number(turn)
            && is_number(step)
        {
            return text.parse().map(Self::At);
        }
        if is_number(text) {
            return text.parse().map(Self::turn).map_err(|error| format!("`{text}`: {error}"));
        }
        duration(text).map(Self::Ago).ok_or_else(|| {
            format!(
                "expected a turn (`5`, or `@6` as JP counts), a step (`5.2`), turns from the end (`-3`), a time ago (`5h`) or `last`, not \
                 `{text}`"
            )
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a duration such as `90s`, `5h`, or `1d 12h`. A day has 24 hours. Negative durations are rejected.
#[must_use]
pub fn duration(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    (!duration.is_negative() && !text.trim_start().starts_with('-')).then_some(duration)
}

/// Resolves two bounds to a range. `None` if there is nothing to compact. A missing `from` is turn 0, and a missing
/// `to` is the last turn.
#[must_use]
pub fn resolve(stream: &Stream, from: Option<Bound>, to: Option<Bound>, now: Timestamp) -> Option<TurnRange> {
    let last = stream.turns().checked_sub(1)?;
    let from = match from {
        None => 0.into(),
        Some(Bound::At(position)) => range_start(stream, position),
        Some(Bound::FromEnd(turns)) => last.saturating_sub(turns).into(),
        Some(Bound::Ago(duration)) => {
            let time = time_before(now, duration);
            stream.turn_starts().iter().position(|start| *start >= time)?.into()
        }
        Some(Bound::AfterLast) => range_start(stream, stream.after_last_overlay()),
        Some(Bound::WithinFirst(duration)) => within_first(stream, duration).into(),
    };
    let to = match to {
        None => last.into(),
        Some(Bound::At(position)) => range_end(stream, position, last)?,
        Some(Bound::FromEnd(turns)) => last.checked_sub(turns)?.into(),
        Some(Bound::Ago(duration)) => {
            let time = time_before(now, duration);
            stream.turn_starts().iter().rposition(|start| *start <= time)?.into()
        }
        Some(Bound::AfterLast) => range_end(stream, stream.after_last_overlay(), last)?,
        Some(Bound::WithinFirst(duration)) => within_first(stream, duration).checked_sub(1)?.min(last).into(),
    };
    // `to` is at most the last turn. With a later `from` there is no range.
    TurnRange::between(from, to)
}

/// Returns the start of a range: `position`, or the next turn if the turn has fewer steps.
fn range_start(stream: &Stream, position: Position) -> Position {
    match position.step {
        Some(step) if step >= stream.steps().count(position.turn) => Position::turn(position.turn).after(),
        _ => position,
    }
}

/// Returns the inclusive end of a range: `position`, or the last step or turn before it that exists.
fn range_end(stream: &Stream, position: Position, last: usize) -> Option<Position> {
    if position.turn > last {
        return Some(last.into());
    }
    let Some(step) = position.step else { return Some(position) };
    match stream.steps().count(position.turn) {
        0 => position.turn.checked_sub(1).map(Position::turn),
        count => Some(Position::step(position.turn, step.min(count - 1))),
    }
}

/// Counts the first turns that began within `duration` of the first event. As in JP, the count ends at the first turn
/// that began later, regardless of the turns after it.
fn within_first(stream: &Stream, duration: SignedDuration) -> usize {
    let starts = stream.turn_starts();
    let Some(first) = starts.first() else { return 0 };
    let limit = first.checked_add(duration).unwrap_or(Timestamp::MAX);
    starts.iter().take_while(|start| **start <= limit).count()
}

/// Returns the time that is `duration` before `now`, or the earliest possible time.
fn time_before(now: Timestamp, duration: SignedDuration) -> Timestamp {
    now.checked_sub(duration).unwrap_or(Timestamp::MIN)
}
