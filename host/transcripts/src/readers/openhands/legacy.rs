//! Numbered events: an action with its `args`, or an observation with its `extras` and its cause. Both may contain a
//! copy of the whole model response, which an edit must change too.

use serde_json::{Map, Value, json};

use super::{Record, as_json, long_texts};
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::SummaryPair;
use crate::readers::values;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_json::{JsonNode, span_of};

/// Actions that are not calls.
const NOT_CALLS: &str = "message system finish reject null recall start pause resume stop \
    change_agent_state condensation condensation_request loop_recovery";

/// Observations that are not results.
const NOT_RESULTS: [&str; 4] = ["null", "agent_state_changed", "recall", "condense"];

/// Arguments that the program adds, or whose values are limited to a few words.
const SETTINGS: &str = "thought reasoning_content name impl_source confirmation_state is_confirmed \
    security_risk hidden blocking is_input is_static keep_prompt image_urls wait_for_response";

/// Members of an observation that repeat arguments of its call.
const COMMANDS: [&str; 2] = ["command", "code"];

pub(super) fn read(builder: &mut EventBuilder, event: JsonNode<'_>, record: &mut Record) {
    if let Some(response) = event.inner("tool_call_metadata", "model_response") {
        builder.read_model(response, "model");
        add_response_twins(response, record);
    }
    if let Some(action) = event.text_of("action") {
        let Some(args) = event.get("args") else { return };
        let is_user = event.text_is("source", "user");
        match &*action {
            "message" => add_message(builder, args, is_user, record),
            "finish" | "reject" => add_final_message(args, record),
            "system" => {
                if let Some(content) = args.text_of("content") {
                    builder.add_system(&content);
                }
            }
            "condensation" => {
                if let Some(ids) = args.get("forgotten_event_ids") {
                    record.add_forgotten(builder, ids);
                }
            }
            action if is_user || NOT_CALLS.split(' ').any(|known| known == action) => {}
            action => {
                add_thoughts(event, args, record);
                // A `think` action without a call remains if an edit deleted the call.
                if action != "think" || event.get("tool_call_metadata").is_some() {
                    add_call(builder, event, args, record);
                }
            }
        }
    } else if let Some(observation) = event.text_of("observation")
        && !NOT_RESULTS.contains(&&*observation)
    {
        add_result(builder, event, &observation, record);
    } else if event.get("observation").is_none() {
        builder.count_unknown(event);
    }
}

pub(super) fn pair(pair: &SummaryPair<'_>, first: JsonNode<'_>, at: &str) -> Vec<Value> {
    let event = |source: &str, content: &str| {
        let mut event = Map::new();
        event.insert("timestamp".into(), at.into());
        event.insert("source".into(), source.into());
        event.insert("message".into(), content.into());
        event.insert("action".into(), "message".into());
        let args = json!({ "content": content, "image_urls": null, "wait_for_response": false });
        event.insert("args".into(), args);
        event
    };
    let mut request = event("user", pair.request);
    if let Some(id) = first.get("id").and_then(|id| serde_json::from_slice(id.raw()).ok()) {
        request.shift_insert(0, "id".into(), id);
    }
    vec![request.into(), event("agent", pair.response).into()]
}

fn add_message(builder: &mut EventBuilder, args: JsonNode<'_>, is_user: bool, record: &mut Record) {
    let Some(content) = args.string("content") else { return };
    let has_images = || args.get("image_urls").is_some_and(|images| images.raw().len() > 4);
    let body =
        if content.raw().len() > 2 || !has_images() { content.span() } else { builder.new_string("[image]") };
    let kind = if is_user { Kind::ChatRequest } else { Kind::Message };
    record.starts_turn = is_user;
    if is_user || content.raw().len() > 2 {
        record.add(kind, EventDraft { body, ..record.draft.clone() });
    }
}

/// Adds the agent's last message. It has no result.
fn add_final_message(args: JsonNode<'_>, record: &mut Record) {
    let non_empty = |name| args.non_empty_string(name);
    let (thought, text) = (non_empty("thought"), non_empty("final_thought"));
    if let (Some(thought), Some(_)) = (thought, text) {
        add_text(Kind::Reasoning, thought, record);
    }
    if let Some(text) = text.or(thought) {
        add_text(Kind::Message, text, record);
    }
}

fn add_thoughts(event: JsonNode<'_>, args: JsonNode<'_>, record: &mut Record) {
    for name in ["reasoning_content", "thought"] {
        let value = args.get(name).map(|value| value.string("text").unwrap_or(value));
        if let Some(value) = value.filter(|value| value.is_string() && value.raw().len() > 2) {
            add_text(Kind::Reasoning, value, record);
            let response = event.inner("tool_call_metadata", "model_response");
            let id = response.and_then(|response| response.get("id"));
            if let Some(last) = record.events.last_mut() {
                last.twins.extend(id.map(|id| format!("text {}", as_json(id))));
            }
        }
    }
}

/// Adds a text that is one member of the event.
fn add_text(kind: Kind, text: JsonNode<'_>, record: &mut Record) {
    let deletion = Deletion::Value(text.span(), "\"\"");
    record.add(kind, EventDraft { body: text.span(), deletion, ..record.draft.clone() });
}

