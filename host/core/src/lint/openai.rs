//! The rules of `OpenAI`'s chat completions (C1 to C5), checked on the `messages` of a request body.

use serde_json::Value;

use super::{BodyLinter, Rule, is_blank, text};

/// Members in which other programs store reasoning.
const REASONING: [&str; 3] = ["reasoning", "reasoning_content", "reasoning_details"];

pub(super) fn check(linter: &mut BodyLinter<'_>) {
    let messages = linter.messages();
    let mut calling_message = 0;
    let mut waiting_calls: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if text(message, "role") == "tool" {
            let id = text(message, "tool_call_id");
            match waiting_calls.iter().position(|call| *call == id) {
                Some(position) => _ = waiting_calls.remove(position),
                None => {
                    let problem = format_args!("answers `{id}`, but no call with this id waits for it");
                    linter.report(Rule::C1, index, problem);
                }
            }
            continue;
        }
        report_unanswered(linter, calling_message, &waiting_calls);
        let calls =
            message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if is_blank(message.get("content")) && calls.is_empty() {
            linter.report(Rule::G5, index, "is blank");
        }
        for call in calls {
            check_arguments(linter, index, call.get("function").unwrap_or(&Value::Null));
        }
        if let Some(name) =
            REASONING.iter().find(|name| message.get(**name).is_some_and(|value| !value.is_null()))
        {
            linter.report(Rule::C5, index, format_args!("sends reasoning back, in `{name}`"));
        }
        calling_message = index;
        waiting_calls = calls.iter().map(|call| text(call, "id")).collect();
    }
    report_unanswered(linter, calling_message, &waiting_calls);
    if let Some(last) = messages.last().filter(|last| text(last, "role") == "assistant")
        && last.get("tool_calls").is_none()
    {
        linter.report(Rule::G6, messages.len() - 1, "is the assistant's, but the last must be the user's");
    }
}

/// Reports the calls of message `index` that wait for their responses.
fn report_unanswered(linter: &mut BodyLinter<'_>, index: usize, waiting_calls: &[&str]) {
    for id in waiting_calls {
        linter.report(Rule::C2, index, format_args!("calls `{id}`, which is not answered directly after it"));
    }
}

/// Checks that the arguments of a call are a string with JSON.
pub(super) fn check_arguments(linter: &mut BodyLinter<'_>, index: usize, call: &Value) {
    let arguments = call.get("arguments").and_then(Value::as_str);
    if arguments.is_none_or(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()) {
        let name = text(call, "name");
        let problem = format_args!("calls `{name}` with arguments that are not a JSON string");
        linter.report(Rule::C4, index, problem);
    }
}
