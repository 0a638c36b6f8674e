//! Summaries of steps in other programs' transcripts. A summary inside a turn has the format's own mark for text that
//! is not the user's, if there is one, and begins no turn. A summary before the request of its turn is a pair.

use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::view::SUMMARY_NOTE;
use jp_compact_transcripts::Format;
use serde_json::{Value, json};

use crate::check::{overlay, read, written};

/// Writes a transcript whose first two steps of turn 0 are summarized, and returns its text and its number of turns.
#[track_caller]
fn summarized(format: Format, bytes: &[u8], from_step: Option<usize>) -> (String, usize) {
    let stream = read(format, "notes", bytes);
    let summary =
        Overlay { summary: Some("They looked.".into()), from_step, to_step: Some(1), ..overlay(0, 0) };
    let text = written(&stream, &[summary]);
    let (turns, text) = (read(format, "notes", &text).turns(), String::from_utf8(text).unwrap());
    // Earlier versions wrote another sentence.
    let old = text.replace("[A summary of", "[A model wrote this summary of");
    assert_eq!(read(format, "notes", old.as_bytes()).turns(), turns, "{old}");
    (text, turns)
}

fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

fn claude_code() -> Vec<u8> {
    let mut all: Vec<Value> = Vec::new();
    let mut add = |kind: &str, message: Value| {
        let parent = all.len().checked_sub(1).map(|parent| format!("u{parent}"));
        all.push(json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": kind,
            "message": message, "uuid": format!("u{}", all.len()), "timestamp": "2026-03-01T09:00:00.120Z",
        }));
    };
    add("user", json!({"role": "user", "content": "Go on."}));
    for step in 0..3 {
        let call = json!({"type": "tool_use", "id": format!("t{step}"), "name": "Read", "input": {}});
        add("assistant", json!({"id": format!("m{step}"), "role": "assistant", "content": [call]}));
        let result = json!({"type": "tool_result", "tool_use_id": format!("t{step}"), "content": "text"});
        add("user", json!({"role": "user", "content": [result]}));
    }
    lines(&all)
}

#[test]
fn claude_code_gets_a_meta_line_in_the_chain() {
    let (text, turns) = summarized(Format::ClaudeCode, &claude_code(), Some(0));
    assert_eq!(turns, 1);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(lines[1]["isMeta"], true);
    assert_eq!(lines[1]["message"]["content"], format!("{SUMMARY_NOTE}\n    They looked."));
    let chain: Vec<_> = lines.iter().map(|line| (line["parentUuid"].clone(), line["uuid"].clone())).collect();
    assert_eq!(chain[0].1, chain[1].0);
    assert_eq!(chain[1].1, chain[2].0, "{text}");
}

#[test]
fn a_pair_before_the_request_of_its_turn_is_in_the_chain() {
    let (text, turns) = summarized(Format::ClaudeCode, &claude_code(), None);
    assert_eq!(turns, 2);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[2]["message"]["content"], "Go on.");
    let chain: Vec<_> = lines.iter().map(|line| (line["parentUuid"].clone(), line["uuid"].clone())).collect();
    assert_eq!(chain[0].0, Value::Null);
    assert!(chain.windows(2).all(|pair| pair[0].1 == pair[1].0), "{text}");
}

#[test]
fn opencode_gets_a_synthetic_part_that_sorts_after_the_request() {
    let tool = |id: &str| {
        json!({"type": "tool", "callID": id, "tool": "read",
            "state": {"status": "completed", "input": {}, "output": "text"}})
    };
    let message = |id: &str, role: &str, parts: Value| {
        json!({"info": {"id": id, "role": role, "sessionID": "s", "parentID": "msg_11", "time": {"created": 1}},
            "parts": parts})
    };
    let mut messages = vec![message("msg_11", "user", json!([{"type": "text", "text": "Go on."}]))];
    messages.extend(["msg_12", "msg_13", "msg_14"].map(|id| message(id, "assistant", json!([tool(id)]))));
    let export = json!({"info": {"id": "s", "version": "1"}, "messages": messages}).to_string();
    let (text, turns) = summarized(Format::Opencode, export.as_bytes(), Some(0));
    assert_eq!(turns, 1);
    let document: Value = serde_json::from_str(&text).unwrap();
    let messages = document["messages"].as_array().unwrap();
    assert_eq!(messages[1]["parts"][0]["synthetic"], true);
    let ids: Vec<_> = messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() == 3, "{ids:?}");
    let (text, _) = summarized(Format::Opencode, export.as_bytes(), None);
    let document: Value = serde_json::from_str(&text).unwrap();
    let messages = document["messages"].as_array().unwrap();
    let ids: Vec<_> = messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["msg_", "msg_1", "msg_11", "msg_14"]);
}

