//! What tests of one format look at: the events of a sample of ours, and the sample with overlays.

use jp_compact_core::Stream;
use jp_compact_core::formats::{self, Format};
use jp_compact_core::import::import;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_through;
use jp_compact_schema::Reasoning;
use serde_json::Value;

use crate::check::{overlay, strip, written};
use crate::samples;

/// A sample of ours, by its file's name.
#[track_caller]
pub(crate) fn sample(format: Format, name: &str) -> Stream {
    let sample = samples::ours(format).into_iter().find(|sample| sample.name == name).unwrap();
    formats::read(format, sample.bytes.into()).unwrap()
}

/// The turn, the kind and the text of each event; of a call its arguments.
pub(crate) fn events(stream: &Stream) -> Vec<String> {
    let view = project_through(stream, &[]);
    let shown = view.events(stream).map(|shown| {
        let (turn, event) = (shown.turn, shown.event);
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
    shown.collect()
}

/// The whole stripped, arguments and results.
pub(crate) fn stripped(stream: &Stream) -> String {
    with(stream, Overlay { tool_calls: Some(strip(stream)), ..overlay(0, stream.turns() - 1) })
}

/// The whole without calls.
pub(crate) fn without_calls(stream: &Stream) -> String {
    with(stream, Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, stream.turns() - 1) })
}

/// The whole without reasoning.
pub(crate) fn without_reasoning(stream: &Stream) -> String {
    with(stream, Overlay { reasoning: Some(Reasoning::Strip), ..overlay(0, stream.turns() - 1) })
}

/// With a summary of these turns, which says `Short.`.
pub(crate) fn summarised(stream: &Stream, from: usize, to: usize) -> String {
    with(stream, Overlay { summary: Some("Short.".into()), ..overlay(from, to) })
}

fn with(stream: &Stream, overlay: Overlay) -> String {
    String::from_utf8(written(stream, &[overlay])).unwrap()
}

/// The lines of one text that are not in the other, in order.
pub(crate) fn lines_only_in<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    text.lines().filter(|line| !other.lines().any(|theirs| theirs == *line)).collect()
}

/// The source of a stream.
pub(crate) fn source(stream: &Stream) -> String {
    String::from_utf8(stream.bytes().to_vec()).unwrap()
}

/// What an import says of the model, and of what it was told of its part.
pub(crate) fn assistant(stream: &Stream) -> Value {
    let config: Value = serde_json::from_slice(&import(stream).base_config).unwrap();
    config["assistant"].clone()
}
