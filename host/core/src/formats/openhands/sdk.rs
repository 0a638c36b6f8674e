//! Events that have a `kind`: what the model said and called, one call an event, as it was sent to it.

use serde_json::{Map, Value, json};

use super::super::foreign::{At, Cut, Slot};
use super::super::pairs::Pair;
use super::super::reading::{Draft, Reading};
use super::super::tree::Look;
use super::super::write;
use super::{Record, long_texts};
use crate::event::Kind;
use crate::json::Span;

/// What a model thought, in the order in which events have it.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking_blocks", "responses_reasoning_item"];

/// What of an action a message does not have.
const OF_ACTIONS: [&str; 6] =
    ["action", "tool_name", "tool_call_id", "tool_call", "security_risk", "summary"];

/// Events beside what a model is sent.
const BESIDE: [&str; 13] = [
    "CondensationRequest",
    "CondensationRequestEvent",
    "CondensationSummaryEvent",
    "ConversationErrorEvent",
    "ConversationStateUpdateEvent",
    "HookExecutionEvent",
    "InterruptEvent",
    "LLMCompletionLogEvent",
    "PauseEvent",
    "ServerErrorEvent",
    "StreamingDeltaEvent",
    "TaskTrackerEvent",
    "TokenEvent",
];

/// Whether this is a kind of event.
pub(super) fn is_kind(kind: &str) -> bool {
    let has_end = kind.ends_with("Event") && kind.len() > "Event".len();
    has_end || matches!(kind, "UserRejectObservation" | "Condensation" | "CondensationRequest")
}

pub(super) fn read(reading: &mut Reading, event: Look<'_>, draft: &Draft, record: &mut Record) {
    match event.text_of("kind").as_deref() {
        Some("MessageEvent") => message(reading, event, draft, record),
        Some("ActionEvent") => action(reading, event, draft, record),
        Some("ObservationEvent") => observation(reading, event, draft, record),
        Some("AgentErrorEvent") => refusal(event, "error", draft, record),
        Some("UserRejectObservation") => refusal(event, "rejection_reason", draft, record),
        Some("SystemPromptEvent") => {
            let parts = ["system_prompt", "dynamic_context"].into_iter().filter_map(|name| event.get(name));
            parts.filter_map(|part| part.text_of("text")).for_each(|text| reading.system(&text));
        }
        Some("Condensation") => {
            if let Some(ids) = event.get("forgotten_event_ids") {
                record.forgotten(reading, ids);
            }
        }
        kind => {
            if !kind.is_some_and(|kind| BESIDE.contains(&kind)) {
                reading.unknown(event);
            }
        }
    }
}

pub(super) fn pair(pair: &Pair<'_>, first: Look<'_>, at: &str) -> Vec<String> {
    let [request, response] = &pair.ids;
    let event = |id: &str, parent: Value, source: &str, role: &str, text: &str| {
        let mut event = Map::new();
        event.insert("id".into(), id.into());
        event.insert("timestamp".into(), at.into());
        event.insert("source".into(), source.into());
        if first.get("parent_id").is_some() {
            event.insert("parent_id".into(), parent);
        }
        let content = json!([{ "cache_prompt": false, "type": "text", "text": text }]);
        event.insert("llm_message".into(), json!({ "role": role, "content": content }));
        event.insert("kind".into(), "MessageEvent".into());
        Value::Object(event).to_string()
    };
    let parent = serde_json::from_str(pair.parent).unwrap_or_default();
    vec![
        event(request, parent, "user", "user", pair.request),
        event(response, request.as_str().into(), "agent", "assistant", pair.response),
    ]
}

