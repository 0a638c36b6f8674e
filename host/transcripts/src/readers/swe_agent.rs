//! The reader of SWE-agent's and mini-swe-agent's trajectories: a `history` or `messages` member, or a bare list. A
//! record is a message. One task is one turn. Without tool calls the command is in the assistant's text, and its
//! output is the next user message. `trajectory` repeats all of it in pieces, with the messages of each request; an
//! edit must change the copies too.

mod form;
mod responses;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use self::form::Form;
use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::json_index::{JsonNode, MemberFilter};
use crate::reader::Reader;
use crate::reader::SummaryPair;
use crate::sample::{Sample, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_core::json::Span;

pub(super) struct SweAgent;

const WANTED: MemberFilter = |key| {
    matches!(
        key,
        b"history"
            | b"trajectory"
            | b"query"
            | b"messages"
            | b"content"
            | b"tool_calls"
            | b"function"
            | b"tool_call_ids"
            | b"thinking_blocks"
            | b"extra"
            | b"actions"
            | b"response"
            | b"choices"
            | b"message"
            | b"output"
            | b"summary"
    )
};

/// Texts by which a bare list of messages is detected.
const MARKS: [&str; 3] =
    ["mswea_bash_command", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MICRO_SWE_AGENT_FINAL_OUTPUT"];

impl Reader for SweAgent {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let Some(document) = sample.document else { return false };
        let is_list = |name: &str| document.get(name).is_some_and(JsonNode::is_array);
        let of_history = |item: JsonNode<'_>| {
            item.string("role").is_some()
                && ["agent", "message_type", "is_demo"].iter().any(|name| item.get(name).is_some())
        };
        if let Some(history) = document.get("history").filter(|history| history.is_array()) {
            return is_list("trajectory") || history.items().any(of_history);
        }
        let is_mini =
            document.text_of("trajectory_format").is_some_and(|name| name.starts_with("mini-swe-agent"))
                || document.get("info").is_some_and(|info| info.get("mini_version").is_some());
        if is_list("messages") {
            return is_mini;
        }
        let is_marked = |message: JsonNode<'_>| {
            let content = message.text_of("content").unwrap_or_default();
            let role = message.text_of("role");
            let is_marked =
                content.starts_with("<returncode>") || MARKS.iter().any(|mark| content.contains(mark));
            role.is_some_and(|role| role == "exit" || is_marked)
        };
        document.is_array() && document.items().any(|message| is_marked(message) || of_history(message))
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_document(WANTED, |builder, document| {
            let list = ["history", "messages"].iter().find_map(|name| document.get(name)).unwrap_or(document);
            if !list.is_array() {
                return Err(format_error("SWE-agent", document.span().start, "it has no list of messages"));
            }
            messages(builder, list, document.get("trajectory"))
        })
    }

    fn shows_reasoning(&self) -> bool {
        true
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role: &str, content: &str, kind: &str| {
            let mut message = Map::new();
            message.insert("role".into(), role.into());
            message.insert("content".into(), content.into());
            if let Some(agent) = pair.first.text_of("agent") {
                message.insert("agent".into(), Value::from(&*agent));
            }
            if pair.first.get("message_type").is_some() {
                message.insert("message_type".into(), kind.into());
            }
            message
        };
        let mut response = message("assistant", pair.response, "action");
        if pair.first.get("agent").is_none() {
            response.insert("extra".into(), json!({ "actions": [] }));
        }
        [message("user", pair.request, "observation"), response]
            .map(|message| Value::Object(message).to_string())
            .into()
    }
}

/// The copies in `trajectory`.
struct Twins<'a> {
    steps: Vec<(ElementRef, JsonNode<'a>)>,
    /// Messages of the requests, by their content.
    sent: HashMap<&'a [u8], Vec<(ElementRef, JsonNode<'a>)>>,
}

impl<'a> Twins<'a> {
    fn new(builder: &mut EventBuilder, trajectory: Option<JsonNode<'a>>) -> Self {
        let mut twins = Self { steps: Vec::new(), sent: HashMap::new() };
        let Some(trajectory) = trajectory.filter(|trajectory| trajectory.is_array()) else { return twins };
        let list = builder.add_items(trajectory, None);
        for (element, step) in trajectory.items().enumerate() {
            twins.steps.push((ElementRef { list, element }, step));
            let Some(query) = step.get("query").filter(|query| query.is_array()) else { continue };
            let list = builder.add_items(query, None);
            for (element, message) in query.items().enumerate() {
                if let Some(content) = message.get("content") {
                    twins
                        .sent
                        .entry(content.raw())
                        .or_default()
                        .push((ElementRef { list, element }, message));
                }
            }
        }
        twins
    }

