//! The reader of `OpenCode`'s exports: one document with a session, its messages, and their parts. A record is a
//! message. A call and its result are one part, and each assistant message names its request. Messages before
//! `OpenCode`'s own compaction, reverted messages, and failed messages stay in the file, but the model no longer
//! receives them.

mod pair;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::values;
use crate::builder::{EventBuilder, EventDraft, NewEvent};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error};
use crate::source_map::{Deletion, ElementRef, FirstRecord};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_core::view::has_summary_note;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Opencode;

const WANTED: MemberFilter = |key| {
    matches!(
        key,
        b"info" | b"messages" | b"parts" | b"state" | b"time" | b"metadata" | b"error" | b"revert" | b"model"
    ) || PROVIDERS.iter().any(|provider| provider.as_bytes() == key)
};

/// The members of `metadata` that hold data for a provider.
const PROVIDERS: [&str; 8] =
    ["anthropic", "openai", "google", "vertex", "google-vertex", "azure", "bedrock", "openrouter"];
/// The names of the data that must be sent back to providers, in `OpenCode` and in JP.
const PROVIDER_DATA: [(&str, &str); 5] = [
    ("signature", "anthropic_thinking_signature"),
    ("redactedData", "anthropic_redacted_thinking"),
    ("itemId", "openai_item_id"),
    ("reasoningEncryptedContent", "openai_encrypted_content"),
    ("thoughtSignature", "google_thought_signature"),
];

/// The texts that `OpenCode` sends: after a compaction, for a tool that the user ran, and for a cleared result.
const COMPACTED: &str = "What did we do so far?";
const RUN_BY_USER: &str = "The following tool was executed by the user";
const CLEARED: &str = "[Old tool result content cleared]";

const PARTS: &str = "agent compaction file patch reasoning retry snapshot step-finish step-start subtask \
    text tool";

/// A message that the model may have received.
struct Message<'a> {
    at: ElementRef,
    info: JsonNode<'a>,
    parts: JsonNode<'a>,
    /// The number of parts that were not reverted.
    part_count: usize,
}

impl Message<'_> {
    fn id(&self) -> Cow<'_, str> {
        self.info.text_of("id").unwrap_or_default()
    }

    fn is_user(&self) -> bool {
        self.info.text_is("role", "user")
    }

    /// Returns whether this program wrote the message in place of steps of the request before it.
    fn is_note(&self) -> bool {
        let text = self.parts.items().next().filter(|part| part.is_true("synthetic"));
        let text = text.and_then(|part| part.text_of("text"));
        self.is_user() && text.is_some_and(|text| has_summary_note(text.as_bytes()))
    }

    fn compaction(&self) -> Option<JsonNode<'_>> {
        self.parts.items().find(|part| part.text_is("type", "compaction"))
    }

    /// Returns whether the message failed and is therefore not sent. A message that the user stopped is sent if
    /// it has output.
    fn has_failed(&self) -> bool {
        let Some(error) = self.info.object("error") else { return false };
        let has_output = |part: JsonNode<'_>| {
            !matches!(part.text_of("type").as_deref(), Some("step-start" | "reasoning") | None)
        };
        let was_stopped = error.text_is("name", "MessageAbortedError");
        !was_stopped || !self.parts.items().any(has_output)
    }
}

impl Reader for Opencode {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let messages = sample.objects("messages");
        let has_info = sample.document.is_some_and(|document| {
            document.get("info").is_some_and(JsonNode::is_object)
                && document.get("messages").is_some_and(JsonNode::is_array)
        });
        let is_message = |message: &JsonNode<'_>| {
            message.get("info").is_some_and(|info| info.string("role").is_some())
                && message.get("parts").is_some_and(JsonNode::is_array)
        };
        if messages.is_empty() { has_info } else { messages.iter().any(is_message) }
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_document(WANTED, |builder, document| {
            let messages = document.get("messages").unwrap_or(document);
            ensure(messages.is_array(), "OpenCode", messages, "it has no `messages` array")?;
            let all_messages = read_messages(builder, messages)?;
            for message in &all_messages {
                let requested_model = message.info.get("model").and_then(|model| model.text_of("modelID"));
                if let Some(model) = message.info.text_of("modelID").or(requested_model) {
                    builder.set_model(&model);
                }
            }
            let sent = sent_messages(builder, document.get("info"), all_messages);
            for (user, answers) in group_by_request(&sent) {
                add_turn(builder, user, &answers);
            }
            Ok(())
        })
    }

    fn adds_after_pinned(&self) -> bool {
        false
    }

    fn record_id(&self, record: &str) -> Option<String> {
        pair::id(record)
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        pair::records(pair, false)
    }

    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        pair::records(note, true)
    }
}

