//! Summaries that end inside of a turn, so that the request of the turn follows them, and summaries of single steps:
//! written back, and read again.

use jp_compact_core::lint;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::render::{Provider, Rendered};
use jp_compact_transcripts::{Format, Transcript};
use serde_json::{Value, json};

use crate::check::{overlay, read, written};
use crate::event_list::{self, events, lines_only_in, sample, source};

const REQUEST: &str = "user: [Summary of previous conversation]";

/// Writes a transcript with the summary `Short.` from a step or the beginning of a turn up to the step `to`.
#[track_caller]
fn summarized(stream: &Transcript, from: (usize, Option<usize>), to: (usize, usize)) -> String {
    let summary = Some("Short.".into());
    let overlay = Overlay { summary, from_step: from.1, to_step: Some(to.1), ..overlay(from.0, to.0) };
    String::from_utf8(written(stream, &[overlay])).unwrap()
}

/// Returns the events of a written transcript.
#[track_caller]
fn reread(stream: &Transcript, from: (usize, Option<usize>), to: (usize, usize)) -> Vec<String> {
    let text = summarized(stream, from, to);
    events(&read(stream.format(), "partial", text.as_bytes()))
}

/// Returns a session of Claude Code in which each turn has calls in `steps` steps.
fn claude_code(turns: usize, steps: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |kind: &str, message: Value| {
        let parent = lines.len().checked_sub(1).map(|parent| format!("u{parent}"));
        let line = json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": kind,
            "message": message, "uuid": format!("u{}", lines.len()), "timestamp": "2026-03-01T09:00:00.120Z",
        });
        lines.push(format!("{line}\n"));
    };
    for turn in 0..turns {
        add("user", json!({"role": "user", "content": format!("Go on {turn}.")}));
        for step in 0..steps {
            let id = format!("t{turn}_{step}");
            let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
            add("assistant", json!({"id": format!("m{id}"), "role": "assistant", "content": [call]}));
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": "text"});
            add("user", json!({"role": "user", "content": [result]}));
        }
    }
    lines.concat()
}

#[test]
fn first_line_without_a_parent_gets_one() {
    let session = claude_code(1, 3).replacen(r#""parentUuid":null,"#, "", 1);
    let stream = read(Format::ClaudeCode, "partial", session.as_bytes());
    let text = summarized(&stream, (0, None), (0, 1));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[2]["parentUuid"], lines[1]["uuid"], "{text}");
    let actual = reread(&stream, (0, None), (0, 1));
    assert_eq!(actual[..3], [&format!("0 {REQUEST}"), "0 assistant: Short.", "1 user: Go on 0."]);
}

#[test]
fn summary_of_all_steps_of_the_last_turn_precedes_its_request() {
    let stream = read(Format::ClaudeCode, "partial", claude_code(2, 1).as_bytes());
    let expected = [&format!("0 {REQUEST}"), "0 assistant: Short.", "1 user: Go on 1."];
    assert_eq!(reread(&stream, (0, None), (1, 0)), expected);
}

#[test]
fn summary_goes_between_results_and_the_request_in_their_message() {
    let stream = sample(Format::Anthropic, "anthropic-list.json");
    let text = summarized(&stream, (1, None), (1, 0));
    let messages: Value = serde_json::from_str(&text).unwrap();
    let block = |text: &str| json!({"type": "text", "text": text});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "7"});
    assert_eq!(
        messages.as_array().unwrap()[2..5],
        [
            json!({"role": "user", "content": [result, block("[Summary of previous conversation]")]}),
            json!({"role": "assistant", "content": [block("Short.")]}),
            json!({"role": "user", "content": [block("No, terns.")]}),
        ]
    );
    let violations =
        lint::check_body(Provider::Anthropic, &Rendered::from_body(json!({ "messages": messages })));
    let is_about_results = |violation: &&lint::Violation| violation.rule == lint::Rule::G2;
    assert_eq!(violations.iter().filter(is_about_results).count(), 0, "{violations:?}");
}

