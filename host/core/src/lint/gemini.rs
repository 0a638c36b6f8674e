//! Google's rules (M1, M2, M3, and M5) and the general rules G5 and G6, checked on the `contents` of a request body.
//! The names of the members may be those of the API or of its Python SDK.

use serde_json::Value;

use super::{BodyLinter, Rule, is_blank, text};

pub(super) fn check(linter: &mut BodyLinter<'_>) {
    let contents = linter.messages();
    let is_user_text = |content: &Value| {
        role(content) == "user" && parts(content).iter().any(|part| response(part).is_none())
    };
    let current_turn = contents.iter().rposition(is_user_text).unwrap_or_default();
    for (index, content) in contents.iter().enumerate() {
        let previous = index.checked_sub(1).map(|index| &contents[index]);
        check_role(linter, index, previous, content);
        check_calls(linter, index, previous, content, contents.get(index + 1));
        if parts(content).is_empty() {
            linter.report(Rule::G5, index, "has no parts");
        }
        for part in parts(content) {
            let signature = member(part, "thoughtSignature", "thought_signature");
            let is_thought = part.get("thought") == Some(&Value::Bool(true));
            if signature.is_some_and(|signature| signature.as_str().is_none_or(str::is_empty)) {
                linter.report(Rule::M5, index, "has an empty or invalid signature");
            } else if is_thought && signature.is_none() && index >= current_turn {
                linter.report(Rule::M5, index, "has a thought of the current turn without its signature");
            }
            if part.get("text").is_some_and(|text| is_blank(Some(text))) && signature.is_none() {
                linter.report(Rule::G5, index, "has a blank text");
            }
        }
    }
    if contents.last().is_some_and(|last| role(last) == "model") {
        linter.report(Rule::G6, contents.len() - 1, "is the model's, but the last must be the user's");
    }
}

fn role(content: &Value) -> &str {
    text(content, "role")
}

fn parts(content: &Value) -> &[Value] {
    content.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the member with either of two spellings of its name.
fn member<'a>(part: &'a Value, api_name: &str, sdk_name: &str) -> Option<&'a Value> {
    part.get(api_name).or_else(|| part.get(sdk_name)).filter(|value| !value.is_null())
}

pub(super) fn call(part: &Value) -> Option<&Value> {
    member(part, "functionCall", "function_call")
}

pub(super) fn response(part: &Value) -> Option<&Value> {
    member(part, "functionResponse", "function_response")
}

/// Returns the function names of all calls or of all responses, sorted. `call_or_response` is [`call`] or [`response`].
fn names(content: Option<&Value>, call_or_response: fn(&Value) -> Option<&Value>) -> Vec<&str> {
    let parts = content.map(parts).unwrap_or_default();
    let mut names: Vec<_> =
        parts.iter().filter_map(call_or_response).map(|half| text(half, "name")).collect();
    names.sort_unstable();
    names
}

fn check_role(linter: &mut BodyLinter<'_>, index: usize, previous: Option<&Value>, content: &Value) {
    let own_role = role(content);
    match previous {
        _ if !matches!(own_role, "user" | "model") => {
            linter.report(Rule::M1, index, format_args!("has the role `{own_role}`"));
        }
        None if own_role != "user" => {
            linter.report(Rule::M1, index, "is the first, but is not a user message");
        }
        Some(previous) if role(previous) == own_role => {
            let problem = format_args!("has the same role as the previous message, {own_role}");
            linter.report(Rule::M1, index, problem);
        }
        _ => {}
    }
}

fn check_calls(
    linter: &mut BodyLinter<'_>,
    index: usize,
    previous: Option<&Value>,
    content: &Value,
    next: Option<&Value>,
) {
    let call_names = names(Some(content), call);
    if !call_names.is_empty() {
        if previous.is_none_or(|previous| role(previous) != "user") {
            linter.report(Rule::M2, index, "has a call, but does not directly follow a user message");
        }
        let response_names = names(next, response);
        if response_names.is_empty() {
            linter.report(Rule::M2, index, "has a call, but the next message has no response");
        } else if response_names.len() != call_names.len() {
            let (calls, responses) = (call_names.len(), response_names.len());
            let problem = format_args!("has {calls} calls, but the next message has {responses} responses");
            linter.report(Rule::M3, index, problem);
        } else if response_names != call_names {
            linter.report(Rule::M2, index, "has a call, but the next message responds to other functions");
        }
    }
    if !names(Some(content), response).is_empty() && names(previous, call).is_empty() {
        linter.report(Rule::M2, index, "has a response, but the previous message has no call");
    }
}
