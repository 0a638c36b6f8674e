//! The length of stripped files and views: a strip makes none longer, for any arguments and results.

use std::collections::BTreeMap;

use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_transcripts::Format;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::check::{overlay, read, written};

/// Returns one conversation for each of six formats, with a call and its result: two in `openai-responses`.
fn sources(tool: &str, argument: &str, result: &str) -> Vec<(Format, String)> {
    let time = "2026-03-01T09:00:00.000Z";
    let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let claude = |number: u8, parent: Value, kind: &str, content: Value| {
        json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "type": kind, "uuid": format!("u{number}"),
            "timestamp": time, "message": {"role": kind, "content": content},
        })
    };
    let pi = |number: u8, parent: Value, message: Value| {
        json!({
            "type": "message", "id": format!("e{number}"), "parentId": parent, "timestamp": time, "message": message,
        })
    };
    let use_block = json!([{"type": "tool_use", "id": "c", "name": tool, "input": {"a": argument}}]);
    let result_block = json!([{"type": "tool_result", "tool_use_id": "c", "content": result}]);
    let call = json!({
        "id": "c", "type": "function", "function": {"name": tool, "arguments": argument},
    });
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    vec![
        (
            Format::ClaudeCode,
            lines(&[
                claude(1, Value::Null, "user", "go".into()),
                claude(2, "u1".into(), "assistant", use_block.clone()),
                claude(3, "u2".into(), "user", result_block.clone()),
            ]),
        ),
        (
            Format::Pi,
            lines(&[
                json!({"type": "session", "version": 3, "id": "s", "timestamp": time, "cwd": "/"}),
                pi(1, Value::Null, message("user", "go".into())),
                pi(2, "e1".into(), message(
                    "assistant",
                    json!([{"type": "toolCall", "id": "c", "name": tool, "arguments": {"a": argument}}]),
                )),
                pi(3, "e2".into(), json!({
                    "role": "toolResult", "toolCallId": "c", "toolName": tool, "content": result, "isError": false,
                })),
            ]),
        ),
        (
            Format::Anthropic,
            json!([
                message("user", "go".into()), message("assistant", use_block), message("user", result_block),
            ])
            .to_string(),
        ),
        (
            Format::OpenaiChat,
            json!([
                message("user", "go".into()),
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": result},
            ])
            .to_string(),
        ),
        (
            Format::OpenaiResponses,
            json!([
                message("user", "go".into()),
                {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": [argument]}},
                {"type": "local_shell_call_output", "id": "c", "output": result},
                {"type": "shell_call", "call_id": "d", "action": {"commands": [argument]}},
                {"type": "shell_call_output", "call_id": "d", "output": [{"stdout": result, "stderr": ""}]},
            ])
            .to_string(),
        ),
        (
            Format::Gemini,
            json!([
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [{"functionCall": {"name": tool, "args": {"a": argument}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": tool, "response": {"r": result}}}]},
            ])
            .to_string(),
        ),
    ]
}

/// Generates texts about as long as a placeholder, with multibyte and escaped characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,60}", "[a-zäß€😀\"\n\u{1}]{0,40}", Just("x".repeat(500))]
}

proptest! {
    #[test]
    fn strip_never_makes_the_file_or_the_view_longer(
        tool in "[a-zé_]{1,20}", argument in text(), result in text(), halves in any::<(bool, bool)>(),
    ) {
        for (format, source) in sources(&tool, &argument, &result) {
            let stream = read(format, "a strip", source.as_bytes());
            prop_assert!(stream.turns() == 1, "{format}");
            let (request, response) = halves;
            let policy = ToolPolicy::Strip { request, response, overrides: BTreeMap::new() };
            let strip = [Overlay { tool_calls: Some(policy), ..overlay(0, 0) }];
            let bytes = written(&stream, &strip);
            prop_assert!(bytes.len() <= source.len(), "{format}: {source}\n{}", String::from_utf8_lossy(&bytes));
            // A shorter text can have more pieces, so characters are counted.
            let estimate = Estimate::new(&stream, Estimator::Exact(|text| text.chars().count() as u64));
            let tokens = |overlays: &[Overlay]| estimate.view_tokens(&project_with_overlays(&stream, overlays));
            prop_assert!(tokens(&strip) <= tokens(&[]), "{format}: {source}");
            // A second strip changes nothing.
            let reread = read(format, "a strip of a strip", &bytes);
            prop_assert_eq!(written(&reread, &strip), bytes);
        }
    }
}

#[test]
fn result_shorter_than_its_placeholder_is_kept() {
    for (format, source) in sources("read", "", "ok") {
        let stream = read(format, "a short result", source.as_bytes());
        let policy = ToolPolicy::Strip { request: false, response: true, overrides: BTreeMap::new() };
        let strip = [Overlay { tool_calls: Some(policy), ..overlay(0, 0) }];
        assert_eq!(String::from_utf8(written(&stream, &strip)).unwrap(), source, "{format}");
    }
}
