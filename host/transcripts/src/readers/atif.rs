//! The reader of ATIF trajectories: one document whose steps are numbered from 1. A record is a step. A step of the
//! agent contains its reasoning, text, calls, and their results. Embedded trajectories of other agents stay in the
//! document and are not events. Later steps must be renumbered after an edit.

use serde_json::{Map, Value};

use super::values;
use crate::builder::{EventBuilder, EventDraft, time_of};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Atif;

const WANTED: MemberFilter = |key| {
    matches!(key, b"agent" | b"steps" | b"message" | b"tool_calls" | b"observation" | b"results")
        || matches!(key, b"content" | b"source" | b"extra")
};

impl Reader for Atif {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_trajectory = |document: JsonNode<'_>| {
            let names_atif =
                document.text_of("schema_version").is_some_and(|version| version.starts_with("ATIF-"));
            let is_step =
                |step: JsonNode<'_>| step.get("step_id").is_some() && step.string("source").is_some();
            let steps = document.get("steps");
            steps.is_some_and(|steps| steps.is_array() && (names_atif || steps.items().any(is_step)))
        };
        sample.document.is_some_and(is_trajectory) || sample.any_line(is_trajectory)
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        if builder.is_document() {
            return builder.read_document(WANTED, read_trajectory);
        }
        builder.read_lines(WANTED, |builder, _, line| {
            builder.start_conversation(line)?;
            read_trajectory(builder, line)
        })
    }

    fn shows_reasoning(&self) -> bool {
        true
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let step = |source: &str, message: &str, offset: usize| {
            let mut step = Map::new();
            step.extend(pair.number.map(|number| ("step_id".to_owned(), Value::from(number + offset))));
            if pair.first.string("timestamp").is_some() {
                step.insert("timestamp".into(), pair.at.to_string().into());
            }
            step.insert("source".into(), source.into());
            step.insert("message".into(), message.into());
            Value::Object(step).to_string()
        };
        vec![step("user", pair.request, 0), step("agent", pair.response, 1)]
    }
}

fn read_trajectory(builder: &mut EventBuilder, document: JsonNode<'_>) -> Result<(), Unreadable> {
    let steps = document.array("steps");
    let steps = steps.ok_or_else(|| format_error("ATIF", document, "it has no `steps` array"))?;
    if let Some(agent) = document.get("agent") {
        builder.read_model(agent, "model_name");
    }
    let mut has_begun = false;
    for (at, step) in builder.elements(steps, None) {
        let source =
            step.text_of("source").ok_or_else(|| format_error("ATIF", step, "a step has no source"))?;
        if let Some(number) = step.get("step_id") {
            builder.add_number(at, number.span());
        }
        if step.get("extra").is_some_and(|extra| extra.is_true("is_sidechain")) {
            continue;
        }
        let draft = EventDraft { time: time_of(step, "timestamp"), ..EventDraft::whole(at, step) };
        has_begun |= source != "system";
        match &*source {
            "user" => {
                let body = message_text(builder, step);
                builder.add_request(draft.with_body(body));
            }
            "agent" => add_agent_events(builder, step, &draft),
            // The program writes later system messages. They are not part of the model's prompt.
            "system" if !has_begun => {
                let text = message_text(builder, step);
                builder.add_system_at(text);
            }
            "system" => {}
            _ => builder.count_unknown(step),
        }
    }
    Ok(())
}

/// Returns the text of a message, or a placeholder if it has only images.
fn message_text(builder: &mut EventBuilder, step: JsonNode<'_>) -> Span {
    let Some(message) = step.get("message") else { return builder.new_string("") };
    let is_media = |part: JsonNode<'_>| part.string("text").is_none();
    if message.items().len() > 0 && message.items().all(is_media) {
        return builder.new_string("[image]");
    }
    builder.text(message)
}