fn read_messages<'a>(
    builder: &mut EventBuilder,
    messages: JsonNode<'a>,
) -> Result<Vec<Message<'a>>, Unreadable> {
    let mut read = Vec::new();
    for (at, message) in builder.elements(messages, None) {
        match (message.object("info"), message.array("parts")) {
            (Some(info), Some(parts)) => {
                let part_count = parts.items().len();
                read.push(Message { at, info, parts, part_count });
            }
            _ => {
                builder.count_unknown(message);
                builder.warn(format!("message {} has no `info` or no `parts` and was skipped", at.element));
            }
        }
    }
    match messages.items().next() {
        Some(first) if read.is_empty() => {
            Err(format_error("OpenCode", first, "a message has no `info` or `parts`"))
        }
        _ => Ok(read),
    }
}

/// Returns the messages that are sent: the messages that the last compaction kept, and all later messages up to the
/// reverted part.
fn sent_messages<'a>(
    builder: &mut EventBuilder,
    session: Option<JsonNode<'_>>,
    mut messages: Vec<Message<'a>>,
) -> Vec<Message<'a>> {
    let revert = session.and_then(|session| session.get("revert"));
    if let Some(id) = revert.and_then(|revert| revert.text_of("messageID"))
        && let Some(first) = messages.iter().position(|message| message.id() == id)
    {
        let part = revert.and_then(|revert| revert.text_of("partID"));
        let part_count = part.and_then(|id| {
            messages[first].parts.items().position(|part| part.text_of("id").as_ref() == Some(&id))
        });
        messages[first].part_count = part_count.unwrap_or_default();
        // Without this message OpenCode would send the reverted messages again.
        if !messages[first].is_user() {
            builder.pin(messages[first].at);
        }
        messages.truncate(first + usize::from(part_count.is_some()));
    }
    let summarized_request = |message: &Message<'_>| {
        let is_complete = message.info.is_true("summary") && message.info.string("finish").is_some();
        let parent = message.info.text_of("parentID").map(Cow::into_owned);
        parent.filter(|_| is_complete && message.info.get("error").is_none())
    };
    let compacted: HashSet<String> = messages.iter().filter_map(summarized_request).collect();
    let is_compaction = |message: &Message<'_>| {
        message.is_user() && message.compaction().is_some() && compacted.contains(&*message.id())
    };
    if let Some(boundary) = messages.iter().rposition(is_compaction) {
        let part = messages[boundary].compaction();
        // Without this part and a complete answer OpenCode would send the compacted messages again.
        part.iter().for_each(|part| builder.carry_over(messages[boundary].at, part.span()));
        let request = messages[boundary].id();
        let is_answer = |message: &&Message<'_>| summarized_request(message).is_some_and(|id| id == request);
        for answer in messages.iter().filter(is_answer) {
            builder.pin(answer.at);
            builder.add_mention(messages[boundary].at, answer.at);
        }
        // `tail_start_id` is not a string if no compacted message is kept.
        let tail_id = part.and_then(|part| part.get("tail_start_id"));
        let tail = tail_id.filter(|id| id.is_string());
        let tail =
            tail.and_then(|id| messages[..boundary].iter().position(|message| message.id() == id.text()));
        let start = tail.unwrap_or(boundary);
        let ids =
            messages[start..=boundary].iter().map(|message| (message.at, message.info.string_span("id")));
        let records = ids.filter(|(_, id)| !id.is_empty()).collect();
        let key = tail_id.is_none().then_some("tail_start_id");
        if let Some(span) = tail_id.or(part).map(JsonNode::span) {
            builder.add_first_record(FirstRecord { span, key, records, is_start: true });
        }
        messages.drain(..start);
    }
    messages
}

