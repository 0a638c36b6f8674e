//! Transcripts that are request bodies. A compacted body must not break a provider's rule that the original kept.

use jp_compact_core::lint::{self, Rule};
use jp_compact_core::render::{Provider, Rendered};
use jp_compact_transcripts::Format;
use serde_json::{Value, json};

/// Returns the rules that `after` breaks more often than `before`. Rules about the end of a body are excluded,
/// because a stored body need not be ready to be sent.
pub(crate) fn newly_broken_rules(format: Format, before: &[u8], after: &[u8]) -> Vec<String> {
    let Some(provider) = provider(format) else { return Vec::new() };
    let violations = |bytes: &[u8]| -> Vec<lint::Violation> {
        let bodies = bodies(format, provider, bytes).into_iter();
        let violations = bodies.flat_map(|body| lint::check_body(provider, &Rendered::from_body(body)));
        let is_about_end = |violation: &lint::Violation| {
            matches!(violation.rule, Rule::A5 | Rule::G6)
                || violation.message.contains("is in an open tool loop")
        };
        violations.filter(|violation| !is_about_end(violation)).collect()
    };
    let (before, after) = (violations(before), violations(after));
    let count = |violations: &[lint::Violation], rule| {
        violations.iter().filter(|violation| violation.rule == rule).count()
    };
    let is_new =
        |violation: &&lint::Violation| count(&after, violation.rule) > count(&before, violation.rule);
    after.iter().filter(is_new).map(ToString::to_string).collect()
}

fn provider(format: Format) -> Option<Provider> {
    match format {
        Format::Anthropic => Some(Provider::Anthropic),
        Format::OpenaiChat | Format::JCli => Some(Provider::Openai),
        Format::OpenaiResponses => Some(Provider::OpenaiResponses),
        Format::Gemini => Some(Provider::Gemini),
        Format::Ollama => Some(Provider::Ollama),
        _ => None,
    }
}

/// Returns the bodies in a source: the document, or its lines. A bare list is wrapped in a body.
fn bodies(format: Format, provider: Provider, bytes: &[u8]) -> Vec<Value> {
    let member = provider.conversation();
    if format == Format::JCli {
        return vec![json!({ member: replayed(bytes) })];
    }
    let document = serde_json::from_slice::<Value>(bytes).map(|document| vec![document]);
    let lines = || bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let body = |value: Value| match value {
        Value::Array(list) => json!({ member: list }),
        Value::Object(mut object) if format == Format::OpenaiResponses && !object.contains_key(member) => {
            json!({ member: object.remove("output") })
        }
        other => other,
    };
    document.unwrap_or_else(|_| lines().collect()).into_iter().map(body).collect()
}

/// Returns the messages that J-CLI sends: those since the last `restore` or `clear`, with calls in `OpenAI`'s form.
fn replayed(bytes: &[u8]) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for line in
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok())
    {
        match line["type"].as_str() {
            Some("clear") => messages.clear(),
            Some("restore") => messages = line["messages"].as_array().cloned().unwrap_or_default(),
            Some("msg") | None => messages.push(line),
            Some(_) => {}
        }
    }
    for message in &mut messages {
        message["reasoning_content"].take();
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter(|call| call.get("function").is_none()) {
            *call = json!({ "id": call["id"], "function": { "name": call["name"], "arguments": call["arguments"] } });
        }
    }
    messages
}

/// Returns the expected events after repairs: requests that became neighbors are joined, and reasoning without its
/// output is dropped.
pub(crate) fn repaired(events: Vec<String>, actual: &[String]) -> Vec<String> {
    const REQUEST: &str = "\"chat_request\": \"";
    let mut repaired: Vec<String> = Vec::new();
    for event in events {
        let is_present = actual.get(repaired.len()) == Some(&event);
        if !is_present && event.contains(" (thought): ") {
            continue;
        }
        let joined = repaired.last().zip(event.strip_prefix(REQUEST)).and_then(|(last, next)| {
            let joined = format!("{}\\n{next}", last.strip_suffix('"')?);
            (last.starts_with(REQUEST)
                && actual.get(repaired.len() - 1)?.starts_with(joined.strip_suffix('"')?))
            .then_some(joined)
        });
        match joined {
            Some(joined) => drop(repaired.pop().map(|_| repaired.push(joined))),
            None => repaired.push(event),
        }
    }
    repaired
}
