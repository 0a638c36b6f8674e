//! The overlays whose policies the view shows in a range. An overlay is not shown if newer overlays replace all of its
//! policies. In the range of a summary, no other policy is shown. Strategies and the host must agree on the result, so
//! it is computed from the same plan as the view.

use jp_compact_schema::ContentKind;

use super::Plan;
use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// The overlays that the view shows in a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownInRange {
    /// One entry for each overlay of the stream, in order.
    pub overlays: Vec<ShownOfOverlay>,
    /// Whether the range has events, and summaries replace all of them.
    pub is_summarized: bool,
}

/// The policies of an overlay that the view shows in a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownOfOverlay {
    pub summary: bool,
    pub reasoning: bool,
    pub tool_calls: bool,
    /// The numbers of the events to which an entry of its `selective` policy applies.
    pub seqs: Vec<u64>,
}

impl ShownOfOverlay {
    /// Returns whether the view shows the overlay's policy of this kind.
    #[must_use]
    pub fn shows(&self, kind: ContentKind) -> bool {
        match kind {
            ContentKind::Summary => self.summary,
            ContentKind::Reasoning => self.reasoning,
            ContentKind::ToolCalls => self.tool_calls,
            _ => false,
        }
    }
}

/// Finds the overlays of a stream that the view shows in a range.
#[must_use]
pub fn shown_in_range(stream: &Stream, pairs: &Pairs, range: TurnRange) -> ShownInRange {
    let mut shown = ShownInRange {
        overlays: vec![ShownOfOverlay::default(); stream.overlays().len()],
        is_summarized: false,
    };
    if shown.overlays.is_empty() {
        return shown;
    }
    let plan = Plan::new(stream, stream.overlays(), Some(pairs));
    let (mut has_summarized, mut has_others) = (false, false);
    for (element, event) in stream.events().iter().enumerate() {
        if !event.kind.is_conversation() || !stream.is_in(range, element) {
            continue;
        }
        let slot = plan.slots.slot(event, element);
        let winners = plan.winners[slot];
        if let Some(index) = winners.summary {
            shown.overlays[index].summary = true;
            has_summarized = true;
            continue;
        }
        has_others = true;
        match event.kind {
            Kind::Reasoning => {
                winners.reasoning.into_iter().for_each(|index| shown.overlays[index].reasoning = true);
            }
            Kind::ToolRequest | Kind::ToolResponse { .. } => match plan
                .listed_winner(element, winners.tool_calls)
            {
                Some((index, _)) => {
                    shown.overlays[index].tool_calls = true;
                    shown.overlays[index].seqs.extend(event.seq);
                }
                None => {
                    winners.tool_calls.into_iter().for_each(|index| shown.overlays[index].tool_calls = true);
                }
            },
            _ => {}
        }
    }
    shown.is_summarized = has_summarized && !has_others;
    shown
}
