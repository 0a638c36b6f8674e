//! OpenCode's exports: a session with its messages, and of each the parts. A call and its answer are one part. The
//! assistant's messages say which request they are about. Behind a compaction of its own the older messages are sent no
//! more, and neither are those that were taken back or failed.

mod pair;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

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

pub(super) struct Opencode;

const WANTED: Wanted = |key| {
    matches!(
        key,
        b"info" | b"messages" | b"parts" | b"state" | b"time" | b"metadata" | b"error" | b"revert" | b"model"
    ) || PROVIDERS.iter().any(|provider| provider.as_bytes() == key)
};

/// Under whose names what they want back is kept.
const PROVIDERS: [&str; 8] =
    ["anthropic", "openai", "google", "vertex", "google-vertex", "azure", "bedrock", "openrouter"];
/// What they want back: OpenCode's name for it, and JP's.
const KEPT: [(&str, &str); 5] = [
    ("signature", "anthropic_thinking_signature"),
    ("redactedData", "anthropic_redacted_thinking"),
    ("itemId", "openai_item_id"),
    ("reasoningEncryptedContent", "openai_encrypted_content"),
    ("thoughtSignature", "google_thought_signature"),
];

/// What OpenCode says where it compacted, where the user had a tool run, and where it emptied a result.
const COMPACTED: &str = "What did we do so far?";
const RUN_BY_USER: &str = "The following tool was executed by the user";
const CLEARED: &str = "[Old tool result content cleared]";

/// Parts that OpenCode writes, whether a model is sent them or not.
const PARTS: [&str; 12] = [
    "agent",
    "compaction",
    "file",
    "patch",
    "reasoning",
    "retry",
    "snapshot",
    "step-finish",
    "step-start",
    "subtask",
    "text",
    "tool",
];

/// A message that a model may have been sent.
struct Message<'a> {
    at: At,
    info: Look<'a>,
    parts: Look<'a>,
    /// How many of the parts count: the others were taken back.
    counted: usize,
}

impl Message<'_> {
    fn id(&self) -> Cow<'_, str> {
        self.info.text_of("id").unwrap_or_default()
    }

    fn is_user(&self) -> bool {
        self.info.text_of("role").as_deref() == Some("user")
    }

    fn compaction(&self) -> Option<Look<'_>> {
        self.parts.items().find(|part| part.text_of("type").as_deref() == Some("compaction"))
    }

    /// Whether it broke off, and so is sent to nobody. What the user stopped is, as far as it got.
    fn has_failed(&self) -> bool {
        let Some(error) = self.info.get("error").filter(|error| error.is_object()) else { return false };
        let says_something = |part: Look<'_>| {
            !matches!(part.text_of("type").as_deref(), Some("step-start" | "reasoning") | None)
        };
        let was_stopped = error.text_of("name").as_deref() == Some("MessageAbortedError");
        !was_stopped || !self.parts.items().any(says_something)
    }
}

impl Transcript for Opencode {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let messages = sample.objects("messages");
        let has_info = sample.document.is_some_and(|document| {
            document.get("info").is_some_and(Look::is_object)
                && document.get("messages").is_some_and(Look::is_array)
        });
        let is_message = |message: &Look<'_>| {
            message.get("info").is_some_and(|info| info.string("role").is_some())
                && message.get("parts").is_some_and(Look::is_array)
        };
        if messages.is_empty() { has_info } else { messages.iter().any(is_message) }
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.document(WANTED, |reading, document| {
            let messages = document.get("messages").unwrap_or(document);
            if !messages.is_array() {
                let at = messages.span().start;
                return Err(not_of("OpenCode", at, "it has no `messages`"));
            }
            let all = all(reading, messages)?;
            for message in &all {
                let of_user = message.info.get("model").and_then(|model| model.text_of("modelID"));
                if let Some(model) = message.info.text_of("modelID").or(of_user) {
                    reading.model(&model);
                }
            }
            let sent = sent(reading, document.get("info"), all);
            for (user, answers) in turns(&sent) {
                turn(reading, user, &answers);
            }
            Ok(())
        })
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        pair::records(pair)
    }
}

