//! The origin of each overlay, as its receipt tells it. A receipt is no overlay: it belongs to the one that
//! bears its time and its range, and is ignored without it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::event::Kind;
use crate::source::origin;
use crate::stream::Stream;

/// What receipts say, without the members that every element has; one entry an overlay, in their order.
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
        members.retain(|key, _| !matches!(key.as_str(), "type" | "timestamp" | "from_turn" | "to_turn"));
        Some(members)
    };
    stream.overlays().iter().map(|overlay| of(overlay.element)).collect()
}
