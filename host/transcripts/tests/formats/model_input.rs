//! Input of the model that version 0.1.0 did not read: attachments, images, and encrypted reasoning. The messages that
//! providers reject are tested here, too.

use jp_compact_core::estimate::{ENVELOPE_BYTES, Estimate, Estimator, IMAGE_TOKENS};
use jp_compact_core::event::Kind;
use jp_compact_core::lint::{self, Rule};
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::render::{Provider, Rendered};
use jp_compact_transcripts as transcripts;
use jp_compact_transcripts::Format;
use jp_compact_transcripts::Transcript;
use serde_json::{Value, json};

use crate::check::{overlay, read, written};

fn stream(format: Format, text: &str) -> Transcript {
    let stream = read(format, format.as_str(), text.as_bytes());
    assert_eq!(transcripts::examine(&stream).unwrap(), None, "{text}");
    stream
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn record(number: usize, kind: &str, member: &str, value: Value) -> Value {
    let parent = if number == 1 { Value::Null } else { format!("u{}", number - 1).into() };
    json!({
        "parentUuid": parent, "isSidechain": false, "sessionId": "s", "type": kind, "uuid": format!("u{number}"),
        "timestamp": "2026-03-01T09:00:00.000Z", member: value,
    })
}

/// Returns a session with an attached file and an attached image.
fn session_with_attachments() -> String {
    let content =
        json!({"type": "text", "file": {"filePath": "/a.rs", "content": "let x = 1;\n".repeat(100)}});
    let picture = json!({"type": "image", "file": {"base64": "iVBORw0KGgo=", "type": "image/png"}});
    lines(&[
        record(1, "user", "message", json!({"role": "user", "content": "Look at @a.rs"})),
        record(
            2,
            "attachment",
            "attachment",
            json!({"type": "file", "filename": "/a.rs", "content": content}),
        ),
        record(
            3,
            "attachment",
            "attachment",
            json!({"type": "file", "filename": "/p.png", "content": picture}),
        ),
        record(4, "attachment", "attachment", json!({"type": "hook_success", "content": "never sent"})),
        record(
            5,
            "assistant",
            "message",
            json!({"role": "assistant", "content": [{"type": "text", "text": "Seen."}]}),
        ),
        record(6, "user", "message", json!({"role": "user", "content": "Thanks"})),
    ])
}

#[test]
fn attachments_are_named_events_that_a_summary_covers() {
    let text = session_with_attachments();
    let stream = stream(Format::ClaudeCode, &text);
    let kinds: Vec<Kind> =
        stream.events().iter().map(|event| event.kind).filter(|kind| *kind != Kind::TurnStart).collect();
    assert_eq!(
        kinds,
        [Kind::ChatRequest, Kind::ChatRequest, Kind::ChatRequest, Kind::Message, Kind::ChatRequest]
    );
    assert_eq!(stream.turns(), 2);
    let view = jp_compact_core::projection::project_with_overlays(&stream, &[]);
    let names: Vec<Value> = view
        .events(&stream)
        .filter_map(|event| event.event.get("metadata")?.get("attachment").cloned())
        .collect();
    assert_eq!(names, ["/a.rs", "/p.png"]);
    let tokens = Estimate::new(&stream, Estimator::Pieces).view_tokens(&view);
    assert!(tokens > 275 + IMAGE_TOKENS, "{tokens}");
    let summary = [Overlay { summary: Some("A file.".into()), ..overlay(0, 0) }];
    let bytes = String::from_utf8(written(&stream, &summary)).unwrap();
    assert!(
        !bytes.contains("let x") && !bytes.contains("iVBORw0KGgo=") && bytes.contains("never sent"),
        "{bytes}"
    );
}

#[track_caller]
fn tokens(format: Format, text: &str) -> u64 {
    Estimate::new(&stream(format, text), Estimator::Pieces).stream_tokens()
}

#[test]
fn images_have_a_fixed_estimate_and_encrypted_reasoning_is_estimated_by_size() {
    let chat = |parts: Value| json!([{"role": "user", "content": parts}]).to_string();
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let text = json!({"type": "text", "text": "hi"});
    let with = tokens(Format::OpenaiChat, &chat(json!([text, image, image])));
    let without = tokens(Format::OpenaiChat, &chat(json!([text])));
    assert!((2 * IMAGE_TOKENS..2 * IMAGE_TOKENS + 10).contains(&(with - without)), "{with} {without}");
    // A user who types the placeholder has not attached an image.
    assert!(tokens(Format::OpenaiChat, &chat("[image]".into())) < 30);
    let result = json!([{"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "camera", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=".repeat(20)}}]}]}]);
    let result = result.to_string();
    assert!(tokens(Format::Anthropic, &result) >= IMAGE_TOKENS);
    // A strip removes the image even though its placeholder is short.
    let strip = ToolPolicy::Strip { request: true, response: true, overrides: Default::default() };
    let strip = [Overlay { tool_calls: Some(strip), ..overlay(0, 0) }];
    let stripped = written(&stream(Format::Anthropic, &result), &strip);
    assert!(String::from_utf8(stripped).unwrap().contains("[compacted] camera: success"));

    let thought = |encrypted: String| {
        json!([{"role": "user", "content": "go"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted},
            {"type": "message", "role": "assistant", "content": "done"}])
        .to_string()
    };
    let with = tokens(Format::OpenaiResponses, &thought("QUJD".repeat(1_000)));
    let without = tokens(Format::OpenaiResponses, &thought("QUJD".into()));
    assert_eq!(with - without, (3_000 - ENVELOPE_BYTES) / 4);
}

