//! Codex's rollouts: turns, twins (records that repeat an item for display), and Codex's own compactions.

use jp_compact_transcripts::{self as transcripts, Format};
use serde_json::{Value, json};

use crate::event_list::{
    assistant, events, lines_only_in, sample, source, stripped, summarized, without_calls, without_reasoning,
};

#[test]
fn task_begins_a_turn_and_injected_messages_do_not() {
    let actual = events(&sample(Format::Codex, "codex.jsonl"));
    let expected = [
        "0 user: Why does the tap drip? “öffnen” it 🚰\n[image]",
        "0 thought: **Looking** at the log",
        r#"0 call call_1: exec_command {"cmd":"cat tap.log"}"#,
        r#"0 call call_2: exec_command {"cmd":"ls shed"}"#,
        "0 error call_2: Process exited with code 2\nOutput:\nls: shed: No such file\n",
        "0 answer call_1: drip\ndrip\n\n[image]",
        r#"0 call call_3: apply_patch {"input":"*** Begin Patch\n*** Update File: tap.txt\n+washer\n*** End Patch"}"#,
        "0 answer call_3: Success. Updated tap.txt\n",
        "0 assistant: The washer is worn.",
        "1 user: Look it up",
        "1 user: <skill>\n<name>taps</name>\n</skill>",
        "1 thought: ",
        r#"1 call call_5: calendar_add {"day":"Monday"}"#,
        "1 answer call_5: added",
        "1 user: In millimetres, please",
        r#"1 call call_6: local_shell {"type":"exec","command":["units","1/2in","mm"],"timeout_ms":null,"working_directory":null,"env":null,"user":null}"#,
        r#"1 answer call_6: {"output":"12.7\n","metadata":{"exit_code":0,"duration_seconds":0.1}}"#,
        "1 assistant: 12.7 mm\nIt is added.",
        // The third task was rolled back.
        "2 user: Close it",
        r#"2 call call_1: exec_command {"cmd":"close"}"#,
        "2 answer call_1: closed",
        r#"2 call call_7: exec_command {"cmd":"sleep 9"}"#,
        "2 user: <turn_aborted>\nThe user interrupted.\n</turn_aborted>",
    ];
    assert_eq!(actual, expected);
}

#[test]
fn task_is_one_turn_after_an_injected_message() {
    let message = |role: &str, kind: &str, text: &str| {
        format!(
            r#"{{"type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}}}"#
        )
    };
    let lines = [
        r#"{"type":"session_meta","payload":{"id":"s"}}"#.to_owned(),
        r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#.to_owned(),
        message("user", "input_text", "<subagent_notification>done</subagent_notification>"),
        message("user", "input_text", "Go on please"),
        message("assistant", "output_text", "Yes."),
    ];
    let stream = transcripts::read(Format::Codex, lines.join("\n").into_bytes().into()).unwrap();
    let turns: Vec<_> = events(&stream).iter().map(|event| event[..3].to_owned()).collect();
    assert_eq!(turns, ["0 u", "0 u", "0 a"]);
}

#[test]
fn instructions_are_the_system_prompt() {
    let actual = assistant(&sample(Format::Codex, "codex.jsonl"));
    assert_eq!(actual["model"]["id"]["name"], "gpt-5");
    let expected = "<permissions instructions>Ask first.</permissions instructions>\n\n\
        # AGENTS.md instructions for /home/ada/garden\n\nWater at dawn.\n\
        <environment_context>\n  <cwd>/home/ada/garden</cwd>\n</environment_context>";
    assert_eq!(actual["system_prompt"], expected);
}

#[test]
fn each_request_begins_a_turn_without_task_marks() {
    let actual = events(&sample(Format::Codex, "codex-before-tasks.jsonl"));
    let turns: Vec<_> = actual.iter().filter(|event| event.contains(" user: ")).collect();
    assert_eq!(turns, ["0 user: Go on", "1 user: Go on"]);
    assert_eq!(actual[8], "1 error call_1: two");
}

