//! The overlap of a new summary's range with existing summaries (RFD 064, "Summary Overlap Resolution"). A summary
//! cannot be split, so the range is extended.

use std::str::FromStr;

use crate::open;
use crate::pairs::Pairs;
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
    let open = usize::from(open::open(stream, pairs, true).is_some());
    let last = stream.turns().saturating_sub(1 + open);
    let accepted = accepted.iter().map(|range| (range.from(), range.to()));
    let summaries = stream.summaries().chain(accepted).map(|(from, to)| (from, to.min(last)));
    extend(range, summaries, overlap)
}

/// Returns the smallest range around `range` that splits none of `summaries`: a fixpoint, independent of their order.
#[must_use]
pub fn extend(
    range: TurnRange,
    summaries: impl Iterator<Item = (usize, usize)> + Clone,
    overlap: Overlap,
) -> TurnRange {
    let mut extended = range;
    loop {
        let before = extended;
        for (from, to) in summaries.clone() {
            // An overlay with an inverted range has no effect.
            let Some(summary) = TurnRange::new(from, to) else { continue };
            let apart = summary.to() < extended.from() || extended.to() < summary.from();
            let nested = summary.covers(extended) || extended.covers(summary);
            if apart || (overlap == Overlap::Partial && nested) {
                continue;
            }
            let from = extended.from().min(summary.from());
            extended = TurnRange::new(from, extended.to().max(summary.to())).unwrap_or(extended);
        }
        if extended == before {
            return extended;
        }
    }
}
