//! Events that are counted: an action with its `args`, or an observation with its `extras` and the action that caused
//! it. Both may hold the whole response that the model gave.

use serde_json::{Map, Value, json};

use super::super::foreign::{At, Cut, Slot};
use super::super::pairs::Pair;
use super::super::reading::{Draft, Reading};
use super::super::tree::Look;
use super::super::write;
use super::{Record, as_json, empty, long_texts};
use crate::event::Kind;
use crate::json::Span;

/// Actions that are no calls.
const NO_CALLS: [&str; 14] = [
    "message",
    "system",
    "finish",
    "reject",
    "null",
    "recall",
    "start",
    "pause",
    "resume",
    "stop",
    "change_agent_state",
    "condensation",
    "condensation_request",
    "loop_recovery",
];

/// Observations that answer nothing.
const NO_ANSWERS: [&str; 4] = ["null", "agent_state_changed", "recall", "condense"];

/// Arguments that the program adds, and others that only hold when they are one of a few words.
const SETTINGS: [&str; 14] = [
    "thought",
    "reasoning_content",
    "name",
    "impl_source",
    "confirmation_state",
    "is_confirmed",
    "security_risk",
    "hidden",
    "blocking",
    "is_input",
    "is_static",
    "keep_prompt",
    "image_urls",
    "wait_for_response",
];

/// What of an observation is an argument of its call.
const COMMANDS: [&str; 2] = ["command", "code"];

pub(super) fn read(reading: &mut Reading, event: Look<'_>, draft: &Draft, record: &mut Record) {
    if let Some(response) =
        event.get("tool_call_metadata").and_then(|metadata| metadata.get("model_response"))
    {
        if let Some(model) = response.text_of("model") {
            reading.model(&model);
        }
        model_response(response, record);
    }
    if let Some(action) = event.text_of("action") {
        let Some(args) = event.get("args") else { return };
        let of_user = event.text_of("source").as_deref() == Some("user");
        match &*action {
            "message" => message(reading, args, of_user, draft, record),
            "finish" | "reject" => last_words(args, draft, record),
            "system" => {
                if let Some(content) = args.text_of("content") {
                    reading.system(&content);
                }
            }
            "condensation" => {
                if let Some(ids) = args.get("forgotten_event_ids") {
                    record.forgotten(reading, ids);
                }
            }
            action if of_user || NO_CALLS.contains(&action) => {}
            action => {
                thought(event, args, draft, record);
                // A thought that nobody called for is what remains of a call.
                if action != "think" || event.get("tool_call_metadata").is_some() {
                    call(reading, event, args, draft, record);
                }
            }
        }
    } else if let Some(observation) = event.text_of("observation")
        && !NO_ANSWERS.contains(&&*observation)
    {
        result(reading, event, &observation, draft, record);
    } else if event.get("observation").is_none() {
        reading.unknown(event);
    }
}

pub(super) fn pair(pair: &Pair<'_>, first: Look<'_>, at: &str) -> Vec<Value> {
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

fn message(reading: &mut Reading, args: Look<'_>, of_user: bool, draft: &Draft, record: &mut Record) {
    let Some(content) = args.string("content") else { return };
    let has_images = || args.get("image_urls").is_some_and(|images| images.raw().len() > 4);
    let body =
        if content.raw().len() > 2 || !has_images() { content.span() } else { reading.made("[image]") };
    let kind = if of_user { Kind::ChatRequest } else { Kind::Message };
    record.opens = of_user;
    if of_user || content.raw().len() > 2 {
        record.add(kind, Draft { body, ..draft.clone() });
    }
}

/// The agent says that it is done: that is a message, and nothing answers it.
fn last_words(args: Look<'_>, draft: &Draft, record: &mut Record) {
    let holds = |name| args.string(name).filter(|text| text.raw().len() > 2);
    let (thought, text) = (holds("thought"), holds("final_thought"));
    if let (Some(thought), Some(_)) = (thought, text) {
        reasoning(thought, draft, record);
    }
    if let Some(text) = text.or(thought) {
        record.add(
            Kind::Message,
            Draft { body: text.span(), cut: Cut::Value(text.span(), "\"\""), ..draft.clone() },
        );
    }
}

fn thought(event: Look<'_>, args: Look<'_>, draft: &Draft, record: &mut Record) {
    for name in ["reasoning_content", "thought"] {
        let value = args.get(name).map(|value| value.string("text").unwrap_or(value));
        if let Some(value) = value.filter(|value| value.is_string() && value.raw().len() > 2) {
            reasoning(value, draft, record);
            let response =
                event.get("tool_call_metadata").and_then(|metadata| metadata.get("model_response"));
            let id = response.and_then(|response| response.get("id"));
            if let Some(found) = record.found.last_mut() {
                found.twins.extend(id.map(|id| format!("said {}", as_json(id))));
            }
        }
    }
}

fn reasoning(text: Look<'_>, draft: &Draft, record: &mut Record) {
    let span = text.span();
    record.add(Kind::Reasoning, Draft { body: span, cut: Cut::Value(span, "\"\""), ..draft.clone() });
}

fn call(reading: &mut Reading, event: Look<'_>, args: Look<'_>, draft: &Draft, record: &mut Record) {
    let metadata = event.get("tool_call_metadata");
    let of_metadata = |name: &str| metadata.and_then(|metadata| metadata.string(name));
    let id = of_metadata("tool_call_id");
    let name = of_metadata("function_name").or(args.string("name")).or(event.string("action"));
    let name = name.map_or_else(|| reading.made("unknown"), Look::span);
    let body = reading.made_raw(&arguments(args));
    let emptied = |value: Look<'_>| match value.raw().first() {
        Some(b'"') => Some(Slot { span: value.span(), write: empty }),
        Some(b'[') => Some(Slot { span: value.span(), write: |_| "[]".into() }),
        Some(b'{') => Some(Slot { span: value.span(), write: write::object }),
        _ => None,
    };
    let mut slots: Vec<Slot> = own(args).filter_map(|(_, value)| emptied(value)).collect();
    let said = event.string("message");
    slots.extend(said.map(|said| Slot { span: said.span(), write: empty }));
    // Without the call it is a thought.
    let mut cuts = vec![];
    cuts.extend(event.string("action").map(|action| Cut::Value(action.span(), "\"think\"")));
    cuts.extend(said.map(|said| Cut::Value(said.span(), "\"\"")));
    let members = reading.members(args);
    let kept = |key: &[u8]| matches!(key, b"thought" | b"reasoning_content");
    let gone = args.members().enumerate().filter(|(_, (key, _))| !kept(key));
    cuts.extend(gone.map(|(element, _)| Cut::Element(At { list: members, element })));
    let members = reading.members(event);
    cuts.extend(
        event.position("tool_call_metadata").map(|element| Cut::Element(At { list: members, element })),
    );
    let id_span = id.map_or_else(Span::default, Look::span);
    let draft = Draft { id: id_span, name, body, slots, cut: Cut::Several(cuts), ..draft.clone() };
    record.add(Kind::ToolRequest, draft);
    if let Some(found) = record.found.last_mut() {
        found.twins.extend(id.map(|id| format!("call {}", as_json(id))));
        found.twins.push(format!("action {}", record.id));
    }
}