#[test]
fn first_rollouts_have_bare_items() {
    let stream = sample(Format::Codex, "codex-first.jsonl");
    assert_eq!(
        events(&stream),
        [
            "0 user: Hallo, wie geht’s?",
            "0 thought: A greeting",
            r#"0 call call_9: shell {"command":["date"]}"#,
            r#"0 answer call_9: {"output":"Sunday","metadata":{"exit_code":0}}"#,
            "0 assistant: Gut. It is Sunday.",
        ]
    );
    let pair = [
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"[Summary of previous conversation]"}]}"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Short."}]}"#,
    ];
    assert_eq!(lines_only_in(&summarized(&stream, 0, 0), &source(&stream)), pair);
}

/// Returns the events of a rollout that was written without its calls.
#[track_caller]
fn events_without_calls(lines: &[&str]) -> Vec<String> {
    let source = lines.join("\n");
    let written = without_calls(&transcripts::read(Format::Codex, source.into()).unwrap());
    events(&transcripts::read(Format::Codex, written.into()).unwrap())
}

#[test]
fn reasoning_is_removed_with_its_call() {
    let state = r#"{"record_type":"state"}"#;
    let user = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Which day?"}]}"#;
    let thought = r#"{"type":"reasoning","id":"rs_9","summary":[{"type":"summary_text","text":"Look"}]}"#;
    let call = r#"{"type":"function_call","id":"fc_9","name":"sh","arguments":"{}","call_id":"call_9"}"#;
    let answer = r#"{"type":"function_call_output","call_id":"call_9","output":"Sunday"}"#;
    let message =
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Sunday."}]}"#;
    // The message is from a later response. The API rejects the reasoning item without its own call.
    let removed = events_without_calls(&[state, user, thought, call, answer, state, message]);
    assert_eq!(removed, ["0 user: Which day?", "0 assistant: Sunday."]);
    // One response has both the message and the call.
    let kept = events_without_calls(&[state, user, thought, message, call, answer]);
    assert_eq!(kept, ["0 user: Which day?", "0 thought: Look", "0 assistant: Sunday."]);
}

#[test]
fn strip_applies_to_twins_too() {
    let stream = sample(Format::Codex, "codex.jsonl");
    let stripped = stripped(&stream);
    let changed = lines_only_in(&stripped, &source(&stream));
    let expected = [
        r#"{"timestamp": "2026-03-01T09:00:10.000Z", "ordinal": 10, "type": "response_item", "payload": {"type": "function_call", "id": "fc_1", "name": "exec_command", "arguments": "{}", "call_id": "call_1", "internal_chat_message_metadata_passthrough": {"turn_id": "t-0001"}}, "metadata": {"history_sequence": 4, "client_authored": false}}"#,
        r#"{"timestamp":"2026-03-01T09:00:14.000Z","ordinal":14,"type":"event_msg","payload":{"type":"item_completed","thread_id":"th-1","turn_id":"t-0001","item":{"type":"CommandExecution","id":"call_1","process_id":"7","command":[],"cwd":"file:///home/ada/garden","parsed_cmd":[],"source":"unified_exec_startup","status":"completed","aggregated_output":"","exit_code":0,"duration":{"secs":0,"nanos":5}},"completed_at_ms":1}}"#,
        r#"{"timestamp": "2026-03-01T09:00:15.000Z", "ordinal": 15, "type": "response_item", "payload": {"type": "function_call_output", "id": "fco_2", "call_id": "call_2", "output": "[compacted] exec_command: error"}, "metadata": {"history_sequence": 6, "client_authored": false}}"#,
        r#"{"timestamp":"2026-03-01T09:00:18.000Z","ordinal":18,"type":"response_item","payload":{"type":"custom_tool_call","status":"completed","call_id":"call_3","name":"apply_patch","input":""},"metadata":{"history_sequence":8,"client_authored":false}}"#,
        r#"{"timestamp":"2026-03-01T09:00:19.000Z","ordinal":19,"type":"event_msg","payload":{"type":"item_completed","thread_id":"th-1","turn_id":"t-0001","item":{"type":"FileChange","id":"call_3","changes":{},"status":"completed","stdout":"","stderr":""},"completed_at_ms":1}}"#,
        r#"{"timestamp": "2026-03-01T09:00:35.000Z", "ordinal": 35, "type": "event_msg", "payload": {"type": "mcp_tool_call_end", "call_id": "call_5", "invocation": {"server": "calendar", "tool": "calendar_add", "arguments": {}}, "duration": {"secs": 1, "nanos": 0}, "result": {"Ok":{"content":[]}}}}"#,
        r#"{"timestamp":"2026-03-01T09:00:39.000Z","ordinal":39,"type":"response_item","payload":{"type":"local_shell_call","id":"lsh_1","call_id":"call_6","status":"completed","action":{"type":"exec","command":[]}},"metadata":{"history_sequence":20,"client_authored":false}}"#,
    ];
    for line in expected {
        assert!(changed.contains(&line), "{line}\n{changed:#?}");
    }
    for removed in ["cat tap.log", "ls shed", "drip\\n", "washer\\n", "Monday", r"12.7\\n", "closed"] {
        assert!(!stripped.contains(removed), "{removed} is still there");
    }
}

