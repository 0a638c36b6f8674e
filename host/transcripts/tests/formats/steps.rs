//! Steps of other programs' transcripts: the mark of each format, and the effect of the mark in a rendering and an
//! import.

use jp_compact_core::Stream;
use jp_compact_core::event::Kind;
use jp_compact_core::index;
use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, render};
use jp_compact_transcripts::{Format, Transcript, import};
use serde_json::{Value, json};

use crate::check::read;

/// Formats the step of each event that the model sent or got: a letter for its kind, and the number or `-`.
fn format_steps(stream: &Stream) -> String {
    let steps = stream.steps();
    let visible = |(element, event): (usize, &jp_compact_core::event::Event)| {
        let letter = match event.kind {
            Kind::ChatRequest => 'u',
            Kind::Message => 'm',
            Kind::Reasoning => 'r',
            Kind::ToolRequest => 'c',
            Kind::ToolResponse { .. } => 'a',
            _ => return None,
        };
        Some(format!("{letter}{}", steps.step(element).map_or("-".into(), |step| step.to_string())))
    };
    stream.events().iter().enumerate().filter_map(visible).collect::<Vec<_>>().join(" ")
}

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

#[track_caller]
fn check(format: Format, bytes: &[u8], expected: &str) -> Transcript {
    let stream = read(format, "steps", bytes);
    assert_eq!(format_steps(&stream), expected, "{format}");
    stream
}

/// Returns a session of Claude Code in which the lines of one message are separated by results.
fn claude_code() -> Vec<u8> {
    let mut all: Vec<Value> = Vec::new();
    let mut add = |kind: &str, message: Value| {
        let parent = all.len().checked_sub(1).map(|parent| format!("u{parent}"));
        all.push(json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": kind,
            "message": message, "uuid": format!("u{}", all.len()), "timestamp": "2026-03-01T09:00:00.120Z",
        }));
    };
    let block = |id: &str, block: Value| json!({"id": id, "role": "assistant", "content": [block]});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "text"}]});
    add("user", json!({"role": "user", "content": "Go on."}));
    add("assistant", block("m1", call("t1")));
    add("user", result("t1"));
    add("assistant", block("m1", call("t2")));
    add("user", result("t2"));
    add("assistant", block("m2", json!({"type": "text", "text": "So far."})));
    add("assistant", block("m3", call("t3")));
    add("user", result("t3"));
    lines(&all)
}

#[test]
fn lines_with_one_message_id_are_one_step_and_one_message() {
    let stream = check(Format::ClaudeCode, &claude_code(), "u- c0 a0 c0 a0 m1 c2 a2");
    let body = render(&stream, &project(&stream), Provider::Anthropic).body;
    let roles: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(body["messages"][1]["content"].as_array().map(Vec::len), Some(2), "{body}");
    assert_eq!(body["messages"][2]["content"].as_array().map(Vec::len), Some(2), "{body}");
}

#[test]
fn each_message_of_a_request_body_is_a_step() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "text"});
    let body = json!({"model": "claude-x", "messages": [
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call("a"), call("b")]},
        {"role": "user", "content": [result("a"), result("b")]},
        {"role": "assistant", "content": [{"type": "text", "text": "One."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Two."}]},
    ]});
    check(Format::Anthropic, body.to_string().as_bytes(), "u- m0 c0 c0 a0 a0 m1 m2");
}

#[test]
fn step_start_begins_a_step_of_opencode() {
    let tool = |id: &str| {
        json!({"type": "tool", "callID": id, "tool": "read",
            "state": {"status": "completed", "input": {}, "output": "text"}})
    };
    let start = || json!({"type": "step-start"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let message = |id: &str, role: &str, parts: Value| {
        json!({"info": {"id": id, "role": role, "sessionID": "s", "parentID": "msg_1", "time": {"created": 1}},
            "parts": parts})
    };
    let export = json!({"info": {"id": "s", "version": "1"}, "messages": [
        message("msg_1", "user", json!([text("Go on.")])),
        message("msg_2", "assistant", json!([start(), tool("a"), start(), tool("b"), start(), text("Done.")])),
    ]});
    check(Format::Opencode, export.to_string().as_bytes(), "u- c0 a0 c1 a1 m2");
}

#[track_caller]
fn imported(from: usize, to: usize, expected: Option<&str>) {
    let sidecar = json!({"jp_compact_sidecar": 1, "format": "claude-code", "source": {"bytes": 1, "sha256": ""},
    "overlays": [
        {"type": "jp_compact_step_overlay", "timestamp": "2026-04-02 09:00:00.0", "from_turn": 0, "to_turn": 0,
            "from_step": from, "to_step": to, "tool_calls": {"policy": "omit"}},
        {"type": "jp_compact_receipt", "timestamp": "2026-04-02 09:00:00.0", "from_turn": 0, "to_turn": 0,
            "from_step": from, "to_step": to, "strategy": "s"},
        {"type": "jp_compact_receipt", "timestamp": "2026-04-02 09:00:00.0", "from_turn": 0, "to_turn": 0,
            "from_step": from, "to_step": to, "strategy": "other"},
    ]});
    let stream = read(Format::ClaudeCode, "steps", &claude_code());
    let sidecar = jp_compact_transcripts::sidecar::Sidecar::read(sidecar.to_string().into()).unwrap();
    let jp = Stream::parse(import::import(&stream.with_sidecar(sidecar).unwrap()).events.into()).unwrap();
    assert_eq!(format_steps(&jp), "u- c0 a0 c1 a1 m2 c2 a2", "JP's format does not tell responses apart");
    let ranges: Vec<_> = jp.overlays().iter().map(|overlay| overlay.range().unwrap().to_string()).collect();
    assert_eq!(ranges.first().map(String::as_str), expected);
    let receipts = jp.events().iter().filter(|event| event.kind == Kind::Receipt).count();
    // Each strategy of an overlay has a receipt.
    assert_eq!(receipts, if expected.is_some() { 2 } else { 0 });
    index::index(jp.bytes().clone()).unwrap();
}

#[test]
fn import_numbers_steps_again_and_covers_no_other_event() {
    imported(0, 0, Some("steps 0.0-0.1"));
    imported(0, 1, Some("steps 0.0-0.1"));
    imported(0, 2, Some("steps 0.0-0.2"));
    imported(1, 1, None);
    imported(1, 2, Some("step 0.2"));
}