/// The arguments that a call was made with.
fn own(args: Look<'_>) -> impl Iterator<Item = (String, Look<'_>)> {
    let members = args.members().map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value));
    members.filter(|(key, _)| !SETTINGS.contains(&&**key))
}

/// The same as JSON. Where nothing but numbers and switches is left, there are none.
fn arguments(args: Look<'_>) -> String {
    let holds = |value: Look<'_>| {
        let inside = value.raw().iter().filter(|byte| !byte.is_ascii_whitespace());
        matches!(value.raw().first(), Some(b'"' | b'[' | b'{')) && inside.count() > 2
    };
    if !own(args).any(|(_, value)| holds(value)) {
        return "{}".into();
    }
    let is_set =
        |value: Look<'_>| holds(value) || !matches!(value.raw().first(), Some(b'"' | b'[' | b'{' | b'n'));
    let members = own(args).filter(|(_, value)| is_set(*value));
    let members: Vec<String> =
        members.map(|(key, value)| format!("{}:{}", Value::from(key), as_json(value))).collect();
    format!("{{{}}}", members.join(","))
}

fn result(reading: &mut Reading, event: Look<'_>, observation: &str, draft: &Draft, record: &mut Record) {
    let Some(content) = event.get("content") else { return };
    let body = if content.is_null() { reading.made("") } else { reading.text(content) };
    let mut slots = vec![Slot { span: content.span(), write: write::text }];
    slots.extend(event.string("message").map(|said| Slot { span: said.span(), write: empty }));
    if let Some(extras) = event.get("extras") {
        slots.extend(long_texts(extras, &COMMANDS));
        if let Some(cause) = &record.cause {
            let name = format!("action {cause}");
            let commands = COMMANDS.iter().filter_map(|name| extras.string(name));
            let commands = commands.map(|command| Slot { span: command.span(), write: empty });
            record.twins.extend(commands.map(|slot| (name.clone(), slot)));
        }
        for name in ["dom_object", "axtree_object", "extra_element_properties"] {
            let tree = extras.get(name).filter(|tree| tree.is_object());
            slots.extend(tree.map(|tree| Slot { span: tree.span(), write: write::object }));
        }
    }
    let failed = event.get("success").is_some_and(|success| success.raw() == b"false");
    let is_error = failed || matches!(observation, "error" | "user_rejected");
    record.add(Kind::ToolResponse { is_error }, Draft { body, slots, ..draft.clone() });
}

/// What the model gave is held by every event that came of it.
fn model_response(response: Look<'_>, record: &mut Record) {
    for choice in response.get("choices").into_iter().flat_map(Look::items) {
        let Some(message) = choice.get("message") else { continue };
        for name in ["content", "reasoning_content"] {
            if let (Some(id), Some(text)) = (response.get("id"), message.string(name)) {
                record
                    .twins
                    .push((format!("said {}", as_json(id)), Slot { span: text.span(), write: write::null }));
            }
        }
        for call in message.get("tool_calls").into_iter().flat_map(Look::items) {
            let arguments = call.get("function").and_then(|function| function.string("arguments"));
            if let (Some(id), Some(arguments)) = (call.get("id"), arguments) {
                let slot = Slot { span: arguments.span(), write: write::object_in_string };
                record.twins.push((format!("call {}", as_json(id)), slot));
            }
        }
    }
}
