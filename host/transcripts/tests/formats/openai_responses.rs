//! `OpenAI`'s Responses API: turns, and the link between reasoning and its output.

use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::view::ViewEvent;
use jp_compact_transcripts::{self as transcripts, Format::OpenaiResponses};
use serde_json::Value;

use crate::event_kinds::Change::{Omit, Strip, StripReasoning, Summarize};
use crate::event_kinds::{kinds, with_changes};
use crate::event_text::{events, sample, summarized};

const BODY: &str = include_str!("samples/openai-responses.json");

/// Splits the list at the beginning of each item.
fn items(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim().trim_end_matches(','));
    lines.skip_while(|line| *line != r#""input": ["#).skip(1).take_while(|line| *line != "]").collect()
}

/// Returns the items of the first list that are not in the second.
fn removed_items<'a>(before: &'a str, after: &str) -> Vec<&'a str> {
    let after = items(after);
    items(before).into_iter().filter(|item| !after.contains(item)).collect()
}

#[test]
fn user_message_begins_a_turn_and_hosted_calls_are_messages() {
    assert_eq!(
        kinds(OpenaiResponses, BODY),
        [
            "request thought message call call result result thought call result message",
            "request message",
            "request thought message call result call error call error call error message",
            "request call result call error message message message message",
            "request thought call result",
        ]
    );
}

#[test]
fn reasoning_is_deleted_with_its_output() {
    let omitted = with_changes(OpenaiResponses, BODY, &[Omit]);
    let remaining: Vec<_> =
        ["rs_1", "rs_2", "rs_3", "rs_4"].into_iter().filter(|id| omitted.contains(id)).collect();
    assert_eq!(remaining, [""; 0], "{omitted}");
    let changed = removed_items(&omitted, BODY);
    assert!(changed.iter().all(|item| !item.contains(r#""id""#)), "only ids are removed: {changed:?}");
}

#[test]
fn output_loses_its_id_with_its_reasoning() {
    let without = with_changes(OpenaiResponses, BODY, &[StripReasoning]);
    assert!(!without.contains("\"reasoning\"") && !without.contains("Z0FBQQ=="), "{without}");
    let contained =
        |text: &str| ["msg_1", "fc_1", "ctc_1", "ws_1", "fc_4", "msg_2", "mcp_1"].map(|id| text.contains(id));
    assert_eq!(contained(&without), [false, false, false, false, false, true, false], "{without}");
    assert!(
        without.contains(r#"{"type": "function_call", "call_id": "call_4", "name": "grind","#),
        "{without}"
    );
}

#[test]
fn each_kind_of_call_is_emptied_in_its_own_form() {
    let stripped = with_changes(OpenaiResponses, BODY, &[Strip]);
    for line in [
        r#"{"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "lever", "input": ""}"#,
        r#"{"type": "function_call_output", "call_id": "call_2", "output": "[compacted] brake: success"}"#,
        r#"{"type": "mcp_call", "server_label": "market", "name": "price", "arguments": "{}", "output": null, "error": "[compacted] price: error"}"#,
        r#"{"type": "mcp_call", "server_label": "market", "name": "price", "arguments": "{}", "status": "failed", "output": null, "error": {"type":"mcp_tool_execution_error","content":[{"type":"text","text":"[compacted] price: error"}]}}"#,
        r#"{"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed", "action": {"type":"exec","command":[],"env":{}}}"#,
        r#"{"type": "shell_call", "id": "sh_1", "call_id": "call_5", "status": "completed", "action": {"commands":[]}}"#,
        r#"{"type": "shell_call_output", "call_id": "call_5", "max_output_length": 4096, "output": [{"stdout":"[compacted] shell: error","stderr":"","outcome":{"type":"exit","exit_code":1}}]}"#,
    ] {
        assert!(items(&stripped).contains(&line), "{line}\n{stripped}");
    }
}

#[test]
fn mcp_error_is_read_as_its_message() {
    let stream = transcripts::read(OpenaiResponses, BODY.into()).unwrap();
    let view = project_with_overlays(&stream, &[]);
    let content = |event: ViewEvent| event.event.get("content").and_then(Value::as_str).map(str::to_owned);
    let errors = view.events(&stream).filter(|event| event.event.get("is_error") == Some(&true.into()));
    let errors: Vec<_> = errors.filter_map(content).collect();
    assert_eq!(errors[..3], ["no such grain", "no such grain either", "closed on Sundays"]);
}

#[test]
fn summary_keeps_opaque_items() {
    let summarized = with_changes(OpenaiResponses, BODY, &[Summarize(2, 3)]);
    assert_eq!(
        items(&summarized)[14..19],
        [
            r#"{"type":"message","role":"user","content":"[Summary of previous conversation]"}"#,
            r#"{"type":"message","role":"assistant","content":"In short."}"#,
            r#"{"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "market", "tools": [{"name": "price", "input_schema": {}}]}"#,
            r#"{"type": "a_new_item", "data": [1, 2]}"#,
            r#"{"type": "compaction", "id": "cmp_1", "encrypted_content": "b3BhcXVl"}"#,
        ]
    );
}

#[test]
fn all_kinds_of_items_are_read() {
    let stream = sample(OpenaiResponses, "openai-responses-items.json");
    let all = events(&stream);
    let messages: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("0 says [")).collect();
    let expected = [
        "computer_call ",
        "computer_call_output]",
        "image_generation_call]",
        "apply_patch_call ",
        "apply_patch_call_output]",
        "tool_search_call]",
        "tool_search_output]",
        "program ",
        "program_output]",
    ];
    assert_eq!(messages.len(), expected.len(), "{all}");
    for (message, expected) in messages.iter().zip(expected) {
        assert!(message.starts_with(expected), "{message}");
    }
    assert!(all.contains("0 fails "), "{all}");
    assert!(all.ends_with("1 says No thanks needed."), "{all}");
    // A `program` item is deleted with its output.
    let text = summarized(&stream, 0, 0);
    for removed in ["call_4", "call_3", "mcp_1"] {
        assert!(!text.contains(removed), "{removed}\n{text}");
    }
    for kept in ["additional_tools", "configuration_update", "msg_9", "weather_of_tomorrow"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

#[test]
fn string_input_is_kept() {
    let text = r#"{"model":"gpt-5","input":"Which beds are dry?"}"#;
    let stream = transcripts::read(OpenaiResponses, text.into()).unwrap();
    assert_eq!(events(&stream), "0 asks Which beds are dry?");
    assert_eq!(summarized(&stream, 0, 0), text);
}
