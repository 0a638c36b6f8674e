//! The view in the transcript's own form, and the transcript without some of its overlays. Elements that did
//! not change are the very bytes of the source.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::decode;
use crate::event::Kind;
use crate::formats::edit;
use crate::formats::jp::Index;
use crate::splice::{self, Element, Piece};
use crate::stream::Stream;
use crate::text;
use crate::view::{Part, SUMMARY_REQUEST, View};

/// Writes a view in the form of its transcript. A stream without overlays gives its very bytes, in one piece.
#[must_use]
pub fn render(stream: &Stream, view: &View) -> Vec<Piece> {
    if let Some(foreign) = stream.foreign() {
        return edit::render(stream, foreign, view);
    }
    let synthetic =
        |at, kind, member, text| Element::New(splice::pretty(&decode::synthetic(at, kind, member, text)));
    let elements = view.items().iter().map(|item| match &item.part {
        Part::Kept(element) | Part::Short(element) => Element::Old(*element),
        Part::Emptied(element) => match stream.events()[*element].body {
            // No arguments are empty arguments already.
            body if body.is_empty() => Element::Old(*element),
            body => Element::Patched(*element, body, b"{}".to_vec()),
        },
        Part::Replaced(element, text) => {
            let stored = Value::from(text::encode(text)).to_string();
            Element::Patched(*element, stream.events()[*element].body, stored.into_bytes())
        }
        Part::SummaryStart { at } => Element::New(splice::pretty(&decode::head(*at, "turn_start"))),
        Part::SummaryRequest { at } => synthetic(*at, "chat_request", "content", SUMMARY_REQUEST),
        Part::SummaryResponse { at, text } => synthetic(*at, "chat_response", "message", text),
    });
    splice::array(stream.index(), elements)
}

/// Which overlays a reset removes. A receipt goes when no overlay is left that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// All.
    All,
    /// The one with this number, counted from 1 as `show` lists them.
    One(usize),
}

/// A transcript without some overlays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its bytes.
    pub pieces: Vec<Piece>,
    /// The number of overlays that were removed.
    pub overlays: usize,
    /// The number of receipts that were removed. One can outlive its overlay: JP removes a `compaction`, and keeps an
    /// element of a type that it does not know.
    pub receipts: usize,
}

/// The transcript without some overlays. Works on an index alone, so that a stream with a malformed overlay can be
/// mended. None when there is no overlay of that number.
#[must_use]
pub fn reset(index: &Index, which: Reset) -> Option<Removal> {
    let mut overlays = (0..index.events.len()).filter(|place| index.events[*place].kind.is_overlay());
    let one = match which {
        Reset::All => None,
        Reset::One(number) => Some(overlays.nth(number.checked_sub(1)?)?),
    };
    let mut left = HashSet::new();
    if let Some(one) = one {
        let others = (0..index.events.len()).filter(|place| *place != one);
        left.extend(
            others.filter(|place| index.events[*place].kind.is_overlay()).map(|place| origin(index, place)),
        );
    }
    let (mut removed, mut receipts) = (0, 0);
    let mut kept = Vec::with_capacity(index.events.len());
    for (place, event) in index.events.iter().enumerate() {
        match event.kind {
            Kind::Receipt if !left.contains(&origin(index, place)) => receipts += 1,
            kind if kind.is_overlay() && one.is_none_or(|one| one == place) => removed += 1,
            _ => kept.push(Element::Old(place)),
        }
    }
    let pieces = splice::array(index, kept.into_iter());
    Some(Removal { pieces, overlays: removed, receipts })
}

/// The time and the range by which a receipt belongs to an overlay (JP-STREAM, "Our extensions of the overlay
/// grammar").
pub(crate) type Origin = (Option<Timestamp>, Option<u64>, Option<u64>);

/// The origin that an overlay or a receipt bears.
pub(crate) fn origin(index: &Index, place: usize) -> Origin {
    let event = &index.events[place];
    let value: Option<Value> = serde_json::from_slice(index.at(event.span)).ok();
    let bound = |name: &str| value.as_ref()?.get(name)?.as_u64();
    (event.timestamp, bound("from_turn"), bound("to_turn"))
}