/// Returns a transcript without its calls.
#[track_caller]
fn omitted(format: Format, text: &str) -> String {
    let stream = stream(format, text);
    let omit = [Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, stream.turns() - 1) }];
    String::from_utf8(written(&stream, &omit)).unwrap()
}

#[test]
fn omit_removes_messages_with_only_reasoning() {
    let pi_entry = |number: usize, message: Value| {
        let parent = if number == 1 { Value::Null } else { format!("e{}", number - 1).into() };
        json!({"type": "message", "id": format!("e{number}"), "parentId": parent, "timestamp": "2026-03-01T09:00:00.000Z", "message": message})
    };
    let text = lines(&[
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T09:00:00.000Z", "cwd": "/"}),
        pi_entry(1, json!({"role": "user", "content": "go"})),
        pi_entry(
            2,
            json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"},
            {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}]}),
        ),
        pi_entry(
            3,
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "ls", "content": "a", "isError": false}),
        ),
        pi_entry(4, json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})),
    ]);
    let remaining = omitted(Format::Pi, &text);
    assert!(!remaining.contains("thinking") && remaining.contains("Done."), "{remaining}");
    assert_eq!(remaining.lines().count(), 3, "{remaining}");

    let part = |kind: &str| json!({"type": kind, "text": "Hm."});
    let tool = json!({"type": "tool", "callID": "c", "tool": "ls", "state": {"status": "completed", "input": {}, "output": "a"}});
    let text = json!({"info": {"id": "s"}, "messages": [
        {"info": {"id": "m1", "role": "user"}, "parts": [{"type": "text", "text": "go"}]},
        {"info": {"id": "m2", "role": "assistant", "parentID": "m1"}, "parts": [part("step-start"), part("reasoning"), tool]},
        {"info": {"id": "m3", "role": "assistant", "parentID": "m1"}, "parts": [part("text")]},
    ]});
    let remaining = omitted(Format::Opencode, &text.to_string());
    assert!(
        !remaining.contains("reasoning") && !remaining.contains("m2") && remaining.contains("m3"),
        "{remaining}"
    );
}

