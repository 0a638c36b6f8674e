//! The overlap of a new summary's range with existing summaries (RFD 064, "Summary Overlap Resolution"). A summary
//! cannot be split, so the range is extended.

use std::str::FromStr;

use crate::open;
use crate::pairs::Pairs;
use crate::position::Position;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// Which overlaps extend a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Ranges of which neither contains the other: RFD 064's rule.
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

/// Extends `range` over the visible summaries of a stream, and over those `accepted` in the same run. Summaries are
/// clamped to the end of the stream. The result never includes an open turn.
#[must_use]
pub fn close(
    range: TurnRange,
    stream: &Stream,
    pairs: &Pairs,
    accepted: &[TurnRange],
    overlap: Overlap,
) -> TurnRange {
    let summaries = stream.summaries().chain(accepted.iter().copied());
    let open = usize::from(open::open(stream, pairs, true).is_some());
    let last = stream.turns().saturating_sub(1 + open);
    let clamp = |older: TurnRange| {
        // A part of the open turn was closed when it was summarized.
        let is_part = older.to() == last + open && older.end().step.is_some();
        let end = if is_part || older.to() <= last { older.end() } else { Position::turn(last) };
        TurnRange::between(older.start(), end)
    };
    extend(range, summaries.filter_map(clamp), overlap)
}

/// Returns the smallest range around `range` that splits none of `summaries`: a fixpoint, independent of their order.
#[must_use]
pub fn extend(
    range: TurnRange,
    summaries: impl Iterator<Item = TurnRange> + Clone,
    overlap: Overlap,
) -> TurnRange {
    let mut extended = range;
    loop {
        let before = extended;
        for summary in summaries.clone() {
            let nested = summary.covers(extended) || extended.covers(summary);
            if !summary.meets(extended) || (overlap == Overlap::Partial && nested) {
                continue;
            }
            extended = extended.union(summary);
        }
        if extended == before {
            return extended;
        }
    }
}
