//! The reader of `OpenAI`'s chat: the body of a request, a bare list of messages, or a line of a file for
//! fine-tuning or a batch. A record is a message. Arguments are JSON in a string. Messages have neither times nor
//! marks for failed tools. Reasoning is in vendor-specific members, often in several at once. If reasoning is deleted,
//! all of these members must be deleted. System messages are kept and are not events.

use serde_json::json;

use super::values;
use crate::builder::{EventBuilder, EventDraft, Members};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error, role_of};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span, span_of};

pub(super) struct OpenaiChat;

const NAME: &str = "the OpenAI chat API";

pub(super) const WANTED: MemberFilter = |key| {
    matches!(key, b"messages" | b"body" | b"input" | b"content" | b"thinking" | b"audio")
        || matches!(key, b"tool_calls" | b"function" | b"custom" | b"function_call")
        || matches!(key, b"reasoning_details" | b"thinking_blocks" | b"summary")
        || matches!(key, b"provider_specific_fields")
};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Members that contain reasoning. Those with text come first; the others contain blocks or data for the vendor.
const THOUGHTS: [&str; 6] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "reasoning_details",
    "thinking_blocks",
    "reasoning_opaque",
];

impl Reader for OpenaiChat {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        // Some programs add their own roles.
        let are_messages = |messages: &[JsonNode<'_>]| {
            let has_known_role =
                |message: &JsonNode<'_>| message.text_of("role").is_some_and(|role| ROLES.contains(&&*role));
            messages.iter().all(|message| message.string("role").is_some())
                && messages.iter().any(has_known_role)
        };
        let is_body = |line: JsonNode<'_>| {
            messages_of(line).is_some_and(|messages| are_messages(&messages.items().collect::<Vec<_>>()))
        };
        are_messages(&sample.objects("messages")) || sample.any_line(is_body)
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        if builder.is_document() {
            return builder.read_document(WANTED, |builder, document| {
                let body = document.get("body").unwrap_or(document);
                builder.read_model(body, "model");
                read_messages(builder, messages_of(document).unwrap_or(document))
            });
        }
        builder.read_lines(WANTED, |builder, _, line| match messages_of(line) {
            Some(messages) => {
                builder.start_conversation(line)?;
                read_messages(builder, messages)
            }
            None => Err(format_error(NAME, line, "a line has no `messages`")),
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role, content| json!({ "role": role, "content": content }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// Returns the messages of a body, of a request in a batch, or of a preference pair.
fn messages_of(value: JsonNode<'_>) -> Option<JsonNode<'_>> {
    let inner = |name| value.inner(name, "messages");
    value.get("messages").or_else(|| inner("body")).or_else(|| inner("input"))
}

fn read_messages(builder: &mut EventBuilder, messages: JsonNode<'_>) -> Result<(), Unreadable> {
    ensure(messages.is_array(), NAME, messages, "the messages are not an array")?;
    for (at, message) in builder.elements(messages, None) {
        read_message(builder, at, message)?;
    }
    Ok(())
}

/// Adds the events of a message.
pub(super) fn read_message(
    builder: &mut EventBuilder,
    at: ElementRef,
    message: JsonNode<'_>,
) -> Result<(), Unreadable> {
    let draft = EventDraft::whole(at, message);
    let content = message.get("content");
    match &*role_of(NAME, message)? {
        "user" => {
            if content.is_none() {
                builder.count_unknown(message);
            }
            let body = builder.text_or_empty(content);
            builder.add_request(draft.with_body(body));
        }
        "assistant" => {
            let len_before = builder.len();
            add_assistant_events(builder, message, &draft);
            if builder.len() == len_before {
                builder.count_unknown(message);
            }
        }
        "tool" | "function" => {
            let id = span_of(message.string("tool_call_id").or(message.string("name")));
            let draft = builder.result(content, values::text, draft.with_id(id));
            builder.add(Kind::ToolResponse { is_error: false }, draft);
        }
        "system" | "developer" => builder.add_system_content(content),
        _ => builder.count_unknown(message),
    }
    Ok(())
}

fn add_assistant_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) {
    let members = builder.members(message);
    add_reasoning(builder, members, draft);
    match message.get("content").filter(has_content) {
        Some(content) if content.items().any(is_thought) => add_parts(builder, content, draft),
        Some(content) => {
            let refusals = content.items().filter_map(|part| part.string("refusal")).map(JsonNode::span);
            let refusals: Vec<Span> = refusals.collect();
            let body = if refusals.is_empty() { builder.text(content) } else { builder.joined(&refusals) };
            let draft = draft.part(content, Deletion::Value(content.span(), "null"));
            builder.add(Kind::Message, draft.with_body(body));
        }
        None => add_other_content(builder, members, draft),
    }
    if let Some(calls) = message.non_empty_array("tool_calls") {
        for (at, call) in builder.elements(calls, members.find("tool_calls")) {
            let function = call.get("function").or(call.get("custom")).unwrap_or(call);
            let draft = draft.part(call, Deletion::Element(at)).with_id(call.string_span("id"));
            add_call(builder, function, draft);
        }
    }
    // The form before calls had ids: the name identifies the call.
    if let Some(function) = message.object("function_call") {
        let draft = draft.part(function, members.deletion("function_call"));
        add_call(builder, function, draft.with_id(function.string_span("name")));
    }
}

fn has_content(value: &JsonNode<'_>) -> bool {
    value.raw().len() > 2 && !value.is_null()
}

/// Adds the reasoning of a message as one event, which is deleted from all its members at once.
fn add_reasoning(builder: &mut EventBuilder, members: Members<'_>, draft: &EventDraft) {
    let message = members.object;
    let mut deletions = Vec::new();
    let mut body = None;
    for name in THOUGHTS {
        let Some(value) = message.get(name).filter(has_content) else { continue };
        deletions.push(members.deletion(name));
        body =
            body.or_else(|| value.is_string().then(|| value.span()).filter(|_| name != "reasoning_opaque"));
    }
    if deletions.is_empty() {
        return;
    }
    if let Some(vendor_fields) = message.object("provider_specific_fields") {
        let members = builder.members(vendor_fields);
        deletions.extend(THOUGHTS.iter().filter_map(|name| members.find(name)).map(Deletion::Element));
    }
    let body = body.unwrap_or_else(|| {
        let lists = ["reasoning_details", "thinking_blocks"];
        let blocks = lists.iter().find_map(|name| message.non_empty_array(name));
        let texts = blocks.into_iter().flat_map(JsonNode::items).filter_map(|block| {
            ["text", "thinking", "summary"].iter().find_map(|name| block.string(name)).map(JsonNode::span)
        });
        let texts: Vec<Span> = texts.collect();
        builder.joined(&texts)
    });
    let deletion = Deletion::Several(deletions);
    builder.add(Kind::Reasoning, EventDraft { body, deletion, ..draft.clone() });
}

fn is_thought(part: JsonNode<'_>) -> bool {
    part.text_of("type").is_some_and(|kind| matches!(&*kind, "thinking" | "reasoning" | "think"))
}

/// Adds the parts of a content that contains reasoning, each as an event.
fn add_parts(builder: &mut EventBuilder, content: JsonNode<'_>, draft: &EventDraft) {
    for (at, part) in builder.elements(content, None) {
        let (kind, text) = match is_thought(part) {
            true => (Kind::Reasoning, part.get("thinking").or(part.get("think")).or(part.get("text"))),
            false => (Kind::Message, part.string("text").or(part.string("refusal"))),
        };
        let body = builder.text_or_empty(text);
        builder.add(kind, draft.part(part, Deletion::Element(at)).with_body(body));
    }
}

/// Adds the message of an assistant without content: a refusal or audio.
fn add_other_content(builder: &mut EventBuilder, members: Members<'_>, draft: &EventDraft) {
    let message = members.object;
    let (name, value, text) = match (message.non_empty_string("refusal"), message.object("audio")) {
        (Some(refusal), _) => ("refusal", refusal, Some(refusal)),
        (None, Some(audio)) => ("audio", audio, audio.non_empty_string("transcript")),
        (None, None) => return,
    };
    let body = text.map_or_else(|| builder.new_string("[audio]"), JsonNode::span);
    builder.add(Kind::Message, draft.part(value, members.deletion(name)).with_body(body));
}

/// Adds a call of a function, or of a tool that takes a text.
fn add_call(builder: &mut EventBuilder, function: JsonNode<'_>, draft: EventDraft) {
    let (arguments, write): (_, fn(&str) -> String) = match function.get("arguments") {
        Some(object) if object.is_object() => (Some(object), values::empty_object),
        Some(text) => (Some(text), values::empty_object_in_string),
        None => (function.string("input"), values::text),
    };
    let draft = builder.call(function, "name", arguments, write, draft);
    builder.add(Kind::ToolRequest, draft);
}
