//! The rules that apply to the request bodies of all providers: no message has only thoughts (G7), and the provider
//! accepts all names and ids (G8).

use serde_json::Value;

use super::{BodyLinter, Rule, gemini, text};
use crate::render::{NameRules, Provider};

pub(super) fn check(linter: &mut BodyLinter<'_>) {
    let (name_rules, id_rules) = (NameRules::for_names(linter.provider), NameRules::for_ids(linter.provider));
    for (index, message) in linter.messages().iter().enumerate() {
        let blocks = blocks(linter.provider, message);
        if !blocks.is_empty() && blocks.iter().all(is_thought) {
            linter.report(Rule::G7, index, "has only thoughts");
        }
        for half in call_halves(linter.provider, message) {
            if let Some(name) = half.name.filter(|name| !name_rules.accepts(name)) {
                let problem = format_args!("has the tool name `{name}`, which the provider rejects");
                linter.report(Rule::G8, index, problem);
            }
            if let Some(id) = half.id.filter(|id| !id_rules.accepts(id)) {
                let problem = format_args!("has the call id `{id}`, which the provider rejects");
                linter.report(Rule::G8, index, problem);
            }
        }
    }
}

/// The name and the id of a call or of a response.
struct CallHalf<'a> {
    name: Option<&'a str>,
    id: Option<&'a str>,
}

/// Returns the elements of an array member.
fn array<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the blocks of an assistant message.
fn blocks(provider: Provider, message: &Value) -> &[Value] {
    match provider {
        Provider::Anthropic if text(message, "role") == "assistant" => array(message, "content"),
        Provider::Gemini if text(message, "role") == "model" => array(message, "parts"),
        _ => &[],
    }
}

fn is_thought(block: &Value) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
        || (block.get("thought") == Some(&Value::Bool(true)) && gemini::call(block).is_none())
}

/// Returns the calls and the responses in a message.
fn call_halves(provider: Provider, message: &Value) -> Vec<CallHalf<'_>> {
    match provider {
        Provider::Anthropic => array(message, "content")
            .iter()
            .filter_map(|block| match text(block, "type") {
                "tool_use" => Some(call_half(block, Some("name"), Some("id"))),
                "tool_result" => Some(call_half(block, None, Some("tool_use_id"))),
                _ => None,
            })
            .collect(),
        Provider::Openai => {
            let calls = array(message, "tool_calls").iter().map(|call| CallHalf {
                name: call.get("function").and_then(|function| member(function, "name")),
                id: member(call, "id"),
            });
            calls.chain([call_half(message, None, Some("tool_call_id"))]).collect()
        }
        Provider::OpenaiResponses => vec![call_half(message, Some("name"), Some("call_id"))],
        Provider::Gemini => array(message, "parts")
            .iter()
            .flat_map(|part| [gemini::call(part), gemini::response(part)])
            .flatten()
            .map(|half| call_half(half, Some("name"), None))
            .collect(),
        Provider::Ollama => Vec::new(),
    }
}

fn call_half<'a>(value: &'a Value, name: Option<&str>, id: Option<&str>) -> CallHalf<'a> {
    CallHalf { name: name.and_then(|name| member(value, name)), id: id.and_then(|id| member(value, id)) }
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
