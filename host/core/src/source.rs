//! JP's own transcript, written with new content: the view in the form of a transcript, and the transcript without some
//! of its overlays. Unchanged elements keep their bytes.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::decode;
use crate::event::Kind;
use crate::index::Index;
use crate::splice::{self, Element, Piece};
use crate::stream::Stream;
use crate::text;
use crate::view::{Part, SUMMARY_REQUEST, View, note_text};

/// Writes a view of JP's own transcript. For a stream without overlays the result is one piece with the same bytes.
#[must_use]
pub fn render(stream: &Stream, view: &View) -> Vec<Piece> {
    debug_assert!(stream.is_jp(), "the transcript must be JP's own");
    let synthetic = |at, kind, member, text: &str| {
        Element::New(splice::pretty(&decode::synthetic(at, kind, member, text)))
    };
    let elements = view.items().iter().map(|item| match &item.part {
        Part::Kept(element) | Part::Short(element) => Element::Old(*element),
        Part::Emptied(element) => match stream.events()[*element].body {
            // Absent arguments are already empty.
            body if body.is_empty() => Element::Old(*element),
            body => Element::Patched(*element, body, b"{}".to_vec()),
        },
        Part::Replaced(element, text) => {
            let stored = Value::from(text::encode(text)).to_string();
            Element::Patched(*element, stream.events()[*element].body, stored.into_bytes())
        }
        Part::SummaryStart { timestamp } => {
            Element::New(splice::pretty(&decode::head(*timestamp, "turn_start")))
        }
        Part::SummaryRequest { timestamp } => {
            synthetic(*timestamp, "chat_request", "content", SUMMARY_REQUEST)
        }
        Part::SummaryResponse { timestamp, text } => synthetic(*timestamp, "chat_response", "message", text),
        Part::SummaryNote { timestamp, text } => {
            synthetic(*timestamp, "chat_request", "content", &note_text(text))
        }
    });
    splice::array(stream.index(), elements)
}

/// The overlays that a reset removes. A receipt is removed with the last overlay that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    All,
    /// The overlay with this number in the list that `show` prints, from 1.
    One(usize),
}

/// A transcript without some overlays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    pub pieces: Vec<Piece>,
    /// Number of removed overlays.
    pub overlays: usize,
    /// Number of removed receipts. A receipt can outlive its overlay: JP removes a `compaction`, but keeps elements of
    /// unknown types.
    pub receipts: usize,
}

/// Removes overlays from a transcript. Needs only an index, so that it can repair a stream with a malformed overlay.
/// `None` if there is no overlay with that number.
#[must_use]
pub fn reset(index: &Index, reset: Reset) -> Option<Removal> {
    let is_overlay = |element: &usize| index.events[*element].kind.is_overlay();
    let mut overlays = (0..index.events.len()).filter(is_overlay);
    let single = match reset {
        Reset::All => None,
        Reset::One(number) => Some(overlays.nth(number.checked_sub(1)?)?),
    };
    let mut remaining = HashSet::new();
    if let Some(single) = single {
        let others = (0..index.events.len()).filter(is_overlay).filter(|element| *element != single);
        remaining.extend(others.map(|element| overlay_key(index, element)));
    }
    let (mut removed, mut receipts) = (0, 0);
    let mut kept = Vec::with_capacity(index.events.len());
    for (element, event) in index.events.iter().enumerate() {
        match event.kind {
            Kind::Receipt if !remaining.contains(&overlay_key(index, element)) => receipts += 1,
            kind if kind.is_overlay() && single.is_none_or(|single| single == element) => removed += 1,
            _ => kept.push(Element::Old(element)),
        }
    }
    let pieces = splice::array(index, kept.into_iter());
    Some(Removal { pieces, overlays: removed, receipts })
}

/// The time and the range that link a receipt to an overlay (docs/reference/store.md#receipts).
pub(crate) type OverlayKey = (Option<Timestamp>, [Option<u64>; 4]);

/// Returns the key of an overlay or a receipt.
pub(crate) fn overlay_key(index: &Index, element: usize) -> OverlayKey {
    let event = &index.events[element];
    let value: Option<Value> = serde_json::from_slice(index.bytes_at(event.span)).ok();
    let bound = |name: &str| value.as_ref()?.get(name)?.as_u64();
    (event.timestamp, ["from_turn", "to_turn", "from_step", "to_step"].map(bound))
}
