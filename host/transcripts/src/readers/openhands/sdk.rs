//! Events with a `kind`: the messages and calls that the model received or wrote, one call per event.

use serde_json::{Map, Value, json};

use super::{Record, long_texts};
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::SummaryPair;
use crate::readers::values;
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_json::{JsonNode, Span, span_of};

/// Members with reasoning, in the order in which events contain them.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking_blocks", "responses_reasoning_item"];

/// Members of an action that a message does not have.
const ACTION_MEMBERS: [&str; 6] =
    ["action", "tool_name", "tool_call_id", "tool_call", "security_risk", "summary"];

/// Events that the model does not receive.
const IGNORED: &str = "CondensationRequest CondensationRequestEvent CondensationSummaryEvent \
    ConversationErrorEvent ConversationStateUpdateEvent HookExecutionEvent InterruptEvent \
    LLMCompletionLogEvent PauseEvent ServerErrorEvent StreamingDeltaEvent TaskTrackerEvent TokenEvent";

pub(super) fn is_kind(kind: &str) -> bool {
    let is_event = kind.ends_with("Event") && kind.len() > "Event".len();
    is_event || matches!(kind, "UserRejectObservation" | "Condensation" | "CondensationRequest")
}

pub(super) fn read(builder: &mut EventBuilder, event: JsonNode<'_>, record: &mut Record) {
    match event.text_of("kind").as_deref() {
        Some("MessageEvent") => add_message(builder, event, record),
        Some("ActionEvent") => add_action(builder, event, record),
        Some("ObservationEvent") => add_observation(builder, event, record),
        Some("AgentErrorEvent") => add_refusal(event, "error", record),
        Some("UserRejectObservation") => add_refusal(event, "rejection_reason", record),
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
            if !kind.is_some_and(|kind| IGNORED.split(' ').any(|ignored| ignored == kind)) {
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

fn add_message(builder: &mut EventBuilder, event: JsonNode<'_>, record: &mut Record) {
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
    let body = match texts.is_empty() && !blocks.is_empty() {
        true => builder.new_string("[image]"),
        false => builder.one_or_joined(&texts),
    };
    match message.text_of("role").as_deref() {
        Some("user") => {
            record.starts_turn = event.text_is("source", "user");
            record.add(Kind::ChatRequest, EventDraft { body, ..record.draft.clone() });
        }
        Some("assistant") => {
            add_thoughts(builder, event, message, record);
            if !texts.is_empty() {
                record.add(Kind::Message, EventDraft { body, ..record.draft.clone() });
            }
        }
        _ => {}
    }
}

fn add_action(builder: &mut EventBuilder, event: JsonNode<'_>, record: &mut Record) {
    add_thoughts(builder, event, event, record);
    if let Some(thought) = event.non_empty_array("thought") {
        let body = builder.text(thought);
        record.add(Kind::Message, EventDraft { body, ..record.draft.clone() });
    }
    let call = event.get("tool_call");
    let call_member = |name: &str| call.and_then(|call| call.string(name));
    let id = span_of(call_member("id").or(event.string("tool_call_id")));
    let name = call_member("name").or(event.string("tool_name"));
    let name = name.map_or_else(|| builder.new_string("unknown"), JsonNode::span);
    let arguments = call_member("arguments");
    let body = builder.arguments(arguments);
    let draft = EventDraft { id, name, body, ..record.draft.clone() };
    let draft = draft.with_edit(arguments, values::empty_object_in_string);
    // The parsed arguments, and the argument in which the model describes the call.
    let draft = draft.with_edit(event.get("action"), values::null);
    let draft = draft.with_edit(event.get("summary"), values::null);
    let deletion = message_deletion(builder, event);
    record.add(Kind::ToolRequest, EventDraft { deletion, ..draft });
}

/// Returns a deletion that turns an action into a message. The call is removed, and the text stays.
fn message_deletion(builder: &mut EventBuilder, event: JsonNode<'_>) -> Deletion {
    let members = builder.members(event);
    let spans = event.member_spans();
    let mut deletions: Vec<Deletion> =
        ACTION_MEMBERS.iter().filter_map(|name| members.find(name)).map(Deletion::Element).collect();
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
fn add_thoughts(builder: &mut EventBuilder, event: JsonNode<'_>, holder: JsonNode<'_>, record: &mut Record) {
    let get = |name: &str| {
        holder.get(name).or(event.get(name)).filter(|value| value.raw().len() > 2 && !value.is_null())
    };
    let mut thoughts: Vec<(Span, Span)> = Vec::new();
    for block in get("thinking_blocks").into_iter().flat_map(JsonNode::items) {
        thoughts.extend(builder.thinking_block(block));
    }
    if thoughts.is_empty()
        && let Some(item) = get("responses_reasoning_item")
    {
        let lists = ["summary", "content"].into_iter().filter_map(|name| item.get(name));
        let texts: Vec<Span> = lists.flat_map(JsonNode::items).map(JsonNode::span).collect();
        let metadata = builder.openai_item_data(item);
        if !texts.is_empty() || item.string("encrypted_content").is_some() {
            thoughts.push((builder.joined(&texts), metadata));
        }
    }
    if thoughts.is_empty()
        && let Some(text) = get("reasoning_content").filter(|text| text.is_string())
    {
        thoughts.push((text.span(), Span::default()));
    }
    // All forms are deleted with the first thought, because no strategy deletes only one of them.
    let mut deletions = Vec::new();
    for name in THOUGHTS {
        let empty = if name == "thinking_blocks" { "[]" } else { "null" };
        deletions.extend(get(name).map(|value| Deletion::Value(value.span(), empty)));
    }
    for (body, metadata) in thoughts {
        let deletion = Deletion::Several(std::mem::take(&mut deletions));
        record.add(Kind::Reasoning, EventDraft { body, metadata, deletion, ..record.draft.clone() });
    }
}

fn add_observation(builder: &mut EventBuilder, event: JsonNode<'_>, record: &mut Record) {
    let (Some(id), Some(observation)) = (event.string("tool_call_id"), event.get("observation")) else {
        return;
    };
    let content = observation.get("content").or(observation.string("output"));
    let write = if content.is_some_and(JsonNode::is_string) { values::text } else { values::text_block };
    let mut draft = builder.result(content, write, record.draft.clone().with_id(id.span()));
    if content.is_none() {
        let write = |text: &str| format!(", \"content\": {}", values::text_block(text));
        draft.edits.extend(observation.new_member_site(write));
    }
    let body_member = if observation.get("content").is_some() { "content" } else { "output" };
    draft.edits.extend(long_texts(observation, &[body_member, "kind"]));
    let is_error = observation.is_true("is_error") || observation.string("error").is_some();
    record.add(Kind::ToolResponse { is_error }, draft);
}

/// Adds the result of a call that was not made, because the program or the user rejected it.
fn add_refusal(event: JsonNode<'_>, member: &str, record: &mut Record) {
    let (Some(id), Some(reason)) = (event.string("tool_call_id"), event.string(member)) else { return };
    let draft = EventDraft { id: id.span(), body: reason.span(), ..record.draft.clone() };
    record.add(Kind::ToolResponse { is_error: true }, draft.with_edit(Some(reason), values::text));
}
