//! The origins of overlays, read from their receipts. A receipt belongs to the overlay with the same time and range. A
//! receipt without an overlay is ignored.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::event::Kind;
use crate::source::origin;
use crate::stream::Stream;

/// The members that an overlay has too.
const IN_EVERY_ELEMENT: [&str; 6] = ["type", "timestamp", "from_turn", "to_turn", "from_step", "to_step"];

/// Returns the contents of the receipts without the members of every element, one entry per overlay, in order.
#[must_use]
pub fn receipts(stream: &Stream) -> Vec<Option<Map<String, Value>>> {
    let index = stream.index();
    let mut receipts = HashMap::new();
    for place in (0..index.events.len()).filter(|place| index.events[*place].kind == Kind::Receipt) {
        receipts.entry(origin(index, place)).or_insert(place);
    }
    let of = |overlay: usize| {
        let receipt = receipts.get(&origin(index, overlay))?;
        let Some(Value::Object(mut members)) = stream.value(index.events[*receipt].span) else { return None };
        members.retain(|key, _| !IN_EVERY_ELEMENT.contains(&key.as_str()));
        Some(members)
    };
    stream.overlays().iter().map(|overlay| of(overlay.element)).collect()
}
