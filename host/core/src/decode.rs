//! Decoded events: in the form that providers receive, and in the form that strategies receive.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::event::{Event, Kind};
use crate::external::ExternalEvent;
use crate::stream::Stream;
use crate::{text, time};

/// Returns an element in its stored form, but with decoded base64. Unknown members stay. `None` for an element that is
/// not an object.
pub fn raw(stream: &Stream, element: usize) -> Option<Map<String, Value>> {
    let event = &stream.events()[element];
    if let Some(external) = stream.external() {
        return to_stored_form(stream, event, external.events.get(element)?);
    }
    let Some(Value::Object(mut members)) = stream.value(event.span) else { return None };
    if event.kind.is_conversation() {
        if let Some(metadata) = members.get_mut("metadata") {
            text::decode_all(metadata);
        }
        let encoded = match event.kind {
            Kind::ToolRequest => members.get_mut("arguments"),
            Kind::ToolResponse { .. } => members.get_mut("content"),
            _ => None,
        };
        if let Some(value) = encoded {
            text::decode_all(value);
        }
    }
    Some(members)
}

/// Returns an event of another program's transcript in JP's stored form, but without base64.
fn to_stored_form(stream: &Stream, event: &Event, external: &ExternalEvent) -> Option<Map<String, Value>> {
    let (kind, member) = match event.kind {
        Kind::TurnStart => ("turn_start", ""),
        Kind::ChatRequest => ("chat_request", "content"),
        Kind::Message => ("chat_response", "message"),
        Kind::Reasoning => ("chat_response", "reasoning"),
        Kind::Data => ("chat_response", "data"),
        Kind::ToolRequest => ("tool_call_request", "arguments"),
        Kind::ToolResponse { .. } => ("tool_call_response", "content"),
        _ => return None,
    };
    let mut members = head(event.timestamp?, kind);
    if event.kind.is_tool() {
        members.insert("id".into(), stream.text(event.id).into());
    }
    match event.kind {
        Kind::TurnStart => {}
        Kind::ToolRequest => {
            members.insert("name".into(), stream.text(event.name).into());
            members.insert(member.into(), stream.arguments(event));
        }
        Kind::Data => {
            members.insert(member.into(), stream.value(event.body)?);
        }
        _ => {
            members.insert(member.into(), stream.text(event.body).into());
        }
    }
    if let Kind::ToolResponse { is_error } = event.kind {
        members.insert("is_error".into(), is_error.into());
    }
    if let Some(metadata) = stream.value(external.metadata) {
        members.insert("metadata".into(), metadata);
    }
    if let Some((name, span)) = external.signature.as_deref().copied() {
        let metadata = members.entry("metadata").or_insert_with(|| Map::new().into());
        metadata[name] = stream.text(span).into();
    }
    Some(members)
}

/// Returns an event in the form that JP sends to providers: only members that JP knows, decoded base64, a timestamp in
/// JP's form, and no empty metadata. `None` if providers do not receive it.
pub fn visible(stream: &Stream, element: usize) -> Option<Map<String, Value>> {
    let event = &stream.events()[element];
    let known: &[&str] = match event.kind {
        Kind::ChatRequest => &["content", "schema", "author"],
        Kind::Message => &["message"],
        Kind::Reasoning => &["reasoning"],
        Kind::Data => &["data"],
        Kind::ToolRequest => &["id", "name", "arguments"],
        Kind::ToolResponse { .. } => &["id", "content", "is_error"],
        _ => return None,
    };
    let mut members = raw(stream, element)?;
    let mut decoded = head(event.timestamp?, members.get("type").and_then(Value::as_str)?);
    for name in known {
        match members.remove(*name) {
            Some(Value::Null) if *name != "data" => {}
            Some(value) => {
                decoded.insert((*name).into(), value);
            }
            None if *name == "arguments" => {
                decoded.insert((*name).into(), Value::Object(Map::new()));
            }
            None => {}
        }
    }
    if let Some(Value::Object(metadata)) = members.remove("metadata")
        && !metadata.is_empty()
    {
        decoded.insert("metadata".into(), Value::Object(metadata));
    }
    Some(decoded)
}

/// Makes an event with one text: half of a summary's pair, or half of a new turn.
pub fn synthetic(at: Timestamp, kind: &str, member: &str, text: &str) -> Map<String, Value> {
    let mut event = head(at, kind);
    event.insert(member.into(), text.into());
    event
}

/// Makes an event with only its time and its type.
pub fn head(at: Timestamp, kind: &str) -> Map<String, Value> {
    let mut event = Map::new();
    event.insert("timestamp".into(), time::format(at).into());
    event.insert("type".into(), kind.into());
    event
}
