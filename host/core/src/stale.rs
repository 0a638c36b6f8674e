//! The part of a view whose signed thinking is left out, for rendering and for write-back. A provider may reject the
//! signature of a thought if the content before it has changed. It also rejects the results of calls if the thought
//! that led to the calls is missing, so the open turn must never lose its thinking.

use std::collections::HashSet;

use crate::event::Kind;
use crate::stream::Stream;
use crate::view::{Item, Part, View};

/// The items from the first changed turn up to the open turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleItems {
    /// The first turn with an event that the view hides or changes.
    pub first_changed_turn: Option<usize>,
    /// The index of the item that begins the open turn, or the number of items.
    open: usize,
}

impl StaleItems {
    #[must_use]
    pub fn new(stream: &Stream, view: &View) -> Self {
        Self { first_changed_turn: first_changed_turn(stream, view), open: open_item(stream, view) }
    }

    /// Returns whether the item with this index is in the first changed turn or after it, and before the open turn.
    #[must_use]
    pub fn contains(&self, index: usize, item: &Item) -> bool {
        index < self.open && self.first_changed_turn.is_some_and(|turn| item.origin.turn() >= turn)
    }
}

fn first_changed_turn(stream: &Stream, view: &View) -> Option<usize> {
    let mut unchanged = HashSet::new();
    for item in view.items() {
        if let Part::Kept(element) | Part::Short(element) = item.part {
            unchanged.insert(element);
        }
    }
    let mut events = stream.events().iter().enumerate();
    let is_changed = |element: &usize| !unchanged.contains(element);
    let first = events.find(|(element, event)| event.kind.is_provider_visible() && is_changed(element));
    first.map(|(_, event)| event.turn)
}

/// Returns the index of the request that begins the open turn. A request directly after results does not begin a turn,
/// because it is sent in one message with them. After a text of the assistant, no turn is open.
fn open_item(stream: &Stream, view: &View) -> usize {
    let kind = |item: &Item| item.part.element().map(|element| stream.events()[element].kind);
    let is_model_output =
        |kind: &Option<Kind>| matches!(kind, Some(Kind::Message | Kind::Data | Kind::Reasoning));
    // A text between a call and its results is a part of the response with the call.
    let follows_call = |index: usize| {
        let before = view.items()[..index].iter().rev().map(kind).find(|kind| !is_model_output(kind));
        before == Some(Some(Kind::ToolRequest))
    };
    // Renderings move a result that follows no call to its own call, or leave it out.
    let is_answer = |index: usize| {
        let is_result = |item: &Item| matches!(kind(item), Some(Kind::ToolResponse { .. }));
        follows_call(
            view.items()[..index].iter().rposition(|item| !is_result(item)).map_or(0, |before| before + 1),
        )
    };
    let (mut request, mut has_calls, mut has_results) = (None, false, false);
    for (index, item) in view.items().iter().enumerate().rev() {
        match kind(item) {
            Some(Kind::ToolResponse { .. }) if is_answer(index) => (request, has_results) = (None, true),
            Some(Kind::ToolRequest) => (request, has_calls) = (None, true),
            Some(Kind::ChatRequest) => request = Some(index),
            Some(Kind::Message) if is_blank(stream, item) => {}
            Some(Kind::Message | Kind::Data) if request.is_some() => break,
            Some(Kind::Message | Kind::Data) if has_calls || (has_results && follows_call(index)) => {}
            Some(Kind::Message | Kind::Data) => return view.items().len(),
            None if matches!(item.part, Part::SummaryResponse { .. }) => {
                request = request.or(Some(index + 1));
                break;
            }
            None => request = Some(index),
            Some(_) => {}
        }
    }
    request.unwrap_or(if has_calls { 0 } else { view.items().len() })
}

fn is_blank(stream: &Stream, item: &Item) -> bool {
    let body = item.part.element().map(|element| stream.events()[element].body);
    // If a file is read in windows, blank texts stay in memory.
    body.is_none_or(|body| stream.index().is_in_memory(body) && stream.text(body).trim().is_empty())
}
