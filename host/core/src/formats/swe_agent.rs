//! SWE-agent's trajectories, and those of mini-swe-agent: a `history` of messages, or `messages`, or a bare list. One
//! task is one turn. Where there are no calls, the command lies in what the assistant said, and what came of it is said
//! by the user; `trajectory` says all of it again, in pieces, with what was sent each time.

mod form;
mod responses;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use self::form::Form;
use super::Transcript;
use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use super::write;
use crate::event::Kind;
use crate::json::Span;

pub(super) struct SweAgent;

const WANTED: Wanted = |key| {
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

/// What a bare list of messages is known by.
const MARKS: [&str; 3] =
    ["mswea_bash_command", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MICRO_SWE_AGENT_FINAL_OUTPUT"];

impl Transcript for SweAgent {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let Some(document) = sample.document else { return false };
        let is_list = |name: &str| document.get(name).is_some_and(Look::is_array);
        let of_history = |item: Look<'_>| {
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
        let is_marked = |message: Look<'_>| {
            let content = message.text_of("content").unwrap_or_default();
            let role = message.text_of("role");
            let is_marked =
                content.starts_with("<returncode>") || MARKS.iter().any(|mark| content.contains(mark));
            role.is_some_and(|role| role == "exit" || is_marked)
        };
        document.is_array() && document.items().any(|message| is_marked(message) || of_history(message))
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.document(WANTED, |reading, document| {
            let list = ["history", "messages"].iter().find_map(|name| document.get(name)).unwrap_or(document);
            if !list.is_array() {
                return Err(not_of("SWE-agent", document.span().start, "there is no list of messages"));
            }
            messages(reading, list, document.get("trajectory"))
        })
    }

    fn says_thoughts(&self) -> bool {
        true
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
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

/// What the trajectory says again.
struct Twins<'a> {
    steps: Vec<(At, Look<'a>)>,
    /// The messages that were sent, by their content.
    sent: HashMap<&'a [u8], Vec<(At, Look<'a>)>>,
}

impl<'a> Twins<'a> {
    fn of(reading: &mut Reading, trajectory: Option<Look<'a>>) -> Self {
        let mut twins = Self { steps: Vec::new(), sent: HashMap::new() };
        let Some(trajectory) = trajectory.filter(|trajectory| trajectory.is_array()) else { return twins };
        let list = reading.items(trajectory, None);
        for (element, step) in trajectory.items().enumerate() {
            twins.steps.push((At { list, element }, step));
            let Some(query) = step.get("query").filter(|query| query.is_array()) else { continue };
            let list = reading.items(query, None);
            for (element, message) in query.items().enumerate() {
                if let Some(content) = message.get("content") {
                    twins.sent.entry(content.raw()).or_default().push((At { list, element }, message));
                }
            }
        }
        twins
    }

    /// The same message, as it was sent.
    fn sent(&self, message: Look<'_>) -> Vec<(At, Look<'a>)> {
        let same = message.get("content").and_then(|content| self.sent.get(content.raw()));
        let role = message.text_of("role");
        same.into_iter().flatten().filter(|(_, other)| other.text_of("role") == role).copied().collect()
    }

    /// The place of the step that a message is the answer of, the earliest from there on.
    fn step(&self, message: Look<'_>, from: usize) -> Option<usize> {
        let is_it = |step: Look<'_>| {
            let same = |own: &str, its: &str| {
                let (own, its) = (message.string(own), step.string(its));
                own.zip(its).is_some_and(|(own, its)| own.raw() == its.raw())
            };
            same("content", "response") || (same("action", "action") && same("thought", "thought"))
        };
        (from..self.steps.len()).find(|place| self.steps.get(*place).is_some_and(|(_, step)| is_it(*step)))
    }
}

/// A call that waits for its answer.
struct Waiting {
    id: Option<String>,
    span: Span,
    /// Where the trajectory has the answer.
    observation: Option<Span>,
}

