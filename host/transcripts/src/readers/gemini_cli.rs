//! The reader of Gemini CLI's chats: a JSONL log, in older versions one document. A record is a message. The log is
//! replayed first (see `gemini_log`), and the last state of each message counts. A result is stored with its call,
//! and in most versions again in the user's message; an edit must change both. Messages that the replay dropped stay
//! in the file and are not events.

use serde_json::json;

use super::gemini::{self, Calls, is_thought, parts};
use super::gemini_log::{Log, LogMessage, WANTED as LOG_MEMBERS};
use super::values;
use crate::builder::{EventBuilder, EventDraft, NewEvent, time_of};
use crate::reader::{Reader, SummaryPair};
use crate::sample::Sample;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonIndex, JsonNode, Malformed, MemberFilter, Span, span_of};

pub(super) struct GeminiCli;

/// The members that are indexed in the remaining messages.
const MESSAGE_MEMBERS: MemberFilter =
    |key| matches!(key, b"content" | b"thoughts" | b"toolCalls" | b"result") || gemini::WANTED(key);

impl Reader for GeminiCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_message = |value: JsonNode<'_>| {
            value.text_is("type", "gemini") && value.string("id").is_some() && value.get("content").is_some()
        };
        let has_messages = |value: JsonNode<'_>| {
            value.get("messages").is_some_and(|messages| messages.items().any(is_message))
        };
        let is_head = |value: JsonNode<'_>| {
            value.string("sessionId").is_some()
                && (value.string("projectHash").is_some() || has_messages(value))
        };
        let is_set = |value: JsonNode<'_>| value.get("$set").is_some_and(has_messages);
        sample.any_line(|line| is_head(line) || is_message(line) || is_set(line))
            || sample.document.is_some_and(is_head)
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut log = Log::default();
        if builder.is_document() {
            builder.read_document(LOG_MEMBERS, |builder, document| log.document(builder, document))?;
        } else {
            builder.read_lines(LOG_MEMBERS, |builder, at, line| log.line(builder, at, line))?;
        }
        let bytes = builder.bytes();
        let mut messages = Vec::with_capacity(log.messages.len());
        for LogMessage { first, others, span } in log.messages {
            others.into_iter().for_each(|other| builder.add_mention(first, other));
            let unreadable =
                |Malformed { offset, message }| Unreadable { offset, element: None, reason: message.into() };
            messages.push((first, JsonIndex::new(&bytes, span, MESSAGE_MEMBERS).map_err(unreadable)?));
        }
        let messages: Vec<Message<'_>> =
            messages.iter().map(|(at, node)| Message::new(*at, &bytes, node)).collect();
        Chat::default().read(builder, &messages);
        Ok(())
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let [first, second] = &pair.ids;
        let at = format!("{:.3}", pair.at);
        let request = json!({
            "id": first, "timestamp": at, "type": "user", "content": [{ "text": pair.request }],
        });
        let response = json!({
            "id": second, "timestamp": at, "type": "gemini", "content": pair.response, "thoughts": [],
        });
        vec![request.to_string(), response.to_string()]
    }
}

/// A message after the replay.
#[derive(Clone, Copy)]
struct Message<'a> {
    record: ElementRef,
    value: JsonNode<'a>,
    author: Author,
}

#[derive(Clone, Copy, PartialEq)]
enum Author {
    User,
    Gemini,
    /// Information that is only displayed.
    Other,
}

impl<'a> Message<'a> {
    fn new(record: ElementRef, bytes: &'a [u8], node: &'a JsonIndex) -> Self {
        let value = JsonNode::new(bytes, node);
        let author = match value.text_of("type").as_deref() {
            Some("user") => Author::User,
            Some("gemini") => Author::Gemini,
            _ => Author::Other,
        };
        Self { record, value, author }
    }

    fn draft(&self) -> EventDraft {
        EventDraft::of_record(self.record, time_of(self.value, "timestamp"))
    }

    /// Returns the tool results in a message of the user's side.
    fn responses(&self) -> impl Iterator<Item = JsonNode<'a>> {
        let content = self.value.get("content").filter(|_| self.author == Author::User);
        content.into_iter().flat_map(responses)
    }
}

struct SeenResult {
    id: String,
    response: Vec<u8>,
    /// The index of the message and of the event.
    position: (usize, usize),
}

#[derive(Default)]
struct Chat {
    calls: Calls,
    /// The events of each message, and whether it begins a turn.
    messages: Vec<(Vec<NewEvent>, bool)>,
    seen_results: Vec<SeenResult>,
}

