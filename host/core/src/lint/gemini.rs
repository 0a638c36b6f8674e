//! Google's rules (M1 to M5), checked on the `contents` of a request body. Members are accepted in the spelling of the
//! API and of its Python SDK.

use serde_json::Value;

use super::{BodyViolations, Rule, is_blank, text};

pub(super) fn check(found: &mut BodyViolations<'_>) {
    let contents = found.messages();
    let is_user_text = |content: &Value| {
        role(content) == "user" && parts(content).iter().any(|part| response(part).is_none())
    };
    let current = contents.iter().rposition(is_user_text).unwrap_or_default();
    for (at, content) in contents.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &contents[before]);
        roles(found, at, before, content);
        calls(found, at, before, content, contents.get(at + 1));
        if parts(content).is_empty() {
            found.add(Rule::G5, at, "has no parts");
        }
        for part in parts(content) {
            let signature = member(part, "thoughtSignature", "thought_signature");
            let is_thought = part.get("thought") == Some(&Value::Bool(true));
            if signature.is_some_and(|signature| signature.as_str().is_none_or(str::is_empty)) {
                found.add(Rule::M5, at, "has an empty or invalid signature");
            } else if is_thought && signature.is_none() && at >= current {
                found.add(Rule::M5, at, "has a thought of the current turn without its signature");
            }
            if part.get("text").is_some_and(|text| is_blank(Some(text))) && signature.is_none() {
                found.add(Rule::G5, at, "has a blank text");
            }
        }
    }
    if contents.last().is_some_and(|last| role(last) == "model") {
        found.add(Rule::G6, contents.len() - 1, "is the last, but is a model message");
    }
}

fn role(content: &Value) -> &str {
    text(content, "role")
}

fn parts(content: &Value) -> &[Value] {
    content.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn member<'a>(part: &'a Value, name: &str, other: &str) -> Option<&'a Value> {
    part.get(name).or_else(|| part.get(other)).filter(|value| !value.is_null())
}

fn call(part: &Value) -> Option<&Value> {
    member(part, "functionCall", "function_call")
}

fn response(part: &Value) -> Option<&Value> {
    member(part, "functionResponse", "function_response")
}

/// Returns the names in these parts, sorted.
fn names(content: Option<&Value>, pick: fn(&Value) -> Option<&Value>) -> Vec<&str> {
    let parts = content.map(parts).unwrap_or_default();
    let mut names: Vec<_> = parts.iter().filter_map(pick).map(|part| text(part, "name")).collect();
    names.sort_unstable();
    names
}

fn roles(found: &mut BodyViolations<'_>, at: usize, before: Option<&Value>, content: &Value) {
    let role_of = role(content);
    match before {
        _ if !matches!(role_of, "user" | "model") => {
            found.add(Rule::M1, at, format_args!("has the role `{role_of}`"));
        }
        None if role_of != "user" => found.add(Rule::M1, at, "is the first, but is not a user message"),
        Some(before) if role(before) == role_of => {
            found.add(Rule::M1, at, format_args!("has the same role as the previous message, {role_of}"));
        }
        _ => {}
    }
}

fn calls(
    found: &mut BodyViolations<'_>,
    at: usize,
    before: Option<&Value>,
    content: &Value,
    next: Option<&Value>,
) {
    let called = names(Some(content), call);
    if !called.is_empty() {
        if before.is_none_or(|before| role(before) != "user") {
            found.add(Rule::M2, at, "has a call, but does not directly follow a user message");
        }
        let answered = names(next, response);
        if answered.is_empty() {
            found.add(Rule::M2, at, "has a call, but the next message has no response");
        } else if answered.len() != called.len() {
            let (calls, responses) = (called.len(), answered.len());
            found.add(
                Rule::M3,
                at,
                format_args!("has {calls} calls, but the next message has {responses} responses"),
            );
        } else if answered != called {
            found.add(Rule::M2, at, "has a call, but the next message responds to other functions");
        }
    }
    if !names(Some(content), response).is_empty() && names(before, call).is_empty() {
        found.add(Rule::M2, at, "has a response, but the previous message has no call");
    }
}
