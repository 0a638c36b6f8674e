//! What a sample is made of, and what becomes of it, for tests that look at one format closely.

use jp_compact_core::Stream;
use jp_compact_core::formats::Format;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_through;
use jp_compact_schema::Reasoning;
use serde_json::Value;

use crate::check::{overlay, read, strip, written};

/// A sample of ours.
pub(crate) fn sample(format: Format, name: &str) -> Stream {
    let path = format!("{}/tests/formats/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    read(format, name, &std::fs::read(path).unwrap())
}

/// Its events, one a line: the turn, and the beginning of what is said.
pub(crate) fn events(stream: &Stream) -> String {
    let view = project_through(stream, &[]);
    let shown = view.events(stream).map(|event| {
        let text = |name: &str| event.event.get(name).and_then(Value::as_str);
        let what = match (text("type"), event.event.get("is_error")) {
            (Some("chat_request"), _) => "asks",
            (Some("tool_call_request"), _) => "calls",
            (_, Some(Value::Bool(true))) => "fails",
            (_, Some(_)) => "answers",
            _ if text("reasoning").is_some() => "thinks",
            _ => "says",
        };
        let said = ["content", "message", "reasoning"].into_iter().find_map(text);
        let said = said
            .map(Into::into)
            .unwrap_or_else(|| format!("{} {}", text("name").unwrap_or_default(), event.event["arguments"]));
        let said: String = said.replace('\n', "/").chars().take(50).collect();
        format!("{} {what} {said}", event.turn).trim_end().to_owned()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// What providers want back with its events, in order.
pub(crate) fn metadata(stream: &Stream) -> Vec<String> {
    let view = project_through(stream, &[]);
    view.events(stream).filter_map(|event| event.event.get("metadata").map(Value::to_string)).collect()
}

/// It with all calls stripped.
pub(crate) fn stripped(stream: &Stream) -> String {
    text(stream, &[Overlay { tool_calls: Some(strip(stream)), ..whole(stream) }])
}

/// It without any call.
pub(crate) fn without_calls(stream: &Stream) -> String {
    text(stream, &[Overlay { tool_calls: Some(ToolPolicy::Omit), ..whole(stream) }])
}

/// It without what was thought.
pub(crate) fn without_reasoning(stream: &Stream) -> String {
    text(stream, &[Overlay { reasoning: Some(Reasoning::Strip), ..whole(stream) }])
}

/// It without both.
pub(crate) fn without_all(stream: &Stream) -> String {
    let reasoning = Some(Reasoning::Strip);
    text(stream, &[Overlay { tool_calls: Some(ToolPolicy::Omit), reasoning, ..whole(stream) }])
}

/// It with a summary in the place of some turns.
pub(crate) fn summarised(stream: &Stream, from: usize, to: usize) -> String {
    text(stream, &[Overlay { summary: Some("In short.".into()), ..overlay(from, to) }])
}

/// The lines of a text that an original lacks.
pub(crate) fn new_lines(text: &str, original: &Stream) -> Vec<String> {
    let original = String::from_utf8_lossy(original.bytes()).into_owned();
    let is_new = |line: &&str| !original.lines().any(|other| other == *line);
    text.lines().filter(is_new).map(Into::into).collect()
}

fn whole(stream: &Stream) -> Overlay {
    overlay(0, stream.turns() - 1)
}

fn text(stream: &Stream, overlays: &[Overlay]) -> String {
    String::from_utf8(written(stream, overlays)).unwrap()
}
