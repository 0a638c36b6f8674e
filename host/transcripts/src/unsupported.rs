//! Programs whose transcripts are not supported, recognized by properties that only they have. The error for
//! such a file names the program. The file must not be read as the format that it resembles.

use crate::sample::{Sample, with_samples};
use jp_compact_json::JsonNode;

/// Returns the unsupported program that probably wrote these bytes.
#[must_use]
pub fn program(bytes: &[u8]) -> Option<&'static str> {
    with_samples(bytes, program_of)
}

pub(crate) fn program_of(sample: &Sample<'_>) -> Option<&'static str> {
    let elements = sample.objects("messages");
    let any = |matches: fn(JsonNode<'_>) -> bool| {
        sample.any_line(matches)
            || elements.iter().any(|element| matches(*element))
            || sample.document.is_some_and(matches)
    };
    Some(if any(is_factory_droid) {
        "Factory Droid"
    } else if any(is_cursor) {
        "Cursor"
    } else if any(is_copilot_cli) {
        "GitHub Copilot CLI"
    } else if any(is_cline) {
        "Cline's user interface (its `api_conversation_history.json` can be read)"
    } else if any(is_langchain) {
        "LangChain"
    } else if any(is_sharegpt) {
        "ShareGPT"
    } else if any(is_opentelemetry) {
        "OpenTelemetry GenAI"
    } else if any(is_vercel) {
        "the Vercel AI SDK"
    } else {
        return None;
    })
}

fn is_factory_droid(line: JsonNode<'_>) -> bool {
    line.text_of("type").as_deref() == Some("session_start") && line.string("id").is_some()
}

/// Returns whether a line has a role, and contains a message without a role.
fn is_cursor(line: JsonNode<'_>) -> bool {
    let has_no_role = |message: JsonNode<'_>| {
        message.get("role").is_none() && message.get("content").is_some_and(JsonNode::is_array)
    };
    line.string("role").is_some()
        && line.get("type").is_none()
        && line.get("message").is_some_and(has_no_role)
}

/// Returns whether a line is an event of a session, from the log `events.jsonl`.
fn is_copilot_cli(line: JsonNode<'_>) -> bool {
    let kind = line.text_of("type");
    let is_event = || {
        let kind = kind.as_deref().unwrap_or_default();
        let families = ["session.", "user.", "assistant.", "tool.", "system."];
        families.iter().any(|family| kind.starts_with(family))
    };
    line.get("parentId").is_some()
        && line.string("id").is_some()
        && line.get("data").is_some_and(JsonNode::is_object)
        && is_event()
}

fn is_cline(element: JsonNode<'_>) -> bool {
    let has_kind =
        |kind: &str| element.text_of("type").as_deref() == Some(kind) && element.string(kind).is_some();
    element.get("ts").is_some() && (has_kind("say") || has_kind("ask"))
}

fn is_langchain(element: JsonNode<'_>) -> bool {
    const TYPES: [&str; 8] =
        ["human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk"];
    let kind = element.text_of("type");
    let is_message = kind.as_deref().is_some_and(|kind| TYPES.contains(&kind));
    let has_content = |name: &str| element.get(name).is_some_and(|data| data.get("content").is_some());
    (is_message && has_content("data"))
        || (kind.as_deref() == Some("constructor") && element.get("lc").is_some())
}

fn is_sharegpt(row: JsonNode<'_>) -> bool {
    let is_turn = |turn: JsonNode<'_>| turn.string("from").is_some() && turn.string("value").is_some();
    row.get("conversations").is_some_and(|turns| turns.items().any(is_turn)) || is_turn(row)
}

/// Returns the parts of a message that have a `type`. Google's parts have none.
fn typed_parts(message: JsonNode<'_>) -> impl Iterator<Item = JsonNode<'_>> {
    let parts = message.get("parts").filter(|_| message.string("role").is_some());
    parts.into_iter().flat_map(JsonNode::items).filter(|part| part.string("type").is_some())
}

fn is_opentelemetry(message: JsonNode<'_>) -> bool {
    typed_parts(message).any(|part| match part.text_of("type").as_deref() {
        Some("text" | "reasoning") => part.get("content").is_some(),
        Some("tool_call") => part.get("arguments").is_some(),
        Some("tool_call_response") => part.get("response").is_some() || part.get("result").is_some(),
        _ => false,
    })
}

fn is_vercel(message: JsonNode<'_>) -> bool {
    typed_parts(message).any(|part| match part.text_of("type").as_deref() {
        Some("text" | "reasoning") => part.string("text").is_some(),
        Some("step-start" | "dynamic-tool" | "tool-invocation" | "source-url") => true,
        Some(kind) => kind.starts_with("tool-") || kind.starts_with("data-"),
        None => false,
    })
}