fn message(reading: &mut Reading, event: Look<'_>, draft: &Draft, record: &mut Record) {
    let Some(message) = event.get("llm_message") else { return };
    let blocks: Vec<Look<'_>> = [message.get("content"), event.get("extended_content")]
        .into_iter()
        .flatten()
        .flat_map(|list| if list.is_string() { vec![list] } else { list.items().collect() })
        .collect();
    let texts: Vec<Span> = blocks
        .iter()
        .filter_map(|block| if block.is_string() { Some(*block) } else { block.string("text") })
        .map(Look::span)
        .collect();
    let body = match texts.as_slice() {
        [one] => *one,
        [] if !blocks.is_empty() => reading.made("[image]"),
        several => reading.joined(several),
    };
    match message.text_of("role").as_deref() {
        Some("user") => {
            record.opens = event.text_of("source").as_deref() == Some("user");
            record.add(Kind::ChatRequest, Draft { body, ..draft.clone() });
        }
        Some("assistant") => {
            thoughts(reading, event, message, draft, record);
            if !texts.is_empty() {
                record.add(Kind::Message, Draft { body, ..draft.clone() });
            }
        }
        _ => {}
    }
}

fn action(reading: &mut Reading, event: Look<'_>, draft: &Draft, record: &mut Record) {
    thoughts(reading, event, event, draft, record);
    if let Some(said) = event.get("thought").filter(|said| said.items().len() > 0) {
        let body = reading.text(said);
        record.add(Kind::Message, Draft { body, ..draft.clone() });
    }
    let call = event.get("tool_call");
    let of_call = |name: &str| call.and_then(|call| call.string(name));
    let id = of_call("id").or(event.string("tool_call_id")).map_or_else(Span::default, Look::span);
    let name = of_call("name").or(event.string("tool_name"));
    let name = name.map_or_else(|| reading.made("unknown"), Look::span);
    let arguments = of_call("arguments");
    let body = arguments.map_or_else(|| reading.made_raw("{}"), Look::span);
    let mut slots: Vec<Slot> = Vec::new();
    slots.extend(arguments.map(|value| Slot { span: value.span(), write: write::object_in_string }));
    // What the program made of the arguments, and what the model says of the call in one of them.
    let twins = ["action", "summary"].into_iter().filter_map(|name| event.get(name));
    slots.extend(twins.map(|twin| Slot { span: twin.span(), write: write::null }));
    let cut = as_message(reading, event);
    record.add(Kind::ToolRequest, Draft { id, name, body, slots, cut, ..draft.clone() });
}

/// Makes a message of an action, for one that has lost its call and still says something.
fn as_message(reading: &mut Reading, event: Look<'_>) -> Cut {
    let list = reading.members(event);
    let spans = event.member_spans();
    let mut cuts: Vec<Cut> = OF_ACTIONS
        .iter()
        .filter_map(|name| event.position(name))
        .map(|element| Cut::Element(At { list, element }))
        .collect();
    cuts.extend(event.string("kind").map(|kind| Cut::Value(kind.span(), "\"MessageEvent\"")));
    let (Some(place), Some(said)) = (event.position("thought"), event.get("thought")) else {
        return Cut::Several(cuts);
    };
    // What it thought goes into the message as well, where that stands right behind.
    let mut end = said.span().end;
    for (next, span) in spans.iter().enumerate().skip(place + 1) {
        if !THOUGHTS.iter().any(|name| event.position(name) == Some(next)) {
            break;
        }
        end = span.end;
    }
    if let Some(span) = spans.get(place) {
        let key = Span { start: span.start, end: said.span().start };
        cuts.push(Cut::Value(key, "\"llm_message\":{\"role\":\"assistant\",\"content\":"));
        cuts.push(Cut::Value(Span { start: end, end }, "}"));
    }
    Cut::Several(cuts)
}

