//! The reader of Anthropic's Messages API: the body of a request, a bare list of messages, or a line of a batch. A
//! record is a message. A user message may contain results and a request; the results belong to the previous turn.
//! Tools that Anthropic runs itself (searches, code) return encrypted results that must be sent back unchanged. They
//! are therefore part of the assistant's message, not calls whose content could be stripped. Results of MCP tools are
//! texts.

use serde_json::json;

use super::claude_code::known_block_event;
use crate::builder::{EventBuilder, EventDraft, NewEvent};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error, role_of};
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Anthropic;

const NAME: &str = "the Anthropic API";

pub(super) const WANTED: MemberFilter =
    |key| matches!(key, b"params" | b"messages" | b"content" | b"source" | b"system");

/// Members of a body that no other provider with `messages` has.
const BODY_MEMBERS: [&str; 5] =
    ["anthropic_version", "anthropic_beta", "stop_sequences", "mcp_servers", "context_management"];

/// Types of blocks that no other provider has.
const BLOCKS: [&str; 9] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "search_result",
];

impl Reader for Anthropic {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        match sample.document {
            Some(document) => is_body(body_of(document)),
            None => sample.any_line(|line| {
                let body = body_of(line);
                body.get("messages").is_some() && is_body(body)
            }),
        }
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        if builder.is_document() {
            return builder.read_document(WANTED, |builder, document| {
                let body = body_of(document);
                read_metadata(builder, body);
                read_messages(builder, body.get("messages").unwrap_or(body))
            });
        }
        builder.read_lines(WANTED, |builder, _, line| {
            let body = body_of(line);
            let Some(messages) = body.get("messages") else {
                return Err(format_error(NAME, line, "a line has no `messages`"));
            };
            builder.start_conversation(line)?;
            read_metadata(builder, body);
            read_messages(builder, messages)
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message =
            |role, text| json!({ "role": role, "content": [{ "type": "text", "text": text }] }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }

    fn blocks(&self) -> Option<&'static str> {
        Some("content")
    }
}

/// Returns the body of a request, which may be in a batch.
fn body_of(value: JsonNode<'_>) -> JsonNode<'_> {
    value.get("params").filter(|body| body.get("messages").is_some()).unwrap_or(value)
}

/// Returns whether a body, or a bare list of messages, is Anthropic's. A conversation that contains only texts is
/// recognized by the body's members, or by an assistant that writes blocks, which is rare in other formats.
fn is_body(body: JsonNode<'_>) -> bool {
    let messages = body.get("messages").unwrap_or(body);
    if messages.items().len() == 0 || !messages.items().all(is_message) {
        return false;
    }
    let any_block = |matches: fn(JsonNode<'_>) -> bool| {
        messages
            .items()
            .filter_map(|message| message.get("content"))
            .any(|content| content.items().any(matches))
    };
    let writes_blocks = |message: JsonNode<'_>| {
        message.text_of("role").is_some_and(|role| role == "assistant")
            && message.get("content").is_some_and(|content| content.items().any(|block| block.is_object()))
    };
    // The model's name excludes other providers that use blocks.
    let may_be_claude = body.text_of("model").is_none_or(|model| model.contains("claude"));
    // Other providers' lists may begin with a system message. Anthropic's never do.
    let first = messages.items().next().and_then(|first| first.text_of("role"));
    let has_system = first.is_some_and(|role| role == "system");
    any_block(is_anthropic_block)
        || BODY_MEMBERS.iter().any(|name| body.get(name).is_some())
        || body.get("system").is_some_and(|system| system.is_string() || system.is_array())
        || body.get("thinking").is_some_and(|thinking| {
            thinking.get("budget_tokens").is_some() || thinking.text_is("type", "adaptive")
        })
        || body
            .get("tools")
            .is_some_and(|tools| memchr::memmem::find(tools.raw(), b"\"input_schema\"").is_some())
        || (!has_system && body.text_of("model").is_some_and(|model| model.starts_with("claude")))
        || (!has_system && may_be_claude && messages.items().any(writes_blocks))
}

fn is_message(message: JsonNode<'_>) -> bool {
    // Types of parts that only other providers' messages have.
    let is_foreign_part = |part: JsonNode<'_>| {
        part.text_of("type")
            .is_some_and(|kind| matches!(&*kind, "image_url" | "input_audio" | "refusal" | "file"))
    };
    if message.get("content").is_some_and(|content| content.items().any(is_foreign_part)) {
        return false;
    }
    let has_role =
        message.text_of("role").is_some_and(|role| matches!(&*role, "user" | "assistant" | "system"));
    let foreign_members =
        ["tool_calls", "function_call", "tool_name", "parts", "thinking", "images", "reasoning_content"];
    let has_value = |name: &&str| message.get(name).is_some_and(|value| !value.is_null());
    // A system message may contain only the reasoning effort.
    let has_content = message.get("content").is_some() || message.text_is("role", "system");
    has_role && has_content && !foreign_members.iter().any(has_value)
}

