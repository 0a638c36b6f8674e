//! The rules of `OpenAI`'s chat completions (C1 to C5), checked on the `messages` of a request body.

use serde_json::Value;

use super::{BodyViolations, Rule, is_blank, text};

/// Members in which other programs store reasoning.
const REASONING: [&str; 3] = ["reasoning", "reasoning_content", "reasoning_details"];

pub(super) fn check(found: &mut BodyViolations<'_>) {
    let messages = found.messages();
    // The last message with calls, and its unanswered calls.
    let mut waiting: (usize, Vec<&str>) = (0, Vec::new());
    for (at, message) in messages.iter().enumerate() {
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            match waiting.1.iter().position(|call| *call == id) {
                Some(call) => drop(waiting.1.remove(call)),
                None => {
                    found.add(Rule::C1, at, format_args!("answers `{id}`, which no earlier message calls"));
                }
            }
            continue;
        }
        unanswered(found, &mut waiting);
        let calls =
            message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if is_blank(message.get("content")) && calls.is_empty() {
            found.add(Rule::G5, at, "is blank");
        }
        for call in calls {
            arguments(found, at, call.get("function").unwrap_or(&Value::Null));
        }
        if let Some(name) = REASONING.iter().find(|name| message.get(**name).is_some_and(|it| !it.is_null()))
        {
            found.add(Rule::C5, at, format_args!("sends reasoning back, in `{name}`"));
        }
        waiting = (at, calls.iter().map(|call| text(call, "id")).collect());
    }
    unanswered(found, &mut waiting);
    if let Some(last) = messages.last().filter(|last| text(last, "role") == "assistant")
        && last.get("tool_calls").is_none()
    {
        found.add(Rule::G6, messages.len() - 1, "is the last, but is an assistant message");
    }
}

fn unanswered(found: &mut BodyViolations<'_>, waiting: &mut (usize, Vec<&str>)) {
    for id in waiting.1.drain(..) {
        found.add(Rule::C2, waiting.0, format_args!("calls `{id}`, which is not answered directly after it"));
    }
}

/// Checks that arguments are a string with JSON.
pub(super) fn arguments(found: &mut BodyViolations<'_>, at: usize, call: &Value) {
    let arguments = call.get("arguments").and_then(Value::as_str);
    if arguments.is_none_or(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()) {
        let name = text(call, "name");
        found.add(Rule::C4, at, format_args!("calls `{name}` with arguments that are not a JSON string"));
    }
}