fn add_agent_events(builder: &mut EventBuilder, step: JsonNode<'_>, draft: &EventDraft) {
    builder.read_model(step, "model_name");
    let members = builder.members(step);
    if let Some(thought) = step.non_empty_string("reasoning_content") {
        builder.add(Kind::Reasoning, draft.text_part(thought, members.deletion("reasoning_content")));
    }
    if let Some(message) = step.get("message").filter(|message| message.raw().len() > 2) {
        let draft = draft.part(message, Deletion::Value(message.span(), "\"\""));
        let body = message_text(builder, step);
        builder.add(Kind::Message, draft.with_body(body));
    }
    let calls = add_calls(builder, step, members.find("tool_calls"), draft);
    let Some(results) = step.inner("observation", "results") else { return };
    let ids = result_ids(builder, step, &calls, results, draft);
    for ((at, result), id) in builder.elements(results, members.find("observation")).zip(ids) {
        let twin = step.inner("extra", "metadata").filter(|_| calls.len() == 1);
        add_result(builder, result, twin, draft.part(result, Deletion::Element(at)).with_id(id));
    }
}

/// Adds the calls of a step. Returns the id of each, as text and as span.
fn add_calls(
    builder: &mut EventBuilder,
    step: JsonNode<'_>,
    holder: Option<ElementRef>,
    draft: &EventDraft,
) -> Vec<(String, Span)> {
    let Some(calls) = step.non_empty_array("tool_calls") else { return Vec::new() };
    let mut ids = Vec::new();
    for (at, call) in builder.elements(calls, holder) {
        let source_id = call.string("tool_call_id");
        let id = builder.id_or_next(source_id);
        let arguments = call.get("arguments").filter(|value| value.is_object() || value.is_string());
        let draft = draft.part(call, Deletion::Element(at)).with_id(id);
        let draft = builder.call(call, "function_name", arguments, values::empty_object, draft);
        let body = builder.arguments(arguments);
        // A copy of the arguments as the model wrote them.
        let twin = step.inner("extra", "raw_arguments");
        builder.add(Kind::ToolRequest, draft.with_body(body).with_edit(twin, values::null));
        ids.push((source_id.map(JsonNode::text).unwrap_or_default().into_owned(), id));
    }
    ids
}

/// Returns the call's id for each result. A result without an id belongs to the next call without a result. If all
/// calls have results, a call is invented.
fn result_ids(
    builder: &mut EventBuilder,
    step: JsonNode<'_>,
    calls: &[(String, Span)],
    results: JsonNode<'_>,
    draft: &EventDraft,
) -> Vec<Span> {
    let named_ids: Vec<_> = results.items().filter_map(|result| result.text_of("source_call_id")).collect();
    let mut open_calls = calls.iter().filter(|(id, _)| !named_ids.iter().any(|named| named == id));
    let mut ids = Vec::new();
    for result in results.items() {
        if let Some(id) = result.string("source_call_id") {
            ids.push(id.span());
        } else if let Some((_, id)) = open_calls.next() {
            ids.push(*id);
        } else {
            let (id, name, body) = (builder.next_id(), builder.new_string("action"), builder.new_json("{}"));
            builder.add(Kind::ToolRequest, EventDraft { span: step.span(), id, name, body, ..draft.clone() });
            ids.push(id);
        }
    }
    ids
}

fn add_result(
    builder: &mut EventBuilder,
    result: JsonNode<'_>,
    twin: Option<JsonNode<'_>>,
    draft: EventDraft,
) {
    let extra = result.get("extra");
    let content = result.get("content");
    let draft = builder.result(content, values::text, draft);
    let mut draft = draft
        .with_edit(extra.and_then(|extra| extra.get("tool_result_metadata")), values::null)
        .with_edit(twin, values::null);
    if content.is_none() {
        let write = |text: &str| format!(", \"content\": {}", values::text(text));
        draft.edits.splice(..0, result.new_member_site(write));
    }
    let is_error =
        extra.is_some_and(|extra| extra.is_true("tool_result_is_error") || extra.is_true("is_error"));
    builder.add(Kind::ToolResponse { is_error }, draft);
}
