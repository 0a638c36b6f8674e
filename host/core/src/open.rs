//! The turn that is still open: it is left out of every range.

use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stream::Stream;

/// Why the last turn is left out of every range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// A tool call waits for its answer.
    ToolCall,
    /// The assistant has not spoken last; it counts for summaries alone.
    Unanswered,
}

/// Whether the last turn is open (JP-STREAM, "Ranges"): an unanswered tool request is followed by tool
/// events alone; for a summary also when it does not end in a message of the assistant. Inquiries count as
/// tool events here, for it is tools that make them.
#[must_use]
pub fn open(stream: &Stream, pairs: &Pairs, for_summary: bool) -> Option<Open> {
    let last = stream.turns().checked_sub(1)?;
    let events = stream.events();
    // Overlays are no part of the conversation, wherever they are stored: those of a sidecar follow the last turn.
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