fn messages(reading: &mut Reading, list: Look<'_>, trajectory: Option<Look<'_>>) -> Result<(), Unreadable> {
    let twins = Twins::of(reading, trajectory);
    let number = reading.items(list, None);
    let all: Vec<Look<'_>> = list.items().collect();
    let (mut is_open, mut next_step) = (false, 0);
    let mut waiting: Vec<Waiting> = Vec::new();
    for (element, message) in all.iter().copied().enumerate() {
        let at = At { list: number, element };
        if !message.is_object() {
            return Err(not_of("SWE-agent", message.span().start, "a message that is no object"));
        }
        if message.is_true("is_demo") {
            continue;
        }
        let draft = Draft { span: message.span(), record: Some(at), ..Draft::default() };
        let role = message.text_of("role");
        match role.as_deref() {
            Some("assistant") => {
                waiting.clear();
                let step = twins.step(message, next_step);
                // What lies between is of no message that is there.
                for (place, _) in twins.steps.iter().take(step.map_or(0, |step| step + 1)).skip(next_step) {
                    reading.mention(at, *place);
                }
                next_step = step.map_or(next_step, |step| step + 1);
                let step = step.and_then(|step| twins.steps.get(step)).map(|(_, step)| *step);
                let observation = step.and_then(|step| step.string("observation"));
                let is_followed = all.get(element + 1).is_some_and(|next| !is_of_assistant(*next));
                let is_answered = is_followed || observation.is_some();
                let forms = Form::all(message, step, twins.sent(message), is_answered);
                let before = reading.len();
                let ids = assistant(reading, message, &forms, &draft);
                if reading.len() == before {
                    reading.unknown(message);
                }
                let observation = observation.map(Look::span);
                waiting = ids.into_iter().map(|(id, span)| Waiting { id, span, observation }).collect();
                // The last one was not told what came of it, but it is known.
                if !is_followed
                    && waiting.len() == 1
                    && let (Some(Waiting { span: id, .. }), Some(body)) = (waiting.pop(), observation)
                {
                    let slots = vec![Slot { span: body, write: write::text }];
                    let cut = Cut::Value(body, "\"\"");
                    let draft = Draft { span: body, id, body, slots, cut, ..Draft::default() };
                    reading.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("user") if !waiting.is_empty() && waiting.iter().all(|call| call.id.is_none()) => {
                let Waiting { span, observation, .. } = waiting.remove(0);
                answer(reading, message, span, observation, &twins, draft);
            }
            Some("user") => {
                if message.get("content").is_none() {
                    reading.unknown(message);
                }
                let content = message.get("content").filter(|content| !content.is_null());
                let body = content.map_or_else(Span::default, |content| reading.text(content));
                let body = if body.is_empty() { reading.made("") } else { body };
                if !is_open {
                    reading.turn(None);
                    is_open = true;
                }
                reading.add(Kind::ChatRequest, Draft { body, ..draft });
            }
            Some("tool") => {
                let id = message.get("tool_call_ids").and_then(|ids| ids.items().next());
                let id = id.or(message.get("tool_call_id")).filter(|id| id.is_string());
                let name = id.map(|id| id.text().into_owned());
                let place = waiting.iter().position(|call| name.is_none() || call.id == name);
                let call = place.map(|place| waiting.remove(place));
                let span = id.map(Look::span).or(call.as_ref().map(|call| call.span)).unwrap_or_default();
                answer(reading, message, span, call.and_then(|call| call.observation), &twins, draft);
            }
            Some("exit") => {
                // What ended the task answers what was called last, and is no message.
                if let (Some(call), Some(content)) = (waiting.pop(), message.string("content")) {
                    let (body, write) = (content.span(), write::text);
                    let cut = Cut::Value(body, "\"\"");
                    let slots = vec![Slot { span: body, write }];
                    let draft = Draft { record: None, id: call.span, body, slots, cut, ..draft };
                    reading.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("system") => {
                if let Some(content) = message.get("content") {
                    let text = reading.text(content);
                    reading.system_at(text);
                }
            }
            Some(_) => reading.unknown(message),
            None if message.get("object").is_some() || message.get("type").is_some() => {
                let found = responses::read(reading, message, &draft);
                waiting.extend(found.into_iter().map(|(id, span)| Waiting { id, span, observation: None }));
            }
            None => return Err(not_of("SWE-agent", message.span().start, "a message without a role")),
        }
    }
    Ok(())
}

fn is_of_assistant(message: Look<'_>) -> bool {
    message.text_of("role").as_deref() == Some("assistant")
}

/// Adds what an assistant said, thought and called. The ids of the calls.
fn assistant(
    reading: &mut Reading,
    message: Look<'_>,
    forms: &[Form],
    draft: &Draft,
) -> Vec<(Option<String>, Span)> {
    let Some(own) = forms.first() else { return Vec::new() };
    let mut cuts = Some(forms.iter().flat_map(Form::without_thoughts).collect::<Vec<_>>());
    for thought in form::thoughts(reading, message, own) {
        let cut = Cut::Several(cuts.take().unwrap_or_default());
        let Draft { body, metadata, .. } = thought;
        reading.add(Kind::Reasoning, Draft { body, metadata, cut, ..draft.clone() });
    }
    if !own.rest.trim().is_empty() {
        let body = reading.made(own.rest.trim());
        reading.add(Kind::Message, Draft { body, ..draft.clone() });
    }
    if let Some(command) = &own.command {
        let (id, name) = (reading.next_id(), reading.made(if own.is_fenced { "bash" } else { "command" }));
        let body = match command.as_str() {
            "" => "{}".into(),
            command => json!({ "command": command }).to_string(),
        };
        let body = reading.made_raw(&body);
        let slots = forms.iter().flat_map(|form| form.without_arguments(0)).collect();
        let cut = Cut::Several(forms.iter().flat_map(Form::without_call).collect());
        reading.add(Kind::ToolRequest, Draft { id, name, body, slots, cut, ..draft.clone() });
        return vec![(None, id)];
    }
    let Some(calls) = message.get("tool_calls").filter(|calls| calls.items().len() > 0) else {
        return Vec::new();
    };
    let members = reading.members(message);
    let holder = message.position("tool_calls").map(|element| At { list: members, element });
    let list = reading.items(calls, holder);
    let mut ids = Vec::new();
    for (place, call) in calls.items().enumerate() {
        let Some(function) = call.get("function") else { continue };
        let id = call.string("id");
        let span = id.map_or_else(|| reading.next_id(), Look::span);
        let name = function.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
        let body = function.get("arguments").filter(|value| value.is_string() || value.is_object());
        let body = body.map_or_else(|| reading.made_raw("{}"), Look::span);
        let slots = forms.iter().flat_map(|form| form.without_arguments(place)).collect();
        let mut cuts = vec![Cut::Element(At { list, element: place })];
        if place == 0 {
            cuts.extend(forms.iter().flat_map(Form::without_call));
        }
        let draft = Draft { id: span, name, body, slots, cut: Cut::Several(cuts), ..draft.clone() };
        reading.add(Kind::ToolRequest, draft);
        ids.push((id.map(|id| id.text().into_owned()), span));
    }
    ids
}

/// Adds what came of a call.
fn answer(
    reading: &mut Reading,
    message: Look<'_>,
    id: Span,
    observation: Option<Span>,
    twins: &Twins<'_>,
    draft: Draft,
) {
    let Some(content) = message.get("content") else { return };
    let body = if content.is_null() { reading.made("") } else { reading.text(content) };
    let slot = |content: Look<'_>| {
        let write = if content.is_array() { write::blocks } else { write::text };
        Slot { span: content.span(), write }
    };
    let mut slots = vec![slot(content)];
    let raw = message.get("extra").and_then(|extra| extra.string("raw_output"));
    slots.extend(raw.map(slot));
    slots.extend(observation.map(|span| Slot { span, write: write::text }));
    let mut cuts: Vec<Cut> = observation.map(|span| Cut::Value(span, "\"\"")).into_iter().collect();
    for (at, sent) in twins.sent(message) {
        slots.extend(sent.get("content").map(slot));
        cuts.push(Cut::Element(at));
    }
    let draft = Draft { id, body, slots, cut: Cut::Several(cuts), ..draft };
    reading.add(Kind::ToolResponse { is_error: false }, draft);
}
