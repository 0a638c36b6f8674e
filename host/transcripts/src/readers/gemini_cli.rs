//! The reader of Gemini CLI's chats: a JSONL log, in older versions one document. A record is a message. The log is
//! replayed first (see `gemini_log`), and the last state of each message counts. A result is stored with its call,
//! and in most versions again in the user's message; an edit must change both. Messages that the replay dropped stay
//! in the file and are not events.

use serde_json::json;

use super::gemini::{self, Calls, is_thought, parts};
use super::gemini_log::{Log, Logged, WANTED as OF_LOG};
use super::values;
use crate::builder::{EventBuilder, EventDraft, time_of};
use crate::json_index::{JsonIndex, JsonNode, MemberFilter};
use crate::reader::Reader;
use crate::reader::SummaryPair;
use crate::sample::Sample;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_core::json::{Malformed, Span};

pub(super) struct GeminiCli;

/// The members that are indexed in the remaining messages.
const OF_MESSAGE: MemberFilter =
    |key| matches!(key, b"content" | b"thoughts" | b"toolCalls" | b"result") || gemini::WANTED(key);

impl Reader for GeminiCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_message = |value: JsonNode<'_>| {
            value.text_of("type").as_deref() == Some("gemini")
                && value.string("id").is_some()
                && value.get("content").is_some()
        };
        let holds = |value: JsonNode<'_>| {
            value.get("messages").is_some_and(|messages| messages.items().any(is_message))
        };
        let is_head = |value: JsonNode<'_>| {
            value.string("sessionId").is_some() && (value.string("projectHash").is_some() || holds(value))
        };
        let is_set = |value: JsonNode<'_>| value.get("$set").is_some_and(holds);
        sample.any_line(|line| is_head(line) || is_message(line) || is_set(line))
            || sample.document.is_some_and(is_head)
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut log = Log::default();
        if crate::sample::is_document(&builder.bytes()) {
            builder.read_document(OF_LOG, |builder, document| log.document(builder, document))?;
        } else {
            builder.read_lines(OF_LOG, |builder, at, line| log.line(builder, at, line))?;
        }
        let bytes = builder.bytes();
        let mut messages = Vec::with_capacity(log.messages.len());
        for Logged { first, others, span } in log.messages {
            others.into_iter().for_each(|other| builder.add_mention(first, other));
            let wrong = |Malformed { at, what }| Unreadable { at, element: None, what: what.into() };
            messages.push((first, JsonIndex::new(&bytes, span, OF_MESSAGE).map_err(wrong)?));
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
    by: By,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    User,
    Gemini,
    /// Information that is only displayed.
    Other,
}

impl<'a> Message<'a> {
    fn new(record: ElementRef, bytes: &'a [u8], node: &'a JsonIndex) -> Self {
        let value = JsonNode::new(bytes, node);
        let by = match value.text_of("type").as_deref() {
            Some("user") => By::User,
            Some("gemini") => By::Gemini,
            _ => By::Other,
        };
        Self { record, value, by }
    }

    fn draft(&self) -> EventDraft {
        EventDraft {
            time: time_of(self.value, "timestamp"),
            record: Some(self.record),
            ..EventDraft::default()
        }
    }

    /// Returns the tool results in a message of the user's side.
    fn responses(&self) -> impl Iterator<Item = JsonNode<'a>> {
        let content = self.value.get("content").filter(|_| self.by == By::User);
        content.into_iter().flat_map(responses)
    }
}

struct Answered {
    id: String,
    response: Vec<u8>,
    /// The index of the message and of the event.
    place: (usize, usize),
}

#[derive(Default)]
struct Chat {
    calls: Calls,
    /// The events of each message, and whether it begins a turn.
    found: Vec<(Vec<(Kind, EventDraft)>, bool)>,
    answered: Vec<Answered>,
}

