//! The view in the transcript's own form, and the transcript without some of its overlays. Elements that did
//! not change are the very bytes of the source.

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

/// Which overlays a reset removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// All, and every receipt.
    All,
    /// The one with this number, counted from 1 as `show` lists them, and its receipt.
    One(usize),
}

/// The transcript without some overlays, and how many those are. Works on an index alone, so that a stream
/// with a malformed overlay can be mended. None when there is no overlay of that number.
#[must_use]
pub fn reset(index: &Index, which: Reset) -> Option<(Vec<Piece>, usize)> {
    let mut overlays = (0..index.events.len()).filter(|place| index.events[*place].kind.is_overlay());
    let one = match which {
        Reset::All => None,
        Reset::One(number) => Some(overlays.nth(number.checked_sub(1)?)?),
    };
    let goes = |place: usize| match (index.events[place].kind, one) {
        (Kind::Receipt, Some(overlay)) => belongs(index, place, overlay),
        (kind, None) => kind.is_overlay() || kind == Kind::Receipt,
        (_, Some(overlay)) => place == overlay,
    };
    let kept = (0..index.events.len()).filter(|place| !goes(*place)).map(Element::Old);
    Some((splice::array(index, kept), one.map_or_else(|| index.overlays(), |_| 1)))
}

/// Whether a receipt is that of an overlay: it bears its time and its range (JP-STREAM, "Overlays of our own
/// grammar").
pub(crate) fn belongs(index: &Index, receipt: usize, overlay: usize) -> bool {
    let range = |place: usize| {
        let value: Option<Value> = serde_json::from_slice(index.at(index.events[place].span)).ok();
        value.map(|value| (value.get("from_turn").cloned(), value.get("to_turn").cloned()))
    };
    index.events[receipt].timestamp == index.events[overlay].timestamp && range(receipt) == range(overlay)
}
