//! The rules of every provider for its own request bodies: messages of thoughts only (G7), names and ids (G8).

use serde_json::Value;

use super::{BodyViolations, Rule, text};
use crate::render::{NameRules, Provider};

pub(super) fn check(found: &mut BodyViolations<'_>) {
    let (name, id) = (NameRules::name(found.provider), NameRules::id(found.provider));
    for (at, message) in found.messages().iter().enumerate() {
        let blocks = blocks(found.provider, message);
        if !blocks.is_empty() && blocks.iter().all(is_thought) {
            found.add(Rule::G7, at, "has only thoughts");
        }
        for call in calls(found.provider, message) {
            if let Some(wrong) = call.name.filter(|text| !name.takes(text)) {
                found.add(
                    Rule::G8,
                    at,
                    format_args!("has the tool name `{wrong}`, which the provider rejects"),
                );
            }
            if let Some(wrong) = call.id.filter(|text| !id.takes(text)) {
                found.add(
                    Rule::G8,
                    at,
                    format_args!("has the call id `{wrong}`, which the provider rejects"),
                );
            }
        }
    }
}

/// A call or a response.
struct Half<'a> {
    name: Option<&'a str>,
    id: Option<&'a str>,
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the blocks of an assistant message.
fn blocks(provider: Provider, message: &Value) -> &[Value] {
    match provider {
        Provider::Anthropic if text(message, "role") == "assistant" => list(message, "content"),
        Provider::Gemini if text(message, "role") == "model" => list(message, "parts"),
        _ => &[],
    }
}

fn is_thought(block: &Value) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
        || (block.get("thought") == Some(&Value::Bool(true)) && block.get("functionCall").is_none())
}

fn calls(provider: Provider, message: &Value) -> Vec<Half<'_>> {
    match provider {
        Provider::Anthropic => list(message, "content")
            .iter()
            .filter_map(|block| match text(block, "type") {
                "tool_use" => Some(half(block, Some("name"), Some("id"))),
                "tool_result" => Some(half(block, None, Some("tool_use_id"))),
                _ => None,
            })
            .collect(),
        Provider::Openai => {
            let calls = list(message, "tool_calls").iter().map(|call| Half {
                name: call.get("function").and_then(|function| member(function, "name")),
                id: member(call, "id"),
            });
            calls.chain([half(message, None, Some("tool_call_id"))]).collect()
        }
        Provider::OpenaiResponses => vec![half(message, Some("name"), Some("call_id"))],
        Provider::Gemini => list(message, "parts")
            .iter()
            .flat_map(|part| ["functionCall", "functionResponse"].map(|name| part.get(name)))
            .flatten()
            .map(|call| half(call, Some("name"), None))
            .collect(),
        Provider::Ollama => Vec::new(),
    }
}

fn half<'a>(value: &'a Value, name: Option<&str>, id: Option<&str>) -> Half<'a> {
    Half { name: name.and_then(|name| member(value, name)), id: id.and_then(|id| member(value, id)) }
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