/// All messages.
fn all<'a>(reading: &mut Reading, messages: Look<'a>) -> Result<Vec<Message<'a>>, Unreadable> {
    let list = reading.items(messages, None);
    let mut all = Vec::new();
    for (element, message) in messages.items().enumerate() {
        let (info, parts) = (message.get("info"), message.get("parts"));
        match (info.filter(|info| info.is_object()), parts.filter(|parts| parts.is_array())) {
            (Some(info), Some(parts)) => {
                let counted = parts.items().len();
                all.push(Message { at: At { list, element }, info, parts, counted });
            }
            _ => {
                reading.unknown(message);
                reading.warn(format!("message {element} has no `info` or no `parts`, and was left out"));
            }
        }
    }
    match messages.items().next() {
        Some(first) if all.is_empty() => {
            Err(not_of("OpenCode", first.span().start, "a message without `info` or `parts`"))
        }
        _ => Ok(all),
    }
}

/// Those that are sent: from the last compaction on, with what it kept before it, and up to what was taken back.
fn sent<'a>(
    reading: &mut Reading,
    session: Option<Look<'_>>,
    mut messages: Vec<Message<'a>>,
) -> Vec<Message<'a>> {
    let revert = session.and_then(|session| session.get("revert"));
    if let Some(id) = revert.and_then(|revert| revert.text_of("messageID"))
        && let Some(first) = messages.iter().position(|message| message.id() == id)
    {
        let part = revert.and_then(|revert| revert.text_of("partID"));
        let counted = part.and_then(|id| {
            messages[first].parts.items().position(|part| part.text_of("id").as_ref() == Some(&id))
        });
        messages[first].counted = counted.unwrap_or_default();
        // Without it what was taken back would be sent again.
        if !messages[first].is_user() {
            reading.pin(messages[first].at);
        }
        messages.truncate(first + usize::from(counted.is_some()));
    }
    let summary = |message: &Message<'_>| {
        let is_whole = message.info.is_true("summary") && message.info.string("finish").is_some();
        let parent = message.info.text_of("parentID").map(Cow::into_owned);
        parent.filter(|_| is_whole && message.info.get("error").is_none())
    };
    let compacted: HashSet<String> = messages.iter().filter_map(summary).collect();
    let is_compaction = |message: &Message<'_>| {
        message.is_user() && message.compaction().is_some() && compacted.contains(&*message.id())
    };
    if let Some(boundary) = messages.iter().rposition(is_compaction) {
        let part = messages[boundary].compaction();
        // Without it what was compacted would be sent again.
        part.iter().for_each(|part| reading.carry(messages[boundary].at, part.span()));
        let tail = part.and_then(|part| part.text_of("tail_start_id"));
        let tail = tail.and_then(|id| messages[..boundary].iter().position(|message| message.id() == id));
        messages.drain(..tail.unwrap_or(boundary));
    }
    messages
}

/// The requests, each with the messages that are about it. What comes before the first has none.
fn turns<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<(Option<&'m Message<'a>>, Vec<&'m Message<'a>>)> {
    let mut turns: Vec<(Option<&Message<'_>>, Vec<&Message<'_>>)> = vec![(None, Vec::new())];
    let mut by_user: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for message in messages {
        if message.is_user() {
            by_user.insert(message.id(), turns.len());
            turns.push((Some(message), Vec::new()));
            continue;
        }
        let user = message.info.text_of("parentID").and_then(|parent| by_user.get(&parent).copied());
        let turn = user.unwrap_or(turns.len() - 1);
        turns[turn].1.push(message);
    }
    turns
}

