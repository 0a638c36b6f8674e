//! The reader of ATIF trajectories: one document whose steps are numbered from 1. A record is a step. A step of the
//! agent contains its reasoning, text, calls, and their results. Embedded trajectories of other agents stay in the
//! document and are not events. Later steps must be renumbered after an edit.

use serde_json::{Map, Value};

use super::values;
use crate::builder::{EventBuilder, EventDraft, time_of};
use crate::json_index::{JsonNode, MemberFilter};
use crate::reader::Reader;
use crate::reader::SummaryPair;
use crate::sample::{Sample, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_json::Span;

pub(super) struct Atif;

const WANTED: MemberFilter = |key| {
    matches!(
        key,
        b"agent"
            | b"steps"
            | b"message"
            | b"tool_calls"
            | b"observation"
            | b"results"
            | b"content"
            | b"source"
            | b"extra"
    )
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
        if crate::sample::is_document(&builder.bytes()) {
            return builder.read_document(WANTED, read_trajectory);
        }
        builder.read_lines(WANTED, |builder, _, line| read_trajectory(builder, line))
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
    let Some(steps) = document.get("steps").filter(|steps| steps.is_array()) else {
        return Err(format_error("ATIF", document.span().start, "it has no `steps` array"));
    };
    if let Some(model) = document.get("agent").and_then(|agent| agent.text_of("model_name")) {
        builder.set_model(&model);
    }
    let mut has_begun = false;
    let list = builder.add_items(steps, None);
    for (element, step) in steps.items().enumerate() {
        let at = ElementRef { list, element };
        let Some(source) = step.text_of("source") else {
            return Err(format_error("ATIF", step.span().start, "a step has no source"));
        };
        if let Some(number) = step.get("step_id") {
            builder.add_number(at, number.span());
        }
        if step.get("extra").is_some_and(|extra| extra.is_true("is_sidechain")) {
            continue;
        }
        let time = time_of(step, "timestamp");
        let draft = EventDraft { span: step.span(), time, record: Some(at), ..EventDraft::default() };
        has_begun |= source != "system";
        match &*source {
            "user" => {
                let body = message_text(builder, step);
                builder.start_turn(time);
                builder.add(Kind::ChatRequest, EventDraft { body, ..draft });
            }
            "agent" => add_agent_events(builder, step, &draft),
            // Later system messages are those of the program, not of the model's prompt.
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
    if let Some(model) = step.text_of("model_name") {
        builder.set_model(&model);
    }
    let members = builder.add_members(step);
    let member = |name| ElementRef { list: members, element: step.position(name).unwrap_or_default() };
    if let Some(thought) = step.string("reasoning_content").filter(|thought| thought.raw().len() > 2) {
        let (span, deletion) = (thought.span(), Deletion::Element(member("reasoning_content")));
        builder.add(Kind::Reasoning, EventDraft { span, body: span, deletion, ..draft.clone() });
    }
    if let Some(message) = step.get("message").filter(|message| message.raw().len() > 2) {
        let (span, body) = (message.span(), message_text(builder, step));
        builder.add(
            Kind::Message,
            EventDraft { span, body, deletion: Deletion::Value(span, "\"\""), ..draft.clone() },
        );
    }
    let results = step.get("observation").and_then(|observation| observation.get("results"));
    let results: Vec<JsonNode<'_>> = results.into_iter().flat_map(JsonNode::items).collect();
    let calls = add_calls(builder, step, member("tool_calls"), draft);
    let ids = result_ids(builder, step, &calls, &results, draft);
    let spans = results.iter().map(|result| result.span()).collect();
    let list = builder.add_list(crate::source_map::ListForm::Commas, spans, Some(member("observation")));
    for (element, (result, id)) in results.into_iter().zip(ids).enumerate() {
        let deletion = Deletion::Element(ElementRef { list, element });
        let twin = step.get("extra").and_then(|extra| extra.get("metadata")).filter(|_| calls.len() == 1);
        add_result(builder, result, twin, EventDraft { span: result.span(), id, deletion, ..draft.clone() });
    }
}

/// Adds the calls of a step. Returns the id of each, as text and as span.
fn add_calls(
    builder: &mut EventBuilder,
    step: JsonNode<'_>,
    holder: ElementRef,
    draft: &EventDraft,
) -> Vec<(String, Span)> {
    let Some(calls) = step.get("tool_calls").filter(|calls| calls.items().len() > 0) else {
        return Vec::new();
    };
    let list = builder.add_items(calls, Some(holder));
    let mut ids = Vec::new();
    for (element, call) in calls.items().enumerate() {
        let id = call.string("tool_call_id");
        let span = id.map_or_else(|| builder.next_id(), JsonNode::span);
        let name = builder.tool_name(call, "function_name");
        let arguments =
            call.get("arguments").filter(|arguments| arguments.is_object() || arguments.is_string());
        let mut edits: Vec<EditSite> =
            arguments.iter().map(|value| value.edit_site(values::empty_object)).collect();
        // A copy of the arguments as the model wrote them.
        let twin = step.get("extra").and_then(|extra| extra.get("raw_arguments"));
        edits.extend(twin.map(|twin| twin.edit_site(values::null)));
        let body = arguments.map_or_else(|| builder.new_json("{}"), JsonNode::span);
        let deletion = Deletion::Element(ElementRef { list, element });
        let draft = EventDraft { span: call.span(), id: span, name, body, deletion, edits, ..draft.clone() };
        builder.add(Kind::ToolRequest, draft);
        ids.push((id.map(|id| id.text().into_owned()).unwrap_or_default(), span));
    }
    ids
}

/// Returns the call's id for each result. A result without an id belongs to the next call without a result. If all
/// calls have results, a call is invented.
fn result_ids(
    builder: &mut EventBuilder,
    step: JsonNode<'_>,
    calls: &[(String, Span)],
    results: &[JsonNode<'_>],
    draft: &EventDraft,
) -> Vec<Span> {
    let call_id = |result: &JsonNode<'_>| result.text_of("source_call_id").map(String::from);
    let named_ids: Vec<String> = results.iter().filter_map(call_id).collect();
    let mut open_calls = calls.iter().filter(|(id, _)| !named_ids.contains(id));
    let mut ids = Vec::new();
    for result in results {
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
    let body = match content {
        Some(content) if !content.is_null() => builder.text(content),
        _ => builder.new_string(""),
    };
    let edit = match (content, result.member_spans().last()) {
        (Some(content), _) => Some(content.edit_site(values::text)),
        (None, Some(last)) => {
            let write = |text: &str| format!(", \"content\": {}", values::text(text));
            Some(EditSite { span: Span { start: last.end, end: last.end }, write })
        }
        (None, None) => None,
    };
    let twins = [extra.and_then(|extra| extra.get("tool_result_metadata")), twin];
    let twins = twins.into_iter().flatten().map(|twin| twin.edit_site(values::null));
    let edits = edit.into_iter().chain(twins).collect();
    let is_error =
        extra.is_some_and(|extra| extra.is_true("tool_result_is_error") || extra.is_true("is_error"));
    builder.add(Kind::ToolResponse { is_error }, EventDraft { body, edits, ..draft });
}