#[test]
fn lint_finds_lone_reasoning_and_rejected_names() {
    #[track_caller]
    fn check(provider: Provider, messages: Value, expected: &[Rule]) {
        let violations =
            lint::check_body(provider, &Rendered::from_body(json!({ provider.conversation(): messages })));
        let rules = violations
            .iter()
            .map(|violation| violation.rule)
            .filter(|rule| matches!(rule, Rule::G7 | Rule::G8));
        assert_eq!(rules.collect::<Vec<_>>(), expected, "{violations:?}");
    }
    let long = "x".repeat(65);
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let call = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let anthropic = |blocks: Value| json!([{"role": "assistant", "content": blocks}]);
    check(Provider::Anthropic, anthropic(json!([thinking])), &[Rule::G7]);
    check(Provider::Anthropic, anthropic(json!([thinking, call("toolu_1", "Bash")])), &[]);
    check(Provider::Anthropic, anthropic(json!([call("functions.Bash:0", "Bash")])), &[Rule::G8]);
    check(Provider::Anthropic, anthropic(json!([call(&long, &long)])), &[Rule::G8, Rule::G8]);
    let chat = json!([{"role": "assistant", "tool_calls": [
        {"id": &long, "type": "function", "function": {"name": "functions.Bash", "arguments": "{}"}}]}]);
    check(Provider::Openai, chat, &[Rule::G8, Rule::G8]);
    let item = json!([{"type": "function_call", "call_id": &long, "name": "Bash", "arguments": "{}"}]);
    check(Provider::OpenaiResponses, item, &[Rule::G8]);
    let gemini = |parts: Value| json!([{"role": "model", "parts": parts}]);
    check(Provider::Gemini, gemini(json!([{"text": "Hm.", "thought": true}])), &[Rule::G7]);
    check(Provider::Gemini, gemini(json!([{"functionCall": {"name": "7up", "args": {}}}])), &[Rule::G8]);
    check(Provider::Gemini, gemini(json!([{"functionCall": {"name": "a.b", "args": {}}}])), &[]);
}

#[test]
fn rejected_names_are_rendered_in_an_accepted_form() {
    let long = "y".repeat(70);
    let messages = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "functions.Bash:0", "type": "function", "function": {"name": "functions.Bash", "arguments": "{}"}},
            {"id": &long, "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "functions.Bash:0", "content": "a"},
        {"role": "tool", "tool_call_id": &long, "content": "b"},
    ]);
    let stream = stream(Format::OpenaiChat, &messages.to_string());
    let view = jp_compact_core::projection::project_with_overlays(&stream, &[]);
    for provider in Provider::ALL {
        let body = jp_compact_core::render::render(&stream, &view, provider);
        assert_eq!(lint::check_body(provider, &body), [], "{provider}");
    }
}

/// The API rejects an item that has an id but not its reasoning.
#[test]
fn every_kind_of_item_loses_its_id_with_its_reasoning() {
    let outputs = [
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}),
        json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        json!({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}),
        json!({"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}),
        json!({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}),
        json!({"type": "mcp_call", "name": "f", "server_label": "s", "arguments": "{}", "output": "x"}),
        json!({"type": "web_search_call", "action": {"type": "search", "query": "x"}}),
        json!({"type": "file_search_call", "queries": ["x"]}),
        json!({"type": "code_interpreter_call", "code": "1"}),
        json!({"type": "image_generation_call", "result": "iVBORw0KGgo="}),
        json!({"type": "computer_call", "call_id": "c", "action": {"type": "click"}}),
        json!({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file"}}),
    ];
    for mut item in outputs {
        item["id"] = "item_1".into();
        let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "QUJD"});
        let text = json!([{"role": "user", "content": "go"}, thought, item]).to_string();
        let stream = stream(Format::OpenaiResponses, &text);
        let strip = [Overlay { reasoning: Some(jp_compact_schema::Reasoning::Strip), ..overlay(0, 0) }];
        let remaining = String::from_utf8(written(&stream, &strip)).unwrap();
        assert!(!remaining.contains("item_1") && !remaining.contains("rs_1"), "{remaining}");
    }
    // A reference keeps the id.
    let reference = json!([{"role": "user", "content": "go"}, {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "item_reference", "id": "item_1"}, {"type": "message", "role": "assistant", "content": "Hi"}]);
    let stream = stream(Format::OpenaiResponses, &reference.to_string());
    let strip = [Overlay { reasoning: Some(jp_compact_schema::Reasoning::Strip), ..overlay(0, 0) }];
    assert!(String::from_utf8(written(&stream, &strip)).unwrap().contains("item_1"));
}
