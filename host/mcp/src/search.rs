//! The search for a text in the raw events of a conversation, including events that overlays hide. An agent that lost a
//! detail finds the event, and reads its whole text.

use std::borrow::Cow;

use serde_json::Value;

use crate::documents::FoundEvent;

/// The characters before and after a match in an excerpt.
const CONTEXT_CHARS: usize = 120;

/// Returns the events that contain a text, ignoring the case of ASCII letters. `events` are the events that `print --as
/// json` prints.
#[must_use]
pub fn search(events: &[Value], query: &str, max: usize) -> Vec<FoundEvent> {
    let query = query.to_ascii_lowercase();
    let matching = events.iter().enumerate().filter_map(|(event, item)| {
        let text = event_text(item);
        let start = text.to_ascii_lowercase().find(&query)?;
        let kind = item["event"]["type"].as_str().unwrap_or_default().to_owned();
        let turn = item["turn"].as_u64().unwrap_or_default();
        Some(FoundEvent { event, turn, kind, excerpt: excerpt(&text, start, query.len()) })
    });
    matching.take(max).collect()
}

/// Returns all texts and numbers of an event, one on each line. Timestamps and metadata are not text.
#[must_use]
pub fn event_text(item: &Value) -> String {
    let mut texts = Vec::new();
    for (name, value) in item["event"].as_object().into_iter().flatten() {
        if !["type", "timestamp", "metadata"].contains(&name.as_str()) {
            collect_texts(value, &mut texts);
        }
    }
    texts.join("\n")
}

fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<Cow<'a, str>>) {
    match value {
        Value::String(text) => texts.push(text.into()),
        Value::Number(number) => texts.push(number.to_string().into()),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(members) => members.values().for_each(|value| collect_texts(value, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn excerpt(text: &str, start: usize, length: usize) -> String {
    let before = text[..start].char_indices().rev().nth(CONTEXT_CHARS - 1).map_or(0, |(byte, _)| byte);
    let end = start + length;
    let after = text[end..].char_indices().nth(CONTEXT_CHARS).map_or(text.len(), |(byte, _)| end + byte);
    let (left, right) = (if before > 0 { "…" } else { "" }, if after < text.len() { "…" } else { "" });
    format!("{left}{}{right}", &text[before..after])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events() -> Vec<Value> {
        vec![
            json!({"turn": 0, "event": {"type": "chat_request", "content": "Fix src/main.rs", "metadata": {"x": "secret"}}}),
            json!({"turn": 0, "event": {"type": "tool_call_request", "name": "read", "arguments": {"path": ["SRC/MAIN.RS"], "pid": 48213}}}),
            json!({"turn": 1, "event": {"type": "chat_response", "message": format!("{}needle{}", "ä".repeat(300), "ö".repeat(300))}}),
        ]
    }

    #[test]
    fn finds_text_in_every_kind_of_event() {
        let found = search(&events(), "src/MAIN", 9);
        assert_eq!(found.iter().map(|found| found.event).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((found[1].turn, found[1].kind.as_str()), (0, "tool_call_request"));
        assert_eq!(search(&events(), "src/MAIN", 1).len(), 1);
        assert_eq!(search(&events(), "secret", 9), []);
        assert_eq!(search(&events(), "48213", 9)[0].excerpt, "read\nSRC/MAIN.RS\n48213");
    }

    #[test]
    fn excerpt_has_bounded_length() {
        let found = search(&events(), "needle", 9);
        let expected = format!("…{}needle{}…", "ä".repeat(120), "ö".repeat(120));
        assert_eq!(found[0].excerpt, expected);
    }
}
