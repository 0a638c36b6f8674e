//! The origins of overlays, read from their receipts. A receipt belongs to the overlay with the same time and range. A
//! receipt without an overlay is ignored.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::event::Kind;
use crate::source::overlay_key;
use crate::stream::Stream;

/// The members that receipts share with overlays.
const SHARED_MEMBERS: [&str; 6] = ["type", "timestamp", "from_turn", "to_turn", "from_step", "to_step"];

/// Returns the receipt of each overlay, in order, without the shared members.
#[must_use]
pub fn receipts(stream: &Stream) -> Vec<Option<Map<String, Value>>> {
    let index = stream.index();
    let mut receipts = HashMap::new();
    for element in (0..index.events.len()).filter(|element| index.events[*element].kind == Kind::Receipt) {
        receipts.entry(overlay_key(index, element)).or_insert(element);
    }
    let receipt_of = |overlay: usize| {
        let receipt = receipts.get(&overlay_key(index, overlay))?;
        let Some(Value::Object(mut members)) = stream.value(index.events[*receipt].span) else { return None };
        members.retain(|key, _| !SHARED_MEMBERS.contains(&key.as_str()));
        Some(members)
    };
    stream.overlays().iter().map(|overlay| receipt_of(overlay.element)).collect()
}
