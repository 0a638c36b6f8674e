//! The check for an open turn. A range of whole turns excludes it. Its closed steps can be compacted, because nothing
//! changes in them any more. An unanswered call and the events after it must never be compacted.

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
    let end = TurnEnd::new(stream, pairs)?;
    match (end.waiting.is_some(), for_summary && !end.in_message) {
        (true, _) => Some(Open::ToolCall),
        (false, true) => Some(Open::Unanswered),
        (false, false) => None,
    }
}

/// Returns the number of steps at the start of the last turn that are closed: all steps before the first call that waits
/// for its response. A call that the model did not wait for, because it spoke again, closes its step like a response.
#[must_use]
pub fn closed_steps(stream: &Stream, pairs: &Pairs) -> usize {
    let Some(last) = stream.turns().checked_sub(1) else { return 0 };
    let (steps, events) = (stream.steps(), stream.events());
    let Some(waiting) = TurnEnd::new(stream, pairs).and_then(|end| end.waiting) else {
        return steps.count(last);
    };
    // Late responses to earlier steps may follow the call.
    let after = (waiting..events.len()).filter(|element| events[*element].kind.is_conversation());
    after.filter_map(|element| steps.step(element)).min().unwrap_or_default()
}

/// The end of the last turn.
struct TurnEnd {
    /// The first unanswered call that only tool events follow.
    waiting: Option<usize>,
    /// Whether the last event is a message of the assistant.
    in_message: bool,
}

impl TurnEnd {
    fn new(stream: &Stream, pairs: &Pairs) -> Option<Self> {
        let last = stream.turns().checked_sub(1)?;
        let events = stream.events();
        // Overlays are not part of the conversation. Those of a sidecar follow the last turn.
        let is_raw = |element: &usize| events[*element].kind.is_conversation();
        let raw = (0..events.len()).rev().filter(is_raw);
        let mut turn: Vec<usize> = raw.take_while(|element| events[*element].turn == last).collect();
        turn.reverse();
        let mut end = Self { waiting: None, in_message: false };
        for element in turn {
            match events[element].kind {
                Kind::ToolRequest if pairs.partner(element).is_none() => {
                    end.waiting = end.waiting.or(Some(element));
                }
                Kind::ToolRequest
                | Kind::ToolResponse { .. }
                | Kind::InquiryRequest
                | Kind::InquiryResponse => {}
                _ => end.waiting = None,
            }
            end.in_message = matches!(events[element].kind, Kind::Message | Kind::Data);
        }
        Some(end)
    }
}
