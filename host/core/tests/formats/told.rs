//! What a reader found, as lines; and a source as an overlay leaves it.

use std::path::Path;

use jiff::Timestamp;
use jp_compact_core::Stream;
use jp_compact_core::formats::{self, Format};
use jp_compact_core::import;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_through;
use jp_compact_core::source;
use jp_compact_core::splice::concat;
use jp_compact_schema::Reasoning;

use crate::check::strip;

/// A sample of ours.
#[track_caller]
pub(crate) fn sample(name: &str) -> Stream {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/samples").join(name);
    let bytes = std::fs::read(path).unwrap();
    let format = formats::detect(&bytes).unwrap();
    formats::read(format, bytes.into()).unwrap()
}

/// Why bytes are no transcript of a format.
#[track_caller]
pub(crate) fn refused(format: Format, text: &str) -> String {
    let wrong = formats::read(format, text.to_owned().into_bytes().into()).unwrap_err();
    format!("{}: {}", wrong.at, wrong.what)
}

/// Each event: its turn, its kind, what it says.
pub(crate) fn events(stream: &Stream) -> Vec<String> {
    let view = project_through(stream, &[]);
    let told = view.events(stream).filter_map(|event| {
        let text = |name: &str| event.event.get(name).map(ToString::to_string).unwrap_or_default();
        let kind = match event.event["type"].as_str() {
            Some("chat_response") if event.event.get("reasoning").is_some() => "thought",
            Some("chat_response") => "said",
            Some("chat_request") => "asked",
            Some("tool_call_request") => "call",
            Some("tool_call_response") => "result",
            _ => return None,
        };
        let says = ["content", "message", "reasoning", "name", "arguments", "is_error"].map(text);
        let says: Vec<String> = says.into_iter().filter(|part| !part.is_empty() && part != "false").collect();
        Some(format!("{} {kind} {}", event.turn, says.join(" ")))
    });
    told.collect()
}

/// What the model is told of its part, and who it is, as an import has it.
pub(crate) fn told_of(stream: &Stream) -> [String; 2] {
    let config: serde_json::Value = serde_json::from_slice(&import::import(stream).base_config).unwrap();
    let assistant = &config["assistant"];
    [&assistant["system_prompt"], &assistant["model"]["id"]["name"]].map(ToString::to_string)
}

/// The source with all its calls as that policy leaves them.
pub(crate) fn tools(stream: &Stream, policy: ToolPolicy) -> String {
    written(stream, Overlay { tool_calls: Some(policy), ..whole(stream) })
}

/// The source without what its calls ask for and come to.
pub(crate) fn stripped(stream: &Stream) -> String {
    tools(stream, strip(stream))
}

/// The source without reasoning.
pub(crate) fn without_reasoning(stream: &Stream) -> String {
    written(stream, Overlay { reasoning: Some(Reasoning::Strip), ..whole(stream) })
}

/// The source with a summary of those turns.
pub(crate) fn summarised(stream: &Stream, from_turn: usize, to_turn: usize) -> String {
    written(stream, Overlay { summary: Some("So it was.".into()), from_turn, to_turn, ..whole(stream) })
}

fn written(stream: &Stream, overlay: Overlay) -> String {
    let view = project_through(stream, &[overlay]);
    String::from_utf8(concat(&source::render(stream, &view), stream.bytes())).unwrap()
}

fn whole(stream: &Stream) -> Overlay {
    Overlay {
        element: usize::MAX,
        stamp: Timestamp::UNIX_EPOCH,
        from_turn: 0,
        to_turn: stream.turns() - 1,
        summary: None,
        reasoning: None,
        tool_calls: None,
        applied_by_jp: true,
        not_applied: Vec::new(),
        stale: false,
    }
}