#[test]
fn pi_gets_a_custom_message() {
    let time = "2026-03-01T09:00:00.120Z";
    let mut entries = vec![json!({"type": "session", "id": "s", "timestamp": time, "cwd": "/"})];
    let mut add = |message: Value| {
        let parent = if entries.len() > 1 { json!(format!("e{}", entries.len() - 1)) } else { Value::Null };
        let id = format!("e{}", entries.len());
        entries.push(
            json!({"type": "message", "id": id, "parentId": parent, "timestamp": time, "message": message}),
        );
    };
    add(json!({"role": "user", "content": "Go on."}));
    for step in 0..3 {
        let id = format!("t{step}");
        let call = json!({"type": "toolCall", "id": id, "name": "read", "arguments": {}});
        add(json!({"role": "assistant", "content": [call]}));
        add(
            json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": [{"type": "text", "text": "x"}]}),
        );
    }
    let (text, turns) = summarized(Format::Pi, &lines(&entries), Some(0));
    assert_eq!(turns, 1);
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries[2]["type"], "custom_message", "{text}");
    assert_eq!((&entries[2]["parentId"], &entries[3]["parentId"]), (&json!("e1"), &entries[2]["id"]));
}

#[test]
fn a_request_body_has_no_mark_and_still_the_same_turns() {
    let call = |id: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}]})
    };
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "text"});
    let mut messages = vec![json!({"role": "user", "content": "Go on."})];
    messages.extend(["a", "b", "c"].iter().flat_map(|id| [call(id), result(id)]));
    let body = json!({"model": "gpt-x", "messages": messages}).to_string();
    let (text, turns) = summarized(Format::OpenaiChat, body.as_bytes(), Some(0));
    assert!(text.contains(SUMMARY_NOTE));
    assert_eq!(turns, 1);
}

/// Checks that the second user event, which the agent wrote, is an attachment and begins no turn, and that the first is
/// the user's own.
#[track_caller]
fn check_text_of_agent(format: Format, bytes: &[u8], name: &str) {
    let stream = read(format, "notes", bytes);
    let view = project_with_overlays(&stream, &[]);
    let events: Vec<_> = view.events(&stream).map(|item| item.event).collect();
    let requests: Vec<_> = events.iter().filter(|event| event["type"] == "chat_request").collect();
    assert_eq!((stream.turns(), requests.len()), (1, 2), "{events:?}");
    assert_eq!(requests[0].get("metadata"), None);
    assert_eq!(requests[1]["metadata"], json!({ "attachment": name }));
}

#[test]
fn text_that_the_agent_wrote_is_an_attachment() {
    let mut records: Vec<Value> = String::from_utf8(claude_code())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    records.truncate(2);
    records[1] = records[0].clone();
    (records[1]["uuid"], records[1]["parentUuid"]) = (json!("u1"), json!("u0"));
    records[1]["isMeta"] = true.into();
    let text = "Caveat: DO NOT respond to these messages.";
    for content in [json!(text), json!([{"type": "text", "text": text}])] {
        records[1]["message"]["content"] = content;
        check_text_of_agent(Format::ClaudeCode, &lines(&records), "meta");
    }
}

#[test]
fn output_of_a_command_of_the_user_is_an_attachment() {
    #[track_caller]
    fn check(format: Format, records: &[Value], names: &[Value]) {
        let stream = read(format, "outputs", &lines(records));
        let view = project_with_overlays(&stream, &[]);
        let events = view.events(&stream).map(|item| item.event);
        let found: Vec<_> = events
            .filter(|event| event["type"] == "chat_request")
            .map(|event| event.get("metadata").map_or(Value::Null, |metadata| metadata["attachment"].clone()))
            .collect();
        assert_eq!(found, names);
    }
    let text = "NEVER use this API.";
    let record = |number: usize, content: String| {
        json!({"parentUuid": number.checked_sub(1).map(|parent| format!("u{parent}")), "sessionId": "s",
            "type": "user", "uuid": format!("u{number}"), "message": {"role": "user", "content": content}})
    };
    let records: Vec<Value> = [
        "<bash-input>cat notes.md</bash-input>".to_owned(),
        format!("<bash-stdout>{text}</bash-stdout><bash-stderr></bash-stderr>"),
        format!("<bash-stderr>{text}</bash-stderr>"),
        format!("<local-command-stdout>{text}</local-command-stdout>"),
        format!("See <bash-stdout>: {text}"),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, content)| record(number, content))
    .collect();
    let (none, output) = (Value::Null, json!("output"));
    check(
        Format::ClaudeCode,
        &records,
        &[none.clone(), output.clone(), output.clone(), output.clone(), none.clone()],
    );
    let messages = [
        json!({"role": "user", "content": text}),
        json!({"role": "custom", "customType": "a", "content": text}),
        json!({"role": "hookMessage", "customType": "a", "content": text}),
        json!({"role": "bashExecution", "command": "cat notes.md", "output": text}),
    ];
    let mut records =
        vec![json!({"type": "session", "id": "s", "timestamp": "2026-03-01T09:00:00.120Z", "cwd": "/"})];
    records.extend(messages.map(|message| json!({"type": "message", "message": message})));
    check(Format::Pi, &records, &[none, json!("custom"), json!("custom"), output]);
}
