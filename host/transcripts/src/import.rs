//! The import of a transcript into JP: the events that the model received, in JP's stored form, and the overlays of
//! the sidecar (docs/reference/formats.md#import-into-jp). Data that JP's format cannot hold stays in the source
//! file.

use serde_json::{Map, Value, json};

use jp_compact_core::decode;
use jp_compact_core::event::Kind;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::splice::pretty;
use jp_compact_core::stream::Stream;
use jp_compact_core::text;
use jp_compact_core::time;
use jp_compact_core::{Position, TurnRange};

use crate::model_provider;
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

/// Converts a transcript to a conversation. Turns and sequence numbers stay the same, so overlays remain valid. JP's
/// format does not tell responses apart, so steps are numbered again.
#[must_use]
pub fn import(transcript: &Transcript) -> Imported {
    let raw: Vec<(usize, Vec<u8>)> = transcript
        .events()
        .iter()
        .enumerate()
        .filter(|(_, event)| !event.kind.is_overlay() && event.kind != Kind::Receipt)
        .filter_map(|(element, _)| Some((element, pretty(&to_stored(decode::raw(transcript, element)?)))))
        .collect();
    let (sources, mut elements): (Vec<usize>, Vec<Vec<u8>>) = raw.into_iter().unzip();
    let steps =
        transcript.overlays().iter().any(Overlay::has_steps).then(|| Stream::parse(array(&elements).into()));
    let steps = steps.and_then(Result::ok);
    let overlays = transcript.overlays().iter().filter(|overlay| !overlay.stale);
    for overlay in overlays {
        let range = match &steps {
            Some(jp) if overlay.has_steps() => imported_range(transcript, jp, &sources, overlay),
            _ => overlay.range(),
        };
        // The receipts directly follow their overlay, one for each strategy.
        let (overlay_event, following) = (&transcript.events()[overlay.element], overlay.element + 1);
        let receipts = transcript.events()[following..].iter().take_while(|next| next.kind == Kind::Receipt);
        for event in std::iter::once(overlay_event).chain(receipts) {
            let Some(Value::Object(mut members)) = transcript.value(event.span) else { continue };
            if overlay.has_steps() {
                let Some(range) = range else { continue };
                set_range(&mut members, range);
            }
            elements.push(pretty(&members));
        }
    }
    let events = array(&elements);
    let title = transcript.source().and_then(|map| title(transcript.bytes(), map.format));
    let model = transcript.model().map(|(_, name)| name);
    let system = transcript.source().and_then(|source| source.system.as_deref());
    Imported { events, base_config: base_config(model, system), metadata: metadata(transcript, title) }
}

/// Joins elements to an array in JP's layout.
fn array(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut events = b"[".to_vec();
    for (index, element) in elements.iter().enumerate() {
        events.extend_from_slice(if index == 0 { b"\n  " } else { b",\n  " });
        events.extend_from_slice(element);
    }
    events.extend_from_slice(if elements.is_empty() { b"]\n" } else { b"\n]\n" });
    events
}

/// Returns the range of an overlay in the imported conversation `jp`: the steps whose events the overlay covers
/// completely. `sources` maps each element of `jp` to its element in the transcript. `None` if there is no such step.
fn imported_range(stream: &Stream, jp: &Stream, sources: &[usize], overlay: &Overlay) -> Option<TurnRange> {
    let range = overlay.range()?;
    let covered = |turn: usize| {
        let mut covered = vec![true; jp.steps().count(turn)];
        for (element, source) in
            sources.iter().enumerate().filter(|(element, _)| jp.events()[*element].turn == turn)
        {
            if let Some(step) = jp.steps().step(element).and_then(|step| covered.get_mut(step)) {
                *step &= stream.is_in(range, *source);
            }
        }
        covered
    };
    let start = match range.start() {
        Position { turn, step: Some(_) } => match covered(turn).iter().position(|covered| *covered) {
            Some(step) => Position::step(turn, step),
            None => Position::turn(turn + 1),
        },
        whole => whole,
    };
    let end = match range.end() {
        Position { turn, step: Some(_) } => match covered(turn).iter().rposition(|covered| *covered) {
            Some(step) => Position::step(turn, step),
            None => Position::turn(turn.checked_sub(1)?),
        },
        whole => whole,
    };
    TurnRange::between(start, end)
}

fn set_range(members: &mut Map<String, Value>, range: TurnRange) {
    let ends = [("from", range.start()), ("to", range.end())];
    for (name, position) in ends {
        members.insert(format!("{name}_turn"), position.turn.into());
        let step = format!("{name}_step");
        match position.step {
            Some(number) => drop(members.insert(step, number.into())),
            None => drop(members.shift_remove(&step)),
        }
    }
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

/// Returns the `metadata.json` of a copy. Like JP's own forks, the copy is not archived and does not expire. Bytes that
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
    assistant
        .insert("model".into(), json!({ "id": { "provider": model_provider::infer(model), "name": model } }));
    to_file(&json!({
        "assistant": assistant,
        "conversation": { "title": { "generate": { "auto": false } }, "tools": { "*": { "run": "ask" } } },
    }))
}
