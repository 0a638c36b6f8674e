//! Helpers for the tests of single formats: the events of a sample with their members as JSON, and the sample with
//! overlays.

use jp_compact_transcripts::Transcript;
use std::path::Path;

use jiff::Timestamp;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::splice::concat;
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::import;
use jp_compact_transcripts::{self as transcripts, Format};

use crate::check::strip;

#[track_caller]
pub(crate) fn sample(name: &str) -> Transcript {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/samples").join(name);
    let bytes = std::fs::read(path).unwrap();
    let format = transcripts::detect(&bytes).unwrap();
    transcripts::read(format, bytes.into()).unwrap()
}

/// Reads an invalid transcript. Returns the offset and the message of the error.
#[track_caller]
pub(crate) fn refused(format: Format, text: &str) -> String {
    let error = transcripts::read(format, text.to_owned().into_bytes().into()).unwrap_err();
    format!("{}: {}", error.offset, error.reason)
}

/// Returns the turn, the kind, and the members of each event.
pub(crate) fn events(stream: &Transcript) -> Vec<String> {
    let view = project_with_overlays(stream, &[]);
    let events = view.events(stream).filter_map(|event| {
        let text = |name: &str| event.event.get(name).map(ToString::to_string).unwrap_or_default();
        let kind = match event.event["type"].as_str() {
            Some("chat_response") if event.event.get("reasoning").is_some() => "thought",
            Some("chat_response") => "said",
            Some("chat_request") => "asked",
            Some("tool_call_request") => "call",
            Some("tool_call_response") => "result",
            _ => return None,
        };
        let values = ["content", "message", "reasoning", "name", "arguments", "is_error"].map(text);
        let values: Vec<String> =
            values.into_iter().filter(|part| !part.is_empty() && part != "false").collect();
        Some(format!("{} {kind} {}", event.turn, values.join(" ")))
    });
    events.collect()
}

/// Returns the system prompt and the model in the configuration of the imported sample.
pub(crate) fn system_and_model(stream: &Transcript) -> [String; 2] {
    let config: serde_json::Value = serde_json::from_slice(&import::import(stream).base_config).unwrap();
    let assistant = &config["assistant"];
    [&assistant["system_prompt"], &assistant["model"]["id"]["name"]].map(ToString::to_string)
}

/// Returns the source with a policy applied to all calls.
pub(crate) fn tools(stream: &Transcript, policy: ToolPolicy) -> String {
    written(stream, Overlay { tool_calls: Some(policy), ..whole(stream) })
}

pub(crate) fn stripped(stream: &Transcript) -> String {
    tools(stream, strip(stream))
}

pub(crate) fn without_reasoning(stream: &Transcript) -> String {
    written(stream, Overlay { reasoning: Some(Reasoning::Strip), ..whole(stream) })
}

/// Returns the source in which the summary `So it was.` replaces some turns.
pub(crate) fn summarized(stream: &Transcript, from_turn: usize, to_turn: usize) -> String {
    written(stream, Overlay { summary: Some("So it was.".into()), from_turn, to_turn, ..whole(stream) })
}

fn written(stream: &Transcript, overlay: Overlay) -> String {
    let view = project_with_overlays(stream, &[overlay]);
    String::from_utf8(concat(&transcripts::render(stream, &view), stream.bytes())).unwrap()
}

fn whole(stream: &Transcript) -> Overlay {
    Overlay {
        element: usize::MAX,
        stamp: Timestamp::UNIX_EPOCH,
        from_turn: 0,
        to_turn: stream.turns() - 1,
        from_step: None,
        to_step: None,
        summary: None,
        reasoning: None,
        tool_calls: None,
        applied_by_jp: true,
        not_applied: Vec::new(),
        stale: false,
    }
}
