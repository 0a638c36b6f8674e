//! Anthropic's rules (A1 to A10), checked on the `messages` of a request body.

use serde_json::Value;

use super::{BodyLinter, Rule, is_blank, text};

pub(super) fn check(linter: &mut BodyLinter<'_>) {
    let messages = linter.messages();
    // A text in the same message as results begins no turn, because the model still continues after the results.
    let is_user_text = |message: &Value| {
        let is_text = |block: &Value| text(block, "type") != "tool_result";
        role(message) == "user" && blocks(message).iter().all(is_text)
    };
    // A text after an unanswered call begins no turn either, because the call still waits for its result.
    let has_unanswered_call = |index: usize| {
        let answered = ids(&messages[index + 1], "tool_result", "tool_use_id");
        ids(&messages[index], "tool_use", "id").iter().any(|id| !answered.contains(id))
    };
    let begins_turn = |index: &usize| {
        is_user_text(&messages[*index]) && !index.checked_sub(1).is_some_and(has_unanswered_call)
    };
    let current_turn = (0..messages.len()).rfind(begins_turn).unwrap_or_default();
    for (index, message) in messages.iter().enumerate() {
        let previous = index.checked_sub(1).map(|index| &messages[index]);
        match previous {
            None if role(message) != "user" => {
                linter.report(Rule::A2, index, "is the first, but is not a user message");
            }
            Some(previous) if role(previous) == role(message) => {
                let problem = format_args!("has the same role as the previous message, {}", role(message));
                linter.report(Rule::A1, index, problem);
            }
            _ => {}
        }
        if blocks(message).is_empty() && is_blank(message.get("content")) {
            linter.report(Rule::A4, index, "is blank");
        }
        check_results(linter, index, previous, message);
        check_calls(linter, index, message, messages.get(index + 1));
        for block in blocks(message) {
            let is_stale = linter.rendered.first_changed_message.is_some_and(|changed| index >= changed)
                && index < current_turn;
            check_block(linter, index, block, is_stale);
        }
    }
    check_last(linter, messages);
}

fn role(message: &Value) -> &str {
    text(message, "role")
}

/// Returns the blocks of a message. A message with plain text has none.
fn blocks(message: &Value) -> &[Value] {
    message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the ids in a message's blocks of one type. `member` is the member with the id.
fn ids<'a>(message: &'a Value, block_type: &str, member: &str) -> Vec<&'a str> {
    let blocks = blocks(message).iter().filter(|block| text(block, "type") == block_type);
    blocks.map(|block| text(block, member)).collect()
}

fn check_results(linter: &mut BodyLinter<'_>, index: usize, previous: Option<&Value>, message: &Value) {
    let assistant = previous.filter(|previous| role(previous) == "assistant");
    let called = assistant.map(|assistant| ids(assistant, "tool_use", "id")).unwrap_or_default();
    let results = ids(message, "tool_result", "tool_use_id");
    for (position, id) in results.iter().enumerate() {
        if !called.contains(id) || role(message) != "user" {
            let problem = format_args!("answers `{id}`, which the previous message does not call");
            linter.report(Rule::A3, index, problem);
        } else if results[..position].contains(id) {
            linter.report(Rule::A3, index, format_args!("answers `{id}` twice"));
        }
    }
    let is_result = |block: &Value| text(block, "type") == "tool_result";
    if blocks(message).iter().skip_while(|block| is_result(block)).any(is_result) {
        linter.report(Rule::A3, index, "has a result after other content");
    }
}

fn check_calls(linter: &mut BodyLinter<'_>, index: usize, message: &Value, next: Option<&Value>) {
    let user = next.filter(|next| role(next) == "user");
    let answered = user.map(|user| ids(user, "tool_result", "tool_use_id")).unwrap_or_default();
    for id in ids(message, "tool_use", "id") {
        if !answered.contains(&id) {
            let problem = format_args!("calls `{id}`, which the next message does not answer");
            linter.report(Rule::A3, index, problem);
        }
    }
}

fn check_block(linter: &mut BodyLinter<'_>, index: usize, block: &Value, is_stale: bool) {
    match text(block, "type") {
        "text" if text(block, "text").trim().is_empty() => linter.report(Rule::A4, index, "has a blank text"),
        "tool_use" if !block.get("input").is_some_and(Value::is_object) => {
            let problem = format_args!("calls `{}` with an input that is not an object", text(block, "id"));
            linter.report(Rule::A10, index, problem);
        }
        "thinking" => {
            if text(block, "signature").is_empty() || !block.get("thinking").is_some_and(Value::is_string) {
                linter.report(Rule::A6, index, "has a thought without its text or signature");
            } else if is_stale {
                linter.report(Rule::A7, index, "has a signed thought after content that changed");
            }
        }
        "redacted_thinking" => {
            if text(block, "data").is_empty() {
                linter.report(Rule::A6, index, "has a redacted thought without its data");
            } else if is_stale {
                linter.report(Rule::A7, index, "has a redacted thought after content that changed");
            }
        }
        _ => {}
    }
}

fn check_last(linter: &mut BodyLinter<'_>, messages: &[Value]) {
    let Some((last, earlier)) = messages.split_last() else { return };
    let index = earlier.len();
    if role(last) == "assistant" {
        let last_text = blocks(last).last().map_or(text(last, "content"), |block| text(block, "text"));
        let has_space = last_text.ends_with(char::is_whitespace);
        let suffix = if has_space { " and ends with white space" } else { "" };
        let problem = format_args!("is the assistant's{suffix}, but the last must be the user's");
        linter.report(Rule::A5, index, problem);
        return;
    }
    // With thinking enabled, an assistant message must begin with a thought if only results follow it.
    let is_thinking_enabled = matches!(
        linter.rendered.body.get("thinking").map(|thinking| text(thinking, "type")),
        Some("enabled" | "adaptive")
    );
    let Some(previous) = earlier.last() else { return };
    let has_only_results = !ids(last, "tool_result", "tool_use_id").is_empty()
        && blocks(last).iter().all(|block| text(block, "type") == "tool_result");
    let first_type = blocks(previous).first().map(|block| text(block, "type"));
    if is_thinking_enabled
        && has_only_results
        && !matches!(first_type, Some("thinking" | "redacted_thinking"))
    {
        linter.report(Rule::A6, index - 1, "is in an open tool loop, but does not begin with its thought");
    }
}
