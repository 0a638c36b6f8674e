//! Gemini CLI's chats: a log in JSONL, in which a message that is written again replaces what it was, `$set` replaces the
//! list of all and `$rewindTo` drops its end; before that, one document. A result is kept by the call that it answers,
//! and in most versions once more by the user's side. What the model was sent last is what counts.

use serde_json::json;

use super::detect::Sample;
use super::foreign::{At, Cut, Slot};
use super::gemini::{self, Calls, is_thought, parts};
use super::gemini_log::{Log, Logged, WANTED as OF_LOG};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading, time_of};
use super::tree::{Look, Tree, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::{Malformed, Span};

pub(super) struct GeminiCli;

/// What is looked into in the messages that are left.
const OF_MESSAGE: Wanted =
    |key| matches!(key, b"content" | b"thoughts" | b"toolCalls" | b"result") || gemini::WANTED(key);

impl Transcript for GeminiCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_message = |value: Look<'_>| {
            value.text_of("type").as_deref() == Some("gemini")
                && value.string("id").is_some()
                && value.get("content").is_some()
        };
        let holds =
            |value: Look<'_>| value.get("messages").is_some_and(|messages| messages.items().any(is_message));
        let is_head = |value: Look<'_>| {
            value.string("sessionId").is_some() && (value.string("projectHash").is_some() || holds(value))
        };
        let is_set = |value: Look<'_>| value.get("$set").is_some_and(holds);
        sample.any_line(|line| is_head(line) || is_message(line) || is_set(line))
            || sample.document.is_some_and(is_head)
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut log = Log::default();
        if super::detect::is_document(&reading.bytes()) {
            reading.document(OF_LOG, |reading, document| log.document(reading, document))?;
        } else {
            reading.lines(OF_LOG, |reading, at, line| log.line(reading, at, line))?;
        }
        let bytes = reading.bytes();
        let mut messages = Vec::with_capacity(log.messages.len());
        for Logged { first, others, span } in log.messages {
            others.into_iter().for_each(|other| reading.mention(first, other));
            let wrong = |Malformed { at, what }| Unreadable { at, element: None, what: what.into() };
            messages.push((first, Tree::of(&bytes, span, OF_MESSAGE).map_err(wrong)?));
        }
        let messages: Vec<Message<'_>> =
            messages.iter().map(|(at, node)| Message::of(*at, &bytes, node)).collect();
        Chat::default().read(reading, &messages);
        Ok(())
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
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

/// A message that counts.
#[derive(Clone, Copy)]
struct Message<'a> {
    record: At,
    look: Look<'a>,
    by: By,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    User,
    Gemini,
    /// What is only shown.
    Nobody,
}

impl<'a> Message<'a> {
    fn of(record: At, bytes: &'a [u8], node: &'a Tree) -> Self {
        let look = Look::new(bytes, node);
        let by = match look.text_of("type").as_deref() {
            Some("user") => By::User,
            Some("gemini") => By::Gemini,
            _ => By::Nobody,
        };
        Self { record, look, by }
    }

    fn draft(&self) -> Draft {
        Draft { time: time_of(self.look, "timestamp"), record: Some(self.record), ..Draft::default() }
    }

    /// What the user's side says that tools answered.
    fn responses(&self) -> impl Iterator<Item = Look<'a>> {
        let content = self.look.get("content").filter(|_| self.by == By::User);
        content.into_iter().flat_map(responses)
    }
}

/// An answer that was found.
struct Answered {
    id: String,
    response: Vec<u8>,
    /// The message and the event.
    place: (usize, usize),
}

/// The chat in the making.
#[derive(Default)]
struct Chat {
    calls: Calls,
    /// The events of each message, and whether it opens a turn.
    found: Vec<(Vec<(Kind, Draft)>, bool)>,
    answered: Vec<Answered>,
}