#[test]
fn request_before_results_in_their_message_follows_the_summary() {
    let block = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "count", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "7"});
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    for mixed in [
        json!([block("Next request."), result("a"), result("b")]),
        json!([result("a"), block("Next request."), result("b")]),
    ] {
        let messages = json!([
            user("Start".into()),
            assistant(json!([call("a"), call("b")])),
            user(mixed),
            assistant(json!([block("Sorry."), call("c")])),
            user(json!([result("c")])),
            assistant("Done.".into()),
        ]);
        let stream = read(Format::Anthropic, "partial", messages.to_string().as_bytes());
        let text = summarized(&stream, (1, None), (1, 0));
        let actual: Value = serde_json::from_str(&text).unwrap();
        let results = json!([result("a"), result("b"), block("[Summary of previous conversation]")]);
        assert_eq!(
            actual.as_array().unwrap()[2..5],
            [user(results), assistant(json!([block("Short.")])), user(json!([block("Next request.")]))]
        );
    }
}

#[test]
fn summary_of_steps_precedes_the_text_in_the_line_of_its_result() {
    let mut lines = Vec::new();
    let mut add = |kind: &str, message: Value| {
        let parent = lines.len().checked_sub(1).map(|parent| format!("u{parent}"));
        lines.push(json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": kind,
            "message": message, "uuid": format!("u{}", lines.len()), "timestamp": "2026-03-01T09:00:00.120Z",
        }));
    };
    add("user", json!({"role": "user", "content": "Plant a tulip."}));
    let call = json!({"type": "tool_use", "id": "t", "name": "plant", "input": {}});
    add("assistant", json!({"id": "m1", "role": "assistant", "content": [call]}));
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "text"});
    let text = json!({"type": "text", "text": "Also water it."});
    add("user", json!({"role": "user", "content": [result, text]}));
    add("assistant", json!({"id": "m2", "role": "assistant", "content": "Done."}));
    let session: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let stream = read(Format::ClaudeCode, "partial", session.as_bytes());
    let actual = reread(&stream, (0, Some(0)), (0, 1));
    assert!(actual[0].ends_with("Plant a tulip.") && actual[1].ends_with("Short."), "{actual:?}");
    assert!(actual[2].ends_with("Also water it."), "{actual:?}");
}

#[test]
fn summary_of_steps_precedes_the_next_request_in_a_merged_message() {
    let text = summarized(&sample(Format::Anthropic, "anthropic-list.json"), (0, Some(0)), (0, 1));
    assert!(text.find("Short.") < text.find("No, terns."), "{text}");
}

