//! Generated sessions in the forms of two programs: lines of Claude Code, and a request body of OpenAI.

use serde_json::{Value, json};

use super::session::Event;

/// Writes a session as Claude Code does: one line for each message.
pub(super) fn claude_code(events: &[Event]) -> String {
    let mut lines: Vec<Value> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::User(text) => lines.push(json!({"role": "user", "content": text})),
            Event::Assistant(text) => lines.push(assistant(index, json!([{"type": "text", "text": text}]))),
            Event::Call { tool, arguments, result } => {
                let id = format!("toolu_{index:04}");
                let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": arguments}]);
                lines.push(assistant(index, call));
                let result = json!([{"type": "tool_result", "tool_use_id": id, "content": result}]);
                lines.push(json!({"role": "user", "content": result}));
            }
        }
    }
    let lines = lines
        .into_iter()
        .enumerate()
        .map(|(index, message)| claude_code_line(index, message).to_string() + "\n");
    lines.collect()
}

fn assistant(index: usize, content: Value) -> Value {
    json!({"id": format!("msg_{index:04}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": content})
}

fn claude_code_line(index: usize, message: Value) -> Value {
    let id = |index: usize| format!("00000000-0000-4000-8000-{index:012}");
    json!({
        "parentUuid": index.checked_sub(1).map(id),
        "isSidechain": false,
        "userType": "external",
        "cwd": "/home/ada/shop",
        "sessionId": "0a1b2c3d-1111-4222-8333-444455556666",
        "version": "2.1.0",
        "type": message["role"],
        "message": message,
        "uuid": id(index),
        "timestamp": format!("2026-03-01T{:02}:{:02}:{:02}.000Z", 8 + index / 3_600, index / 60 % 60, index % 60),
    })
}

/// Writes a session as a request body of `OpenAI`'s chat completions.
pub(super) fn openai_chat(events: &[Event]) -> String {
    let mut messages = vec![json!({"role": "system", "content": "You repair programs."})];
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::User(text) => messages.push(json!({"role": "user", "content": text})),
            Event::Assistant(text) => messages.push(json!({"role": "assistant", "content": text})),
            Event::Call { tool, arguments, result } => {
                let id = format!("call_{index:04}");
                let function = json!({"name": tool, "arguments": arguments.to_string()});
                let call = json!({"id": id, "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
            }
        }
    }
    format!("{:#}\n", json!({"model": "gpt-5", "messages": messages}))
}
