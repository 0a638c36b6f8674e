//! Anthropic's rules (A1 to A10), checked on the `messages` of a request body.

use serde_json::Value;

use super::{BodyViolations, Rule, is_blank, text};

pub(super) fn check(found: &mut BodyViolations<'_>) {
    let messages = found.messages();
    let is_user_text = |message: &Value| {
        let is_text = |block: &Value| text(block, "type") != "tool_result";
        role(message) == "user" && (blocks(message).is_empty() || blocks(message).iter().any(is_text))
    };
    // A text after a call without a result begins no turn: the call still waits.
    let waits = |at: usize| {
        let answered = ids(&messages[at + 1], "tool_result", "tool_use_id");
        ids(&messages[at], "tool_use", "id").iter().any(|id| !answered.contains(id))
    };
    let begins = |at: usize| is_user_text(&messages[at]) && !at.checked_sub(1).is_some_and(waits);
    let current = (0..messages.len()).rfind(|at| begins(*at)).unwrap_or_default();
    for (at, message) in messages.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &messages[before]);
        match before {
            None if role(message) != "user" => {
                found.add(Rule::A2, at, "is the first, but is not a user message");
            }
            Some(before) if role(before) == role(message) => {
                found.add(
                    Rule::A1,
                    at,
                    format_args!("has the same role as the previous message, {}", role(message)),
                );
            }
            _ => {}
        }
        if blocks(message).is_empty() && is_blank(message.get("content")) {
            found.add(Rule::A4, at, "is blank");
        }
        results(found, at, before, message);
        calls(found, at, message, messages.get(at + 1));
        for block in blocks(message) {
            let is_stale = found.rendered.changed.is_some_and(|changed| at >= changed) && at < current;
            content(found, at, block, is_stale);
        }
    }
    last(found, messages);
}

fn role(message: &Value) -> &str {
    text(message, "role")
}

/// Returns the blocks of a message. A message with plain text has none.
fn blocks(message: &Value) -> &[Value] {
    message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the ids in blocks of this type.
fn ids<'a>(message: &'a Value, of: &str, name: &str) -> Vec<&'a str> {
    let blocks = blocks(message).iter().filter(|block| text(block, "type") == of);
    blocks.map(|block| text(block, name)).collect()
}

fn results(found: &mut BodyViolations<'_>, at: usize, before: Option<&Value>, message: &Value) {
    let asked = before.filter(|before| role(before) == "assistant");
    let asked = asked.map(|before| ids(before, "tool_use", "id")).unwrap_or_default();
    let results = ids(message, "tool_result", "tool_use_id");
    for (place, id) in results.iter().enumerate() {
        if !asked.contains(id) || role(message) != "user" {
            found.add(Rule::A3, at, format_args!("answers `{id}`, which the previous message does not call"));
        } else if results[..place].contains(id) {
            found.add(Rule::A3, at, format_args!("answers `{id}` twice"));
        }
    }
    let is_result = |block: &Value| text(block, "type") == "tool_result";
    if blocks(message).iter().skip_while(|block| is_result(block)).any(is_result) {
        found.add(Rule::A3, at, "has a result after other content");
    }
}

fn calls(found: &mut BodyViolations<'_>, at: usize, message: &Value, next: Option<&Value>) {
    let answered = next.filter(|next| role(next) == "user");
    let answered = answered.map(|next| ids(next, "tool_result", "tool_use_id")).unwrap_or_default();
    for id in ids(message, "tool_use", "id") {
        if !answered.contains(&id) {
            found.add(Rule::A3, at, format_args!("calls `{id}`, which the next message does not answer"));
        }
    }
}

fn content(found: &mut BodyViolations<'_>, at: usize, block: &Value, is_stale: bool) {
    match text(block, "type") {
        "text" if text(block, "text").trim().is_empty() => found.add(Rule::A4, at, "has a blank text"),
        "tool_use" if !block.get("input").is_some_and(Value::is_object) => {
            found.add(
                Rule::A10,
                at,
                format_args!("calls `{}` with an input that is not an object", text(block, "id")),
            );
        }
        "thinking" => {
            if text(block, "signature").is_empty() || !block.get("thinking").is_some_and(Value::is_string) {
                found.add(Rule::A6, at, "has a thought without its text or signature");
            } else if is_stale {
                found.add(Rule::A7, at, "has a signed thought after content that changed");
            }
        }
        "redacted_thinking" => {
            if text(block, "data").is_empty() {
                found.add(Rule::A6, at, "has a redacted thought without its data");
            } else if is_stale {
                found.add(Rule::A7, at, "has a redacted thought after content that changed");
            }
        }
        _ => {}
    }
}

fn last(found: &mut BodyViolations<'_>, messages: &[Value]) {
    let Some((last, at)) = messages.last().zip(messages.len().checked_sub(1)) else { return };
    if role(last) == "assistant" {
        let texts = blocks(last).last().map(|block| text(block, "text"));
        let space = texts.unwrap_or(text(last, "content")).ends_with(char::is_whitespace);
        let space = if space { ", and ends with white space" } else { "" };
        found.add(Rule::A5, at, format_args!("is the last, but is an assistant message{space}"));
        return;
    }
    // In a tool loop with thinking, the continued message must begin with its thought.
    let thinks = matches!(
        found.rendered.body.get("thinking").map(|thinking| text(thinking, "type")),
        Some("enabled" | "adaptive")
    );
    let Some(previous) = at.checked_sub(1).map(|before| &messages[before]) else { return };
    let is_open = !ids(last, "tool_result", "tool_use_id").is_empty()
        && blocks(last).iter().all(|block| text(block, "type") == "tool_result");
    let first = blocks(previous).first().map(|block| text(block, "type"));
    if thinks && is_open && !matches!(first, Some("thinking" | "redacted_thinking")) {
        found.add(Rule::A6, at - 1, "is in an open tool loop, but does not begin with its thought");
    }
}
