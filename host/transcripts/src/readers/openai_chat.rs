//! The reader of `OpenAI`'s chat: the body of a request, a bare list of messages, or a line of a file for
//! fine-tuning or a batch. A record is a message. Arguments are JSON in a string. Messages have neither times nor
//! marks for failed tools. Reasoning is in members of vendors, often in several at once; deleting it must delete all
//! of them. System messages are kept and are not events.

use serde_json::json;

use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::json_index::{JsonNode, MemberFilter};
use crate::reader::Reader;
use crate::reader::SummaryPair;
use crate::sample::{Sample, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::Span;

pub(super) struct OpenaiChat;

const WANTED: MemberFilter = |key| {
    matches!(
        key,
        b"messages"
            | b"body"
            | b"input"
            | b"content"
            | b"thinking"
            | b"audio"
            | b"tool_calls"
            | b"function"
            | b"custom"
            | b"function_call"
            | b"reasoning_details"
            | b"thinking_blocks"
            | b"summary"
            | b"provider_specific_fields"
    )
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
        // Some programs add roles of their own.
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
        if crate::sample::is_document(&builder.bytes()) {
            return builder.read_document(WANTED, |builder, document| {
                let body = document.get("body").unwrap_or(document);
                if let Some(model) = body.text_of("model") {
                    builder.set_model(&model);
                }
                read_messages(builder, messages_of(document).unwrap_or(document))
            });
        }
        builder.read_lines(WANTED, |builder, _, line| match messages_of(line) {
            Some(messages) => {
                builder.start_conversation(line)?;
                read_messages(builder, messages)
            }
            None => Err(format_error("OpenAI's chat", line.span().start, "a line has no `messages`")),
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role, content| json!({ "role": role, "content": content }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// Returns the messages of a body, of a request in a batch, or of a preference pair.
fn messages_of(value: JsonNode<'_>) -> Option<JsonNode<'_>> {
    let inside = |name: &str| value.get(name).and_then(|inside| inside.get("messages"));
    value.get("messages").or_else(|| inside("body")).or_else(|| inside("input"))
}

fn read_messages(builder: &mut EventBuilder, messages: JsonNode<'_>) -> Result<(), Unreadable> {
    if !messages.is_array() {
        return Err(format_error("OpenAI's chat", messages.span().start, "the messages are not an array"));
    }
    let list = builder.add_items(messages, None);
    for (element, message) in messages.items().enumerate() {
        let Some(role) = message.text_of("role") else {
            return Err(format_error("OpenAI's chat", message.span().start, "a message has no role"));
        };
        let draft = EventDraft {
            span: message.span(),
            record: Some(ElementRef { list, element }),
            ..EventDraft::default()
        };
        match &*role {
            "user" => {
                let body = message.get("content").map_or_else(Span::default, |content| builder.text(content));
                if body.is_empty() {
                    builder.count_unknown(message);
                }
                let body = if body.is_empty() { builder.new_string("") } else { body };
                builder.start_turn(None);
                builder.add(Kind::ChatRequest, EventDraft { body, ..draft });
            }
            "assistant" => {
                let len_before = builder.len();
                add_assistant_events(builder, message, &draft);
                if builder.len() == len_before {
                    builder.count_unknown(message);
                }
            }
            "tool" | "function" => {
                let content = message.get("content");
                let body = match content {
                    Some(content) if !content.is_null() => builder.text(content),
                    _ => builder.new_string(""),
                };
                let edits = content.map(|content| content.edit_site(values::text));
                let id = message.string("tool_call_id").or(message.string("name"));
                let id = id.map_or_else(Span::default, JsonNode::span);
                let kind = Kind::ToolResponse { is_error: false };
                builder.add(kind, EventDraft { id, body, edits: edits.into_iter().collect(), ..draft });
            }
            "system" | "developer" => {
                if let Some(content) = message.get("content") {
                    let text = builder.text(content);
                    builder.add_system_at(text);
                }
            }
            _ => builder.count_unknown(message),
        }
    }
    Ok(())
}

fn add_assistant_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) {
    let members = builder.add_members(message);
    let member = |name| ElementRef { list: members, element: message.position(name).unwrap_or_default() };
    add_reasoning(builder, message, members, draft);
    let content = message.get("content").filter(|content| content.raw().len() > 2 && !content.is_null());
    match content {
        Some(content) if content.items().any(is_thought) => add_parts(builder, content, draft),
        Some(content) => {
            let refusals = content.items().filter_map(|part| part.string("refusal")).map(JsonNode::span);
            let refusals: Vec<Span> = refusals.collect();
            let body = if refusals.is_empty() { builder.text(content) } else { builder.joined(&refusals) };
            let span = content.span();
            let deletion = Deletion::Value(span, "null");
            builder.add(Kind::Message, EventDraft { span, body, deletion, ..draft.clone() });
        }
        None => add_other_content(builder, message, members, draft),
    }
    if let Some(calls) = message.get("tool_calls").filter(|calls| calls.items().len() > 0) {
        let holder = member("tool_calls");
        let list = builder.add_items(calls, Some(holder));
        for (element, call) in calls.items().enumerate() {
            let function = call.get("function").or(call.get("custom")).unwrap_or(call);
            let id = call.string_span("id");
            let deletion = Deletion::Element(ElementRef { list, element });
            add_call(builder, function, EventDraft { span: call.span(), id, deletion, ..draft.clone() });
        }
    }
    // The form before calls had ids: the name identifies the call.
    if let Some(function) = message.get("function_call").filter(|function| function.is_object()) {
        let id = function.string_span("name");
        let deletion = Deletion::Element(member("function_call"));
        add_call(builder, function, EventDraft { span: function.span(), id, deletion, ..draft.clone() });
    }
}

/// Adds the reasoning of a message as one event, which is deleted from all its members at once.
fn add_reasoning(builder: &mut EventBuilder, message: JsonNode<'_>, members: usize, draft: &EventDraft) {
    let non_empty = |value: &JsonNode<'_>| value.raw().len() > 2 && !value.is_null();
    let mut deletions = Vec::new();
    let mut body = None;
    for name in THOUGHTS {
        let Some(value) = message.get(name).filter(non_empty) else { continue };
        let element = message.position(name).unwrap_or_default();
        deletions.push(Deletion::Element(ElementRef { list: members, element }));
        body =
            body.or_else(|| value.is_string().then(|| value.span()).filter(|_| name != "reasoning_opaque"));
    }
    if deletions.is_empty() {
        return;
    }
    if let Some(vendor_fields) =
        message.get("provider_specific_fields").filter(|vendor_fields| vendor_fields.is_object())
    {
        let list = builder.add_members(vendor_fields);
        let elements = THOUGHTS.iter().filter_map(|name| vendor_fields.position(name));
        deletions.extend(elements.map(|element| Deletion::Element(ElementRef { list, element })));
    }
    let body = body.unwrap_or_else(|| {
        let blocks = ["reasoning_details", "thinking_blocks"].iter().filter_map(|name| message.get(name));
        let blocks: Vec<JsonNode<'_>> = blocks.filter(|list| list.items().len() > 0).take(1).collect();
        let texts = blocks.into_iter().flat_map(JsonNode::items).filter_map(|block| {
            ["text", "thinking", "summary"].iter().find_map(|name| block.string(name)).map(JsonNode::span)
        });
        let texts: Vec<Span> = texts.collect();
        builder.joined(&texts)
    });
    builder
        .add(Kind::Reasoning, EventDraft { body, deletion: Deletion::Several(deletions), ..draft.clone() });
}

fn is_thought(part: JsonNode<'_>) -> bool {
    part.text_of("type").is_some_and(|kind| matches!(&*kind, "thinking" | "reasoning"))
}

/// Adds the parts of a content that contains reasoning, each as an event.
fn add_parts(builder: &mut EventBuilder, content: JsonNode<'_>, draft: &EventDraft) {
    let list = builder.add_items(content, None);
    for (element, part) in content.items().enumerate() {
        let (kind, text) = match is_thought(part) {
            true => (Kind::Reasoning, part.get("thinking").or(part.get("text"))),
            false => (Kind::Message, part.string("text").or(part.string("refusal"))),
        };
        let body = text.map_or_else(Span::default, |text| builder.text(text));
        let body = if body.is_empty() { builder.new_string("") } else { body };
        let deletion = Deletion::Element(ElementRef { list, element });
        builder.add(kind, EventDraft { span: part.span(), body, deletion, ..draft.clone() });
    }
}

/// Adds the message of an assistant without content: a refusal or audio.
fn add_other_content(builder: &mut EventBuilder, message: JsonNode<'_>, members: usize, draft: &EventDraft) {
    let refusal = message.string("refusal").filter(|refusal| refusal.raw().len() > 2);
    let audio = message.get("audio").filter(|audio| audio.is_object());
    let (name, body) = match (refusal, audio) {
        (Some(refusal), _) => ("refusal", refusal.span()),
        (None, Some(audio)) => {
            let text = audio.string("transcript").filter(|text| text.raw().len() > 2);
            ("audio", text.map_or_else(|| builder.new_string("[audio]"), JsonNode::span))
        }
        (None, None) => return,
    };
    let deletion =
        Deletion::Element(ElementRef { list: members, element: message.position(name).unwrap_or_default() });
    let span = message.get(name).map_or(draft.span, JsonNode::span);
    builder.add(Kind::Message, EventDraft { span, body, deletion, ..draft.clone() });
}

/// Adds a call of a function, or of a tool that takes a text.
fn add_call(builder: &mut EventBuilder, function: JsonNode<'_>, draft: EventDraft) {
    let name = builder.tool_name(function, "name");
    let (arguments, write): (_, fn(&str) -> String) = match function.get("arguments") {
        Some(object) if object.is_object() => (Some(object), values::empty_object),
        Some(text) => (Some(text), values::empty_object_in_string),
        None => (function.string("input"), values::text),
    };
    let body = arguments.map_or_else(Span::default, JsonNode::span);
    let edits = arguments.map(|arguments| arguments.edit_site(write));
    builder.add(Kind::ToolRequest, EventDraft { name, body, edits: edits.into_iter().collect(), ..draft });
}
