//! `OpenAI`'s responses: what belongs to which turn, and that reasoning goes with what it led to.

use jp_compact_core::formats::{self, Format::OpenaiResponses};
use jp_compact_core::projection::project_through;
use jp_compact_core::view::ViewEvent;
use serde_json::Value;

use crate::look::Change::{Omit, Strip, Sum, Unthink};
use crate::look::{after, kinds};
use crate::shape::{events, sample, summarised};

const BODY: &str = include_str!("samples/openai-responses.json");

/// The items, a line each.
fn items(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim().trim_end_matches(','));
    lines.skip_while(|line| *line != r#""input": ["#).skip(1).take_while(|line| *line != "]").collect()
}

/// The items of the first that are none of the second.
fn gone<'a>(before: &'a str, after: &str) -> Vec<&'a str> {
    let after = items(after);
    items(before).into_iter().filter(|item| !after.contains(item)).collect()
}

#[test]
fn a_turn_is_what_a_user_says_and_what_openai_ran_is_said() {
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
fn reasoning_goes_with_what_it_led_to() {
    let omitted = after(OpenaiResponses, BODY, &[Omit]);
    let left: Vec<_> =
        ["rs_1", "rs_2", "rs_3", "rs_4"].into_iter().filter(|id| omitted.contains(id)).collect();
    assert_eq!(left, ["rs_1", "rs_3"], "{omitted}");
    assert_eq!(gone(&omitted, BODY), [""; 0], "what stays is as it was");
}

#[test]
fn what_reasoning_led_to_loses_the_name_that_would_ask_for_it() {
    let without = after(OpenaiResponses, BODY, &[Unthink]);
    assert!(!without.contains("\"reasoning\"") && !without.contains("Z0FBQQ=="), "{without}");
    let named =
        |text: &str| ["msg_1", "fc_1", "ctc_1", "ws_1", "fc_4", "msg_2", "mcp_1"].map(|id| text.contains(id));
    assert_eq!(named(&without), [false, false, false, false, false, true, false], "{without}");
    assert!(
        without.contains(r#"{"type": "function_call", "call_id": "call_4", "name": "grind","#),
        "{without}"
    );
}

#[test]
fn each_kind_of_call_is_emptied_in_its_own_form() {
    let stripped = after(OpenaiResponses, BODY, &[Strip]);
    for line in [
        r#"{"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "lever", "input": ""}"#,
        r#"{"type": "function_call_output", "call_id": "call_2", "output": "[compacted] brake: success"}"#,
        r#"{"type": "mcp_call", "id": "mcp_2", "server_label": "market", "name": "price", "arguments": "{}", "output": null, "error": "[compacted] price: error"}"#,
        r#"{"type": "mcp_call", "id": "mcp_4", "server_label": "market", "name": "price", "arguments": "{}", "status": "failed", "output": null, "error": {"type":"mcp_tool_execution_error","content":[{"type":"text","text":"[compacted] price: error"}]}}"#,
        r#"{"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed", "action": {"type":"exec","command":[],"env":{}}}"#,
        r#"{"type": "shell_call", "id": "sh_1", "call_id": "call_5", "status": "completed", "action": {"commands":[]}}"#,
        r#"{"type": "shell_call_output", "call_id": "call_5", "max_output_length": 4096, "output": [{"stdout":"[compacted] shell: error","stderr":"","outcome":{"type":"exit","exit_code":1}}]}"#,
        r#"{"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "Z0FBQg=="}"#,
    ] {
        assert!(items(&stripped).contains(&line), "{line}\n{stripped}");
    }
}

#[test]
fn an_error_of_an_mcp_server_is_what_it_says() {
    let stream = formats::read(OpenaiResponses, BODY.into()).unwrap();
    let view = project_through(&stream, &[]);
    let said = |event: ViewEvent| event.event.get("content").and_then(Value::as_str).map(str::to_owned);
    let errors = view.events(&stream).filter(|event| event.event.get("is_error") == Some(&true.into()));
    let errors: Vec<_> = errors.filter_map(said).collect();
    assert_eq!(errors[..3], ["no such grain", "no such grain either", "closed on Sundays"]);
}

#[test]
fn a_summary_leaves_what_is_opaque() {
    let summarised = after(OpenaiResponses, BODY, &[Sum(2, 3)]);
    assert_eq!(
        items(&summarised)[14..19],
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
    let said: Vec<&str> = all.lines().filter_map(|line| line.strip_prefix("0 says [")).collect();
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
    assert_eq!(said.len(), expected.len(), "{all}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}");
    }
    assert!(all.contains("0 fails "), "{all}");
    assert!(all.ends_with("1 says No thanks needed."), "{all}");
    // A program goes with what came of it.
    let text = summarised(&stream, 0, 0);
    for gone in ["call_4", "call_3", "mcp_1"] {
        assert!(!text.contains(gone), "{gone}\n{text}");
    }
    for kept in ["additional_tools", "configuration_update", "msg_9", "weather_of_tomorrow"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

#[test]
fn a_request_that_is_a_text_stays() {
    let text = r#"{"model":"gpt-5","input":"Which beds are dry?"}"#;
    let stream = formats::read(OpenaiResponses, text.into()).unwrap();
    assert_eq!(events(&stream), "0 asks Which beds are dry?");
    assert_eq!(summarised(&stream, 0, 0), text);
}
