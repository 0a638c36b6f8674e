//! `OpenAI`'s chat: the body of a request, its messages alone, or one line of a file for fine-tuning or a batch. Arguments are JSON in a string; nothing says when anything happened, and nothing whether a tool failed.
//! What a model thought stands in members of vendors, often in several at once.

use serde_json::json;

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct OpenaiChat;

/// The members that are looked into.
const WANTED: Wanted = |key| {
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

/// Members that say what was thought, those that are texts first; the others hold it in blocks, or for the vendor alone.
const THOUGHTS: [&str; 6] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "reasoning_details",
    "thinking_blocks",
    "reasoning_opaque",
];

impl Transcript for OpenaiChat {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        // Some programs have roles of their own besides.
        let are_messages = |messages: &[Look<'_>]| {
            let knows =
                |message: &Look<'_>| message.text_of("role").is_some_and(|role| ROLES.contains(&&*role));
            messages.iter().all(|message| message.string("role").is_some()) && messages.iter().any(knows)
        };
        let is_body = |line: Look<'_>| {
            messages_of(line).is_some_and(|messages| are_messages(&messages.items().collect::<Vec<_>>()))
        };
        are_messages(&sample.objects("messages")) || sample.any_line(is_body)
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        if super::detect::is_document(&reading.bytes()) {
            return reading.document(WANTED, |reading, document| {
                let body = document.get("body").unwrap_or(document);
                if let Some(model) = body.text_of("model") {
                    reading.model(&model);
                }
                conversation(reading, messages_of(document).unwrap_or(document))
            });
        }
        reading.lines(WANTED, |reading, _, line| match messages_of(line) {
            Some(messages) => {
                reading.conversation(line)?;
                conversation(reading, messages)
            }
            None => Err(not_of("OpenAI's chat", line.span().start, "a line without `messages`")),
        })
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let message = |role, content| json!({ "role": role, "content": content }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// The messages of a body; of a request that waits in a batch; or of what an answer is preferred to.
fn messages_of(value: Look<'_>) -> Option<Look<'_>> {
    let inside = |name: &str| value.get(name).and_then(|inside| inside.get("messages"));
    value.get("messages").or_else(|| inside("body")).or_else(|| inside("input"))
}

fn conversation(reading: &mut Reading, messages: Look<'_>) -> Result<(), Unreadable> {
    if !messages.is_array() {
        return Err(not_of("OpenAI's chat", messages.span().start, "the messages are no array"));
    }
    let list = reading.items(messages, None);
    for (element, message) in messages.items().enumerate() {
        let Some(role) = message.text_of("role") else {
            return Err(not_of("OpenAI's chat", message.span().start, "a message without a role"));
        };
        let draft = Draft { span: message.span(), record: Some(At { list, element }), ..Draft::default() };
        match &*role {
            "user" => {
                let body = message.get("content").map_or_else(Span::default, |content| reading.text(content));
                if body.is_empty() {
                    reading.unknown(message);
                }
                let body = if body.is_empty() { reading.made("") } else { body };
                reading.turn(None);
                reading.add(Kind::ChatRequest, Draft { body, ..draft });
            }
            "assistant" => {
                let before = reading.len();
                assistant(reading, message, &draft);
                if reading.len() == before {
                    reading.unknown(message);
                }
            }
            "tool" | "function" => {
                let content = message.get("content");
                let body = match content {
                    Some(content) if !content.is_null() => reading.text(content),
                    _ => reading.made(""),
                };
                let slots = content.map(|content| Slot { span: content.span(), write: write::text });
                let id = message.string("tool_call_id").or(message.string("name"));
                let id = id.map_or_else(Span::default, Look::span);
                let kind = Kind::ToolResponse { is_error: false };
                reading.add(kind, Draft { id, body, slots: slots.into_iter().collect(), ..draft });
            }
            "system" | "developer" => {
                if let Some(content) = message.get("content") {
                    let text = reading.text(content);
                    reading.system_at(text);
                }
            }
            _ => reading.unknown(message),
        }
    }
    Ok(())
}

fn assistant(reading: &mut Reading, message: Look<'_>, draft: &Draft) {
    let members = reading.members(message);
    let member = |name| At { list: members, element: message.position(name).unwrap_or_default() };
    thought(reading, message, members, draft);
    let content = message.get("content").filter(|content| content.raw().len() > 2 && !content.is_null());
    match content {
        Some(content) if content.items().any(is_thought) => in_parts(reading, content, draft),
        Some(content) => {
            let refusals = content.items().filter_map(|part| part.string("refusal")).map(Look::span);
            let refusals: Vec<Span> = refusals.collect();
            let body = if refusals.is_empty() { reading.text(content) } else { reading.joined(&refusals) };
            let span = content.span();
            let cut = Cut::Value(span, "null");
            reading.add(Kind::Message, Draft { span, body, cut, ..draft.clone() });
        }
        None => beside(reading, message, members, draft),
    }
    if let Some(calls) = message.get("tool_calls").filter(|calls| calls.items().len() > 0) {
        let holder = member("tool_calls");
        let list = reading.items(calls, Some(holder));
        for (element, call) in calls.items().enumerate() {
            let function = call.get("function").or(call.get("custom")).unwrap_or(call);
            let id = call.string("id").map_or_else(Span::default, Look::span);
            let cut = Cut::Element(At { list, element });
            add_call(reading, function, Draft { span: call.span(), id, cut, ..draft.clone() });
        }
    }
    // The form before there were ids: a call is known by its name.
    if let Some(function) = message.get("function_call").filter(|function| function.is_object()) {
        let id = function.string("name").map_or_else(Span::default, Look::span);
        let cut = Cut::Element(member("function_call"));
        add_call(reading, function, Draft { span: function.span(), id, cut, ..draft.clone() });
    }
}

/// What was thought goes in all its members at once.
fn thought(reading: &mut Reading, message: Look<'_>, members: usize, draft: &Draft) {
    let said = |value: &Look<'_>| value.raw().len() > 2 && !value.is_null();
    let mut cuts = Vec::new();
    let mut body = None;
    for name in THOUGHTS {
        let Some(value) = message.get(name).filter(said) else { continue };
        let element = message.position(name).unwrap_or_default();
        cuts.push(Cut::Element(At { list: members, element }));
        body =
            body.or_else(|| value.is_string().then(|| value.span()).filter(|_| name != "reasoning_opaque"));
    }
    if cuts.is_empty() {
        return;
    }
    if let Some(again) = message.get("provider_specific_fields").filter(|again| again.is_object()) {
        let list = reading.members(again);
        let places = THOUGHTS.iter().filter_map(|name| again.position(name));
        cuts.extend(places.map(|element| Cut::Element(At { list, element })));
    }
    let body = body.unwrap_or_else(|| {
        let blocks = ["reasoning_details", "thinking_blocks"].iter().filter_map(|name| message.get(name));
        let blocks: Vec<Look<'_>> = blocks.filter(|list| list.items().len() > 0).take(1).collect();
        let texts = blocks.into_iter().flat_map(Look::items).filter_map(|block| {
            ["text", "thinking", "summary"].iter().find_map(|name| block.string(name)).map(Look::span)
        });
        let texts: Vec<Span> = texts.collect();
        reading.joined(&texts)
    });
    reading.add(Kind::Reasoning, Draft { body, cut: Cut::Several(cuts), ..draft.clone() });
}

fn is_thought(part: Look<'_>) -> bool {
    part.text_of("type").is_some_and(|kind| matches!(&*kind, "thinking" | "reasoning"))
}

/// Thoughts among the parts of a content. Of the others each is said by itself.
fn in_parts(reading: &mut Reading, content: Look<'_>, draft: &Draft) {
    let list = reading.items(content, None);
    for (element, part) in content.items().enumerate() {
        let (kind, words) = match is_thought(part) {
            true => (Kind::Reasoning, part.get("thinking").or(part.get("text"))),
            false => (Kind::Message, part.string("text").or(part.string("refusal"))),
        };
        let body = words.map_or_else(Span::default, |words| reading.text(words));
        let body = if body.is_empty() { reading.made("") } else { body };
        let cut = Cut::Element(At { list, element });
        reading.add(kind, Draft { span: part.span(), body, cut, ..draft.clone() });
    }
}

/// What is said where there is no content: that it will not, or aloud.
fn beside(reading: &mut Reading, message: Look<'_>, members: usize, draft: &Draft) {
    let refusal = message.string("refusal").filter(|refusal| refusal.raw().len() > 2);
    let audio = message.get("audio").filter(|audio| audio.is_object());
    let (name, body) = match (refusal, audio) {
        (Some(refusal), _) => ("refusal", refusal.span()),
        (None, Some(audio)) => {
            let words = audio.string("transcript").filter(|words| words.raw().len() > 2);
            ("audio", words.map_or_else(|| reading.made("[audio]"), Look::span))
        }
        (None, None) => return,
    };
    let cut = Cut::Element(At { list: members, element: message.position(name).unwrap_or_default() });
    let span = message.get(name).map_or(draft.span, Look::span);
    reading.add(Kind::Message, Draft { span, body, cut, ..draft.clone() });
}

/// A call of a function, or of a tool that takes a text.
fn add_call(reading: &mut Reading, function: Look<'_>, draft: Draft) {
    let name = function.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
    let (arguments, write): (_, fn(&str) -> String) = match function.get("arguments") {
        Some(object) if object.is_object() => (Some(object), write::object),
        Some(text) => (Some(text), write::object_in_string),
        None => (function.string("input"), write::text),
    };
    let body = arguments.map_or_else(Span::default, Look::span);
    let slots = arguments.map(|arguments| Slot { span: arguments.span(), write });
    reading.add(Kind::ToolRequest, Draft { name, body, slots: slots.into_iter().collect(), ..draft });
}