fn turn(reading: &mut Reading, user: Option<&Message<'_>>, answers: &[&Message<'_>]) {
    let mut request = user.and_then(|user| request(reading, user));
    let mut found = Vec::new();
    for message in answers {
        let before = found.len();
        if !message.has_failed() {
            answer(reading, message, &mut found);
        }
        // What nobody is sent goes with the request that it is about.
        let is_whole = message.counted == message.parts.items().len();
        if found.len() == before
            && is_whole
            && let Some(request) = &mut request
        {
            request.also.push(Cut::Element(message.at));
        }
    }
    if let Some(request) = request {
        reading.turn(request.time);
        reading.add(Kind::ChatRequest, request);
    }
    for (kind, draft) in found {
        reading.add(kind, draft);
    }
}

/// What the user says, if anything.
fn request(reading: &mut Reading, message: &Message<'_>) -> Option<Draft> {
    let mut texts: Vec<Span> = Vec::new();
    for part in message.parts.items().take(message.counted) {
        let is =
            |name: &str, values: &[&str]| part.text_of(name).is_some_and(|value| values.contains(&&*value));
        match part.text_of("type").as_deref() {
            Some("text") if !part.is_true("ignored") => texts.extend(part.string("text").map(Look::span)),
            // What is in these, OpenCode says as a text.
            Some("file") if !is("mime", &["text/plain", "application/x-directory"]) => {
                let is_image = part.text_of("mime").is_some_and(|mime| mime.starts_with("image/"));
                texts.push(reading.made(if is_image { "[image]" } else { "[file]" }));
            }
            Some("subtask") => texts.push(reading.made(RUN_BY_USER)),
            kind => {
                if !kind.is_some_and(|kind| PARTS.contains(&kind)) {
                    reading.unknown(part);
                }
            }
        }
    }
    if texts.is_empty() && message.compaction().is_some() && message.counted > 0 {
        texts.push(reading.made(COMPACTED));
    }
    let body = match texts[..] {
        [] => return None,
        [text] => text,
        _ => reading.joined(&texts),
    };
    let (start, end) = (message.info.span().start, message.parts.span().end);
    let span = Span { start: start.min(message.parts.span().start), end: end.max(message.info.span().end) };
    Some(Draft { span, body, time: created(message.info), record: Some(message.at), ..Draft::default() })
}

/// What the assistant does. The answers to the calls of one step come behind all of them.
fn answer(reading: &mut Reading, message: &Message<'_>, found: &mut Vec<(Kind, Draft)>) {
    let list = reading.items(message.parts, None);
    let mut results = Vec::new();
    for (element, part) in message.parts.items().enumerate().take(message.counted) {
        let draft = Draft {
            span: part.span(),
            time: moment(part, "start").or_else(|| created(message.info)),
            record: Some(message.at),
            cut: Cut::Element(At { list, element }),
            metadata: kept(reading, part),
            ..Draft::default()
        };
        let text = part.string("text");
        match (part.text_of("type").as_deref(), text) {
            (Some("step-start"), _) => found.append(&mut results),
            (Some("text"), Some(text)) if text.raw().len() > 2 => {
                found.push((Kind::Message, Draft { body: text.span(), ..draft }));
            }
            (Some("reasoning"), Some(text)) => {
                found.push((Kind::Reasoning, Draft { body: text.span(), ..draft }));
            }
            (Some("tool"), _) => tool(reading, part, draft, found, &mut results),
            (kind, _) => {
                if !kind.is_some_and(|kind| PARTS.contains(&kind)) {
                    reading.unknown(part);
                }
            }
        }
    }
    found.append(&mut results);
}

