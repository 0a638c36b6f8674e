//! ATIF trajectories: a document whose steps are counted from 1. A step of the agent holds what it thought, said and
//! called, and what came of it. Trajectories of other agents that a document holds are not what its own was sent.

use serde_json::{Map, Value};

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading, time_of};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct Atif;

const WANTED: Wanted = |key| {
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

impl Transcript for Atif {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_it = |document: Look<'_>| {
            let says_so =
                document.text_of("schema_version").is_some_and(|version| version.starts_with("ATIF-"));
            let is_step = |step: Look<'_>| step.get("step_id").is_some() && step.string("source").is_some();
            let steps = document.get("steps");
            steps.is_some_and(|steps| steps.is_array() && (says_so || steps.items().any(is_step)))
        };
        sample.document.is_some_and(is_it) || sample.any_line(is_it)
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        if super::detect::is_document(&reading.bytes()) {
            return reading.document(WANTED, trajectory);
        }
        reading.lines(WANTED, |reading, _, line| trajectory(reading, line))
    }

    fn says_thoughts(&self) -> bool {
        true
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let step = |source: &str, message: &str, behind: usize| {
            let mut step = Map::new();
            step.extend(pair.number.map(|number| ("step_id".to_owned(), Value::from(number + behind))));
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

fn trajectory(reading: &mut Reading, document: Look<'_>) -> Result<(), Unreadable> {
    let Some(steps) = document.get("steps").filter(|steps| steps.is_array()) else {
        return Err(not_of("ATIF", document.span().start, "there are no steps"));
    };
    if let Some(model) = document.get("agent").and_then(|agent| agent.text_of("model_name")) {
        reading.model(&model);
    }
    let mut is_begun = false;
    let list = reading.items(steps, None);
    for (element, step) in steps.items().enumerate() {
        let at = At { list, element };
        let Some(source) = step.text_of("source") else {
            return Err(not_of("ATIF", step.span().start, "a step that does not say whose it is"));
        };
        if let Some(number) = step.get("step_id") {
            reading.number(at, number.span());
        }
        if step.get("extra").is_some_and(|extra| extra.is_true("is_sidechain")) {
            continue;
        }
        let time = time_of(step, "timestamp");
        let draft = Draft { span: step.span(), time, record: Some(at), ..Draft::default() };
        is_begun |= source != "system";
        match &*source {
            "user" => {
                let body = said(reading, step);
                reading.turn(time);
                reading.add(Kind::ChatRequest, Draft { body, ..draft });
            }
            "agent" => agent(reading, step, &draft),
            // What the system says later is of the program.
            "system" if !is_begun => {
                let text = said(reading, step);
                reading.system_at(text);
            }
            "system" => {}
            _ => reading.unknown(step),
        }
    }
    Ok(())
}

/// The text of a message; where there is none beside an image, that there was one.
fn said(reading: &mut Reading, step: Look<'_>) -> Span {
    let Some(message) = step.get("message") else { return reading.made("") };
    let is_media = |part: Look<'_>| part.string("text").is_none();
    if message.items().len() > 0 && message.items().all(is_media) {
        return reading.made("[image]");
    }
    reading.text(message)
}

fn agent(reading: &mut Reading, step: Look<'_>, draft: &Draft) {
    if let Some(model) = step.text_of("model_name") {
        reading.model(&model);
    }
    let members = reading.members(step);
    let member = |name| At { list: members, element: step.position(name).unwrap_or_default() };
    if let Some(thought) = step.string("reasoning_content").filter(|thought| thought.raw().len() > 2) {
        let (span, cut) = (thought.span(), Cut::Element(member("reasoning_content")));
        reading.add(Kind::Reasoning, Draft { span, body: span, cut, ..draft.clone() });
    }
    if let Some(message) = step.get("message").filter(|message| message.raw().len() > 2) {
        let (span, body) = (message.span(), said(reading, step));
        reading.add(Kind::Message, Draft { span, body, cut: Cut::Value(span, "\"\""), ..draft.clone() });
    }
    let results = step.get("observation").and_then(|observation| observation.get("results"));
    let results: Vec<Look<'_>> = results.into_iter().flat_map(Look::items).collect();
    let calls = calls(reading, step, member("tool_calls"), draft);
    let ids = ids(reading, step, &calls, &results, draft);
    let spans = results.iter().map(|result| result.span()).collect();
    let list = reading.list(super::foreign::ListForm::Commas, spans, Some(member("observation")));
    for (element, (result, id)) in results.into_iter().zip(ids).enumerate() {
        let cut = Cut::Element(At { list, element });
        let twin = step.get("extra").and_then(|extra| extra.get("metadata")).filter(|_| calls.len() == 1);
        answer(reading, result, twin, Draft { span: result.span(), id, cut, ..draft.clone() });
    }
}

/// Adds the calls of a step. The id of each, and its text.
fn calls(reading: &mut Reading, step: Look<'_>, holder: At, draft: &Draft) -> Vec<(String, Span)> {
    let Some(calls) = step.get("tool_calls").filter(|calls| calls.items().len() > 0) else {
        return Vec::new();
    };
    let list = reading.items(calls, Some(holder));
    let mut found = Vec::new();
    for (element, call) in calls.items().enumerate() {
        let id = call.string("tool_call_id");
        let span = id.map_or_else(|| reading.next_id(), Look::span);
        let name = call.string("function_name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
        let arguments =
            call.get("arguments").filter(|arguments| arguments.is_object() || arguments.is_string());
        let mut slots: Vec<Slot> =
            arguments.iter().map(|value| Slot { span: value.span(), write: write::object }).collect();
        // The same once more, as the model wrote it.
        let twin = step.get("extra").and_then(|extra| extra.get("raw_arguments"));
        slots.extend(twin.map(|twin| Slot { span: twin.span(), write: write::null }));
        let body = arguments.map_or_else(|| reading.made_raw("{}"), Look::span);
        let cut = Cut::Element(At { list, element });
        let draft = Draft { span: call.span(), id: span, name, body, cut, slots, ..draft.clone() };
        reading.add(Kind::ToolRequest, draft);
        found.push((id.map(|id| id.text().into_owned()).unwrap_or_default(), span));
    }
    found
}

/// The id of the call that each result answers. One that says none answers the next call that nothing else does; and
/// where there is none, the agent did something that it has no calls for: that is a call nonetheless.
fn ids(
    reading: &mut Reading,
    step: Look<'_>,
    calls: &[(String, Span)],
    results: &[Look<'_>],
    draft: &Draft,
) -> Vec<Span> {
    let of = |result: &Look<'_>| result.text_of("source_call_id").map(String::from);
    let named: Vec<String> = results.iter().filter_map(of).collect();
    let mut waiting = calls.iter().filter(|(id, _)| !named.contains(id));
    let mut all = Vec::new();
    for result in results {
        if let Some(id) = result.string("source_call_id") {
            all.push(id.span());
        } else if let Some((_, id)) = waiting.next() {
            all.push(*id);
        } else {
            let (id, name, body) = (reading.next_id(), reading.made("action"), reading.made_raw("{}"));
            reading.add(Kind::ToolRequest, Draft { span: step.span(), id, name, body, ..draft.clone() });
            all.push(id);
        }
    }
    all
}

fn answer(reading: &mut Reading, result: Look<'_>, twin: Option<Look<'_>>, draft: Draft) {
    let extra = result.get("extra");
    let content = result.get("content");
    let body = match content {
        Some(content) if !content.is_null() => reading.text(content),
        _ => reading.made(""),
    };
    let slot = match (content, result.member_spans().last()) {
        (Some(content), _) => Some(Slot { span: content.span(), write: write::text }),
        (None, Some(last)) => {
            let write = |text: &str| format!(", \"content\": {}", write::text(text));
            Some(Slot { span: Span { start: last.end, end: last.end }, write })
        }
        (None, None) => None,
    };
    let twins = [extra.and_then(|extra| extra.get("tool_result_metadata")), twin];
    let twins = twins.into_iter().flatten().map(|twin| Slot { span: twin.span(), write: write::null });
    let slots = slot.into_iter().chain(twins).collect();
    let is_error =
        extra.is_some_and(|extra| extra.is_true("tool_result_is_error") || extra.is_true("is_error"));
    reading.add(Kind::ToolResponse { is_error }, Draft { body, slots, ..draft });
}
