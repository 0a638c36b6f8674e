//! Ollama's chat: a body, or its messages alone. Arguments are objects, content is always a string. Ids are seldom there:
//! an answer is to the first call that waits, of its tool where it names one.

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

pub(super) struct Ollama;

const NAME: &str = "Ollama's chat";

/// The members that are looked into.
const WANTED: Wanted = |key| matches!(key, b"messages" | b"tool_calls" | b"function");

/// Members of a body that no other chat has.
const OWN: [&str; 3] = ["options", "keep_alive", "think"];

impl Transcript for Ollama {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let messages = sample.objects("messages");
        let Some(document) = sample.document else { return false };
        let calls = || messages.iter().filter_map(|it| it.get("tool_calls")).flat_map(Look::items);
        let arguments = || calls().filter_map(|call| call.get("function")?.get("arguments"));
        let is_own = |it: &Look<'_>| {
            let names =
                it.text_of("role").is_some_and(|role| role == "tool") && it.string("tool_name").is_some();
            names || it.string("thinking").is_some() || it.get("images").is_some_and(Look::is_array)
        };
        // `llama3.2:3b`: a model and its tag, and no path.
        let has_tag = |model: &str| model.contains(':') && !model.contains('/') && !model.starts_with("ft:");
        !messages.is_empty()
            && messages.iter().all(is_message)
            && (arguments().all(Look::is_object) || messages.iter().any(is_own))
            && (arguments().next().is_some()
                || messages.iter().any(is_own)
                || OWN.iter().any(|name| document.get(name).is_some_and(|value| !value.is_null()))
                || document.text_of("model").is_some_and(|model| has_tag(&model)))
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.document(WANTED, |reading, document| {
            let messages = document.get("messages").unwrap_or(document);
            if !messages.is_array() {
                return Err(not_of(NAME, messages.span().start, "the messages are no array"));
            }
            if let Some(model) = document.text_of("model") {
                reading.model(&model);
            }
            let list = reading.items(messages, None);
            let mut waiting = Vec::new();
            for (element, message) in messages.items().enumerate() {
                let Some(role) = message.text_of("role") else {
                    return Err(not_of(NAME, message.span().start, "a message without a role"));
                };
                let record = Some(At { list, element });
                let draft = Draft { span: message.span(), record, ..Draft::default() };
                if ["content", "images", "tool_calls"].iter().all(|name| message.get(name).is_none()) {
                    reading.unknown(message);
                }
                match &*role {
                    "user" => user(reading, message, draft),
                    "assistant" => waiting = assistant(reading, message, &draft),
                    "tool" => answer(reading, message, &mut waiting, draft),
                    "system" => {
                        if let Some(text) = message.text_of("content") {
                            reading.system(&text);
                        }
                    }
                    _ => reading.unknown(message),
                }
            }
            Ok(())
        })
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let message = |role, content| json!({ "role": role, "content": content }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

fn is_message(message: &Look<'_>) -> bool {
    let role = message.text_of("role");
    let is_text = message.get("content").is_none_or(|content| content.is_string() || content.is_null());
    is_text && role.is_some_and(|role| matches!(&*role, "system" | "user" | "assistant" | "tool"))
}

/// A call that waits for its answer.
struct Call {
    id: Span,
    /// The id, where the source has one.
    known: Option<String>,
    name: String,
}

fn user(reading: &mut Reading, message: Look<'_>, draft: Draft) {
    let has_images = message.get("images").is_some_and(|images| images.raw().len() > 2);
    let body = match message.string("content") {
        Some(content) if content.raw().len() > 2 || !has_images => content.span(),
        _ if has_images => reading.made("[image]"),
        _ => reading.made(""),
    };
    reading.turn(None);
    reading.add(Kind::ChatRequest, Draft { body, ..draft });
}

fn assistant(reading: &mut Reading, message: Look<'_>, draft: &Draft) -> Vec<Call> {
    let members = reading.members(message);
    let member = |name| At { list: members, element: message.position(name).unwrap_or_default() };
    let said = |name: &str| message.string(name).filter(|text| text.raw().len() > 2);
    let calls = message.get("tool_calls").filter(|calls| calls.items().len() > 0);
    if let Some(thought) = said("thinking") {
        let (span, cut) = (thought.span(), Cut::Element(member("thinking")));
        reading.add(Kind::Reasoning, Draft { span, body: span, cut, ..draft.clone() });
    }
    match said("content") {
        Some(content) => {
            let (span, cut) = (content.span(), Cut::Value(content.span(), "\"\""));
            reading.add(Kind::Message, Draft { span, body: span, cut, ..draft.clone() });
        }
        None if calls.is_none() && said("thinking").is_none() => {
            let body = reading.made("");
            reading.add(Kind::Message, Draft { body, ..draft.clone() });
        }
        None => {}
    }
    let Some(calls) = calls else { return Vec::new() };
    let list = reading.items(calls, Some(member("tool_calls")));
    let mut waiting = Vec::new();
    for (element, call) in calls.items().enumerate() {
        let Some(function) = call.get("function") else { continue };
        let known = call.string("id").or(function.string("id"));
        let id = known.map(Look::span).unwrap_or_else(|| reading.next_id());
        let name = function.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
        let arguments = function.get("arguments");
        let slots = arguments.map(|arguments| Slot {
            span: arguments.span(),
            write: if arguments.is_string() { write::object_in_string } else { write::object },
        });
        let known = known.map(|id| id.text().into_owned());
        waiting.push(Call { id, known, name: function.text_of("name").unwrap_or_default().into_owned() });
        let draft = Draft {
            span: call.span(),
            id,
            name,
            body: arguments.map_or_else(Span::default, Look::span),
            cut: Cut::Element(At { list, element }),
            slots: slots.into_iter().collect(),
            ..draft.clone()
        };
        reading.add(Kind::ToolRequest, draft);
    }
    waiting
}

fn answer(reading: &mut Reading, message: Look<'_>, waiting: &mut Vec<Call>, draft: Draft) {
    let own = message.string("tool_call_id");
    let id = own.map(Look::text);
    let name = message.text_of("tool_name").or(message.text_of("name"));
    let of_id = || waiting.iter().position(|call| id.is_some() && call.known.as_deref() == id.as_deref());
    let of_name = || waiting.iter().position(|call| name.as_ref().is_none_or(|name| *name == call.name));
    let call = of_id().or_else(|| of_name().filter(|_| id.is_none())).map(|place| waiting.remove(place).id);
    let id = own.map(Look::span).or(call).unwrap_or_default();
    let content = message.get("content");
    let body = match content {
        Some(content) if content.is_string() => content.span(),
        _ => reading.made(""),
    };
    let slots = content.map(|content| Slot { span: content.span(), write: write::text });
    let kind = Kind::ToolResponse { is_error: false };
    reading.add(kind, Draft { id, body, slots: slots.into_iter().collect(), ..draft });
}
