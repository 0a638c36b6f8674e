//! The search for the event of an entry of a stored `selective` policy. The event is a half of a call: its request or
//! its response. Event numbers are not stable: JP's next save can insert a `turn_start`, or responses to interrupted
//! calls, before the event (docs/reference/store.md#on-disk). The position of a half among the halves with the same
//! kind and id is stable, because JP inserts a response only for an id without one.
//!
//! An entry must match the event that it was made for, or no event. If the number of halves or the tool has changed, it
//! matches none.

use std::borrow::Cow;

use crate::event::Kind;
use crate::overlay::{Half, HalfKind, Overlay, StoredCall};
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

/// The reason why an entry matches no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMatch {
    /// An entry of version 0.1.0 whose number and id disagree, or an entry that has no policy for its half.
    Disagrees,
    /// The number of halves has changed.
    Count {
        /// The number when the overlay was made.
        stored: usize,
        /// The number now.
        current: usize,
    },
    /// The tool has changed.
    Tool {
        /// The tool when the overlay was made.
        stored: Option<String>,
        /// The tool now.
        current: Option<String>,
    },
}

impl NoMatch {
    /// Describes the reason to the user.
    #[must_use]
    pub fn describe(&self, call: &StoredCall) -> String {
        let StoredCall { seq, id, .. } = call;
        let tool = |tool: &Option<String>| tool.clone().map_or("none".into(), |tool| format!("`{tool}`"));
        match self {
            Self::Disagrees => {
                format!(
                    "no effect on event {seq}: it is not the request or response of call `{id}` in the range"
                )
            }
            Self::Count { stored, current } => format!(
                "no effect on event {seq}: call `{id}` occurred {stored} times in the range when the overlay was made, and \
                 occurs {current} times now"
            ),
            Self::Tool { stored, current } => format!(
                "no effect on event {seq}: the tool of call `{id}` was {} when the overlay was made, and is {} now",
                tool(stored),
                tool(current)
            ),
        }
    }
}

#[derive(Debug)]
pub struct Halves<'a> {
    stream: &'a Stream,
    pairs: &'a Pairs,
    /// The id and the kind of each half, sorted. Two allocations are cheaper than a map, because there are few halves,
    /// and every projection of a `selective` policy lists them.
    keys: Vec<(Cow<'a, [u8]>, usize)>,
    /// The element of each key. Elements with equal keys are sorted.
    elements: Vec<usize>,
}

impl<'a> Halves<'a> {
    /// Lists the halves of a stream.
    #[must_use]
    pub fn new(stream: &'a Stream, pairs: &'a Pairs) -> Self {
        let mut halves = Vec::new();
        for (element, event) in stream.events().iter().enumerate() {
            if let Some(kind) = half_kind(event.kind) {
                halves.push(((text::unquote_bytes(stream.bytes_at(event.id)), kind as usize), element));
            }
        }
        halves.sort_unstable();
        let (keys, elements) = halves.into_iter().unzip();
        Self { stream, pairs, keys, elements }
    }

    /// Describes the half at `element`, for an overlay of `range` whose own element is `overlay`.
    #[must_use]
    pub fn half(&self, element: usize, range: TurnRange, overlay: usize) -> Option<Half> {
        let event = self.stream.events().get(element)?;
        let kind = half_kind(event.kind)?;
        let same_id =
            self.with_id(&text::unquote_bytes(self.stream.bytes_at(event.id)), kind, range, overlay);
        let nth = same_id.binary_search(&element).ok()?;
        Some(Half { kind, nth, count: same_id.len(), tool: self.tool(element) })
    }

    /// Finds the element that an entry of a `selective` policy names, also if the overlay has no effect.
    ///
    /// # Errors
    /// The entry matches no event. The error is the reason.
    pub fn find(&self, overlay: &Overlay, call: &StoredCall) -> Result<usize, NoMatch> {
        let Some(half) = &call.half else { return self.by_number(overlay, call).ok_or(NoMatch::Disagrees) };
        let range = overlay.range().filter(|_| has_policy(call, half.kind)).ok_or(NoMatch::Disagrees)?;
        let same_id = self.with_id(call.id.as_bytes(), half.kind, range, overlay.element);
        let element = match same_id.get(half.nth) {
            Some(element) if same_id.len() == half.count => *element,
            _ => return Err(NoMatch::Count { stored: half.count, current: same_id.len() }),
        };
        match self.tool(element) {
            current if current == half.tool => Ok(element),
            current => Err(NoMatch::Tool { stored: half.tool.clone(), current }),
        }
    }

    /// Returns the element for an entry of version 0.1.0. Its number and its id must agree.
    fn by_number(&self, overlay: &Overlay, call: &StoredCall) -> Option<usize> {
        let element = self.stream.element(call.seq)?;
        let event = &self.stream.events()[element];
        let kind = half_kind(event.kind)?;
        let range = overlay.range().filter(|_| has_policy(call, kind))?;
        (self.stream.is_in(range, element) && self.stream.text(event.id) == call.id).then_some(element)
    }

    /// Returns the halves with this id and kind in a range, before the element `before`.
    fn with_id(&self, id: &[u8], kind: HalfKind, range: TurnRange, before: usize) -> Cow<'_, [usize]> {
        let key = (id, kind as usize);
        let first = self.keys.partition_point(|(id, kind)| (&**id, *kind) < key);
        let len = self.keys[first..].partition_point(|(id, kind)| (&**id, *kind) == key);
        let elements = &self.elements[first..first + len];
        // Turn numbers and element indexes only grow.
        let turn = |element: &usize| self.stream.events()[*element].turn;
        let from = elements.partition_point(|element| turn(element) < range.from());
        let to = elements.partition_point(|element| turn(element) <= range.to() && *element < before);
        let in_turns = elements.get(from..to).unwrap_or_default();
        if !range.has_steps() {
            return in_turns.into();
        }
        in_turns.iter().copied().filter(|element| self.stream.is_in(range, *element)).collect()
    }

    fn tool(&self, element: usize) -> Option<String> {
        self.pairs.tool(self.stream, element).map(Cow::into_owned)
    }
}

fn half_kind(kind: Kind) -> Option<HalfKind> {
    match kind {
        Kind::ToolRequest => Some(HalfKind::Request),
        Kind::ToolResponse { .. } => Some(HalfKind::Response),
        _ => None,
    }
}

/// Returns whether an entry has a policy for this kind of half.
fn has_policy(call: &StoredCall, kind: HalfKind) -> bool {
    call.omit
        || match kind {
            HalfKind::Request => call.request.is_some(),
            HalfKind::Response => call.response.is_some(),
        }
}
