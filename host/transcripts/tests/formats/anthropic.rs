//! Anthropic's messages: turns, and alternating roles after an edit.

use jp_compact_transcripts::Format::Anthropic;

use crate::event_kinds::Change::{Omit, Strip, StripReasoning, Summarize};
use crate::event_kinds::{kinds, with_changes};

const BODY: &str = include_str!("samples/anthropic.json");
const LIST: &str = include_str!("samples/anthropic-list.json");

/// Splits the list at the beginning of each message.
fn messages(text: &str) -> Vec<&str> {
    text.trim_end().trim_start_matches('[').trim_end_matches(']').split(r#",{"role":"#).collect()
}

#[test]
fn results_in_a_user_message_belong_to_the_turn_before() {
    assert_eq!(
        kinds(Anthropic, BODY),
        [
            "request thought message call call result error thought message call result",
            "request message",
            "request message message message",
            "request thought call result message",
            "request thought call result",
        ]
    );
    assert_eq!(
        kinds(Anthropic, LIST),
        ["request thought call result", "request message call result message", "request call"]
    );
}

#[test]
fn neighboring_messages_of_one_role_are_merged() {
    let omitted = with_changes(Anthropic, LIST, &[Omit]);
    assert_eq!(
        messages(&omitted),
        [
            r#"{"role":"user","content":[{"type":"text","text":"Count the gulls."}, {"type":"text","text":"No, terns."}]}"#,
            r#""assistant","content":[{"type":"text","text":"Sorry."}, {"type":"text","text":"Two."}]}"#,
            r#""user","content":[{"type":"text","text":"And now?"},{"type":"a_new_block","data":1}]}"#,
        ]
    );
    let body = with_changes(Anthropic, BODY, &[Omit]);
    assert!(
        body.contains(
            r#"{"type": "text", "text": "I look at both."}, {"type": "text", "text": "The oil ran out."#
        ),
        "{body}"
    );
    assert!(!body.contains("Order first."), "a thought that led to nothing: {body}");
    assert!(!body.contains("redacted_thinking"), "encrypted thinking after a change: {body}");
    let end = BODY.find("  \"messages\"").unwrap();
    assert!(body.starts_with(&BODY[..end]) && body.ends_with("\n  ],\n  \"stream\": false\n}\n"), "{body}");
}

#[test]
fn summary_is_merged_with_the_message_of_remaining_results() {
    let summarized = with_changes(Anthropic, LIST, &[Summarize(1, 1)]);
    assert_eq!(
        messages(&summarized)[2..4],
        [
            r#""user","content":[{"type":"tool_result","tool_use_id":"a","content":"7"}, {"type":"text","text":"[Summary of previous conversation]"}]}"#,
            r#""assistant","content":[{"type":"text","text":"In short."}]}"#,
        ]
    );
    // If turn 0 is summarized instead, its results are deleted from the message, and the request of turn 1 stays.
    let summarized = with_changes(Anthropic, LIST, &[Summarize(0, 0)]);
    assert_eq!(messages(&summarized)[2], r#""user","content":[{"type":"text","text":"No, terns."}]}"#);
}

#[test]
fn strip_removes_contents_and_keeps_ids_and_names() {
    let stripped = with_changes(Anthropic, BODY, &[Strip, StripReasoning]);
    for kept in [
        r#"{"type": "tool_use", "id": "toolu_2", "name": "camera", "input": {}, "cache_control": {"type": "ephemeral"}}"#,
        r#"{"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": "[compacted] camera: error"}"#,
        r#"{"type": "tool_result", "tool_use_id": "toolu_3", "content": "[compacted] tank: success"}"#,
        r#""name": "shops", "server_name": "harbour", "input": {}}"#,
        r#""is_error": false, "content": "[compacted] shops: success"}"#,
        r#""encrypted_content": "ZW5j""#,
    ] {
        assert!(stripped.contains(kept), "{kept}\n{stripped}");
    }
    for removed in ["signature", "redacted_thinking", "iVBORw0KGgo=", "\"unit\"", "Ada's"] {
        assert!(!stripped.contains(removed), "{removed}\n{stripped}");
    }
}
