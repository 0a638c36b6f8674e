//! The origins of overlays, read from their receipts. A receipt belongs to the overlay with the same time and range. A
//! receipt without an overlay is ignored.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::event::Kind;
use crate::source::overlay_key;
use crate::stream::Stream;

/// The member with the kinds of policies that a strategy made, if several strategies share the overlay.
pub const KINDS: &str = "kinds";

/// The members that receipts share with overlays.
const SHARED_MEMBERS: [&str; 6] = ["type", "timestamp", "from_turn", "to_turn", "from_step", "to_step"];

/// Returns the receipts of each overlay, in order, without the shared members. An overlay that several strategies share has
/// one receipt for each.
#[must_use]
pub fn receipts(stream: &Stream) -> Vec<Vec<Map<String, Value>>> {
    let index = stream.index();
    let mut receipts: HashMap<_, Vec<usize>> = HashMap::new();
    for element in (0..index.events.len()).filter(|element| index.events[*element].kind == Kind::Receipt) {
        receipts.entry(overlay_key(index, element)).or_default().push(element);
    }
    let members_of = |receipt: &usize| {
        let Some(Value::Object(mut members)) = stream.value(index.events[*receipt].span) else { return None };
        members.retain(|key, _| !SHARED_MEMBERS.contains(&key.as_str()));
        Some(members)
    };
    let receipts_of = |overlay: usize| {
        let receipts = receipts.get(&overlay_key(index, overlay)).map(Vec::as_slice).unwrap_or_default();
        receipts.iter().filter_map(members_of).collect()
    };
    stream.overlays().iter().map(|overlay| receipts_of(overlay.element)).collect()
}

/// Returns the kinds of policies that the strategy of a receipt made. `None` for all kinds of the overlay.
#[must_use]
pub fn kinds(receipt: &Map<String, Value>) -> Option<Vec<&str>> {
    Some(receipt.get(KINDS)?.as_array()?.iter().filter_map(Value::as_str).collect())
}