#[test]
fn twins_are_deleted_with_their_item_and_others_stay() {
    let stream = sample(Format::Codex, "codex.jsonl");
    let source = source(&stream);
    let kinds = |text: &str| -> Vec<String> {
        let kind = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let payload = &record["payload"];
            let kinds = [&record["type"], &payload["type"], &payload["item"]["type"]];
            kinds.iter().filter_map(|kind| kind.as_str()).collect::<Vec<_>>().join(" ")
        };
        lines_only_in(&source, text).into_iter().map(kind).collect()
    };
    let item = |name: &str| format!("response_item {name}");
    let twin = |name: &str| format!("event_msg item_completed {name}");
    assert_eq!(kinds(&without_reasoning(&stream)), [twin("Reasoning"), item("reasoning"), item("reasoning")]);
    let removed = kinds(&without_calls(&stream));
    assert_eq!(removed.iter().filter(|kind| **kind == twin("CommandExecution")).count(), 2);
    assert!(
        !removed.iter().any(|kind| kind.contains("tool_search") || kind.contains("web_search")),
        "{removed:?}"
    );
    let removed = kinds(&summarized(&stream, 1, 1));
    for kind in [
        twin("UserMessage"),
        item("web_search_call"),
        twin("WebSearch"),
        "event_msg mcp_tool_call_end".into(),
    ] {
        assert!(removed.contains(&kind), "{kind}: {removed:?}");
    }
    let kept = ["some_future_record", "event_msg task_started", "event_msg task_complete", "turn_context"];
    assert!(!removed.iter().any(|kind| kept.contains(&kind.as_str())), "{removed:?}");
}

#[test]
fn twins_without_ids_are_matched_by_nearby_text() {
    let stream = sample(Format::Codex, "codex-before-tasks.jsonl");
    let second = summarized(&stream, 1, 1);
    // Both turns have the same text. The twin of the second is deleted.
    for (text, times) in [("Go on", 2), ("**Checking**", 2), ("Did one.", 2), ("Did two.", 0), ("two", 0)] {
        assert_eq!(second.matches(text).count(), times, "{text}");
    }
    let first = summarized(&stream, 0, 0);
    assert!(first.find("Short.") < first.find("Go on"));
    assert_eq!(first.matches("Did one.").count(), 0);
}

