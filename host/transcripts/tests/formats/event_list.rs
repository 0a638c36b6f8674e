//! Helpers for the tests of single formats: the events of a sample as a list, and the sample with overlays.

use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::import::import;
use jp_compact_transcripts::{self as transcripts, Format};
use serde_json::Value;

use crate::check::{overlay, strip, written};
use crate::samples;

#[track_caller]
pub(crate) fn sample(format: Format, name: &str) -> Transcript {
    let sample = samples::project_samples(format).into_iter().find(|sample| sample.name == name).unwrap();
    transcripts::read(format, sample.bytes.into()).unwrap()
}

/// Returns the turn, the kind, and the text of each event. A call has its arguments as text.
pub(crate) fn events(stream: &Transcript) -> Vec<String> {
    let view = project_with_overlays(stream, &[]);
    let lines = view.events(stream).map(|item| {
        let (turn, event) = (item.turn, item.event);
        let text = |name: &str| match event.get(name) {
            Some(Value::String(text)) => text.clone(),
            other => other.map(Value::to_string).unwrap_or_default(),
        };
        match (text("type").as_str(), text("is_error").as_str()) {
            ("chat_request", _) => format!("{turn} user: {}", text("content")),
            ("tool_call_request", _) => {
                format!("{turn} call {}: {} {}", text("id"), text("name"), text("arguments"))
            }
            ("tool_call_response", "true") => format!("{turn} error {}: {}", text("id"), text("content")),
            ("tool_call_response", _) => format!("{turn} answer {}: {}", text("id"), text("content")),
            _ if event.contains_key("reasoning") => format!("{turn} thought: {}", text("reasoning")),
            _ => format!("{turn} assistant: {}", text("message")),
        }
    });
    lines.collect()
}

/// Returns the transcript with all arguments and results stripped.
pub(crate) fn stripped(stream: &Transcript) -> String {
    with_overlay(stream, Overlay { tool_calls: Some(strip(stream)), ..overlay(0, stream.turns() - 1) })
}

pub(crate) fn without_calls(stream: &Transcript) -> String {
    with_overlay(stream, Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, stream.turns() - 1) })
}

pub(crate) fn without_reasoning(stream: &Transcript) -> String {
    with_overlay(stream, Overlay { reasoning: Some(Reasoning::Strip), ..overlay(0, stream.turns() - 1) })
}

/// Returns the transcript with the summary `Short.` of some turns.
pub(crate) fn summarized(stream: &Transcript, from: usize, to: usize) -> String {
    with_overlay(stream, Overlay { summary: Some("Short.".into()), ..overlay(from, to) })
}

fn with_overlay(stream: &Transcript, overlay: Overlay) -> String {
    String::from_utf8(written(stream, &[overlay])).unwrap()
}

/// Returns the lines of one text that are not in the other, in order.
pub(crate) fn lines_only_in<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    text.lines().filter(|line| !other.lines().any(|other_line| other_line == *line)).collect()
}

pub(crate) fn source(stream: &Transcript) -> String {
    String::from_utf8(stream.bytes().to_vec()).unwrap()
}

/// Returns the model and the system prompt of an import.
pub(crate) fn assistant(stream: &Transcript) -> Value {
    let config: Value = serde_json::from_slice(&import(stream).base_config).unwrap();
    config["assistant"].clone()
}
