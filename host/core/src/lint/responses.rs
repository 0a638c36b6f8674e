//! The rules of `OpenAI`'s Responses API (R1 to R3), checked on the `input` of a request body.

use serde_json::Value;

use super::openai::check_arguments;
use super::{BodyLinter, Rule, is_blank, text};

pub(super) fn check(linter: &mut BodyLinter<'_>) {
    let items = linter.messages();
    // The index and the id of each call without an output.
    let mut waiting: Vec<(usize, &str)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let id = text(item, "call_id");
        match kind(item) {
            "function_call_output" | "custom_tool_call_output" => {
                match waiting.iter().position(|(_, call)| *call == id) {
                    Some(position) => _ = waiting.remove(position),
                    None => {
                        let problem = format_args!("answers `{id}`, but no call with this id waits for it");
                        linter.report(Rule::R1, index, problem);
                    }
                }
            }
            "function_call" => {
                check_arguments(linter, index, item);
                waiting.push((index, id));
            }
            "custom_tool_call" => waiting.push((index, id)),
            "reasoning" if !items.get(index + 1).is_some_and(is_model_output) => {
                linter.report(Rule::R2, index, "is reasoning, but no output of the model follows it");
            }
            "compaction" if text(item, "encrypted_content").is_empty() => {
                linter.report(Rule::R3, index, "is a compaction without its content");
            }
            "message" if is_blank(item.get("content")) => linter.report(Rule::G5, index, "is blank"),
            _ => {}
        }
    }
    for (index, id) in waiting {
        linter.report(Rule::R1, index, format_args!("calls `{id}`, which is never answered"));
    }
    if let Some(last) = items.last().filter(|last| kind(last) == "message")
        && text(last, "role") == "assistant"
    {
        linter.report(Rule::G6, items.len() - 1, "is the assistant's, but the last must be the user's");
    }
}

/// Returns the type of an item. A message may omit it.
fn kind(item: &Value) -> &str {
    match text(item, "type") {
        "" if item.get("role").is_some() => "message",
        kind => kind,
    }
}

/// Returns whether the model produced an item.
fn is_model_output(item: &Value) -> bool {
    match kind(item) {
        "message" => text(item, "role") == "assistant",
        kind => !kind.ends_with("_output") && !kind.starts_with("compaction"),
    }
}
