//! Programs whose transcripts are not supported, by what only they write: a file of theirs is refused by name, and not
//! taken for the format that it resembles.

use super::detect::{Sample, with_samples};
use super::tree::Look;

/// The program that bytes look like, if it is one of these.
#[must_use]
pub fn program(bytes: &[u8]) -> Option<&'static str> {
    with_samples(bytes, of)
}

/// The same of a sample.
pub(super) fn of(sample: &Sample<'_>) -> Option<&'static str> {
    let elements = sample.objects("messages");
    let any = |is_it: fn(Look<'_>) -> bool| {
        sample.any_line(is_it)
            || elements.iter().any(|element| is_it(*element))
            || sample.document.is_some_and(is_it)
    };
    Some(if any(is_qwen_code) {
        "Qwen Code"
    } else if any(is_factory_droid) {
        "Factory Droid"
    } else if any(is_cursor) {
        "Cursor"
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

/// Records of a tree as Claude Code has it, with messages as Google has them.
fn is_qwen_code(line: Look<'_>) -> bool {
    let has_parts =
        line.get("message").is_some_and(|message| message.get("parts").is_some_and(Look::is_array));
    line.string("uuid").is_some()
        && line.get("sessionId").is_some()
        && (has_parts || line.get("systemPayload").is_some())
}

fn is_factory_droid(line: Look<'_>) -> bool {
    line.text_of("type").as_deref() == Some("session_start") && line.string("id").is_some()
}

/// A role, and a message without one.
fn is_cursor(line: Look<'_>) -> bool {
    let is_bare = |message: Look<'_>| {
        message.get("role").is_none() && message.get("content").is_some_and(Look::is_array)
    };
    line.string("role").is_some() && line.get("type").is_none() && line.get("message").is_some_and(is_bare)
}

fn is_cline(element: Look<'_>) -> bool {
    let says =
        |kind: &str| element.text_of("type").as_deref() == Some(kind) && element.string(kind).is_some();
    element.get("ts").is_some() && (says("say") || says("ask"))
}

fn is_langchain(element: Look<'_>) -> bool {
    const TYPES: [&str; 8] =
        ["human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk"];
    let kind = element.text_of("type");
    let is_message = kind.as_deref().is_some_and(|kind| TYPES.contains(&kind));
    let holds_content = |name: &str| element.get(name).is_some_and(|data| data.get("content").is_some());
    (is_message && holds_content("data"))
        || (kind.as_deref() == Some("constructor") && element.get("lc").is_some())
}

fn is_sharegpt(row: Look<'_>) -> bool {
    let is_turn = |turn: Look<'_>| turn.string("from").is_some() && turn.string("value").is_some();
    row.get("conversations").is_some_and(|turns| turns.items().any(is_turn)) || is_turn(row)
}

/// The parts of a message that says of each of them what it is, as Google's do not.
fn typed_parts(message: Look<'_>) -> impl Iterator<Item = Look<'_>> {
    let parts = message.get("parts").filter(|_| message.string("role").is_some());
    parts.into_iter().flat_map(Look::items).filter(|part| part.string("type").is_some())
}

fn is_opentelemetry(message: Look<'_>) -> bool {
    typed_parts(message).any(|part| match part.text_of("type").as_deref() {
        Some("text" | "reasoning") => part.get("content").is_some(),
        Some("tool_call") => part.get("arguments").is_some(),
        Some("tool_call_response") => part.get("response").is_some() || part.get("result").is_some(),
        _ => false,
    })
}

fn is_vercel(message: Look<'_>) -> bool {
    typed_parts(message).any(|part| match part.text_of("type").as_deref() {
        Some("text" | "reasoning") => part.string("text").is_some(),
        Some("step-start" | "dynamic-tool" | "tool-invocation" | "source-url") => true,
        Some(kind) => kind.starts_with("tool-") || kind.starts_with("data-"),
        None => false,
    })
}
