//! The check for an open turn, which every range excludes.

use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stream::Stream;

/// The reason why the last turn is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// A tool call has no response yet.
    ToolCall,
    /// The last event is not from the assistant. Applies to summaries only.
    Unanswered,
}

/// Returns whether the last turn is open (docs/reference/store.md#the-open-turn): only tool events follow an unanswered
/// tool request or, for a summary, the turn does not end with an assistant message. Inquiries count as tool events
/// here, because tools make them.
#[must_use]
pub fn open(stream: &Stream, pairs: &Pairs, for_summary: bool) -> Option<Open> {
    let last = stream.turns().checked_sub(1)?;
    let events = stream.events();
    // Overlays are not part of the conversation. Those of a sidecar follow the last turn.
    let is_raw = |element: &usize| events[*element].kind.is_conversation();
    let raw = (0..events.len()).rev().filter(is_raw);
    let mut turn: Vec<usize> = raw.take_while(|element| events[*element].turn == last).collect();
    turn.reverse();
    let mut waiting = false;
    let mut ends_in_message = false;
    for element in turn {
        match events[element].kind {
            Kind::ToolRequest => waiting |= pairs.partner(element).is_none(),
            Kind::ToolResponse { .. } | Kind::InquiryRequest | Kind::InquiryResponse => {}
            _ => waiting = false,
        }
        ends_in_message = matches!(events[element].kind, Kind::Message | Kind::Data);
    }
    match (waiting, for_summary && !ends_in_message) {
        (true, _) => Some(Open::ToolCall),
        (false, true) => Some(Open::Unanswered),
        (false, false) => None,
    }
}