    /// Returns the copies of a message in the requests.
    fn sent(&self, message: JsonNode<'_>) -> Vec<(ElementRef, JsonNode<'a>)> {
        let same = message.get("content").and_then(|content| self.sent.get(content.raw()));
        let role = message.text_of("role");
        same.into_iter().flatten().filter(|(_, other)| other.text_of("role") == role).copied().collect()
    }

    /// Returns the first step, from `from` on, whose response is this message.
    fn step(&self, message: JsonNode<'_>, from: usize) -> Option<usize> {
        let is_it = |step: JsonNode<'_>| {
            let same = |own: &str, its: &str| {
                let (own, its) = (message.string(own), step.string(its));
                own.zip(its).is_some_and(|(own, its)| own.raw() == its.raw())
            };
            same("content", "response") || (same("action", "action") && same("thought", "thought"))
        };
        (from..self.steps.len()).find(|place| self.steps.get(*place).is_some_and(|(_, step)| is_it(*step)))
    }
}

/// A call without a result.
struct Waiting {
    id: Option<String>,
    span: Span,
    /// The copy of the result in the trajectory.
    observation: Option<Span>,
}

fn messages(
    builder: &mut EventBuilder,
    list: JsonNode<'_>,
    trajectory: Option<JsonNode<'_>>,
) -> Result<(), Unreadable> {
    let twins = Twins::new(builder, trajectory);
    let number = builder.add_items(list, None);
    let all: Vec<JsonNode<'_>> = list.items().collect();
    let (mut is_open, mut next_step) = (false, 0);
    let mut waiting: Vec<Waiting> = Vec::new();
    for (element, message) in all.iter().copied().enumerate() {
        let at = ElementRef { list: number, element };
        if !message.is_object() {
            return Err(format_error("SWE-agent", message.span().start, "a message is not an object"));
        }
        if message.is_true("is_demo") {
            continue;
        }
        let draft = EventDraft { span: message.span(), record: Some(at), ..EventDraft::default() };
        let role = message.text_of("role");
        match role.as_deref() {
            Some("assistant") => {
                waiting.clear();
                let step = twins.step(message, next_step);
                // The steps in between have no message in the list.
                for (place, _) in twins.steps.iter().take(step.map_or(0, |step| step + 1)).skip(next_step) {
                    builder.add_mention(at, *place);
                }
                next_step = step.map_or(next_step, |step| step + 1);
                let step = step.and_then(|step| twins.steps.get(step)).map(|(_, step)| *step);
                let observation = step.and_then(|step| step.string("observation"));
                let is_followed = all.get(element + 1).is_some_and(|next| !is_of_assistant(*next));
                let is_answered = is_followed || observation.is_some();
                let forms = Form::all(message, step, twins.sent(message), is_answered);
                let before = builder.len();
                let ids = assistant(builder, message, &forms, &draft);
                if builder.len() == before {
                    builder.count_unknown(message);
                }
                let observation = observation.map(JsonNode::span);
                waiting = ids.into_iter().map(|(id, span)| Waiting { id, span, observation }).collect();
                // The last call has a result only in the trajectory.
                if !is_followed
                    && waiting.len() == 1
                    && let (Some(Waiting { span: id, .. }), Some(body)) = (waiting.pop(), observation)
                {
                    let edits = vec![EditSite { span: body, write: values::text }];
                    let deletion = Deletion::Value(body, "\"\"");
                    let draft = EventDraft { span: body, id, body, edits, deletion, ..EventDraft::default() };
                    builder.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("user") if !waiting.is_empty() && waiting.iter().all(|call| call.id.is_none()) => {
                let Waiting { span, observation, .. } = waiting.remove(0);
                answer(builder, message, span, observation, &twins, draft);
            }
            Some("user") => {
                if message.get("content").is_none() {
                    builder.count_unknown(message);
                }
                let content = message.get("content").filter(|content| !content.is_null());
                let body = content.map_or_else(Span::default, |content| builder.text(content));
                let body = if body.is_empty() { builder.new_string("") } else { body };
                if !is_open {
                    builder.start_turn(None);
                    is_open = true;
                }
                builder.add(Kind::ChatRequest, EventDraft { body, ..draft });
            }
            Some("tool") => {
                let id = message.get("tool_call_ids").and_then(|ids| ids.items().next());
                let id = id.or(message.get("tool_call_id")).filter(|id| id.is_string());
                let name = id.map(|id| id.text().into_owned());
                let place = waiting.iter().position(|call| name.is_none() || call.id == name);
                let call = place.map(|place| waiting.remove(place));
                let span = id.map(JsonNode::span).or(call.as_ref().map(|call| call.span)).unwrap_or_default();
                answer(builder, message, span, call.and_then(|call| call.observation), &twins, draft);
            }
            Some("exit") => {
                // The text that ended the task is the result of the last call, not a message.
                if let (Some(call), Some(content)) = (waiting.pop(), message.string("content")) {
                    let (body, write) = (content.span(), values::text);
                    let deletion = Deletion::Value(body, "\"\"");
                    let edits = vec![EditSite { span: body, write }];
                    let draft = EventDraft { record: None, id: call.span, body, edits, deletion, ..draft };
                    builder.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("system") => {
                if let Some(content) = message.get("content") {
                    let text = builder.text(content);
                    builder.add_system_at(text);
                }
            }
            Some(_) => builder.count_unknown(message),
            None if message.get("object").is_some() || message.get("type").is_some() => {
                let found = responses::read(builder, message, &draft);
                waiting.extend(found.into_iter().map(|(id, span)| Waiting { id, span, observation: None }));
            }
            None => return Err(format_error("SWE-agent", message.span().start, "a message has no role")),
        }
    }
    Ok(())
}

fn is_of_assistant(message: JsonNode<'_>) -> bool {
    message.text_of("role").as_deref() == Some("assistant")
}

/// Adds the events of an assistant message. Returns the ids of its calls.
fn assistant(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    forms: &[Form],
    draft: &EventDraft,
) -> Vec<(Option<String>, Span)> {
    let Some(own) = forms.first() else { return Vec::new() };
    let mut deletions = Some(forms.iter().flat_map(Form::without_thoughts).collect::<Vec<_>>());
    for thought in form::thoughts(builder, message, own) {
        let deletion = Deletion::Several(deletions.take().unwrap_or_default());
        let EventDraft { body, metadata, .. } = thought;
        builder.add(Kind::Reasoning, EventDraft { body, metadata, deletion, ..draft.clone() });
    }
    if !own.rest.trim().is_empty() {
        let body = builder.new_string(own.rest.trim());
        builder.add(Kind::Message, EventDraft { body, ..draft.clone() });
    }
    if let Some(command) = &own.command {
        let (id, name) =
            (builder.next_id(), builder.new_string(if own.is_fenced { "bash" } else { "command" }));
        let body = match command.as_str() {
            "" => "{}".into(),
            command => json!({ "command": command }).to_string(),
        };
        let body = builder.new_json(&body);
        let edits = forms.iter().flat_map(|form| form.without_arguments(0)).collect();
        let deletion = Deletion::Several(forms.iter().flat_map(Form::without_call).collect());
        builder.add(Kind::ToolRequest, EventDraft { id, name, body, edits, deletion, ..draft.clone() });
        return vec![(None, id)];
    }
    let Some(calls) = message.get("tool_calls").filter(|calls| calls.items().len() > 0) else {
        return Vec::new();
    };
    let members = builder.add_members(message);
    let holder = message.position("tool_calls").map(|element| ElementRef { list: members, element });
    let list = builder.add_items(calls, holder);
    let mut ids = Vec::new();
    for (place, call) in calls.items().enumerate() {
        let Some(function) = call.get("function") else { continue };
        let id = call.string("id");
        let span = id.map_or_else(|| builder.next_id(), JsonNode::span);
        let name = builder.tool_name(function, "name");
        let body = function.get("arguments").filter(|value| value.is_string() || value.is_object());
        let body = body.map_or_else(|| builder.new_json("{}"), JsonNode::span);
        let edits = forms.iter().flat_map(|form| form.without_arguments(place)).collect();
        let mut deletions = vec![Deletion::Element(ElementRef { list, element: place })];
        if place == 0 {
            deletions.extend(forms.iter().flat_map(Form::without_call));
        }
        let draft = EventDraft {
            id: span,
            name,
            body,
            edits,
            deletion: Deletion::Several(deletions),
            ..draft.clone()
        };
        builder.add(Kind::ToolRequest, draft);
        ids.push((id.map(|id| id.text().into_owned()), span));
    }
    ids
}

fn answer(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    id: Span,
    observation: Option<Span>,
    twins: &Twins<'_>,
    draft: EventDraft,
) {
    let Some(content) = message.get("content") else { return };
    let body = if content.is_null() { builder.new_string("") } else { builder.text(content) };
    let edit = |content: JsonNode<'_>| {
        let write = if content.is_array() { values::text_block } else { values::text };
        content.edit_site(write)
    };
    let mut edits = vec![edit(content)];
    let raw = message.get("extra").and_then(|extra| extra.string("raw_output"));
    edits.extend(raw.map(edit));
    edits.extend(observation.map(|span| EditSite { span, write: values::text }));
    let mut deletions: Vec<Deletion> =
        observation.map(|span| Deletion::Value(span, "\"\"")).into_iter().collect();
    for (at, sent) in twins.sent(message) {
        edits.extend(sent.get("content").map(edit));
        deletions.push(Deletion::Element(at));
    }
    let draft = EventDraft { id, body, edits, deletion: Deletion::Several(deletions), ..draft };
    builder.add(Kind::ToolResponse { is_error: false }, draft);
}
