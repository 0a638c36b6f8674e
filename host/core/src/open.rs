//! The check for an open turn. A range of whole turns excludes the open turn. Its closed steps can be compacted,
//! because they no longer change. A call that waits for its response, and the events after it, must never be compacted.

use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stream::Stream;

/// The reason why the last turn is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// A tool call has no response yet.
    ToolCall,
    /// The last event is not an assistant message. Applies to summaries only.
    Unanswered,
}

impl std::fmt::Display for OpenReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::ToolCall => "one of its tool calls has no response yet",
            Self::Unanswered => "it does not end with an assistant message",
        })
    }
}

/// Returns the reason why the last turn is open, or `None` if it is closed (docs/reference/store.md#the-open-turn). It
/// is open if only tool events follow an unanswered tool request. For a summary, a turn that does not end with an
/// assistant message is open too. Inquiries count as tool events, because tools make them. In a stream that has
/// [ended](Stream::ended), no turn is open.
#[must_use]
pub fn open_reason(stream: &Stream, pairs: &Pairs, for_summary: bool) -> Option<OpenReason> {
    if stream.is_ended() {
        return None;
    }
    let end = TurnEnd::new(stream, pairs)?;
    match (end.waiting_call.is_some(), for_summary && !end.ends_with_message) {
        (true, _) => Some(OpenReason::ToolCall),
        (false, true) => Some(OpenReason::Unanswered),
        (false, false) => None,
    }
}

/// Returns the number of closed steps of the last turn: all steps before the first call that waits for its response. A
/// call no longer waits if an event other than a tool event follows it.
#[must_use]
pub fn closed_steps(stream: &Stream, pairs: &Pairs) -> usize {
    let Some(last) = stream.turns().checked_sub(1) else { return 0 };
    let (steps, events) = (stream.steps(), stream.events());
    let Some(waiting_call) = TurnEnd::new(stream, pairs).and_then(|end| end.waiting_call) else {
        return steps.count(last);
    };
    // Late responses to earlier steps may follow the call.
    let following = (waiting_call..events.len()).filter(|element| events[*element].kind.is_conversation());
    following.filter_map(|element| steps.step(element)).min().unwrap_or_default()
}

/// The end of the last turn.
struct TurnEnd {
    /// The first unanswered call that only tool events follow.
    waiting_call: Option<usize>,
    /// Whether the last event is a message of the assistant.
    ends_with_message: bool,
}

impl TurnEnd {
    fn new(stream: &Stream, pairs: &Pairs) -> Option<Self> {
        let last = stream.turns().checked_sub(1)?;
        let events = stream.events();
        // Overlays are not part of the conversation. Those of a sidecar follow the last turn.
        let is_conversation = |element: &usize| events[*element].kind.is_conversation();
        let conversation = (0..events.len()).rev().filter(is_conversation);
        let mut turn: Vec<usize> = conversation.take_while(|element| events[*element].turn == last).collect();
        turn.reverse();
        let mut end = Self { waiting_call: None, ends_with_message: false };
        for element in turn {
            match events[element].kind {
                Kind::ToolRequest if pairs.partner(element).is_none() => {
                    end.waiting_call = end.waiting_call.or(Some(element));
                }
                Kind::ToolRequest
                | Kind::ToolResponse { .. }
                | Kind::InquiryRequest
                | Kind::InquiryResponse => {}
                _ => end.waiting_call = None,
            }
            end.ends_with_message = matches!(events[element].kind, Kind::Message | Kind::Data);
        }
        Some(end)
    }
}
