//! A transcript of another program as a conversation of JP's (TRANSCRIPTS, "Import to JP"): the events that a model was
//! sent, as JP stores them, and the overlays that lay beside. What JP has no place for stays where it was.

use serde_json::{Map, Value, json};

use crate::decode;
use crate::event::Kind;
use crate::formats;
use crate::splice::pretty;
use crate::stream::Stream;
use crate::text;
use crate::time;

/// The texts of a conversation's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// `events.json`.
    pub events: Vec<u8>,
    /// `base_config.json`.
    pub base_config: Vec<u8>,
    /// `metadata.json`: JP moves a conversation without one to its trash.
    pub metadata: Vec<u8>,
}

/// Makes a conversation of a stream. Turns and numbers are the same, so overlays mean what they meant.
#[must_use]
pub fn import(stream: &Stream) -> Imported {
    let applied: Vec<usize> =
        stream.overlays().iter().filter(|overlay| !overlay.stale).map(|overlay| overlay.element).collect();
    let mut elements = Vec::new();
    let mut is_applied = false;
    for (element, event) in stream.events().iter().enumerate() {
        let stored = match event.kind {
            kind if kind.is_overlay() => {
                is_applied = applied.contains(&element);
                stream.value(event.span).filter(|_| is_applied)
            }
            // It stands behind its overlay.
            Kind::Receipt => stream.value(event.span).filter(|_| is_applied),
            _ => decode::raw(stream, element).map(|event| Value::Object(stored(event))),
        };
        if let Some(Value::Object(members)) = stored {
            elements.push(pretty(&members));
        }
    }
    let mut events = b"[".to_vec();
    for (place, element) in elements.iter().enumerate() {
        events.extend_from_slice(if place == 0 { b"\n  " } else { b",\n  " });
        events.extend_from_slice(element);
    }
    events.extend_from_slice(if elements.is_empty() { b"]\n" } else { b"\n]\n" });
    let title = stream.foreign().and_then(|foreign| formats::title(stream.bytes(), foreign.format));
    Imported { events, base_config: base_config(stream), metadata: metadata(stream, title) }
}

/// The `metadata.json` of a conversation: its title, and the last event's time.
#[must_use]
pub fn metadata(stream: &Stream, title: Option<String>) -> Vec<u8> {
    let events = stream.events().iter().rev();
    let last = events.filter(|event| event.kind.is_conversation()).find_map(|event| event.timestamp);
    let mut metadata = Map::new();
    if let Some(title) = title {
        metadata.insert("title".into(), title.into());
    }
    metadata.insert("last_activated_at".into(), time::format(last.unwrap_or_default()).into());
    file(&Value::Object(metadata))
}

/// A copy's `metadata.json`, made from its source's. As in JP's own forks, the copy does not expire with the source. What
/// is no object stays what it is.
#[must_use]
pub fn metadata_of_copy(source: &[u8]) -> Vec<u8> {
    match serde_json::from_slice(source) {
        Ok(Value::Object(mut metadata))
            if ["expires_at", "archived_at"].iter().any(|key| metadata.contains_key(*key)) =>
        {
            metadata.retain(|key, _| key != "expires_at" && key != "archived_at");
            file(&Value::Object(metadata))
        }
        _ => source.to_vec(),
    }
}

/// Whether JP finds a base config among the events, as in its older conversations.
#[must_use]
pub fn has_base_config(stream: &Stream) -> bool {
    stream.events().first().is_some_and(|event| event.kind == Kind::ConfigDelta)
}

fn file(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}

/// An event as JP stores it: some of its texts in base64.
fn stored(mut event: Map<String, Value>) -> Map<String, Value> {
    let is_call = event.get("type").is_some_and(|kind| kind == "tool_call_request");
    let is_answer = event.get("type").is_some_and(|kind| kind == "tool_call_response");
    for (name, value) in &mut event {
        let is_encoded = match name.as_str() {
            "metadata" => true,
            "arguments" => is_call,
            "content" => is_answer,
            _ => false,
        };
        if is_encoded {
            encode_all(value);
        }
    }
    event
}

fn encode_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = text::encode(text),
        Value::Array(items) => items.iter_mut().for_each(encode_all),
        Value::Object(members) => members.values_mut().for_each(encode_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The `base_config.json` of a conversation: the model and the system prompt, as far as the transcript names them. Who
/// imports it may want another model.
#[must_use]
pub fn base_config(stream: &Stream) -> Vec<u8> {
    let foreign = stream.foreign();
    let model = foreign.and_then(|foreign| foreign.model.as_deref()).unwrap_or("claude-sonnet-4-5");
    let mut assistant = Map::new();
    if let Some(system) = foreign.and_then(|foreign| foreign.system.as_ref()) {
        assistant.insert("system_prompt".into(), system.as_str().into());
    }
    assistant.insert("model".into(), json!({ "id": { "provider": provider(model), "name": model } }));
    file(&json!({
        "assistant": assistant,
        "conversation": { "title": { "generate": { "auto": false } }, "tools": { "*": { "run": "ask" } } },
    }))
}

/// Whose model that is, by its name.
fn provider(model: &str) -> &'static str {
    match model {
        _ if model.contains('/') => "openrouter",
        _ if model.starts_with("claude") => "anthropic",
        _ if model.starts_with("gemini") => "google",
        _ if ["gpt", "o1", "o3", "o4", "codex", "chatgpt"].iter().any(|name| model.starts_with(name)) => {
            "openai"
        }
        _ => "ollama",
    }
}
