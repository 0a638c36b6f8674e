//! The two records that represent a summary.

use serde_json::{Map, Value, json};

use crate::reader::SummaryPair;
use jp_compact_json::JsonNode;

pub(super) fn records(pair: &SummaryPair<'_>) -> Vec<String> {
    let payload = pair.first.get("payload");
    let item = payload.unwrap_or(pair.first);
    let passthrough = item.get("internal_chat_message_metadata_passthrough");
    let turn = passthrough.and_then(|passthrough| passthrough.text_of("turn_id"));
    // Ordinals must rise. The user's message is followed by its twin, which is deleted too, so the next number is
    // free. No number is free next to a record that stays.
    let ordinal = pair.first.get("ordinal").filter(|_| pair.next.is_none() && pair.replaces_first);
    let ordinal = ordinal.and_then(JsonNode::number::<usize>);
    let record = |role: &str, kind: &str, text: &str, half: usize| {
        let mut message = Map::new();
        message.insert("type".into(), "message".into());
        if item.string("id").is_some() {
            message.insert("id".into(), format!("msg_{}", pair.ids[half]).into());
        }
        message.insert("role".into(), role.into());
        message.insert("content".into(), json!([{ "type": kind, "text": text }]));
        if let Some(turn) = &turn {
            message.insert("internal_chat_message_metadata_passthrough".into(), json!({ "turn_id": turn }));
        }
        if payload.is_none() || pair.is_nested {
            return Value::Object(message).to_string();
        }
        let mut line = Map::new();
        line.insert("timestamp".into(), pair.at.to_string().into());
        if let Some(ordinal) = ordinal {
            line.insert("ordinal".into(), ordinal.saturating_add(half).into());
        }
        line.insert("type".into(), "response_item".into());
        line.insert("payload".into(), message.into());
        Value::Object(line).to_string()
    };
    vec![record("user", "input_text", pair.request, 0), record("assistant", "output_text", pair.response, 1)]
}
