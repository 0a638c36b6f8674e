//! The reader of SWE-agent's and mini-swe-agent's trajectories: a `history` or `messages` member, or a bare list. A
//! record is a message. One task is one turn. Without tool calls the command is in the assistant's text, and its
//! output is the next user message. `trajectory` repeats all of this in steps, each with the messages of its request.
//! An edit must change the copies too.

mod form;
mod responses;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use self::form::Form;
use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct SweAgent;

const WANTED: MemberFilter = |key| {
    matches!(key, b"history" | b"trajectory" | b"query" | b"messages" | b"content")
        || matches!(key, b"tool_calls" | b"function" | b"tool_call_ids" | b"thinking_blocks" | b"extra")
        || matches!(key, b"actions" | b"response" | b"choices" | b"message" | b"output" | b"summary")
};

/// Texts that identify a bare list of messages.
const MARKS: [&str; 3] =
    ["mswea_bash_command", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MICRO_SWE_AGENT_FINAL_OUTPUT"];

impl Reader for SweAgent {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let Some(document) = sample.document else { return false };
        let is_list = |name: &str| document.get(name).is_some_and(JsonNode::is_array);
        let is_history_message = |item: JsonNode<'_>| {
            item.string("role").is_some()
                && ["agent", "message_type", "is_demo"].iter().any(|name| item.get(name).is_some())
        };
        if let Some(history) = document.array("history") {
            return is_list("trajectory") || history.items().any(is_history_message);
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
            let has_mark =
                content.starts_with("<returncode>") || MARKS.iter().any(|mark| content.contains(mark));
            role.is_some_and(|role| role == "exit" || has_mark)
        };
        document.is_array()
            && document.items().any(|message| is_marked(message) || is_history_message(message))
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_document(WANTED, |builder, document| {
            let list = ["history", "messages"].iter().find_map(|name| document.get(name)).unwrap_or(document);
            ensure(list.is_array(), "SWE-agent", document, "it has no list of messages")?;
            read_messages(builder, list, document.get("trajectory"))
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
    /// Messages of the requests.
    sent: HashMap<Vec<&'a [u8]>, Vec<(ElementRef, JsonNode<'a>)>>,
}

impl<'a> Twins<'a> {
    fn new(builder: &mut EventBuilder, trajectory: Option<JsonNode<'a>>) -> Self {
        let mut twins = Self { steps: Vec::new(), sent: HashMap::new() };
        let Some(trajectory) = trajectory.filter(|trajectory| trajectory.is_array()) else { return twins };
        for (at, step) in builder.elements(trajectory, None) {
            twins.steps.push((at, step));
            let Some(query) = step.array("query") else { continue };
            for (at, message) in builder.elements(query, None) {
                twins.sent.entry(identity(message)).or_default().push((at, message));
            }
        }
        twins
    }

    /// Returns the copies of a message in the requests.
    fn sent<'b>(&'b self, message: JsonNode<'b>) -> &'b [(ElementRef, JsonNode<'a>)] {
        self.sent.get(&identity(message)).map_or(&[], Vec::as_slice)
    }

    /// Returns the first step, from `from` on, whose response is this message.
    fn step(&self, message: JsonNode<'_>, from: usize) -> Option<usize> {
        let repeats_message = |step: JsonNode<'_>| {
            let same = |message_member: &str, step_member: &str| {
                let texts = message.string(message_member).zip(step.string(step_member));
                texts.is_some_and(|(of_message, of_step)| of_message.raw() == of_step.raw())
            };
            same("content", "response") || (same("action", "action") && same("thought", "thought"))
        };
        (from..self.steps.len())
            .find(|index| self.steps.get(*index).is_some_and(|(_, step)| repeats_message(*step)))
    }
}

/// Returns the members that two copies of a message share. Many messages have equal contents, but other ids of calls.
fn identity(message: JsonNode<'_>) -> Vec<&[u8]> {
    let members = ["content", "role", "tool_call_id"].into_iter().filter_map(|name| message.get(name));
    let calls = message.items_of("tool_calls").filter_map(|call| call.get("id"));
    members.chain(calls).chain(message.items_of("tool_call_ids")).map(JsonNode::raw).collect()
}

/// A call without a result.
struct OpenCall<'a> {
    id: Option<String>,
    span: Span,
    /// The copy of the result in the trajectory.
    observation: Option<JsonNode<'a>>,
}