impl Chat {
    fn read(mut self, reading: &mut Reading, messages: &[Message<'_>]) {
        for (place, message) in messages.iter().enumerate() {
            let found = match message.by {
                By::User => self.of_user(reading, message),
                By::Gemini => {
                    let behind = messages.get(place + 1..).unwrap_or_default();
                    let behind = behind.iter().take_while(|next| next.by != By::Gemini);
                    let answers: Vec<_> = behind.flat_map(Message::responses).collect();
                    (self.of_gemini(reading, message, &answers), false)
                }
                By::Nobody => {
                    let kind = message.look.text_of("type");
                    if !matches!(kind.as_deref(), Some("info" | "error" | "warning")) {
                        reading.unknown(message.look);
                    }
                    (Vec::new(), false)
                }
            };
            self.found.push(found);
        }
        for (found, opens) in self.found {
            if let Some((_, first)) = found.first().filter(|_| opens) {
                reading.turn(first.time);
            }
            found.into_iter().for_each(|(kind, draft)| reading.add(kind, draft));
        }
    }

    fn of_user(&mut self, reading: &mut Reading, message: &Message<'_>) -> (Vec<(Kind, Draft)>, bool) {
        let Some(content) = message.look.get("content") else {
            reading.unknown(message.look);
            return (Vec::new(), false);
        };
        let mut all = parts(reading, content);
        // Chats that were taken up again hold answers twice.
        let again: Vec<Option<(usize, usize)>> = all.iter().map(|(part, _)| self.again(*part)).collect();
        let only_again = again.iter().all(Option::is_some);
        for ((part, cut), place) in all.iter().zip(&again) {
            let at = match cut {
                _ if only_again => Some(message.record),
                Cut::Element(at) => Some(*at),
                _ => None,
            };
            let first = place.and_then(|(message, event)| self.found.get_mut(message)?.0.get_mut(event));
            if let (Some((_, first)), Some(at)) = (first, at) {
                first.also.push(Cut::Element(at));
                let response = gemini::response(*part).and_then(|response| response.get("response"));
                let write = first.slots.first().map(|slot| slot.write);
                first
                    .slots
                    .extend(response.zip(write).map(|(twin, write)| Slot { span: twin.span(), write }));
            }
        }
        let mut again = again.iter();
        all.retain(|_| again.next().is_some_and(Option::is_none));
        let found = gemini::of_user(reading, &all, &message.draft(), &mut self.calls);
        for (event, (part, _)) in all.iter().filter(|(part, _)| gemini::response(*part).is_some()).enumerate()
        {
            self.note(*part, (self.found.len(), event));
        }
        let opens = !found.is_empty() && !found.iter().any(|(kind, _)| kind.is_tool());
        (found, opens)
    }

    /// The event of an answer that was given before, to the letter.
    fn again(&self, part: Look<'_>) -> Option<(usize, usize)> {
        let response = gemini::response(part)?;
        let (id, value) = (response.text_of("id")?, response.get("response")?);
        let is_it = |answered: &&Answered| answered.id == id && answered.response == value.raw();
        let found = self.answered.iter().rfind(is_it).map(|answered| answered.place);
        found.filter(|_| self.calls.waiting(&id).is_none())
    }

    fn note(&mut self, part: Look<'_>, place: (usize, usize)) {
        if let Some(response) = gemini::response(part)
            && let (Some(id), Some(value)) = (response.text_of("id"), response.get("response"))
        {
            self.answered.push(Answered { id: id.into(), response: value.raw().to_vec(), place });
        }
    }

    /// What the model thinks, says and calls, and what tools answered where the user's side does not say it.
    fn of_gemini(
        &mut self,
        reading: &mut Reading,
        message: &Message<'_>,
        answers: &[Look<'_>],
    ) -> Vec<(Kind, Draft)> {
        let draft = message.draft();
        if let Some(model) = message.look.text_of("model") {
            reading.model(&model);
        }
        let content = message.look.get("content").filter(|content| !content.is_null());
        let content = content.map(|content| parts(reading, content)).unwrap_or_default();
        let mut found = thoughts(reading, message.look, &draft);
        let mut said = gemini::of_model(reading, &content, &draft, &mut self.calls);
        if content.iter().any(|(part, _)| is_thought(*part)) {
            // The list says the same once more, for people.
            let copies = found.drain(..).filter_map(|(_, thought)| match thought.cut {
                Cut::Element(at) => Some(at),
                _ => None,
            });
            let copies: Vec<At> = copies.collect();
            if let Some((_, thought)) = said.iter_mut().find(|(kind, _)| *kind == Kind::Reasoning) {
                thought.also.extend(copies.into_iter().map(Cut::Element));
            }
        }
        found.extend(said);
        let Some(all) = message.look.get("toolCalls").filter(|calls| calls.items().len() > 0) else {
            return found;
        };
        let list = reading.items(all, None);
        let mut answered = Vec::new();
        for (element, call) in all.items().enumerate() {
            let at = At { list, element };
            let id = call.text_of("id").unwrap_or_default();
            let by_user = answers.iter().any(|answer| match answer.text_of("id") {
                Some(own) => own == id,
                None => answer.text_of("name") == call.text_of("name"),
            });
            let outcome = Outcome::of(reading, call, all);
            let twins = if by_user { outcome.slots.clone() } else { Vec::new() };
            let waiting = self.calls.waiting(&id);
            let slots = arguments(call);
            match found.iter_mut().find(|(kind, draft)| kind.is_tool() && Some(draft.id) == waiting) {
                // The content calls as well.
                Some((_, draft)) => {
                    draft.also.push(Cut::Element(at));
                    draft.slots.extend(slots);
                    self.calls.add_twins(&id, twins);
                }
                None => {
                    let id = self.calls.open(reading, call, twins);
                    let name = call.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
                    let body = call.get("args").map_or_else(Span::default, Look::span);
                    let cut = Cut::Element(at);
                    let span = call.get("args").unwrap_or(call).span();
                    let draft = Draft { span, id, name, body, cut, slots, ..draft.clone() };
                    found.push((Kind::ToolRequest, draft));
                }
            }
            if !by_user
                && let Some(body) = outcome.body
                && let Some(call) = self.calls.answer(call)
            {
                let kind = Kind::ToolResponse { is_error: outcome.is_error };
                let (id, slots) = (call.id, outcome.slots);
                answered.push((kind, Draft { span: outcome.span, id, body, slots, ..draft.clone() }));
            }
        }
        found.extend(answered);
        found
    }
}

/// The list of thoughts beside what is said.
fn thoughts(reading: &mut Reading, message: Look<'_>, draft: &Draft) -> Vec<(Kind, Draft)> {
    let Some(all) = message.get("thoughts").filter(|thoughts| thoughts.items().len() > 0) else {
        return Vec::new();
    };
    let list = reading.items(all, None);
    let mut found = Vec::new();
    for (element, thought) in all.items().enumerate() {
        let words = ["subject", "description", "summary"].into_iter().filter_map(|name| thought.string(name));
        let words: Vec<Span> = words.filter(|words| words.raw().len() > 2).map(Look::span).collect();
        let body = match words.as_slice() {
            [] => continue,
            [one] => *one,
            several => reading.joined(several),
        };
        let span = if let [one] = words.as_slice() { *one } else { thought.span() };
        let cut = Cut::Element(At { list, element });
        found.push((Kind::Reasoning, Draft { span, body, cut, ..draft.clone() }));
    }
    found
}

/// Where a call's arguments are: as they are, and in words for people.
fn arguments(call: Look<'_>) -> Vec<Slot> {
    let args = call.get("args").map(|args| Slot { span: args.span(), write: write::object });
    let words = call.string("description").map(|words| Slot { span: words.span(), write: write::text });
    args.into_iter().chain(words).collect()
}

/// What came of a call, as the call itself has it.
#[derive(Default)]
struct Outcome {
    span: Span,
    body: Option<Span>,
    is_error: bool,
    slots: Vec<Slot>,
}

impl Outcome {
    fn of(reading: &mut Reading, call: Look<'_>, all: Look<'_>) -> Self {
        let failed = call.text_of("status").is_some_and(|status| matches!(&*status, "error" | "cancelled"));
        let mut outcome = Self { is_error: failed, ..Self::default() };
        let Some(result) = call.get("result").filter(|result| !result.is_null()) else { return outcome };
        outcome.span = result.span();
        let id = call.text_of("id");
        // A result may hold those of the calls beside it.
        let is_own = |response: &Look<'_>| match response.text_of("id") {
            Some(own) => Some(own) == id,
            None => true,
        };
        let of_others = all.items().filter(|other| other.span() != call.span());
        let of_others = of_others.filter_map(|other| other.get("result")).flat_map(responses);
        let named = of_others.filter(|response| response.text_of("id").is_some());
        for response in responses(result).chain(named).filter(is_own) {
            let (kind, answer) = gemini::answered(reading, response);
            if outcome.body.is_none() {
                outcome.span = answer.span;
            }
            outcome.is_error |= kind == Kind::ToolResponse { is_error: true };
            outcome.body = outcome.body.or(Some(answer.body));
            outcome.slots.extend(answer.slots);
        }
        if outcome.body.is_none() {
            let text = result.string("text").unwrap_or(result);
            outcome.body = Some(reading.text(text));
            outcome.slots.push(Slot { span: result.span(), write: write::text });
        }
        let shown = call.get("resultDisplay").filter(|shown| !shown.is_null());
        outcome.slots.extend(shown.map(|shown| Slot { span: shown.span(), write: write::text }));
        outcome
    }
}

/// The answers among parts, or in the one that there is.
fn responses(content: Look<'_>) -> impl Iterator<Item = Look<'_>> {
    let one = content.is_object().then_some(content);
    content.items().chain(one).filter_map(gemini::response)
}
