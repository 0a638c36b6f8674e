//! The import of a transcript into JP: the events that the model received, in JP's stored form, and the overlays of
//! the sidecar (docs/reference/formats.md#import-into-jp). Data that JP's format cannot hold stays in the source
//! file.

use serde_json::{Map, Value, json};

use jp_compact_core::decode;
use jp_compact_core::event::Kind;
use jp_compact_core::splice::pretty;
use jp_compact_core::stream::Stream;
use jp_compact_core::text;
use jp_compact_core::time;

use crate::title::title;
use crate::transcript::Transcript;

/// The files of a conversation's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub events: Vec<u8>,
    pub base_config: Vec<u8>,
    /// JP moves a conversation without `metadata.json` to its trash.
    pub metadata: Vec<u8>,
}

/// Converts a transcript to a conversation. Turns and sequence numbers stay the same, so overlays remain valid.
#[must_use]
pub fn import(transcript: &Transcript) -> Imported {
    let applied: Vec<usize> = transcript
        .overlays()
        .iter()
        .filter(|overlay| !overlay.stale)
        .map(|overlay| overlay.element)
        .collect();
    let mut elements = Vec::new();
    let mut is_applied = false;
    for (element, event) in transcript.events().iter().enumerate() {
        let stored = match event.kind {
            kind if kind.is_overlay() => {
                is_applied = applied.contains(&element);
                transcript.value(event.span).filter(|_| is_applied)
            }
            // A receipt directly follows its overlay.
            Kind::Receipt => transcript.value(event.span).filter(|_| is_applied),
            _ => decode::raw(transcript, element).map(|event| Value::Object(to_stored(event))),
        };
        if let Some(Value::Object(members)) = stored {
            elements.push(pretty(&members));
        }
    }
    let mut events = b"[".to_vec();
    for (index, element) in elements.iter().enumerate() {
        events.extend_from_slice(if index == 0 { b"\n  " } else { b",\n  " });
        events.extend_from_slice(element);
    }
    events.extend_from_slice(if elements.is_empty() { b"]\n" } else { b"\n]\n" });
    let source = transcript.source();
    let title = source.and_then(|source| title(transcript.bytes(), source.format));
    let model = source.and_then(|source| source.model.as_deref());
    let system = source.and_then(|source| source.system.as_deref());
    Imported { events, base_config: base_config(model, system), metadata: metadata(transcript, title) }
}

/// Returns the `metadata.json` of a conversation: its title and the time of its last event.
#[must_use]
pub fn metadata(stream: &Stream, title: Option<String>) -> Vec<u8> {
    let events = stream.events().iter().rev();
    let last = events.filter(|event| event.kind.is_conversation()).find_map(|event| event.timestamp);
    let mut metadata = Map::new();
    if let Some(title) = title {
        metadata.insert("title".into(), title.into());
    }
    metadata.insert("last_activated_at".into(), time::format(last.unwrap_or_default()).into());
    to_file(&Value::Object(metadata))
}

/// Returns the `metadata.json` of a copy. Like JP's own forks, the copy does not expire with its source. Bytes that
/// are not a JSON object are copied unchanged.
#[must_use]
pub fn metadata_of_copy(source: &[u8]) -> Vec<u8> {
    match serde_json::from_slice(source) {
        Ok(Value::Object(mut metadata))
            if ["expires_at", "archived_at"].iter().any(|key| metadata.contains_key(*key)) =>
        {
            metadata.retain(|key, _| key != "expires_at" && key != "archived_at");
            to_file(&Value::Object(metadata))
        }
        _ => source.to_vec(),
    }
}

/// Returns whether the events begin with a base config, as in JP's older conversations.
#[must_use]
pub fn has_base_config(stream: &Stream) -> bool {
    stream.events().first().is_some_and(|event| event.kind == Kind::ConfigDelta)
}

fn to_file(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Converts an event to JP's stored form, in which some texts are in base64.
fn to_stored(mut event: Map<String, Value>) -> Map<String, Value> {
    let is_call = event.get("type").is_some_and(|kind| kind == "tool_call_request");
    let is_response = event.get("type").is_some_and(|kind| kind == "tool_call_response");
    for (name, value) in &mut event {
        let is_encoded = match name.as_str() {
            "metadata" => true,
            "arguments" => is_call,
            "content" => is_response,
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

/// Returns the `base_config.json` of a conversation with a model and a system prompt. The user may choose another
/// model after the import.
#[must_use]
pub fn base_config(model: Option<&str>, system: Option<&str>) -> Vec<u8> {
    let model = model.unwrap_or("claude-sonnet-4-5");
    let mut assistant = Map::new();
    if let Some(system) = system {
        assistant.insert("system_prompt".into(), system.into());
    }
    assistant.insert("model".into(), json!({ "id": { "provider": provider(model), "name": model } }));
    to_file(&json!({
        "assistant": assistant,
        "conversation": { "title": { "generate": { "auto": false } }, "tools": { "*": { "run": "ask" } } },
    }))
}

/// Guesses the provider from the name of a model.
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
