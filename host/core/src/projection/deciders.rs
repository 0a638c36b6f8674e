//! The overlay that determines how the view shows each event: the winner of its slot for a summary, reasoning, or tool
//! calls. Reports attribute each change of a view to this overlay. The projection uses the same plan, so the two cannot
//! differ.

use super::{Outcome, Plan, apply};
use crate::event::Kind;
use crate::overlay::Overlay;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::view::View;

/// The overlay that determines how the view shows an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decider {
    /// The index of the overlay.
    pub overlay: usize,
    /// Whether the overlay's summary replaces the event.
    pub is_summary: bool,
}

/// Projects a stream with these overlays, and returns the decider of each element.
#[must_use]
pub fn project_with_deciders(
    stream: &Stream,
    pairs: &Pairs,
    overlays: &[Overlay],
) -> (View, Vec<Option<Decider>>) {
    let plan = Plan::new(stream, overlays, Some(pairs));
    let deciders = (0..stream.events().len()).map(|element| plan.decider(element)).collect();
    (apply(stream, &plan), deciders)
}

impl Plan<'_> {
    fn decider(&self, element: usize) -> Option<Decider> {
        let event = &self.stream.events()[element];
        if !event.kind.is_conversation() {
            return None;
        }
        let slot = self.slots.slot(event, element);
        if let Some(run) = self.runs[slot] {
            let overlay = self.winners[run.first].summary?;
            return Some(Decider { overlay, is_summary: true });
        }
        let overlay = match event.kind {
            Kind::Reasoning => self.winners[slot].reasoning,
            Kind::ToolRequest | Kind::ToolResponse { .. } => self.call_decider(element),
            _ => None,
        };
        overlay.map(|overlay| Decider { overlay, is_summary: false })
    }

    fn call_decider(&self, element: usize) -> Option<usize> {
        let partner = self.linked_pairs().and_then(|pairs| pairs.partner(element));
        let is_omitted = |element: usize| self.half_outcome(element) == Outcome::Omit;
        match partner {
            Some(partner) if is_omitted(partner) && !is_omitted(element) => self.half_decider(partner),
            _ => self.half_decider(element),
        }
    }

    fn half_decider(&self, element: usize) -> Option<usize> {
        let event = &self.stream.events()[element];
        let winner = self.winners[self.slots.slot(event, element)].tool_calls;
        self.listed_winner(element, winner).map(|(index, _)| index).or(winner)
    }
}