fn read_messages(
    builder: &mut EventBuilder,
    list: JsonNode<'_>,
    trajectory: Option<JsonNode<'_>>,
) -> Result<(), Unreadable> {
    let twins = Twins::new(builder, trajectory);
    let messages: Vec<(ElementRef, JsonNode<'_>)> = builder.elements(list, None).collect();
    let (mut has_turn, mut next_step) = (false, 0);
    let mut open_calls: Vec<OpenCall<'_>> = Vec::new();
    for (at, message) in messages.iter().copied() {
        ensure(message.is_object(), "SWE-agent", message, "a message is not an object")?;
        if message.is_true("is_demo") {
            continue;
        }
        let draft = EventDraft::whole(at, message);
        let sent = twins.sent(message);
        sent.iter().for_each(|(copy, _)| builder.add_mention(at, *copy));
        let role = message.text_of("role");
        match role.as_deref() {
            Some("assistant") => {
                open_calls.clear();
                let step = twins.step(message, next_step);
                // The steps between the last matched step and this one have no message in the list.
                for (step_ref, _) in twins.steps.iter().take(step.map_or(0, |step| step + 1)).skip(next_step)
                {
                    builder.add_mention(at, *step_ref);
                }
                next_step = step.map_or(next_step, |step| step + 1);
                let step = step.and_then(|step| twins.steps.get(step)).map(|(_, step)| *step);
                let observation = step.and_then(|step| step.string("observation"));
                let is_followed =
                    messages.get(at.element + 1).is_some_and(|(_, next)| !next.text_is("role", "assistant"));
                let is_answered = is_followed || observation.is_some();
                let forms = Form::copies(message, step, sent, is_answered);
                let len_before = builder.len();
                let ids = add_assistant_events(builder, message, &forms, &draft);
                if builder.len() == len_before {
                    builder.count_unknown(message);
                }
                open_calls = ids.into_iter().map(|(id, span)| OpenCall { id, span, observation }).collect();
                // The last call has a result only in the trajectory.
                if !is_followed
                    && open_calls.len() == 1
                    && let (Some(OpenCall { span: id, .. }), Some(body)) = (open_calls.pop(), observation)
                {
                    let deletion = Deletion::Value(body.span(), "\"\"");
                    let draft = EventDraft::default().text_part(body, deletion).with_id(id);
                    let draft = draft.with_edit(Some(body), values::text);
                    builder.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("user") if !open_calls.is_empty() && open_calls.iter().all(|call| call.id.is_none()) => {
                let OpenCall { span, observation, .. } = open_calls.remove(0);
                add_result(builder, message, span, observation, sent, draft);
            }
            Some("user") => {
                let content = message.get("content");
                if content.is_none() {
                    builder.count_unknown(message);
                }
                let draft = draft.with_body(builder.text_or_empty(content));
                builder.add_all(vec![(Kind::ChatRequest, draft)], !has_turn);
                has_turn = true;
            }
            Some("tool") => {
                let id = message.get("tool_call_ids").and_then(|ids| ids.items().next());
                let id = id.or(message.get("tool_call_id")).filter(|id| id.is_string());
                let name = id.map(|id| id.text().into_owned());
                let index = open_calls.iter().position(|call| name.is_none() || call.id == name);
                let call = index.map(|index| open_calls.remove(index));
                let span = id.map(JsonNode::span).or(call.as_ref().map(|call| call.span)).unwrap_or_default();
                add_result(builder, message, span, call.and_then(|call| call.observation), sent, draft);
            }
            Some("exit") => {
                // The text that ended the task is the result of the last call, not a message.
                if let (Some(call), Some(content)) = (open_calls.pop(), message.string("content")) {
                    let deletion = Deletion::Value(content.span(), "\"\"");
                    let draft = EventDraft { record: None, id: call.span, deletion, ..draft };
                    let draft = builder.result(Some(content), values::text, draft);
                    builder.add(Kind::ToolResponse { is_error: false }, draft);
                }
            }
            Some("system") => builder.add_system_content(message.get("content")),
            Some(_) => builder.count_unknown(message),
            None if message.get("object").is_some() || message.get("type").is_some() => {
                let ids = responses::read(builder, message, &draft);
                let answered = message.text_of("call_id");
                open_calls.retain(|call| answered.is_none() || call.id.as_deref() != answered.as_deref());
                open_calls.extend(ids.into_iter().map(|(id, span)| OpenCall { id, span, observation: None }));
            }
            None => return Err(format_error("SWE-agent", message, "a message has no role")),
        }
    }
    Ok(())
}

/// Adds the events of an assistant message. Returns the ids of its calls.
fn add_assistant_events(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    forms: &[Form],
    draft: &EventDraft,
) -> Vec<(Option<String>, Span)> {
    let Some(form) = forms.first() else { return Vec::new() };
    let mut deletions = Some(forms.iter().flat_map(Form::thought_deletions).collect::<Vec<_>>());
    for thought in form::thought_drafts(builder, message, form) {
        let deletion = Deletion::Several(deletions.take().unwrap_or_default());
        let EventDraft { body, metadata, .. } = thought;
        builder.add(Kind::Reasoning, EventDraft { body, metadata, deletion, ..draft.clone() });
    }
    if !form.remaining.trim().is_empty() {
        let body = builder.new_string(form.remaining.trim());
        builder.add(Kind::Message, EventDraft { body, ..draft.clone() });
    }
    if let Some(command) = &form.command {
        let (id, name) =
            (builder.next_id(), builder.new_string(if form.is_fenced { "bash" } else { "command" }));
        let body = match command.as_str() {
            "" => "{}".into(),
            command => json!({ "command": command }).to_string(),
        };
        let body = builder.new_json(&body);
        let edits = forms.iter().flat_map(|form| form.argument_edits(0)).collect();
        let deletion = Deletion::Several(forms.iter().flat_map(Form::call_deletions).collect());
        builder.add(Kind::ToolRequest, EventDraft { id, name, body, edits, deletion, ..draft.clone() });
        return vec![(None, id)];
    }
    let Some(calls) = message.non_empty_array("tool_calls") else { return Vec::new() };
    let holder = builder.members(message).find("tool_calls");
    let mut ids = Vec::new();
    for (at, call) in builder.elements(calls, holder) {
        let Some(function) = call.get("function") else { continue };
        let source_id = call.string("id");
        let id = builder.id_or_next(source_id);
        let name = builder.tool_name(function, "name");
        let body = function.get("arguments").filter(|value| value.is_string() || value.is_object());
        let body = builder.arguments(body);
        let edits = forms.iter().flat_map(|form| form.argument_edits(at.element)).collect();
        let mut deletions = vec![Deletion::Element(at)];
        if at.element == 0 {
            deletions.extend(forms.iter().flat_map(Form::call_deletions));
        }
        let deletion = Deletion::Several(deletions);
        builder.add(Kind::ToolRequest, EventDraft { id, name, body, edits, deletion, ..draft.clone() });
        ids.push((source_id.map(|id| id.text().into_owned()), id));
    }
    ids
}

fn add_result(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    id: Span,
    observation: Option<JsonNode<'_>>,
    sent: &[(ElementRef, JsonNode<'_>)],
    draft: EventDraft,
) {
    let Some(content) = message.get("content") else { return };
    let write_of = |content: JsonNode<'_>| if content.is_array() { values::text_block } else { values::text };
    let draft = builder.result(Some(content), write_of(content), draft.with_id(id));
    let raw = message.get("extra").and_then(|extra| extra.string("raw_output"));
    let mut draft = draft.with_edit(raw, values::text).with_edit(observation, values::text);
    let contents = sent.iter().filter_map(|(_, copy)| copy.get("content"));
    draft.edits.extend(contents.map(|content| content.edit_site(write_of(content))));
    draft.further_deletions.extend(observation.map(|value| Deletion::Value(value.span(), "\"\"")));
    builder.add(Kind::ToolResponse { is_error: false }, draft);
}
