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
    let begin = events.iter().rposition(|event| event.turn < last).map_or(0, |before| before + 1);
    let turn = (begin..events.len()).filter(|element| events[*element].kind.is_conversation());
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