impl Chat {
    fn read(mut self, builder: &mut EventBuilder, messages: &[Message<'_>]) {
        for (index, message) in messages.iter().enumerate() {
            let events = match message.author {
                Author::User => self.user_events(builder, message),
                Author::Gemini => {
                    let following = messages.get(index + 1..).unwrap_or_default();
                    let following = following.iter().take_while(|next| next.author != Author::Gemini);
                    let answers: Vec<_> = following.flat_map(Message::responses).collect();
                    (self.model_events(builder, message, &answers), false)
                }
                Author::Other => {
                    let kind = message.value.text_of("type");
                    if !matches!(kind.as_deref(), Some("info" | "error" | "warning")) {
                        builder.count_unknown(message.value);
                    }
                    (Vec::new(), false)
                }
            };
            self.messages.push(events);
        }
        for (events, starts_turn) in self.messages {
            builder.add_all(events, starts_turn);
        }
    }

    fn user_events(&mut self, builder: &mut EventBuilder, message: &Message<'_>) -> (Vec<NewEvent>, bool) {
        let Some(content) = message.value.get("content") else {
            builder.count_unknown(message.value);
            return (Vec::new(), false);
        };
        let mut all = parts(builder, content);
        // Resumed chats contain results twice.
        let earlier: Vec<Option<(usize, usize)>> =
            all.iter().map(|(part, _)| self.earlier_result(*part)).collect();
        let only_repeated = earlier.iter().all(Option::is_some);
        for ((part, deletion), position) in all.iter().zip(&earlier) {
            let at = match deletion {
                _ if only_repeated => Some(message.record),
                Deletion::Element(at) => Some(*at),
                _ => None,
            };
            let first =
                position.and_then(|(message, event)| self.messages.get_mut(message)?.0.get_mut(event));
            if let (Some((_, first)), Some(at)) = (first, at) {
                first.further_deletions.push(Deletion::Element(at));
                let response = gemini::response(*part).and_then(|response| response.get("response"));
                let write = first.edits.first().map(|edit| edit.write);
                first.edits.extend(response.zip(write).map(|(twin, write)| twin.edit_site(write)));
            }
        }
        let mut earlier = earlier.iter();
        all.retain(|_| earlier.next().is_some_and(Option::is_none));
        let events = gemini::user_events(builder, &all, &message.draft(), &mut self.calls);
        for (event, (part, _)) in all.iter().filter(|(part, _)| gemini::response(*part).is_some()).enumerate()
        {
            self.remember_result(*part, (self.messages.len(), event));
        }
        let starts_turn = !events.is_empty() && !events.iter().any(|(kind, _)| kind.is_tool());
        (events, starts_turn)
    }

    /// Returns the event of an earlier result with the same id and the same bytes.
    fn earlier_result(&self, part: JsonNode<'_>) -> Option<(usize, usize)> {
        let response = gemini::response(part)?;
        let (id, value) = (response.text_of("id")?, response.get("response")?);
        let is_same = |seen: &&SeenResult| seen.id == id && seen.response == value.raw();
        let position = self.seen_results.iter().rfind(is_same).map(|seen| seen.position);
        position.filter(|_| self.calls.open_id(&id).is_none())
    }

    fn remember_result(&mut self, part: JsonNode<'_>, position: (usize, usize)) {
        if let Some(response) = gemini::response(part)
            && let (Some(id), Some(value)) = (response.text_of("id"), response.get("response"))
        {
            self.seen_results.push(SeenResult { id: id.into(), response: value.raw().to_vec(), position });
        }
    }

    /// Returns the events of a model message, and the results of calls whose result is not in a message of the
    /// user's side.
    fn model_events(
        &mut self,
        builder: &mut EventBuilder,
        message: &Message<'_>,
        answers: &[JsonNode<'_>],
    ) -> Vec<NewEvent> {
        let draft = message.draft();
        builder.read_model(message.value, "model");
        let content =
            message.value.non_null("content").map(|content| parts(builder, content)).unwrap_or_default();
        let mut events = thought_events(builder, message.value, &draft);
        let mut drafts = gemini::model_events(builder, &content, &draft, &mut self.calls);
        if content.iter().any(|(part, _)| is_thought(*part)) {
            // The list of thoughts repeats the parts for display.
            let copies: Vec<Deletion> = events.drain(..).map(|(_, thought)| thought.deletion).collect();
            if let Some((_, thought)) = drafts.iter_mut().find(|(kind, _)| *kind == Kind::Reasoning) {
                thought.further_deletions.extend(copies);
            }
        }
        events.extend(drafts);
        let Some(all) = message.value.non_empty_array("toolCalls") else { return events };
        let mut results = Vec::new();
        for (at, call) in builder.elements(all, None) {
            let id = call.text_of("id").unwrap_or_default();
            let is_in_user_message = answers.iter().any(|answer| match answer.text_of("id") {
                Some(answer_id) => answer_id == id,
                None => answer.text_of("name") == call.text_of("name"),
            });
            let stored = StoredResult::new(builder, call, all);
            let twins = if is_in_user_message { stored.edits.clone() } else { Vec::new() };
            let open_id = self.calls.open_id(&id);
            let edits = arguments(call);
            match events.iter_mut().find(|(kind, draft)| kind.is_tool() && Some(draft.id) == open_id) {
                // The content contains this call too.
                Some((_, draft)) => {
                    draft.further_deletions.push(Deletion::Element(at));
                    draft.edits.extend(edits);
                    self.calls.add_twins(&id, twins);
                }
                None => {
                    let args = call.get("args");
                    let id = self.calls.add(builder, call, twins);
                    let draft = draft.part(args.unwrap_or(call), Deletion::Element(at));
                    let (name, body) = (builder.tool_name(call, "name"), span_of(args));
                    events.push((Kind::ToolRequest, EventDraft { id, name, body, edits, ..draft }));
                }
            }
            if !is_in_user_message
                && let Some(body) = stored.body
                && let Some(call) = self.calls.take_for_result(call)
            {
                let kind = Kind::ToolResponse { is_error: stored.is_error };
                let (id, edits) = (call.id, stored.edits);
                results.push((kind, EventDraft { span: stored.span, id, body, edits, ..draft.clone() }));
            }
        }
        events.extend(results);
        events
    }
}

fn thought_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) -> Vec<NewEvent> {
    let Some(all) = message.non_empty_array("thoughts") else { return Vec::new() };
    let mut events = Vec::new();
    for (at, thought) in builder.elements(all, None) {
        let texts = ["subject", "description", "summary"].into_iter();
        let texts = texts.filter_map(|name| thought.non_empty_string(name)).map(JsonNode::span);
        let texts: Vec<Span> = texts.collect();
        if texts.is_empty() {
            continue;
        }
        let body = builder.one_or_joined(&texts);
        let span = if texts.len() == 1 { body } else { thought.span() };
        let deletion = Deletion::Element(at);
        events.push((Kind::Reasoning, EventDraft { span, body, deletion, ..draft.clone() }));
    }
    events
}

/// Returns the edits that empty a call's arguments and the call's description for display.
fn arguments(call: JsonNode<'_>) -> Vec<EditSite> {
    let args = call.get("args").map(|args| args.edit_site(values::empty_object));
    let description = call.string("description").map(|text| text.edit_site(values::text));
    args.into_iter().chain(description).collect()
}

/// The result that is stored with a call.
#[derive(Default)]
struct StoredResult {
    span: Span,
    body: Option<Span>,
    is_error: bool,
    edits: Vec<EditSite>,
}

impl StoredResult {
    fn new(builder: &mut EventBuilder, call: JsonNode<'_>, all: JsonNode<'_>) -> Self {
        let failed = call.text_of("status").is_some_and(|status| matches!(&*status, "error" | "cancelled"));
        let mut stored = Self { is_error: failed, ..Self::default() };
        let Some(result) = call.non_null("result") else { return stored };
        stored.span = result.span();
        let id = call.text_of("id");
        // A result may contain results of other calls of the message.
        let belongs_to_call = |response: &JsonNode<'_>| match response.text_of("id") {
            Some(response_id) => Some(response_id) == id,
            None => true,
        };
        let other_results = all.items().filter(|other| other.span() != call.span());
        let other_results = other_results.filter_map(|other| other.get("result")).flat_map(responses);
        let named_results = other_results.filter(|response| response.text_of("id").is_some());
        for response in responses(result).chain(named_results).filter(belongs_to_call) {
            let (kind, answer) = gemini::result_event(builder, response);
            if stored.body.is_none() {
                stored.span = answer.span;
            }
            stored.is_error |= kind == Kind::ToolResponse { is_error: true };
            stored.body = stored.body.or(Some(answer.body));
            stored.edits.extend(answer.edits);
        }
        if stored.body.is_none() {
            let text = result.string("text").unwrap_or(result);
            stored.body = Some(builder.text(text));
            stored.edits.push(result.edit_site(values::text));
        }
        let display = call.non_null("resultDisplay");
        stored.edits.extend(display.map(|display| display.edit_site(values::text)));
        stored
    }
}

/// Returns the responses in a list of parts, or in a single part.
fn responses(content: JsonNode<'_>) -> impl Iterator<Item = JsonNode<'_>> {
    let one = content.is_object().then_some(content);
    content.items().chain(one).filter_map(gemini::response)
}