/// Returns whether only Anthropic has such a block.
fn is_anthropic_block(block: JsonNode<'_>) -> bool {
    let Some(kind) = block.text_of("type") else { return false };
    (BLOCKS.contains(&&*kind) && !block.get("thinking").is_some_and(JsonNode::is_array))
        || kind.ends_with("_tool_result")
        || (matches!(&*kind, "image" | "document") && block.get("source").is_some_and(JsonNode::is_object))
}

/// Reads the model and the system prompt of a body.
fn read_metadata(builder: &mut EventBuilder, body: JsonNode<'_>) {
    builder.read_model(body, "model");
    builder.add_system_content(body.non_null("system"));
}

fn read_messages(builder: &mut EventBuilder, messages: JsonNode<'_>) -> Result<(), Unreadable> {
    ensure(messages.is_array(), NAME, messages, "the messages are not an array")?;
    for (at, message) in builder.elements(messages, None) {
        read_message(builder, message, EventDraft::whole(at, message))?;
    }
    Ok(())
}

/// Adds the events of a message. `draft` is the whole message.
pub(super) fn read_message(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: EventDraft,
) -> Result<(), Unreadable> {
    let role = role_of(NAME, message)?;
    match (&*role, message.get("content")) {
        ("user", _) => add_user_events(builder, message, &draft),
        ("assistant", Some(content)) => add_assistant_events(builder, message, content, draft),
        ("system", _) => {}
        _ => builder.count_unknown(message),
    }
    Ok(())
}

/// Adds the tool results, then the request: all other blocks as one event.
fn add_user_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) {
    let content = message.get("content");
    let blocks = content.filter(|content| content.items().len() > 0);
    let Some(content) = blocks else {
        if content.is_none() {
            builder.count_unknown(message);
        }
        let body = content.filter(|content| content.is_string()).map(JsonNode::span);
        let body = body.unwrap_or_else(|| builder.new_string(""));
        return builder.add_request(draft.clone().with_body(body));
    };
    let (mut span, mut bodies, mut deletions) = (Span::default(), Vec::new(), Vec::new());
    for (deletion, block) in builder.blocks(content) {
        let draft = draft.part(block, deletion);
        let (kind, event) = block_event(builder, message, block, Kind::ChatRequest, draft);
        if kind != Kind::ChatRequest {
            builder.add(kind, event);
            continue;
        }
        let start = if bodies.is_empty() { event.span.start } else { span.start };
        span = Span { start, end: event.span.end };
        bodies.push(event.body);
        deletions.push(event.deletion);
    }
    if bodies.is_empty() {
        return;
    }
    let body = builder.one_or_joined(&bodies);
    let deletion = if content.items().len() > 1 { Deletion::Several(deletions) } else { Deletion::Nothing };
    builder.add_request(EventDraft { span, body, deletion, ..draft.clone() });
}

fn add_assistant_events(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    content: JsonNode<'_>,
    draft: EventDraft,
) {
    if content.items().len() == 0 {
        let body = if content.is_string() { content.span() } else { builder.new_string("") };
        return builder.add(Kind::Message, draft.with_body(body));
    }
    for (deletion, block) in builder.blocks(content) {
        let (kind, event) = block_event(builder, message, block, Kind::Message, draft.part(block, deletion));
        builder.add(kind, event);
    }
}

/// Returns the event of a block. An unknown block becomes a text of the same author.
fn block_event(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    block: JsonNode<'_>,
    text_kind: Kind,
    draft: EventDraft,
) -> NewEvent {
    if let Some(event) = known_block_event(builder, message, block, text_kind, draft.clone()) {
        return event;
    }
    let kind = block.text_of("type").unwrap_or_default();
    let body = match &*kind {
        "server_tool_use" => {
            let (name, input) =
                (block.text_of("name").unwrap_or_default(), block.get("input").map(JsonNode::lossy));
            builder.new_string(&format!("[{name} {}]", input.unwrap_or_default()))
        }
        "search_result" | "compaction" if block.non_null("content").is_some() => {
            builder.text_or_empty(block.get("content"))
        }
        _ => {
            let titles = block.items_of("content").filter_map(|result| result.text_of("title"));
            let lines: Vec<_> = std::iter::once(format!("[{kind}]").into()).chain(titles).collect();
            builder.new_string(&lines.join("\n"))
        }
    };
    (text_kind, draft.with_body(body))
}