#[test]
fn summary_of_a_part_of_a_compression_goes_into_it() {
    let stream = sample(Format::QwenCode, "qwen-code-compressed.jsonl");
    let actual = reread(&stream, (0, None), (0, 0));
    assert_eq!(actual[..2], [&format!("0 {REQUEST}"), "0 assistant: Short."]);
    assert!(actual[2].starts_with("1 user: <state_snapshot>") && actual[3] == "2 user: And the rose?");
    let actual = reread(&stream, (0, Some(0)), (0, 0));
    assert!(actual[0].starts_with("0 user: <state_snapshot>") && actual[1].ends_with("Short."), "{actual:?}");
    // A compression with two turns, of which one is summarized.
    let answer = r#",{"role":"model","parts":[{"text":"Got it. Thanks for the context."}]}"#;
    let turn = format!(r#"{answer},{{"role":"user","parts":[{{"text":"Dig."}}]}}{answer}"#);
    let two = source(&stream).replace(answer, &turn);
    let stream = read(Format::QwenCode, "partial", two.as_bytes());
    let overlay = Overlay { summary: Some("Short.".into()), ..overlay(0, 0) };
    let text = written(&stream, &[overlay]);
    let actual = events(&read(Format::QwenCode, "partial", &text));
    let expected = [&format!("0 {REQUEST}"), "0 assistant: Short.", "1 user: Dig."];
    assert_eq!(actual[..3], expected);
}

#[test]
fn summary_does_not_undo_a_compaction_of_opencode() {
    let stream = sample(Format::Opencode, "opencode-compacted.json");
    for (from, to) in [((1, None), (1, 0)), ((1, Some(0)), (1, 0)), ((0, None), (0, 0))] {
        let actual = reread(&stream, from, to).join("\n");
        assert!(!actual.contains("Long ago") && actual.contains("Short."), "{actual}");
    }
    // A summary of steps that also covers the request of the compaction.
    let steps = Overlay { summary: Some("Short.".into()), from_step: Some(0), ..overlay(0, 1) };
    let actual = events(&read(Format::Opencode, "partial", &written(&stream, &[steps])));
    assert_eq!(actual[0], "0 user: Plant a rose");
    assert!(actual[1].ends_with("Short."), "{actual:?}");
    // Without kept messages, the compaction itself is the first turn.
    for member in ["", r#""tail_start_id": null, "#] {
        let no_tail = source(&stream).replace(r#""tail_start_id": "msg_050", "#, member);
        let stream = read(Format::Opencode, "partial", no_tail.as_bytes());
        let actual = reread(&stream, (0, None), (0, 0));
        let expected = [&format!("0 {REQUEST}"), "0 assistant: Short.", "1 user: What did we do so far?"];
        assert_eq!(actual[..3], expected);
    }
}

#[test]
fn summary_of_a_partly_reverted_message_is_not_reverted() {
    for name in ["opencode-taken-back.json", "opencode-taken-back-part.json"] {
        let actual = reread(&sample(Format::Opencode, name), (1, Some(0)), (1, 0));
        assert!(actual.last().unwrap().ends_with("Short."), "{name}: {actual:?}");
    }
}

#[test]
fn summary_of_steps_stays_in_its_turn_if_another_request_came_early() {
    let actual = reread(&sample(Format::Opencode, "opencode.json"), (2, Some(0)), (2, 0));
    let note = actual.iter().find(|event| event.ends_with("Short.")).unwrap();
    assert!(note.starts_with("2 "), "{actual:?}");
}

#[test]
fn branch_of_openhands_is_linked_after_its_root_is_replaced() {
    let event = |id: &str, parent: Option<&str>, source: &str, role: &str| {
        let event = json!({
            "kind": "MessageEvent", "id": id, "parent_id": parent, "timestamp": "2026-03-01T09:00:00",
            "source": source, "llm_message": {"role": role, "content": [{"type": "text", "text": format!("The text {id}")}]},
        });
        format!("{event}\n")
    };
    let session = [
        event("e1", None, "user", "user"),
        event("e2", Some("e1"), "agent", "assistant"),
        event("e3", Some("e2"), "user", "user"),
        event("e4", Some("e1"), "user", "user"),
        event("e5", Some("e4"), "agent", "assistant"),
    ];
    let stream = read(Format::OpenHands, "partial", session.concat().as_bytes());
    let overlay = Overlay { summary: Some("Short.".into()), ..overlay(0, 0) };
    let actual = events(&read(Format::OpenHands, "partial", &written(&stream, &[overlay])));
    let expected =
        [&format!("0 {REQUEST}"), "0 assistant: Short.", "1 user: The text e4", "1 assistant: The text e5"];
    assert_eq!(actual, expected);
}

#[test]
fn compaction_of_pi_names_the_pair_as_its_first_kept_entry() {
    let actual = reread(&sample(Format::Pi, "pi.jsonl"), (0, None), (0, 0));
    assert!(actual[1].ends_with(REQUEST), "{actual:?}");
    assert_eq!(actual[2], "0 assistant: Short.");
    assert!(actual[3].starts_with("1 user: "), "{actual:?}");
}

#[track_caller]
fn check_ordinals(text: &str) {
    let ordinal = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ordinal"].as_u64();
    let ordinals: Vec<u64> = text.lines().filter_map(ordinal).collect();
    assert!(ordinals.is_sorted_by(|left, right| left < right), "{ordinals:?}");
}

#[test]
fn ordinals_of_codex_rise() {
    let stream = sample(Format::Codex, "codex.jsonl");
    for turn in 0..3 {
        let text = summarized(&stream, (turn, None), (turn, 0));
        assert_eq!(lines_only_in(&text, &source(&stream)).len(), 2);
        check_ordinals(&text);
    }
    let stream = sample(Format::Codex, "codex-compacted-within.jsonl");
    // Older versions of Codex stored only the summary.
    let history = source(&stream).lines().find(|line| line.contains("compacted")).unwrap().to_owned();
    let old = history.split(r#""message":"","replacement_history""#).next().unwrap();
    let old = source(&stream).replace(&history, &format!(r#"{old}"message":"A rose."}}}}"#));
    let old = read(Format::Codex, "partial", old.as_bytes());
    for stream in [stream, old] {
        check_ordinals(&event_list::summarized(&stream, 0, 0));
        check_ordinals(&event_list::summarized(&stream, 0, 1));
    }
}

#[test]
fn ids_of_opencode_rise_if_a_summary_is_inside_of_another() {
    let stream = sample(Format::Opencode, "opencode.json");
    let whole = Overlay { summary: Some("Long.".into()), ..overlay(0, 0) };
    let first_step = Overlay { summary: Some("Short.".into()), to_step: Some(0), ..overlay(0, 0) };
    let text = written(&stream, &[whole, first_step]);
    let document: Value = serde_json::from_slice(&text).unwrap();
    let messages = document["messages"].as_array().unwrap();
    let ids: Vec<_> = messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
}

/// Writes a session of Codex whose task was compacted, with a summary of the first two steps after the compaction.
#[track_caller]
fn codex_after_a_compaction(compacted: &Value) -> Vec<String> {
    let message = |role: &str, kind: &str, text: &str| {
        let content = json!([{"type": kind, "text": text}]);
        json!({"type": "response_item", "payload": {"type": "message", "role": role, "content": content}})
    };
    let mut records = vec![
        json!({"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t"}}),
        message("user", "input_text", "Dig."),
        json!({"type": "compacted", "payload": compacted}),
    ];
    for id in ["b", "c"] {
        let call = json!({"type": "function_call", "name": "dig", "arguments": "{}", "call_id": id});
        let output = json!({"type": "function_call_output", "call_id": id, "output": "dug"});
        records.extend([call, output].map(|item| json!({"type": "response_item", "payload": item})));
        records.push(message("assistant", "output_text", &format!("Dug {id}.")));
    }
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    reread(&read(Format::Codex, "partial", lines.as_bytes()), (0, None), (0, 1))
}

#[test]
fn summary_before_a_request_in_a_compaction_of_codex_goes_into_it() {
    let item = |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let history = json!([item("Dig."), item("A hole was dug.")]);
    let actual = codex_after_a_compaction(&json!({"message": "", "replacement_history": history}));
    assert_eq!(actual[0], format!("0 {REQUEST}"), "{actual:?}");
    assert_eq!(actual[1], "0 assistant: Short.", "{actual:?}");
    assert!(actual.iter().any(|event| event.ends_with("user: A hole was dug.")), "{actual:?}");
    // Without a list, the summary follows the compaction.
    let actual = codex_after_a_compaction(&json!({"message": "A hole was dug."}));
    assert!(actual[0].ends_with("user: A hole was dug."), "{actual:?}");
    assert!(actual[2].ends_with("assistant: Short."), "{actual:?}");
}

/// Returns the sample of Qwen Code with changed messages in its compression. With `without_request`, the line after the
/// compression, which is the next request, is left out.
#[track_caller]
fn qwen_code(change: impl FnOnce(&mut Vec<Value>), without_request: bool) -> Transcript {
    let text = source(&sample(Format::QwenCode, "qwen-code-compressed.jsonl"));
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(lines[7]["systemPayload"]["compressedHistory"].as_array_mut().unwrap());
    if without_request {
        lines.remove(8);
        lines[8]["parentUuid"] = lines[7]["uuid"].clone();
    }
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read(Format::QwenCode, "partial", lines.as_bytes())
}

fn qwen_code_message(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"text": text}]})
}

