//! Finds the event for an entry of a stored `selective`. Event numbers are not stable: JP's next save can insert a
//! `turn_start`, or responses to interrupted calls, before the event (docs/reference/store.md#on-disk). The position of
//! a half among the halves of its kind with its id is stable, because JP inserts a response only for an id without one.
//!
//! An entry must never match another event than the one it was made for. If the count or the tool differs, it matches
//! none.

use std::borrow::Cow;

use crate::event::Kind;
use crate::overlay::{Half, HalfKind, Overlay, StoredCall};
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

/// The reason why an entry matches no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// An entry of 0.1.0 whose number and id disagree, or an entry without a half.
    Disagrees,
    /// The number of halves has changed.
    Count {
        /// The number when the overlay was made.
        was: usize,
        /// The number now.
        is: usize,
    },
    /// The tool has changed.
    Tool {
        /// The tool when the overlay was made.
        was: Option<String>,
        /// The tool now.
        is: Option<String>,
    },
}

impl Lost {
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
            Self::Count { was, is } => format!(
                "no effect on event {seq}: call `{id}` occurred {was} times in the range when the overlay was made, and \
                 occurs {is} times now"
            ),
            Self::Tool { was, is } => format!(
                "no effect on event {seq}: the tool of call `{id}` was {} when the overlay was made, and is {} now",
                tool(was),
                tool(is)
            ),
        }
    }
}

#[derive(Debug)]
pub struct Halves<'a> {
    stream: &'a Stream,
    pairs: &'a Pairs,
    /// The id and the kind of each half, sorted. Two allocations are cheaper than a map: there are few halves, and an
    /// index is made for every projection.
    keys: Vec<(Cow<'a, [u8]>, usize)>,
    /// Their elements. Those of one key are in order.
    elements: Vec<usize>,
}

impl<'a> Halves<'a> {
    /// Lists the halves of a stream.
    #[must_use]
    pub fn new(stream: &'a Stream, pairs: &'a Pairs) -> Self {
        let mut halves = Vec::new();
        for (element, event) in stream.events().iter().enumerate() {
            if let Some(kind) = kind(event.kind) {
                halves.push(((text::unquote_bytes(stream.at(event.id)), kind as usize), element));
            }
        }
        halves.sort_unstable();
        let (keys, elements) = halves.into_iter().unzip();
        Self { stream, pairs, keys, elements }
    }

    /// Describes the half `element`, for an overlay of `range` that is stored at the element `overlay`.
    #[must_use]
    pub fn half(&self, element: usize, range: TurnRange, overlay: usize) -> Option<Half> {
        let event = self.stream.events().get(element)?;
        let kind = kind(event.kind)?;
        let among = self.among(&text::unquote_bytes(self.stream.at(event.id)), kind, range, overlay);
        let nth = among.binary_search(&element).ok()?;
        Some(Half { kind, nth, of: among.len(), tool: self.tool(element) })
    }

    /// Finds the element for an entry.
    ///
    /// # Errors
    /// The reason why it matches no event.
    pub fn find(&self, overlay: &Overlay, call: &StoredCall) -> Result<usize, Lost> {
        let Some(half) = &call.half else { return self.by_number(overlay, call).ok_or(Lost::Disagrees) };
        let says = match half.kind {
            HalfKind::Request => call.omit || call.request.is_some(),
            HalfKind::Response => call.omit || call.response.is_some(),
        };
        let range = overlay.range().filter(|_| says && !overlay.stale);
        let range = range.ok_or(Lost::Disagrees)?;
        let among = self.among(call.id.as_bytes(), half.kind, range, overlay.element);
        let element = match among.get(half.nth) {
            Some(element) if among.len() == half.of => *element,
            _ => return Err(Lost::Count { was: half.of, is: among.len() }),
        };
        match self.tool(element) {
            is if is == half.tool => Ok(element),
            is => Err(Lost::Tool { was: half.tool.clone(), is }),
        }
    }

    /// Returns the element for an entry of 0.1.0, whose number and id must agree.
    fn by_number(&self, overlay: &Overlay, call: &StoredCall) -> Option<usize> {
        let element = self.stream.element(call.seq)?;
        let event = &self.stream.events()[element];
        let says = match kind(event.kind)? {
            HalfKind::Request => call.omit || call.request.is_some(),
            HalfKind::Response => call.omit || call.response.is_some(),
        };
        let range = overlay.range().filter(|_| says && overlay.is_applied())?;
        (self.stream.is_in(range, element) && self.stream.text(event.id) == call.id).then_some(element)
    }

    /// Returns the halves with an id in a range, before an element.
    fn among(&self, id: &[u8], kind: HalfKind, range: TurnRange, before: usize) -> Cow<'_, [usize]> {
        let key = (id, kind as usize);
        let first = self.keys.partition_point(|(id, kind)| (&**id, *kind) < key);
        let len = self.keys[first..].partition_point(|(id, kind)| (&**id, *kind) == key);
        let all = &self.elements[first..first + len];
        // Turn numbers and element indexes only grow.
        let turn = |element: &usize| self.stream.events()[*element].turn;
        let from = all.partition_point(|element| turn(element) < range.from());
        let to = all.partition_point(|element| turn(element) <= range.to() && *element < before);
        let in_turns = all.get(from..to).unwrap_or_default();
        if !range.is_stepped() {
            return in_turns.into();
        }
        in_turns.iter().copied().filter(|element| self.stream.is_in(range, *element)).collect()
    }

    fn tool(&self, element: usize) -> Option<String> {
        self.pairs.tool(self.stream, element).map(Cow::into_owned)
    }
}

fn kind(kind: Kind) -> Option<HalfKind> {
    match kind {
        Kind::ToolRequest => Some(HalfKind::Request),
        Kind::ToolResponse { .. } => Some(HalfKind::Response),
        _ => None,
    }
}
