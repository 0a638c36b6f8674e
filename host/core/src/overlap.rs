//! The overlap of a new summary's range with existing summaries (RFD 064, "Summary Overlap Resolution"). A summary
//! cannot be split, so the range is extended.

use std::str::FromStr;

use crate::open;
use crate::pairs::Pairs;
use crate::position::Position;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// The overlaps that extend a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Ranges that intersect, if neither contains the other: RFD 064's rule.
    #[default]
    Partial,
    /// All ranges that intersect: JP's current behavior.
    Union,
}

impl FromStr for Overlap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "partial" => Ok(Self::Partial),
            "union" => Ok(Self::Union),
            _ => Err(format!("expected `partial` or `union`, not `{text}`")),
        }
    }
}

/// Extends `range` over the summaries of a stream, and over the summaries `accepted` in the same run. Summaries are
/// clamped to the end of the stream. The extension never includes an open turn completely.
#[must_use]
pub fn extend_over_summaries(
    range: TurnRange,
    stream: &Stream,
    pairs: &Pairs,
    accepted: &[TurnRange],
    overlap: Overlap,
) -> TurnRange {
    let summaries = stream.summaries().chain(accepted.iter().copied());
    let open_turns = usize::from(open::open_reason(stream, pairs, true).is_some());
    let last = stream.turns().saturating_sub(1 + open_turns);
    let clamp = |summary: TurnRange| {
        // A summary can end at a closed step of the open turn.
        let ends_in_open_turn = summary.to() == last + open_turns && summary.end().step.is_some();
        let keeps_end = ends_in_open_turn || summary.to() <= last;
        TurnRange::between(summary.start(), if keeps_end { summary.end() } else { Position::turn(last) })
    };
    extend(range, summaries.filter_map(clamp), overlap)
}

/// Extends `range` until none of `summaries` extends it further: a fixpoint, independent of their order.
#[must_use]
pub fn extend(
    range: TurnRange,
    summaries: impl Iterator<Item = TurnRange> + Clone,
    overlap: Overlap,
) -> TurnRange {
    let mut extended = range;
    loop {
        let previous = extended;
        for summary in summaries.clone() {
            let is_nested = summary.covers(extended) || extended.covers(summary);
            if !summary.overlaps(extended) || (overlap == Overlap::Partial && is_nested) {
                continue;
            }
            extended = extended.union(summary);
        }
        if extended == previous {
            return extended;
        }
    }
}