#[test]
fn summary_before_a_request_in_a_compression_goes_into_it() {
    let stream = qwen_code(|history| history.push(qwen_code_message("user", "And the rose?")), true);
    let actual = reread(&stream, (1, None), (1, 0));
    let expected = [&format!("1 {REQUEST}"), "1 assistant: Short.", "2 user: And the rose?"];
    assert_eq!(actual[2..5], expected, "{actual:?}");
}

#[test]
fn two_summaries_of_one_compression_stay() {
    let stream = qwen_code(
        |history| {
            history.extend(
                [("user", "Dig."), ("model", "Dug.")].map(|(role, text)| qwen_code_message(role, text)),
            );
        },
        false,
    );
    let short = |text: &str, turn| Overlay { summary: Some(text.into()), ..overlay(turn, turn) };
    let text = written(&stream, &[short("Short.", 0), short("Shorter.", 1)]);
    let actual = events(&read(Format::QwenCode, "partial", &text));
    let request = REQUEST.to_owned();
    let expected = [
        format!("0 {request}"),
        "0 assistant: Short.".into(),
        format!("1 {request}"),
        "1 assistant: Shorter.".into(),
    ];
    assert_eq!(actual[..4], expected);
}

#[test]
fn summary_does_not_separate_results_from_their_calls() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "7"});
    for blocks in
        [json!([text("Next."), result("a"), result("b")]), json!([result("a"), text("Next."), result("b")])]
    {
        let messages = json!([
            {"role": "user", "content": "Start"},
            {"role": "assistant", "content": [call("a"), call("b")]},
            {"role": "user", "content": blocks},
            {"role": "assistant", "content": [text("So."), call("c")]},
            {"role": "user", "content": [result("c")]},
            {"role": "assistant", "content": [text("Done.")]},
        ]);
        let stream = read(Format::Anthropic, "partial", messages.to_string().as_bytes());
        let written = summarized(&stream, (1, None), (1, 0));
        let messages: Value = serde_json::from_str(&written).unwrap();
        let body = Rendered::from_body(json!({ "messages": messages }));
        let violations = lint::check_body(Provider::Anthropic, &body);
        let is_separated = |violation: &lint::Violation| violation.message.contains(" does not ");
        assert!(!violations.iter().any(is_separated), "{violations:?} in {written}");
        assert!(written.contains("Short.") && !written.contains("So."), "{written}");
    }
}

#[test]
fn note_precedes_text_that_follows_its_result() {
    let mut lines: Vec<Value> =
        claude_code(1, 1).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let blocks = lines[2]["message"]["content"].as_array_mut().unwrap();
    blocks.push(json!({"type": "text", "text": "Also water it."}));
    let mut answer = lines[1].clone();
    answer["message"] =
        json!({"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]});
    (answer["uuid"], answer["parentUuid"]) = (json!("u3"), json!("u2"));
    lines.push(answer);
    let session: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let stream = read(Format::ClaudeCode, "partial", session.as_bytes());
    let actual = reread(&stream, (0, Some(0)), (0, 1));
    let position = |text: &str| actual.iter().position(|event| event.ends_with(text));
    assert!(position("Short.") < position("Also water it."), "{actual:?}");
    assert!(position("Short.").is_some(), "{actual:?}");
}
