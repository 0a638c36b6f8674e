//! Events with a `kind`: the messages and calls that the model received or wrote, one call per event.

use serde_json::{Map, Value, json};

use super::{Record, long_texts};
use crate::builder::{EventBuilder, EventDraft};
use crate::json_index::JsonNode;
use crate::reader::SummaryPair;
use crate::readers::values;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_json::Span;

/// Members with reasoning, in the order in which events contain them.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking_blocks", "responses_reasoning_item"];

/// Members of an action that a message does not have.
const ACTION_MEMBERS: [&str; 6] =
    ["action", "tool_name", "tool_call_id", "tool_call", "security_risk", "summary"];

/// Events that the model does not receive.
const IGNORED: [&str; 13] = [
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

pub(super) fn is_kind(kind: &str) -> bool {
    let is_event = kind.ends_with("Event") && kind.len() > "Event".len();
    is_event || matches!(kind, "UserRejectObservation" | "Condensation" | "CondensationRequest")
}

pub(super) fn read(builder: &mut EventBuilder, event: JsonNode<'_>, draft: &EventDraft, record: &mut Record) {
    match event.text_of("kind").as_deref() {
        Some("MessageEvent") => add_message(builder, event, draft, record),
        Some("ActionEvent") => add_action(builder, event, draft, record),
        Some("ObservationEvent") => add_observation(builder, event, draft, record),
        Some("AgentErrorEvent") => add_refusal(event, "error", draft, record),
        Some("UserRejectObservation") => add_refusal(event, "rejection_reason", draft, record),
        Some("SystemPromptEvent") => {
            let parts = ["system_prompt", "dynamic_context"].into_iter().filter_map(|name| event.get(name));
            parts.filter_map(|part| part.text_of("text")).for_each(|text| builder.add_system(&text));
        }
        Some("Condensation") => {
            if let Some(ids) = event.get("forgotten_event_ids") {
                record.add_forgotten(builder, ids);
            }
        }
        kind => {
            if !kind.is_some_and(|kind| IGNORED.contains(&kind)) {
                builder.count_unknown(event);
            }
        }
    }
}

pub(super) fn pair(pair: &SummaryPair<'_>, first: JsonNode<'_>, at: &str) -> Vec<String> {
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

fn add_message(builder: &mut EventBuilder, event: JsonNode<'_>, draft: &EventDraft, record: &mut Record) {
    let Some(message) = event.get("llm_message") else { return };
    let blocks: Vec<JsonNode<'_>> = [message.get("content"), event.get("extended_content")]
        .into_iter()
        .flatten()
        .flat_map(|list| if list.is_string() { vec![list] } else { list.items().collect() })
        .collect();
    let texts: Vec<Span> = blocks
        .iter()
        .filter_map(|block| if block.is_string() { Some(*block) } else { block.string("text") })
        .map(JsonNode::span)
        .collect();
    let body = match texts.as_slice() {
        [one] => *one,
        [] if !blocks.is_empty() => builder.new_string("[image]"),
        several => builder.joined(several),
    };
    match message.text_of("role").as_deref() {
        Some("user") => {
            record.starts_turn = event.text_of("source").as_deref() == Some("user");
            record.add(Kind::ChatRequest, EventDraft { body, ..draft.clone() });
        }
        Some("assistant") => {
            add_thoughts(builder, event, message, draft, record);
            if !texts.is_empty() {
                record.add(Kind::Message, EventDraft { body, ..draft.clone() });
            }
        }
        _ => {}
    }
}

fn add_action(builder: &mut EventBuilder, event: JsonNode<'_>, draft: &EventDraft, record: &mut Record) {
    add_thoughts(builder, event, event, draft, record);
    if let Some(thought) = event.get("thought").filter(|thought| thought.items().len() > 0) {
        let body = builder.text(thought);
        record.add(Kind::Message, EventDraft { body, ..draft.clone() });
    }
    let call = event.get("tool_call");
    let call_member = |name: &str| call.and_then(|call| call.string(name));
    let id = call_member("id").or(event.string("tool_call_id")).map_or_else(Span::default, JsonNode::span);
    let name = call_member("name").or(event.string("tool_name"));
    let name = name.map_or_else(|| builder.new_string("unknown"), JsonNode::span);
    let arguments = call_member("arguments");
    let body = arguments.map_or_else(|| builder.new_json("{}"), JsonNode::span);
    let mut edits: Vec<EditSite> = Vec::new();
    edits.extend(arguments.map(|value| value.edit_site(values::empty_object_in_string)));
    // The parsed arguments, and the argument in which the model describes the call.
    let twins = ["action", "summary"].into_iter().filter_map(|name| event.get(name));
    edits.extend(twins.map(|twin| twin.edit_site(values::null)));
    let deletion = message_deletion(builder, event);
    record.add(Kind::ToolRequest, EventDraft { id, name, body, edits, deletion, ..draft.clone() });
}

/// Returns a deletion that turns an action into a message. The call is removed, and the text stays.
fn message_deletion(builder: &mut EventBuilder, event: JsonNode<'_>) -> Deletion {
    let list = builder.add_members(event);
    let spans = event.member_spans();
    let mut deletions: Vec<Deletion> = ACTION_MEMBERS
        .iter()
        .filter_map(|name| event.position(name))
        .map(|element| Deletion::Element(ElementRef { list, element }))
        .collect();
    deletions.extend(event.string("kind").map(|kind| Deletion::Value(kind.span(), "\"MessageEvent\"")));
    let (Some(index), Some(thought)) = (event.position("thought"), event.get("thought")) else {
        return Deletion::Several(deletions);
    };
    // Reasoning that directly follows the text goes into the message too.
    let mut end = thought.span().end;
    for (next, span) in spans.iter().enumerate().skip(index + 1) {
        if !THOUGHTS.iter().any(|name| event.position(name) == Some(next)) {
            break;
        }
        end = span.end;
    }
    if let Some(span) = spans.get(index) {
        let key = Span { start: span.start, end: thought.span().start };
        deletions.push(Deletion::Value(key, "\"llm_message\":{\"role\":\"assistant\",\"content\":"));
        deletions.push(Deletion::Value(Span { start: end, end }, "}"));
    }
    Deletion::Several(deletions)
}

/// Adds reasoning: blocks, an item, or a text. An event may contain it in two of these forms.
fn add_thoughts(
    builder: &mut EventBuilder,
    event: JsonNode<'_>,
    holder: JsonNode<'_>,
    draft: &EventDraft,
    record: &mut Record,
) {
    let get = |name: &str| {
        holder.get(name).or(event.get(name)).filter(|value| value.raw().len() > 2 && !value.is_null())
    };
    let mut thoughts: Vec<(Span, Span)> = Vec::new();
    for block in get("thinking_blocks").into_iter().flat_map(JsonNode::items) {
        if let Some(thought) = block.string("thinking") {
            let signature = block.string("signature");
            thoughts.push((
                thought.span(),
                provider_metadata(builder, &[("anthropic_thinking_signature", signature)]),
            ));
        } else if let Some(data) = block.string("data") {
            let metadata = provider_metadata(builder, &[("anthropic_redacted_thinking", Some(data))]);
            thoughts.push((builder.new_string(""), metadata));
        }
    }
    if thoughts.is_empty()
        && let Some(item) = get("responses_reasoning_item")
    {
        let lists = ["summary", "content"].into_iter().filter_map(|name| item.get(name));
        let texts: Vec<Span> = lists.flat_map(JsonNode::items).map(JsonNode::span).collect();
        let encrypted = item.string("encrypted_content");
        let values = [("openai_item_id", item.string("id")), ("openai_encrypted_content", encrypted)];
        let metadata = provider_metadata(builder, &values);
        if !texts.is_empty() || encrypted.is_some() {
            thoughts.push((builder.joined(&texts), metadata));
        }
    }
    if thoughts.is_empty()
        && let Some(text) = get("reasoning_content").filter(|text| text.is_string())
    {
        thoughts.push((text.span(), Span::default()));
    }
    // All forms are deleted with the first event, because no strategy deletes only one of them.
    let mut deletions = Vec::new();
    for name in THOUGHTS {
        let empty = if name == "thinking_blocks" { "[]" } else { "null" };
        deletions.extend(get(name).map(|value| Deletion::Value(value.span(), empty)));
    }
    for (body, metadata) in thoughts {
        let deletion = Deletion::Several(std::mem::take(&mut deletions));
        record.add(Kind::Reasoning, EventDraft { body, metadata, deletion, ..draft.clone() });
    }
}

fn provider_metadata(builder: &mut EventBuilder, values: &[(&str, Option<JsonNode<'_>>)]) -> Span {
    let member = |(name, value): &(&str, Option<JsonNode<'_>>)| {
        value.map(|value| format!("\"{name}\":{}", super::as_json(value)))
    };
    let members: Vec<String> = values.iter().filter_map(member).collect();
    if members.is_empty() { Span::default() } else { builder.new_json(&format!("{{{}}}", members.join(","))) }
}

fn add_observation(builder: &mut EventBuilder, event: JsonNode<'_>, draft: &EventDraft, record: &mut Record) {
    let (Some(id), Some(observation)) = (event.string("tool_call_id"), event.get("observation")) else {
        return;
    };
    let content = observation.get("content").or(observation.string("output"));
    let body = match content {
        Some(content) => builder.text(content),
        None => builder.new_string(""),
    };
    let mut edits: Vec<EditSite> = Vec::new();
    match (content, observation.member_spans().last()) {
        (Some(content), _) => {
            let write = if content.is_string() { values::text } else { values::text_block };
            edits.push(content.edit_site(write));
        }
        (None, Some(last)) => {
            let write = |text: &str| format!(", \"content\": {}", values::text_block(text));
            edits.push(EditSite { span: Span { start: last.end, end: last.end }, write });
        }
        (None, None) => {}
    }
    let body_member = if observation.get("content").is_some() { "content" } else { "output" };
    edits.extend(long_texts(observation, &[body_member, "kind"]));
    let is_error = observation.is_true("is_error") || observation.string("error").is_some();
    let draft = EventDraft { id: id.span(), body, edits, ..draft.clone() };
    record.add(Kind::ToolResponse { is_error }, draft);
}

/// Adds the result of a call that was not made, because the program or the user rejected it.
fn add_refusal(event: JsonNode<'_>, member: &str, draft: &EventDraft, record: &mut Record) {
    let (Some(id), Some(reason)) = (event.string("tool_call_id"), event.string(member)) else { return };
    let edits = vec![reason.edit_site(values::text)];
    let draft = EventDraft { id: id.span(), body: reason.span(), edits, ..draft.clone() };
    record.add(Kind::ToolResponse { is_error: true }, draft);
}