/// Returns the turn of the request whose id is a prefix of the note's id. Of several, the longest id counts.
fn noted_turn(note: &Message<'_>, turns: &HashMap<Cow<'_, str>, usize>) -> Option<usize> {
    let requests = turns.iter().filter(|(id, _)| !id.is_empty() && note.id().starts_with(&***id));
    requests.max_by_key(|(id, _)| id.len()).map(|(_, turn)| *turn)
}

/// Groups messages by request. The first group has no request.
fn group_by_request<'m, 'a>(
    messages: &'m [Message<'a>],
) -> Vec<(Option<&'m Message<'a>>, Vec<&'m Message<'a>>)> {
    let mut turns: Vec<(Option<&Message<'_>>, Vec<&Message<'_>>)> = vec![(None, Vec::new())];
    let mut by_user: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for message in messages {
        if message.is_note() {
            let turn = noted_turn(message, &by_user).unwrap_or(turns.len() - 1);
            turns[turn].1.push(message);
            continue;
        }
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

fn add_turn(builder: &mut EventBuilder, user: Option<&Message<'_>>, answers: &[&Message<'_>]) {
    let mut request = user.and_then(|user| request_draft(builder, user));
    let mut events = Vec::new();
    for message in answers {
        let len_before = events.len();
        if message.is_note() {
            events.extend(request_draft(builder, message).map(|draft| (Kind::ChatRequest, draft)));
        } else if !message.has_failed() {
            collect_events(builder, message, &mut events);
        }
        // A message that is not sent is deleted with its request.
        let is_complete = message.part_count == message.parts.items().len();
        if events.len() == len_before
            && is_complete
            && let Some(request) = &mut request
        {
            request.further_deletions.push(Deletion::Element(message.at));
        }
    }
    if let Some(request) = request {
        builder.add_request(request);
    }
    builder.add_all(events, false);
}

/// Returns the user's request, if it has content.
fn request_draft(builder: &mut EventBuilder, message: &Message<'_>) -> Option<EventDraft> {
    let mut texts: Vec<Span> = Vec::new();
    for part in message.parts.items().take(message.part_count) {
        let member_is =
            |name: &str, values: &[&str]| part.text_of(name).is_some_and(|value| values.contains(&&*value));
        match part.text_of("type").as_deref() {
            Some("text") if !part.is_true("ignored") => texts.extend(part.string("text").map(JsonNode::span)),
            // OpenCode adds the content of text files and folders as text.
            Some("file") if !member_is("mime", &["text/plain", "application/x-directory"]) => {
                let is_image = part.text_of("mime").is_some_and(|mime| mime.starts_with("image/"));
                texts.push(builder.new_string(if is_image { "[image]" } else { "[file]" }));
            }
            Some("subtask") => texts.push(builder.new_string(RUN_BY_USER)),
            kind => {
                if !kind.is_some_and(|kind| PARTS.split(' ').any(|part| part == kind)) {
                    builder.count_unknown(part);
                }
            }
        }
    }
    if texts.is_empty() && message.compaction().is_some() && message.part_count > 0 {
        texts.push(builder.new_string(COMPACTED));
    }
    if texts.is_empty() {
        return None;
    }
    let body = builder.one_or_joined(&texts);
    let (start, end) = (message.info.span().start, message.parts.span().end);
    let span = Span { start: start.min(message.parts.span().start), end: end.max(message.info.span().end) };
    let draft = EventDraft { span, body, ..EventDraft::of_record(message.at, created(message.info)) };
    let mut own = message.parts.items().filter(|part| !part.is_true("synthetic"));
    Some(if own.next().is_some() { draft } else { builder.by_agent("synthetic", draft) })
}

/// Adds the events of an assistant message. The results of one step follow all of its calls.
fn collect_events(builder: &mut EventBuilder, message: &Message<'_>, events: &mut Vec<NewEvent>) {
    let mut results = Vec::new();
    let mut response = builder.next_response();
    for (at, part) in builder.elements(message.parts, None).take(message.part_count) {
        let time = time_member(part, "start").or_else(|| created(message.info));
        let draft = EventDraft::of_record(message.at, time).part(part, Deletion::Element(at));
        let draft = EventDraft { metadata: provider_metadata(builder, part), response, ..draft };
        let text = part.string("text");
        match (part.text_of("type").as_deref(), text) {
            (Some("step-start"), _) => {
                events.append(&mut results);
                response = builder.next_response();
            }
            (Some("text"), Some(text)) if text.raw().len() > 2 => {
                events.push((Kind::Message, draft.with_body(text.span())));
            }
            (Some("reasoning"), Some(text)) => {
                events.push((Kind::Reasoning, draft.with_body(text.span())));
            }
            (Some("tool"), _) => collect_tool_events(builder, part, draft, events, &mut results),
            (kind, _) => {
                if !kind.is_some_and(|kind| PARTS.split(' ').any(|part| part == kind)) {
                    builder.count_unknown(part);
                }
            }
        }
    }
    events.append(&mut results);
}

fn collect_tool_events(
    builder: &mut EventBuilder,
    part: JsonNode<'_>,
    draft: EventDraft,
    events: &mut Vec<NewEvent>,
    results: &mut Vec<NewEvent>,
) {
    let Some(state) = part.get("state") else { return };
    let draft = draft.with_id(builder.id_or_next(part.string("callID")));
    let time = time_member(state, "start").or(draft.time);
    let call = builder.call(part, "tool", state.get("input"), values::empty_object, draft.clone());
    // Copies of the command for display.
    let call = call.with_edit(state.string("title"), values::empty_string);
    let call = call.with_edit(state.string("raw"), values::empty_string);
    events.push((Kind::ToolRequest, EventDraft { time, ..call }));
    let is_error = match state.text_of("status").as_deref() {
        Some("completed") => false,
        Some("error") => true,
        // The call is still running or was abandoned.
        _ => return,
    };
    let metadata = state.get("metadata");
    let interrupted = metadata.filter(|metadata| is_error && metadata.is_true("interrupted"));
    let output = match interrupted.and_then(|metadata| metadata.string("output")) {
        Some(output) => Some(output),
        None => state.get(if is_error { "error" } else { "output" }),
    };
    let mut result = EventDraft { metadata: Span::default(), ..draft }.with_edit(output, values::text);
    result.edits.extend(result_twins(metadata).filter(|edit| Some(edit.span) != output.map(JsonNode::span)));
    let cleared_at = state.inner("time", "compacted");
    let cleared_at = cleared_at.filter(|time| !is_error && !matches!(time.raw(), b"0" | b"null"));
    let result = result.with_edit(state.array("attachments"), values::empty_array);
    // While this time is set, OpenCode sends the cleared text instead.
    let result = result.with_edit(cleared_at, |_| "0".into());
    let body = match output {
        _ if cleared_at.is_some() => builder.new_string(CLEARED),
        Some(output) if output.is_string() => output.span(),
        Some(output) if !output.is_null() => builder.new_string(&output.lossy()),
        _ => builder.new_string(""),
    };
    let time = time_member(state, "end").or(result.time);
    results.push((Kind::ToolResponse { is_error }, EventDraft { body, time, ..result }));
}

/// Returns the edits for copies of a result that are kept for display. Links to other sessions stay.
fn result_twins(metadata: Option<JsonNode<'_>>) -> impl Iterator<Item = EditSite> {
    let members = metadata.into_iter().flat_map(JsonNode::members);
    let is_kept = |name: &[u8]| matches!(name, b"sessionId" | b"sessionID" | b"parentSessionId" | b"model");
    let emptied = members.filter(move |(name, value)| !is_kept(name) && value.raw().len() > 2);
    emptied.filter_map(|(_, value)| values::emptying_edit(value))
}

/// Returns the data that must be sent back to the provider with a part.
fn provider_metadata(builder: &mut EventBuilder, part: JsonNode<'_>) -> Span {
    let Some(metadata) = part.get("metadata") else { return Span::default() };
    let providers = PROVIDERS.iter().filter_map(|provider| metadata.get(provider));
    let values = providers.flat_map(|data| PROVIDER_DATA.map(|(theirs, ours)| (ours, data.string(theirs))));
    builder.provider_data(&values.collect::<Vec<_>>())
}

fn created(info: JsonNode<'_>) -> Option<Timestamp> {
    time_member(info, "created")
}

/// Parses a time in milliseconds.
fn time_member(holder: JsonNode<'_>, name: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(holder.inner("time", name)?.number()?).ok()
}
