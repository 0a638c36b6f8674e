//! The reader of Ollama's chat: a body, or a bare list of messages. A record is a message. Arguments are objects, and
//! content is always a string. Ids are rare. A result without an id belongs to the first open call, or to the first
//! open call of the tool that it names. System messages are kept and are not events.

use serde_json::json;

use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, role_of};
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Ollama;

const NAME: &str = "the Ollama API";

const WANTED: MemberFilter = |key| matches!(key, b"messages" | b"tool_calls" | b"function");

/// Members of a body that no other chat has.
const BODY_MEMBERS: [&str; 3] = ["options", "keep_alive", "think"];

impl Reader for Ollama {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let messages = sample.objects("messages");
        let Some(document) = sample.document else { return false };
        let calls =
            || messages.iter().filter_map(|message| message.get("tool_calls")).flat_map(JsonNode::items);
        let arguments = || calls().filter_map(|call| call.get("function")?.get("arguments"));
        let is_ollama_message = |message: &JsonNode<'_>| {
            let is_result = message.text_of("role").is_some_and(|role| role == "tool");
            (is_result && message.string("tool_name").is_some())
                || message.string("thinking").is_some()
                || message.get("images").is_some_and(JsonNode::is_array)
        };
        // `llama3.2:3b`: a model with a tag and without a path.
        let has_tag = |model: &str| model.contains(':') && !model.contains('/') && !model.starts_with("ft:");
        !messages.is_empty()
            && messages.iter().all(is_message)
            && (arguments().all(JsonNode::is_object) || messages.iter().any(is_ollama_message))
            && (arguments().next().is_some()
                || messages.iter().any(is_ollama_message)
                || BODY_MEMBERS.iter().any(|name| document.get(name).is_some_and(|value| !value.is_null()))
                || document.text_of("model").is_some_and(|model| has_tag(&model)))
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_document(WANTED, |builder, document| {
            let messages = document.get("messages").unwrap_or(document);
            ensure(messages.is_array(), NAME, messages, "the messages are not an array")?;
            builder.read_model(document, "model");
            let mut open_calls = Vec::new();
            for (at, message) in builder.elements(messages, None) {
                let role = role_of(NAME, message)?;
                let draft = EventDraft::whole(at, message);
                let contents = ["content", "images", "tool_calls", "thinking"];
                if contents.iter().all(|name| message.get(name).is_none()) {
                    builder.count_unknown(message);
                }
                match &*role {
                    "user" => add_request(builder, message, draft),
                    "assistant" => open_calls = add_assistant_events(builder, message, &draft),
                    "tool" => add_result(builder, message, &mut open_calls, draft),
                    "system" => {
                        if let Some(text) = message.text_of("content") {
                            builder.add_system(&text);
                        }
                    }
                    _ => builder.count_unknown(message),
                }
            }
            Ok(())
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role, content| json!({ "role": role, "content": content }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

fn is_message(message: &JsonNode<'_>) -> bool {
    let role = message.text_of("role");
    let is_text = message.get("content").is_none_or(|content| content.is_string() || content.is_null());
    is_text && role.is_some_and(|role| matches!(&*role, "system" | "user" | "assistant" | "tool"))
}

/// A call without a result.
struct Call {
    id: Span,
    /// The id in the source, if it has one.
    source_id: Option<String>,
    name: String,
}

fn add_request(builder: &mut EventBuilder, message: JsonNode<'_>, draft: EventDraft) {
    let has_images = message.get("images").is_some_and(|images| images.raw().len() > 2);
    let body = match message.string("content") {
        Some(content) if content.raw().len() > 2 || !has_images => content.span(),
        _ if has_images => builder.new_string("[image]"),
        _ => builder.new_string(""),
    };
    builder.add_request(draft.with_body(body));
}

fn add_assistant_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) -> Vec<Call> {
    let members = builder.members(message);
    let thought = message.non_empty_string("thinking");
    let calls = message.non_empty_array("tool_calls");
    if let Some(thought) = thought {
        builder.add(Kind::Reasoning, draft.text_part(thought, members.deletion("thinking")));
    }
    match message.non_empty_string("content") {
        Some(content) => {
            let deletion = Deletion::Value(content.span(), "\"\"");
            builder.add(Kind::Message, draft.text_part(content, deletion));
        }
        None if calls.is_none() && thought.is_none() => {
            let body = builder.new_string("");
            builder.add(Kind::Message, draft.clone().with_body(body));
        }
        None => {}
    }
    let Some(calls) = calls else { return Vec::new() };
    let mut open_calls = Vec::new();
    for (at, call) in builder.elements(calls, members.find("tool_calls")) {
        let Some(function) = call.get("function") else { continue };
        let source_id = call.string("id").or(function.string("id"));
        let id = builder.id_or_next(source_id);
        let source_id = source_id.map(|id| id.text().into_owned());
        let name = function.text_of("name").unwrap_or_default().into_owned();
        open_calls.push(Call { id, source_id, name });
        let arguments = function.get("arguments");
        let is_text = arguments.is_some_and(JsonNode::is_string);
        let write = if is_text { values::empty_object_in_string } else { values::empty_object };
        let draft = draft.part(call, Deletion::Element(at)).with_id(id);
        let draft = builder.call(function, "name", arguments, write, draft);
        builder.add(Kind::ToolRequest, draft);
    }
    open_calls
}

fn add_result(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    open_calls: &mut Vec<Call>,
    draft: EventDraft,
) {
    let source_id = message.string("tool_call_id");
    let id = source_id.map(JsonNode::text);
    let name = message.text_of("tool_name").or(message.text_of("name"));
    let by_id =
        || open_calls.iter().position(|call| id.is_some() && call.source_id.as_deref() == id.as_deref());
    let by_name = || open_calls.iter().position(|call| name.as_ref().is_none_or(|name| *name == call.name));
    let call =
        by_id().or_else(|| by_name().filter(|_| id.is_none())).map(|index| open_calls.remove(index).id);
    let id = source_id.map(JsonNode::span).or(call).unwrap_or_default();
    let content = message.get("content");
    let body = builder.text_or_empty(content.filter(|content| content.is_string()));
    let draft = draft.with_id(id).with_body(body).with_edit(content, values::text);
    builder.add(Kind::ToolResponse { is_error: false }, draft);
}