impl Chat {
    fn read(mut self, builder: &mut EventBuilder, messages: &[Message<'_>]) {
        for (place, message) in messages.iter().enumerate() {
            let found = match message.by {
                By::User => self.of_user(builder, message),
                By::Gemini => {
                    let following = messages.get(place + 1..).unwrap_or_default();
                    let following = following.iter().take_while(|next| next.by != By::Gemini);
                    let answers: Vec<_> = following.flat_map(Message::responses).collect();
                    (self.of_gemini(builder, message, &answers), false)
                }
                By::Other => {
                    let kind = message.value.text_of("type");
                    if !matches!(kind.as_deref(), Some("info" | "error" | "warning")) {
                        builder.count_unknown(message.value);
                    }
                    (Vec::new(), false)
                }
            };
            self.found.push(found);
        }
        for (found, opens) in self.found {
            if let Some((_, first)) = found.first().filter(|_| opens) {
                builder.start_turn(first.time);
            }
            found.into_iter().for_each(|(kind, draft)| builder.add(kind, draft));
        }
    }

    fn of_user(
        &mut self,
        builder: &mut EventBuilder,
        message: &Message<'_>,
    ) -> (Vec<(Kind, EventDraft)>, bool) {
        let Some(content) = message.value.get("content") else {
            builder.count_unknown(message.value);
            return (Vec::new(), false);
        };
        let mut all = parts(builder, content);
        // Resumed chats contain results twice.
        let earlier: Vec<Option<(usize, usize)>> =
            all.iter().map(|(part, _)| self.earlier_result(*part)).collect();
        let only_repeated = earlier.iter().all(Option::is_some);
        for ((part, deletion), place) in all.iter().zip(&earlier) {
            let at = match deletion {
                _ if only_repeated => Some(message.record),
                Deletion::Element(at) => Some(*at),
                _ => None,
            };
            let first = place.and_then(|(message, event)| self.found.get_mut(message)?.0.get_mut(event));
            if let (Some((_, first)), Some(at)) = (first, at) {
                first.further_deletions.push(Deletion::Element(at));
                let response = gemini::response(*part).and_then(|response| response.get("response"));
                let write = first.edits.first().map(|edit| edit.write);
                first.edits.extend(response.zip(write).map(|(twin, write)| twin.edit_site(write)));
            }
        }
        let mut earlier = earlier.iter();
        all.retain(|_| earlier.next().is_some_and(Option::is_none));
        let found = gemini::of_user(builder, &all, &message.draft(), &mut self.calls);
        for (event, (part, _)) in all.iter().filter(|(part, _)| gemini::response(*part).is_some()).enumerate()
        {
            self.note(*part, (self.found.len(), event));
        }
        let opens = !found.is_empty() && !found.iter().any(|(kind, _)| kind.is_tool());
        (found, opens)
    }

    /// Returns the event of an earlier result with the same id and the same bytes.
    fn earlier_result(&self, part: JsonNode<'_>) -> Option<(usize, usize)> {
        let response = gemini::response(part)?;
        let (id, value) = (response.text_of("id")?, response.get("response")?);
        let is_it = |answered: &&Answered| answered.id == id && answered.response == value.raw();
        let found = self.answered.iter().rfind(is_it).map(|answered| answered.place);
        found.filter(|_| self.calls.waiting(&id).is_none())
    }

    fn note(&mut self, part: JsonNode<'_>, place: (usize, usize)) {
        if let Some(response) = gemini::response(part)
            && let (Some(id), Some(value)) = (response.text_of("id"), response.get("response"))
        {
            self.answered.push(Answered { id: id.into(), response: value.raw().to_vec(), place });
        }
    }

    /// Returns the events of a model message, and the results of calls whose result is not in a message of the
    /// user's side.
    fn of_gemini(
        &mut self,
        builder: &mut EventBuilder,
        message: &Message<'_>,
        answers: &[JsonNode<'_>],
    ) -> Vec<(Kind, EventDraft)> {
        let draft = message.draft();
        if let Some(model) = message.value.text_of("model") {
            builder.set_model(&model);
        }
        let content = message.value.get("content").filter(|content| !content.is_null());
        let content = content.map(|content| parts(builder, content)).unwrap_or_default();
        let mut found = thoughts(builder, message.value, &draft);
        let mut drafts = gemini::of_model(builder, &content, &draft, &mut self.calls);
        if content.iter().any(|(part, _)| is_thought(*part)) {
            // The list of thoughts repeats the parts for display.
            let copies = found.drain(..).filter_map(|(_, thought)| match thought.deletion {
                Deletion::Element(at) => Some(at),
                _ => None,
            });
            let copies: Vec<ElementRef> = copies.collect();
            if let Some((_, thought)) = drafts.iter_mut().find(|(kind, _)| *kind == Kind::Reasoning) {
                thought.further_deletions.extend(copies.into_iter().map(Deletion::Element));
            }
        }
        found.extend(drafts);
        let Some(all) = message.value.get("toolCalls").filter(|calls| calls.items().len() > 0) else {
            return found;
        };
        let list = builder.add_items(all, None);
        let mut answered = Vec::new();
        for (element, call) in all.items().enumerate() {
            let at = ElementRef { list, element };
            let id = call.text_of("id").unwrap_or_default();
            let by_user = answers.iter().any(|answer| match answer.text_of("id") {
                Some(own) => own == id,
                None => answer.text_of("name") == call.text_of("name"),
            });
            let outcome = Outcome::new(builder, call, all);
            let twins = if by_user { outcome.edits.clone() } else { Vec::new() };
            let waiting = self.calls.waiting(&id);
            let edits = arguments(call);
            match found.iter_mut().find(|(kind, draft)| kind.is_tool() && Some(draft.id) == waiting) {
                // The content contains this call too.
                Some((_, draft)) => {
                    draft.further_deletions.push(Deletion::Element(at));
                    draft.edits.extend(edits);
                    self.calls.add_twins(&id, twins);
                }
                None => {
                    let id = self.calls.open(builder, call, twins);
                    let name = builder.tool_name(call, "name");
                    let body = call.get("args").map_or_else(Span::default, JsonNode::span);
                    let deletion = Deletion::Element(at);
                    let span = call.get("args").unwrap_or(call).span();
                    let draft = EventDraft { span, id, name, body, deletion, edits, ..draft.clone() };
                    found.push((Kind::ToolRequest, draft));
                }
            }
            if !by_user
                && let Some(body) = outcome.body
                && let Some(call) = self.calls.answer(call)
            {
                let kind = Kind::ToolResponse { is_error: outcome.is_error };
                let (id, edits) = (call.id, outcome.edits);
                answered.push((kind, EventDraft { span: outcome.span, id, body, edits, ..draft.clone() }));
            }
        }
        found.extend(answered);
        found
    }
}

fn thoughts(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: &EventDraft,
) -> Vec<(Kind, EventDraft)> {
    let Some(all) = message.get("thoughts").filter(|thoughts| thoughts.items().len() > 0) else {
        return Vec::new();
    };
    let list = builder.add_items(all, None);
    let mut found = Vec::new();
    for (element, thought) in all.items().enumerate() {
        let words = ["subject", "description", "summary"].into_iter().filter_map(|name| thought.string(name));
        let words: Vec<Span> = words.filter(|words| words.raw().len() > 2).map(JsonNode::span).collect();
        let body = match words.as_slice() {
            [] => continue,
            [one] => *one,
            several => builder.joined(several),
        };
        let span = if let [one] = words.as_slice() { *one } else { thought.span() };
        let deletion = Deletion::Element(ElementRef { list, element });
        found.push((Kind::Reasoning, EventDraft { span, body, deletion, ..draft.clone() }));
    }
    found
}

/// Returns the places of a call's arguments: the values, and their description for display.
fn arguments(call: JsonNode<'_>) -> Vec<EditSite> {
    let args = call.get("args").map(|args| args.edit_site(values::empty_object));
    let words = call.string("description").map(|words| words.edit_site(values::text));
    args.into_iter().chain(words).collect()
}

/// The result that is stored with a call.
#[derive(Default)]
struct Outcome {
    span: Span,
    body: Option<Span>,
    is_error: bool,
    edits: Vec<EditSite>,
}

impl Outcome {
    fn new(builder: &mut EventBuilder, call: JsonNode<'_>, all: JsonNode<'_>) -> Self {
        let failed = call.text_of("status").is_some_and(|status| matches!(&*status, "error" | "cancelled"));
        let mut outcome = Self { is_error: failed, ..Self::default() };
        let Some(result) = call.get("result").filter(|result| !result.is_null()) else { return outcome };
        outcome.span = result.span();
        let id = call.text_of("id");
        // A result may contain results of other calls of the message.
        let is_own = |response: &JsonNode<'_>| match response.text_of("id") {
            Some(own) => Some(own) == id,
            None => true,
        };
        let of_others = all.items().filter(|other| other.span() != call.span());
        let of_others = of_others.filter_map(|other| other.get("result")).flat_map(responses);
        let named = of_others.filter(|response| response.text_of("id").is_some());
        for response in responses(result).chain(named).filter(is_own) {
            let (kind, answer) = gemini::answered(builder, response);
            if outcome.body.is_none() {
                outcome.span = answer.span;
            }
            outcome.is_error |= kind == Kind::ToolResponse { is_error: true };
            outcome.body = outcome.body.or(Some(answer.body));
            outcome.edits.extend(answer.edits);
        }
        if outcome.body.is_none() {
            let text = result.string("text").unwrap_or(result);
            outcome.body = Some(builder.text(text));
            outcome.edits.push(result.edit_site(values::text));
        }
        let shown = call.get("resultDisplay").filter(|shown| !shown.is_null());
        outcome.edits.extend(shown.map(|shown| shown.edit_site(values::text)));
        outcome
    }
}

/// Returns the responses in a list of parts, or in a single part.
fn responses(content: JsonNode<'_>) -> impl Iterator<Item = JsonNode<'_>> {
    let one = content.is_object().then_some(content);
    content.items().chain(one).filter_map(gemini::response)
}
