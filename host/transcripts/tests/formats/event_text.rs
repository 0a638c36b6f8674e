//! Helpers for the tests of single formats: the events of a sample as one text, and the sample with overlays.

use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::Format;
use jp_compact_transcripts::Transcript;
use serde_json::Value;

use crate::check::{overlay, read, strip, written};

pub(crate) fn sample(format: Format, name: &str) -> Transcript {
    let path = format!("{}/tests/formats/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    read(format, name, &std::fs::read(path).unwrap())
}

/// Returns the events, one per line: the turn, the kind, and the first 50 characters.
pub(crate) fn events(stream: &Transcript) -> String {
    let view = project_with_overlays(stream, &[]);
    let lines = view.events(stream).map(|event| {
        let text = |name: &str| event.event.get(name).and_then(Value::as_str);
        let verb = match (text("type"), event.event.get("is_error")) {
            (Some("chat_request"), _) => "asks",
            (Some("tool_call_request"), _) => "calls",
            (_, Some(Value::Bool(true))) => "fails",
            (_, Some(_)) => "answers",
            _ if text("reasoning").is_some() => "thinks",
            _ => "says",
        };
        let content = ["content", "message", "reasoning"].into_iter().find_map(text);
        let content = content
            .map(Into::into)
            .unwrap_or_else(|| format!("{} {}", text("name").unwrap_or_default(), event.event["arguments"]));
        let content: String = content.replace('\n', "/").chars().take(50).collect();
        format!("{} {verb} {content}", event.turn).trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the data that must be sent back to providers with the events, in order.
pub(crate) fn metadata(stream: &Transcript) -> Vec<String> {
    let view = project_with_overlays(stream, &[]);
    view.events(stream).filter_map(|event| event.event.get("metadata").map(Value::to_string)).collect()
}

/// Returns the transcript with all calls stripped.
pub(crate) fn stripped(stream: &Transcript) -> String {
    text(stream, &[Overlay { tool_calls: Some(strip(stream)), ..whole(stream) }])
}

pub(crate) fn without_calls(stream: &Transcript) -> String {
    text(stream, &[Overlay { tool_calls: Some(ToolPolicy::Omit), ..whole(stream) }])
}

pub(crate) fn without_reasoning(stream: &Transcript) -> String {
    text(stream, &[Overlay { reasoning: Some(Reasoning::Strip), ..whole(stream) }])
}

pub(crate) fn without_all(stream: &Transcript) -> String {
    let reasoning = Some(Reasoning::Strip);
    text(stream, &[Overlay { tool_calls: Some(ToolPolicy::Omit), reasoning, ..whole(stream) }])
}

/// Returns the transcript with the summary `In short.` of some turns.
pub(crate) fn summarized(stream: &Transcript, from: usize, to: usize) -> String {
    text(stream, &[Overlay { summary: Some("In short.".into()), ..overlay(from, to) }])
}

/// Returns the lines of a text that are not in the original.
pub(crate) fn new_lines(text: &str, original: &Transcript) -> Vec<String> {
    let original = String::from_utf8_lossy(original.bytes()).into_owned();
    let is_new = |line: &&str| !original.lines().any(|other| other == *line);
    text.lines().filter(is_new).map(Into::into).collect()
}

fn whole(stream: &Transcript) -> Overlay {
    overlay(0, stream.turns() - 1)
}

fn text(stream: &Transcript, overlays: &[Overlay]) -> String {
    String::from_utf8(written(stream, overlays)).unwrap()
}