/// What the model thought: as blocks, as an item, or as a text. The same may stand there in two of these forms.
fn thoughts(reading: &mut Reading, event: Look<'_>, holder: Look<'_>, draft: &Draft, record: &mut Record) {
    let get = |name: &str| {
        holder.get(name).or(event.get(name)).filter(|value| value.raw().len() > 2 && !value.is_null())
    };
    let mut found: Vec<(Span, Span)> = Vec::new();
    for block in get("thinking_blocks").into_iter().flat_map(Look::items) {
        if let Some(thought) = block.string("thinking") {
            let signature = block.string("signature");
            found.push((thought.span(), metadata(reading, &[("anthropic_thinking_signature", signature)])));
        } else if let Some(data) = block.string("data") {
            let metadata = metadata(reading, &[("anthropic_redacted_thinking", Some(data))]);
            found.push((reading.made(""), metadata));
        }
    }
    if found.is_empty()
        && let Some(item) = get("responses_reasoning_item")
    {
        let lists = ["summary", "content"].into_iter().filter_map(|name| item.get(name));
        let texts: Vec<Span> = lists.flat_map(Look::items).map(Look::span).collect();
        let encrypted = item.string("encrypted_content");
        let kept = [("openai_item_id", item.string("id")), ("openai_encrypted_content", encrypted)];
        let metadata = metadata(reading, &kept);
        if !texts.is_empty() || encrypted.is_some() {
            found.push((reading.joined(&texts), metadata));
        }
    }
    if found.is_empty()
        && let Some(text) = get("reasoning_content").filter(|text| text.is_string())
    {
        found.push((text.span(), Span::default()));
    }
    // All of them go with the first: no strategy takes one alone.
    let mut cuts = Vec::new();
    for name in THOUGHTS {
        let nothing = if name == "thinking_blocks" { "[]" } else { "null" };
        cuts.extend(get(name).map(|value| Cut::Value(value.span(), nothing)));
    }
    for (body, metadata) in found {
        let cut = Cut::Several(std::mem::take(&mut cuts));
        record.add(Kind::Reasoning, Draft { body, metadata, cut, ..draft.clone() });
    }
}

fn metadata(reading: &mut Reading, kept: &[(&str, Option<Look<'_>>)]) -> Span {
    let member = |(name, value): &(&str, Option<Look<'_>>)| {
        value.map(|value| format!("\"{name}\":{}", super::as_json(value)))
    };
    let members: Vec<String> = kept.iter().filter_map(member).collect();
    if members.is_empty() { Span::default() } else { reading.made_raw(&format!("{{{}}}", members.join(","))) }
}

fn observation(reading: &mut Reading, event: Look<'_>, draft: &Draft, record: &mut Record) {
    let (Some(id), Some(observation)) = (event.string("tool_call_id"), event.get("observation")) else {
        return;
    };
    let content = observation.get("content").or(observation.string("output"));
    let body = match content {
        Some(content) => reading.text(content),
        None => reading.made(""),
    };
    let mut slots: Vec<Slot> = Vec::new();
    match (content, observation.member_spans().last()) {
        (Some(content), _) => {
            let write = if content.is_string() { write::text } else { write::blocks };
            slots.push(Slot { span: content.span(), write });
        }
        (None, Some(last)) => {
            let write = |text: &str| format!(", \"content\": {}", write::blocks(text));
            slots.push(Slot { span: Span { start: last.end, end: last.end }, write });
        }
        (None, None) => {}
    }
    let own = if observation.get("content").is_some() { "content" } else { "output" };
    slots.extend(long_texts(observation, &[own, "kind"]));
    let is_error = observation.is_true("is_error") || observation.string("error").is_some();
    let draft = Draft { id: id.span(), body, slots, ..draft.clone() };
    record.add(Kind::ToolResponse { is_error }, draft);
}

/// The call was not made: the program, or the user, says why.
fn refusal(event: Look<'_>, member: &str, draft: &Draft, record: &mut Record) {
    let (Some(id), Some(why)) = (event.string("tool_call_id"), event.string(member)) else { return };
    let slots = vec![Slot { span: why.span(), write: write::text }];
    let draft = Draft { id: id.span(), body: why.span(), slots, ..draft.clone() };
    record.add(Kind::ToolResponse { is_error: true }, draft);
}