#[test]
fn summary_pair_has_time_turn_and_ordinal_of_its_records() {
    let stream = sample(Format::Codex, "codex.jsonl");
    let summarized = summarized(&stream, 1, 1);
    let new_lines = lines_only_in(&summarized, &source(&stream));
    let [request, response] = new_lines[..] else { panic!("{new_lines:?}") };
    for line in new_lines {
        assert!(line.starts_with(r#"{"timestamp":"2026-03-01T09:00:26Z","ordinal":2"#), "{line}");
        assert!(
            line.ends_with(r#""internal_chat_message_metadata_passthrough":{"turn_id":"t-0002"}}}"#),
            "{line}"
        );
    }
    assert!(request.contains(
        r#""role":"user","content":[{"type":"input_text","text":"[Summary of previous conversation]"}]"#
    ));
    assert!(response.contains(r#""role":"assistant","content":[{"type":"output_text","text":"Short."}]"#));
    let numbers = summarized
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["ordinal"].as_u64().unwrap());
    assert!(numbers.is_sorted_by(|left, right| left < right));
}

#[test]
fn only_the_replacement_history_is_sent_after_a_compaction() {
    let stream = sample(Format::Codex, "codex-compacted.jsonl");
    let expected = [
        "0 user: Plant a rose",
        "0 user: Another language model started to solve this problem.\nA rose was planted.",
        "1 user: Now water it",
        "1 thought: Water is needed",
        r#"1 call call_1: water {"litres":2}"#,
        "1 answer call_1: wet",
        "1 assistant: Watered.",
    ];
    assert_eq!(events(&stream), expected);
    // The record stays with its opaque parts, because it excludes the older records.
    let summarized = summarized(&stream, 0, 0);
    let new_lines = lines_only_in(&summarized, &source(&stream));
    assert_eq!(new_lines.len(), 1);
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let environment = "<environment_context>\n  <cwd>/home/ada</cwd>\n</environment_context>";
    let history = json!([
        message("user", "input_text", environment),
        message("user", "input_text", "[Summary of previous conversation]"),
        message("assistant", "output_text", "Short."),
        {"type": "compaction", "encrypted_content": "b3BhcXVl"},
    ]);
    let line: Value = serde_json::from_str(new_lines[0]).unwrap();
    let payload = json!({"message": "", "replacement_history": history, "window_number": 1});
    assert_eq!((&line["type"], &line["payload"]), (&json!("compacted"), &payload));
    assert_eq!(lines_only_in(&source(&stream), &summarized).len(), 1);
}

#[test]
fn summary_follows_a_compaction_at_the_end() {
    let stream = sample(Format::Codex, "codex-compacted-last.jsonl");
    let expected = "0 user: Another language model started to solve this problem.\nA rose was planted.";
    assert_eq!(events(&stream), [expected]);
    let whole = source(&stream);
    let without_line_break =
        transcripts::read(Format::Codex, whole.trim_end().as_bytes().to_vec().into()).unwrap();
    for stream in [stream, without_line_break] {
        let summarized = summarized(&stream, 0, 0);
        let last: Vec<_> = summarized.lines().rev().take(3).collect();
        assert!(last[2].contains(r#""payload":{"message":""}"#), "{last:?}");
        assert!(last[1].contains(r#""role":"user""#) && last[0].contains("Short."), "{last:?}");
    }
}

#[track_caller]
fn refused(bytes: &str, expected: &str) {
    let error = transcripts::read(Format::Codex, bytes.as_bytes().to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_rollout_is_refused_with_its_offset() {
    refused("", "byte 0: not a transcript of Codex: none of the lines is a record of a rollout");
    refused(
        "{\"type\":\"user\"}\n",
        "byte 0: not a transcript of Codex: none of the lines is a record of a rollout",
    );
    let head = r#"{"type":"session_meta","payload":{}}"#;
    refused(&format!("{head}\n[1]\n"), "byte 37: line 2: not a transcript of Codex: a line is not an object");
}

#[test]
fn unusual_records_are_skipped() {
    let records = [
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":7}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":"bare"}}"#,
        r#"{"type":"response_item","payload":{"type":"reasoning"}}"#,
        r#"{"type":"response_item","payload":{"type":"function_call"}}"#,
        r#"{"type":"response_item","payload":{"type":"function_call_output"}}"#,
        r#"{"type":"compacted","payload":{"message":7,"replacement_history":[1,{"type":"message"}]}}"#,
        r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"left"}]}}"#,
    ];
    let read =
        |lines: &[&str]| transcripts::read(Format::Codex, lines.join("\n").into_bytes().into()).unwrap();
    assert_eq!(
        events(&read(&records[..5])),
        ["0 user: bare", "0 thought: ", "0 call call_1: unknown {}", "0 answer call_2: "]
    );
    assert_eq!(events(&read(&records)), ["0 assistant: left"]);
}

#[test]
fn oldest_rollouts_are_detected() {
    let stream = sample(Format::Codex, "codex-document.json");
    let expected = [
        "0 user: Plant a rose",
        "0 thought: It needs a hole.",
        r#"0 call call_1: shell {"cmd":["dig"]}"#,
        r#"0 answer call_1: {"output":"a hole","metadata":{"exit_code":0}}"#,
        "0 assistant: Planted.",
        "1 user: Thanks",
        "1 assistant: With pleasure.",
    ];
    assert_eq!(events(&stream), expected);
    assert_eq!(events(&sample(Format::Codex, "codex-state.jsonl")).len(), 5);
}