fn tool(
    reading: &mut Reading,
    part: Look<'_>,
    draft: Draft,
    found: &mut Vec<(Kind, Draft)>,
    results: &mut Vec<(Kind, Draft)>,
) {
    let Some(state) = part.get("state") else { return };
    let id = part.string("callID").map(Look::span).unwrap_or_else(|| reading.next_id());
    let name = part.string("tool").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
    let input = state.get("input");
    let mut slots: Vec<Slot> =
        input.map(|input| Slot { span: input.span(), write: write::object }).into_iter().collect();
    // What is run, once more.
    let twins = ["title", "raw"].into_iter().filter_map(|name| state.string(name));
    slots.extend(twins.map(|twin| Slot { span: twin.span(), write: nothing }));
    let call = Draft {
        id,
        name,
        body: input.map_or_else(Span::default, Look::span),
        time: moment(state, "start").or(draft.time),
        slots,
        ..draft.clone()
    };
    found.push((Kind::ToolRequest, call));
    let is_error = match state.text_of("status").as_deref() {
        Some("completed") => false,
        Some("error") => true,
        // It still runs, or was given up.
        _ => return,
    };
    let metadata = state.get("metadata");
    let stopped = metadata.filter(|metadata| is_error && metadata.is_true("interrupted"));
    let said = match stopped.and_then(|metadata| metadata.string("output")) {
        Some(output) => Some(output),
        None => state.get(if is_error { "error" } else { "output" }),
    };
    let mut slots: Vec<Slot> =
        said.map(|said| Slot { span: said.span(), write: write::text }).into_iter().collect();
    slots.extend(twins_of_result(metadata).filter(|slot| Some(slot.span) != said.map(Look::span)));
    slots.extend(
        state
            .get("attachments")
            .filter(|files| files.is_array())
            .map(|files| Slot { span: files.span(), write: no_items }),
    );
    let cleared = state.get("time").and_then(|time| time.get("compacted"));
    let cleared = cleared.filter(|time| !is_error && !matches!(time.raw(), b"0" | b"null"));
    // As long as that time is there, OpenCode sends no other text.
    slots.extend(cleared.map(|time| Slot { span: time.span(), write: |_| "0".into() }));
    let body = match said {
        _ if cleared.is_some() => reading.made(CLEARED),
        Some(said) if said.is_string() => said.span(),
        Some(said) if !said.is_null() => reading.made(&String::from_utf8_lossy(said.raw())),
        _ => reading.made(""),
    };
    let time = moment(state, "end").or(draft.time);
    let result = Draft { id, body, time, slots, metadata: Span::default(), ..draft };
    results.push((Kind::ToolResponse { is_error }, result));
}

/// What is kept of a result for those who show it. What ties it to other sessions stays.
fn twins_of_result(metadata: Option<Look<'_>>) -> impl Iterator<Item = Slot> {
    let members = metadata.into_iter().flat_map(Look::members);
    members.filter_map(|(name, value)| {
        let write: fn(&str) -> String = match value.raw() {
            _ if matches!(&*name, b"sessionId" | b"sessionID" | b"parentSessionId" | b"model") => {
                return None;
            }
            [b'"', _, .., b'"'] => nothing,
            [b'[', _, .., b']'] => no_items,
            [b'{', _, .., b'}'] => write::object,
            _ => return None,
        };
        Some(Slot { span: value.span(), write })
    })
}

fn nothing(_: &str) -> String {
    "\"\"".into()
}

fn no_items(_: &str) -> String {
    "[]".into()
}

/// What the provider wants back with a part.
fn kept(reading: &mut Reading, part: Look<'_>) -> Span {
    let Some(metadata) = part.get("metadata") else { return Span::default() };
    let providers = PROVIDERS.iter().filter_map(|provider| metadata.get(provider));
    let members = providers.flat_map(|kept| {
        KEPT.iter().filter_map(move |(theirs, ours)| {
            let value = kept.string(theirs)?;
            Some(format!("\"{ours}\":{}", String::from_utf8_lossy(value.raw())))
        })
    });
    let members: Vec<String> = members.collect();
    if members.is_empty() { Span::default() } else { reading.made_raw(&format!("{{{}}}", members.join(","))) }
}

/// When a message began.
fn created(info: Look<'_>) -> Option<Timestamp> {
    moment(info, "created")
}

/// A point in time of something, in milliseconds.
fn moment(of: Look<'_>, name: &str) -> Option<Timestamp> {
    let raw = of.get("time")?.get(name)?.raw();
    Timestamp::from_millisecond(std::str::from_utf8(raw).ok()?.parse().ok()?).ok()
}