fn add_call(builder: &mut EventBuilder, event: JsonNode<'_>, args: JsonNode<'_>, record: &mut Record) {
    let metadata = event.get("tool_call_metadata");
    let metadata_member = |name: &str| metadata.and_then(|metadata| metadata.string(name));
    let id = metadata_member("tool_call_id");
    let name = metadata_member("function_name").or(args.string("name")).or(event.string("action"));
    let name = name.map_or_else(|| builder.new_string("unknown"), JsonNode::span);
    let body = builder.new_json(&arguments(args));
    let mut edits: Vec<EditSite> =
        arguments_of_model(args).filter_map(|(_, value)| values::emptying_edit(value)).collect();
    let message = event.string("message");
    edits.extend(message.map(|message| message.edit_site(values::empty_string)));
    // Without its call the action becomes a thought.
    let mut deletions = vec![];
    deletions.extend(event.string("action").map(|action| Deletion::Value(action.span(), "\"think\"")));
    deletions.extend(message.map(|message| Deletion::Value(message.span(), "\"\"")));
    let kept = |key: &[u8]| matches!(key, b"thought" | b"reasoning_content");
    let list = builder.members(args).list;
    let removed_members = args.members().enumerate().filter(|(_, (key, _))| !kept(key));
    deletions.extend(removed_members.map(|(element, _)| Deletion::Element(ElementRef { list, element })));
    deletions.extend(builder.members(event).find("tool_call_metadata").map(Deletion::Element));
    let deletion = Deletion::Several(deletions);
    let draft = EventDraft { id: span_of(id), name, body, edits, deletion, ..record.draft.clone() };
    record.add(Kind::ToolRequest, draft);
    if let Some(last) = record.events.last_mut() {
        last.twins.extend(id.map(|id| format!("call {}", as_json(id))));
        last.twins.push(format!("action {}", record.id));
    }
}

fn arguments_of_model(args: JsonNode<'_>) -> impl Iterator<Item = (String, JsonNode<'_>)> {
    let members = args.members().map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value));
    members.filter(|(key, _)| !SETTINGS.split(' ').any(|setting| setting == &**key))
}

/// Returns the arguments as JSON. If only numbers and flags remain, the arguments were emptied.
fn arguments(args: JsonNode<'_>) -> String {
    let has_content = |value: JsonNode<'_>| {
        let bytes = value.raw().iter().filter(|byte| !byte.is_ascii_whitespace());
        matches!(value.raw().first(), Some(b'"' | b'[' | b'{')) && bytes.count() > 2
    };
    if !arguments_of_model(args).any(|(_, value)| has_content(value)) {
        return "{}".into();
    }
    let is_set = |value: JsonNode<'_>| {
        has_content(value) || !matches!(value.raw().first(), Some(b'"' | b'[' | b'{' | b'n'))
    };
    let members = arguments_of_model(args).filter(|(_, value)| is_set(*value));
    let members: Vec<String> =
        members.map(|(key, value)| format!("{}:{}", Value::from(key), as_json(value))).collect();
    format!("{{{}}}", members.join(","))
}

fn add_result(builder: &mut EventBuilder, event: JsonNode<'_>, observation: &str, record: &mut Record) {
    let Some(content) = event.get("content") else { return };
    let draft = builder.result(Some(content), values::text, record.draft.clone());
    let mut draft = draft.with_edit(event.string("message"), values::empty_string);
    if let Some(extras) = event.get("extras") {
        draft.edits.extend(long_texts(extras, &COMMANDS));
        if let Some(cause) = &record.cause {
            let name = format!("action {cause}");
            let commands = COMMANDS.iter().filter_map(|name| extras.string(name));
            let commands = commands.map(|command| command.edit_site(values::empty_string));
            record.twins.extend(commands.map(|edit| (name.clone(), edit)));
        }
        for name in ["dom_object", "axtree_object", "extra_element_properties"] {
            draft = draft.with_edit(extras.object(name), values::empty_object);
        }
    }
    let failed = event.get("success").is_some_and(|success| success.raw() == b"false");
    let is_error = failed || matches!(observation, "error" | "user_rejected");
    record.add(Kind::ToolResponse { is_error }, draft);
}

/// Adds the copies in a model response, which is stored in each of its events.
fn add_response_twins(response: JsonNode<'_>, record: &mut Record) {
    for choice in response.items_of("choices") {
        let Some(message) = choice.get("message") else { continue };
        for name in ["content", "reasoning_content"] {
            if let (Some(id), Some(text)) = (response.get("id"), message.string(name)) {
                record.twins.push((format!("text {}", as_json(id)), text.edit_site(values::null)));
            }
        }
        for call in message.items_of("tool_calls") {
            let arguments = call.get("function").and_then(|function| function.string("arguments"));
            if let (Some(id), Some(arguments)) = (call.get("id"), arguments) {
                let edit = arguments.edit_site(values::empty_object_in_string);
                record.twins.push((format!("call {}", as_json(id)), edit));
            }
        }
    }
}
