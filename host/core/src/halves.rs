//! Finds the event that an entry of a stored `selective` means. A number of an event does not hold: JP's next save can
//! insert a `turn_start`, or answers to interrupted calls, before it (JP-STREAM, "On disk"). The place of a half
//! among the halves of its kind with its id does, for JP inserts an answer only for an id that has none.
//!
//! An entry must never mean another event than the one it was made for: where the count or the tool differ, it means
//! none.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::event::Kind;
use crate::overlay::{Overlay, StoredCall};
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

/// The half of a call that an entry was made for. Only events in the overlay's turns count, and of these only the ones
/// stored before the overlay: later turns use ids again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    /// Which half.
    pub kind: HalfKind,
    /// Its place among the halves of this kind with this id, from 0.
    pub nth: usize,
    /// The number of those.
    pub of: usize,
    /// The tool that is called. `None` for an answer without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// A half of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HalfKind {
    /// The request.
    Request,
    /// The response.
    Response,
}

/// The reason why an entry means no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// An entry of 0.1.0, whose number and id disagree; or one that says nothing of its half.
    Disagrees,
    /// The number of halves is another one.
    Count {
        /// The number there was.
        was: usize,
        /// The number there is.
        is: usize,
    },
    /// The tool is another one.
    Tool {
        /// The tool there was.
        was: Option<String>,
        /// The tool there is.
        is: Option<String>,
    },
}

impl Lost {
    /// Describes it for a person.
    #[must_use]
    pub fn describe(&self, call: &StoredCall) -> String {
        let StoredCall { seq, id, .. } = call;
        let tool = |tool: &Option<String>| tool.clone().map_or("none".into(), |tool| format!("`{tool}`"));
        match self {
            Self::Disagrees => {
                format!("event {seq} is not a half of call `{id}` in its range: no effect on it")
            }
            Self::Count { was, is } => format!(
                "call `{id}` occurs {is} times in its range and occurred {was} times when the overlay was made: no \
                 effect on event {seq}"
            ),
            Self::Tool { was, is } => format!(
                "the tool of call `{id}` is {} and was {} when the overlay was made: no effect on event {seq}",
                tool(is),
                tool(was)
            ),
        }
    }
}

/// The halves of a stream's calls, by id.
#[derive(Debug)]
pub struct Halves<'a> {
    stream: &'a Stream,
    pairs: &'a Pairs,
    /// The elements with each id, in order: requests, then responses.
    by_id: HashMap<Cow<'a, [u8]>, [Vec<usize>; 2]>,
}

impl<'a> Halves<'a> {
    /// Lists the halves of a stream.
    #[must_use]
    pub fn of(stream: &'a Stream, pairs: &'a Pairs) -> Self {
        let mut by_id: HashMap<_, [Vec<usize>; 2]> = HashMap::new();
        for (element, event) in stream.events().iter().enumerate() {
            if let Some(kind) = kind(event.kind) {
                by_id.entry(text::unquote_bytes(stream.at(event.id))).or_default()[kind as usize]
                    .push(element);
            }
        }
        Self { stream, pairs, by_id }
    }

    /// Describes the half that `element` is, for an overlay of `range` that is stored at the element `overlay`.
    #[must_use]
    pub fn half(&self, element: usize, range: TurnRange, overlay: usize) -> Option<Half> {
        let event = self.stream.events().get(element)?;
        let kind = kind(event.kind)?;
        let among = self.among(&text::unquote_bytes(self.stream.at(event.id)), kind, range, overlay);
        let nth = among.binary_search(&element).ok()?;
        Some(Half { kind, nth, of: among.len(), tool: self.tool(element) })
    }

    /// Finds the element that an entry means.
    ///
    /// # Errors
    /// Why it means none.
    pub fn find(&self, overlay: &Overlay, call: &StoredCall) -> Result<usize, Lost> {
        let Some(half) = &call.half else { return self.by_number(overlay, call).ok_or(Lost::Disagrees) };
        let says = match half.kind {
            HalfKind::Request => call.omit || call.request.is_some(),
            HalfKind::Response => call.omit || call.response.is_some(),
        };
        let range = TurnRange::new(overlay.from_turn, overlay.to_turn).filter(|_| says && !overlay.stale);
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

    /// The element that an entry of 0.1.0 means: its number and its id have to agree.
    fn by_number(&self, overlay: &Overlay, call: &StoredCall) -> Option<usize> {
        let element = self.stream.element(call.seq)?;
        let event = &self.stream.events()[element];
        let says = match kind(event.kind)? {
            HalfKind::Request => call.omit || call.request.is_some(),
            HalfKind::Response => call.omit || call.response.is_some(),
        };
        (says && overlay.covers(event.turn) && self.stream.text(event.id) == call.id).then_some(element)
    }

    /// The halves with an id in a range, before an element.
    fn among(&self, id: &[u8], kind: HalfKind, range: TurnRange, before: usize) -> &[usize] {
        let all = self.by_id.get(id).map_or(&[][..], |halves| &halves[kind as usize]);
        // Turns and elements only grow.
        let turn = |element: &usize| self.stream.events()[*element].turn;
        let from = all.partition_point(|element| turn(element) < range.from());
        let to = all.partition_point(|element| turn(element) <= range.to() && *element < before);
        all.get(from..to).unwrap_or_default()
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
