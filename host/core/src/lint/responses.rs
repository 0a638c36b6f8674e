//! The rules of `OpenAI`'s responses (R1 to R3), checked on the `input` of a request body.

use serde_json::Value;

use super::openai::arguments;
use super::{BodyViolations, Rule, is_blank, text};

pub(super) fn check(found: &mut BodyViolations<'_>) {
    let items = found.messages();
    let mut waiting: Vec<(usize, &str)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let id = text(item, "call_id");
        match kind(item) {
            "function_call_output" | "custom_tool_call_output" => {
                match waiting.iter().position(|(_, call)| *call == id) {
                    Some(call) => drop(waiting.remove(call)),
                    None => {
                        found.add(
                            Rule::R1,
                            at,
                            format_args!("answers `{id}`, which no earlier message calls"),
                        );
                    }
                }
            }
            "function_call" => {
                arguments(found, at, item);
                waiting.push((at, id));
            }
            "custom_tool_call" => waiting.push((at, id)),
            "reasoning" if !items.get(at + 1).is_some_and(is_assistants) => {
                found.add(Rule::R2, at, "is reasoning without the output that follows it");
            }
            "compaction" if text(item, "encrypted_content").is_empty() => {
                found.add(Rule::R3, at, "is a compaction without its content");
            }
            "message" if is_blank(item.get("content")) => found.add(Rule::G5, at, "is blank"),
            _ => {}
        }
    }
    for (at, id) in waiting {
        found.add(Rule::R1, at, format_args!("calls `{id}`, which is never answered"));
    }
    if let Some(last) = items.last().filter(|last| kind(last) == "message")
        && text(last, "role") == "assistant"
    {
        found.add(Rule::G6, items.len() - 1, "is the last, but is an assistant message");
    }
}

/// Returns the type of an item. Messages may omit theirs.
fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" if item.get("role").is_some() => "message",
        kind => kind,
    }
}

/// Returns whether a model makes such an item.
fn is_assistants(item: &Value) -> bool {
    match kind(item) {
        "message" => text(item, "role") == "assistant",
        kind => !kind.ends_with("_output") && !kind.starts_with("compaction"),
    }
}
