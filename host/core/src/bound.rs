//! The bounds of a range as the user types them, and their resolution to turns (RFD 064, "Range bounds";
//! docs/reference/store.md#ranges). A bound is resolved to an absolute turn when the compaction is made.

use std::str::FromStr;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

use crate::stream::Stream;
use crate::turn::TurnRange;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `5`: this turn, from 0.
    Turn(usize),
    /// `-3`: this number of turns before the last.
    FromEnd(usize),
    /// `5h`: the turn that began about this long ago.
    Ago(SignedDuration),
    /// `last`: the turn after the newest compaction's range.
    AfterLast,
    /// The first turn that began later than this time after the first event: `keep_first = "5h"` in JP's own rules.
    WithinFirst(SignedDuration),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "last" {
            return Ok(Self::AfterLast);
        }
        if let Some(turns) = text.strip_prefix('-')
            && is_number(turns)
        {
            return turns.parse().map(Self::FromEnd).map_err(|error| format!("`{text}`: {error}"));
        }
        if is_number(text) {
            return text.parse().map(Self::Turn).map_err(|error| format!("`{text}`: {error}"));
        }
        duration(text).map(Self::Ago).ok_or_else(|| {
            format!(
                "expected a turn (`5`), turns from the end (`-3`), a time ago (`5h`) or `last`, not `{text}`"
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

/// Resolves two bounds to turns. `None` if there is nothing to compact. A missing `from` is 0, a missing `to` is the
/// last turn.
#[must_use]
pub fn resolve(stream: &Stream, from: Option<Bound>, to: Option<Bound>, now: Timestamp) -> Option<TurnRange> {
    let last = stream.turns().checked_sub(1)?;
    let from = match from {
        None => 0,
        Some(Bound::Turn(turn)) => turn,
        Some(Bound::FromEnd(turns)) => last.saturating_sub(turns),
        Some(Bound::Ago(ago)) => {
            let then = before(now, ago);
            stream.turns_began().iter().position(|began| *began >= then)?
        }
        Some(Bound::AfterLast) => stream.after_last_overlay(),
        Some(Bound::WithinFirst(time)) => within_first(stream, time),
    };
    let to = match to {
        None => last,
        Some(Bound::Turn(turn)) => turn.min(last),
        Some(Bound::FromEnd(turns)) => last.checked_sub(turns)?,
        Some(Bound::Ago(ago)) => {
            let then = before(now, ago);
            stream.turns_began().iter().rposition(|began| *began <= then)?
        }
        Some(Bound::AfterLast) => stream.after_last_overlay().min(last),
        Some(Bound::WithinFirst(time)) => within_first(stream, time).checked_sub(1)?.min(last),
    };
    // `to` is at most the last turn, so `from` is too.
    TurnRange::new(from, to)
}

/// Counts the first turns that began within `time` of the first event. As in JP, the count ends at the first turn that
/// began later, regardless of the turns after it.
fn within_first(stream: &Stream, time: SignedDuration) -> usize {
    let began = stream.turns_began();
    let Some(end) = began.first().map(|first| first.checked_add(time).unwrap_or(Timestamp::MAX)) else {
        return 0;
    };
    began.iter().take_while(|began| **began <= end).count()
}

/// Returns the time `ago` before `now`, or the earliest possible time.
fn before(now: Timestamp, ago: SignedDuration) -> Timestamp {
    now.checked_sub(ago).unwrap_or(Timestamp::MIN)
}
