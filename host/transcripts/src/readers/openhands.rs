//! The reader of `OpenHands`' events, in the old form (`legacy`) and the form of its SDK: a list, JSONL, or an
//! evaluation result with a `history`. A record is one of these events, and is read as any number of our events. A
//! condenser, `OpenHands`' own compaction, records the ids of the events that it forgot. Those events are read like all
//! others. If an event is deleted, its id is removed from the condenser's record.

mod legacy;
mod sdk;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_core::time;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct OpenHands;

const WANTED: MemberFilter = |key| {
    matches!(key, b"history" | b"items" | b"args" | b"extras" | b"forgotten_event_ids")
        || matches!(key, b"tool_call_metadata" | b"model_response" | b"choices" | b"message")
        || matches!(key, b"tool_calls" | b"function" | b"thought" | b"llm_message" | b"content")
        || matches!(key, b"extended_content" | b"tool_call" | b"observation" | b"thinking_blocks")
        || matches!(key, b"responses_reasoning_item" | b"summary" | b"system_prompt")
        || matches!(key, b"dynamic_context")
};

/// Members of a document that contain events.
const LISTS: [&str; 2] = ["history", "items"];

struct Record {
    at: ElementRef,
    /// The common members of all its events.
    draft: EventDraft,
    /// The id as JSON. It is a number in legacy events, and a string in events of the SDK.
    id: String,
    parent: Option<String>,
    /// The id of the event that it answers.
    cause: Option<String>,
    starts_turn: bool,
    events: Vec<FoundEvent>,
    /// The ids of the events that a condenser forgot, and the elements that contain these ids.
    forgotten: Vec<(String, ElementRef)>,
    /// Copies of other events' content in this record. The copied event has the same name in its `twins`.
    twins: Vec<(String, EditSite)>,
}

struct FoundEvent {
    kind: Kind,
    draft: EventDraft,
    /// The names under which other records contain copies of this event.
    twins: Vec<String>,
}

impl Record {
    fn new(at: ElementRef, event: JsonNode<'_>) -> Self {
        let raw = |name: &str| event.non_null(name).map(as_json);
        Self {
            at,
            draft: EventDraft { time: event_time(event), ..EventDraft::whole(at, event) },
            id: raw("id").unwrap_or_default(),
            parent: event.string("parent_id").map(as_json),
            cause: raw("cause"),
            starts_turn: false,
            events: Vec::new(),
            forgotten: Vec::new(),
            twins: Vec::new(),
        }
    }

    fn add(&mut self, kind: Kind, draft: EventDraft) {
        self.events.push(FoundEvent { kind, draft, twins: Vec::new() });
    }

    fn add_forgotten(&mut self, builder: &mut EventBuilder, ids: JsonNode<'_>) {
        self.forgotten.extend(builder.elements(ids, None).map(|(at, id)| (as_json(id), at)));
    }
}

impl Reader for OpenHands {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let has_events = |list: JsonNode<'_>| {
            list.items().any(|item| is_event(item) || (item.is_array() && item.items().any(is_event)))
        };
        let contains_events = |document: JsonNode<'_>| {
            has_events(document) || LISTS.iter().any(|name| document.get(name).is_some_and(has_events))
        };
        sample.document.is_some_and(contains_events)
            || sample.any_line(|line| is_event(line) || contains_events(line))
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut records = Vec::new();
        if builder.is_document() {
            let mut is_single_event = false;
            builder.read_document(WANTED, |builder, document| {
                is_single_event = is_event(document);
                if is_single_event { Ok(()) } else { read_list(builder, document) }
            })?;
            if !is_single_event {
                return Ok(());
            }
        }
        builder.read_lines(WANTED, |builder, at, line| {
            ensure(line.is_object(), "OpenHands", line, "a line is not an object")?;
            if LISTS.iter().any(|name| line.get(name).is_some_and(JsonNode::is_array)) {
                builder.start_conversation(line)?;
                return read_list(builder, line);
            }
            records.push(read_record(builder, at, line));
            Ok(())
        })?;
        add_events(builder, records);
        Ok(())
    }

    fn shows_reasoning(&self) -> bool {
        true
    }

    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        let mut records = self.pair(note);
        records.truncate(1);
        if !note.first.is_array() {
            return records;
        }
        let both: Option<Vec<Value>> = records.first().and_then(|both| serde_json::from_str(both).ok());
        both.into_iter().flatten().take(1).map(|request| Value::Array(vec![request]).to_string()).collect()
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let first = pair.first.items().next().unwrap_or(pair.first);
        let timestamp = first.text_of("timestamp");
        let has_zone = timestamp.is_some_and(|time| time.parse::<Timestamp>().is_ok());
        let at = pair.at.to_string();
        let at = if has_zone { at.as_str() } else { at.trim_end_matches('Z') };
        if first.get("kind").is_some() {
            return sdk::pair(pair, first, at);
        }
        let events = legacy::pair(pair, first, at);
        // The oldest form stores an action and its observation as one array.
        if pair.first.is_array() {
            vec![Value::Array(events).to_string()]
        } else {
            events.iter().map(Value::to_string).collect()
        }
    }
}

fn is_event(node: JsonNode<'_>) -> bool {
    let is_sdk_event = || node.text_of("kind").is_some_and(|kind| sdk::is_kind(&kind));
    let is_action = || node.string("action").is_some() && node.get("args").is_some_and(JsonNode::is_object);
    let is_observation = || node.string("observation").is_some() && node.get("content").is_some();
    node.is_object()
        && node.get("role").is_none()
        && ((is_sdk_event() && node.get("id").is_some()) || is_action() || is_observation())
}

/// Reads a list of events, or a document that contains such a list.
fn read_list(builder: &mut EventBuilder, document: JsonNode<'_>) -> Result<(), Unreadable> {
    let list = LISTS.iter().find_map(|name| document.get(name)).unwrap_or(document);
    ensure(list.is_array(), "OpenHands", document, "it has no list of events")?;
    let mut records = Vec::new();
    for (at, item) in builder.elements(list, None) {
        if item.is_object() {
            records.push(read_record(builder, at, item));
        } else if item.is_array() {
            for (inner, item) in builder.elements(item, Some(at)) {
                let mut record = read_record(builder, at, item);
                for event in &mut record.events {
                    if matches!(event.kind, Kind::ToolResponse { .. }) {
                        event.draft.deletion = Deletion::Element(inner);
                    }
                }
                records.push(record);
            }
        } else {
            return Err(format_error("OpenHands", item, "an event is not an object"));
        }
    }
    add_events(builder, records);
    Ok(())
}

fn read_record(builder: &mut EventBuilder, at: ElementRef, event: JsonNode<'_>) -> Record {
    let mut record = Record::new(at, event);
    if event.string("kind").is_some() {
        if let (Some(id), Some(parent)) = (event.get("id"), event.get("parent_id")) {
            builder.add_link(at, id.span(), parent.span());
        }
        sdk::read(builder, event, &mut record);
    } else {
        legacy::read(builder, event, &mut record);
    }
    record
}

/// Adds the events of the records, and assigns each result to its call.
fn add_events(builder: &mut EventBuilder, records: Vec<Record>) {
    let mut twins_by_name: HashMap<String, Vec<EditSite>> = HashMap::new();
    for (name, edit) in records.iter().flat_map(|record| &record.twins) {
        twins_by_name.entry(name.clone()).or_default().push(*edit);
    }
    let by_id: HashMap<String, ElementRef> =
        records.iter().map(|record| (record.id.clone(), record.at)).collect();
    let (on_path, broken_at) = path(&records);
    let is_on_path = |at: &ElementRef| on_path.as_ref().is_none_or(|path| path.contains(at));
    let mut lost = Vec::new();
    for (index, record) in records.iter().enumerate().filter(|(_, record)| !is_on_path(&record.at)) {
        let text: u64 = record.events.iter().map(|event| event.draft.body.len() as u64).sum();
        match broken_at {
            Some(broken_at) if index < broken_at && text > 0 => lost.push(text),
            _ => builder.count_unsent(text),
        }
    }
    builder.count_unreachable(&lost);
    let mut waiting: Vec<(String, Span)> = Vec::new();
    for Record { at, id, cause, starts_turn, events, forgotten, .. } in records {
        for (forgotten_id, element) in forgotten {
            if let Some(record) = by_id.get(&forgotten_id) {
                builder.add_mention(*record, element);
            }
        }
        if !is_on_path(&at) {
            continue;
        }
        if starts_turn {
            builder.start_turn(events.first().and_then(|event| event.draft.time));
        }
        for FoundEvent { kind, mut draft, twins } in events {
            let edits = twins.iter().filter_map(|name| twins_by_name.get(name)).flatten();
            match kind {
                Kind::ToolRequest => {
                    draft.edits.extend(edits);
                    if draft.id.is_empty() {
                        draft.id = builder.next_id();
                    }
                    waiting.push((id.clone(), draft.id));
                }
                Kind::Reasoning => {
                    let values = edits.map(|edit| Deletion::Value(edit.span, "null"));
                    draft.deletion =
                        Deletion::Several(std::iter::once(draft.deletion).chain(values).collect());
                }
                Kind::ToolResponse { .. } if draft.id.is_empty() => {
                    let index = match &cause {
                        Some(cause) => waiting.iter().position(|(id, _)| id == cause),
                        None => waiting.len().checked_sub(1),
                    };
                    let Some(index) = index else {
                        // The result belongs to an event that is not a call, and is deleted with it.
                        let record = cause.as_ref().and_then(|cause| by_id.get(cause));
                        if let Some(record) = record.filter(|record| **record != at) {
                            builder.add_mention(*record, at);
                        }
                        continue;
                    };
                    draft.id = waiting.remove(index).1;
                }
                _ => {}
            }
            builder.add(kind, draft);
        }
    }
}

/// Returns the elements on the path from the last event to the root, and the index of the event at which the path ends
/// because its parent is missing. An event without a parent follows the previous event. If no event has a parent, there
/// is no path, and all events are read.
fn path(records: &[Record]) -> (Option<HashSet<ElementRef>>, Option<usize>) {
    if records.iter().all(|record| record.parent.is_none()) {
        return (None, None);
    }
    let by_id: HashMap<&str, usize> =
        records.iter().enumerate().map(|(index, record)| (&*record.id, index)).collect();
    let mut on_path = HashSet::new();
    let (mut next, mut broken_at) = (records.len().checked_sub(1), None);
    while let Some((index, record)) = next.and_then(|index| Some((index, records.get(index)?))) {
        if !on_path.insert(record.at) {
            break;
        }
        next = match &record.parent {
            Some(parent) => by_id.get(&**parent).copied(),
            None => index.checked_sub(1),
        };
        broken_at = Some(index).filter(|_| next.is_none() && record.parent.is_some());
    }
    (Some(on_path), broken_at)
}

fn as_json(node: JsonNode<'_>) -> String {
    node.lossy().into_owned()
}

/// Returns the time of an event. A time without a zone is UTC.
fn event_time(event: JsonNode<'_>) -> Option<Timestamp> {
    let text = event.text_of("timestamp")?;
    time::parse(&text).or_else(|| time::parse(&format!("{text}Z")))
}

/// Returns edits that empty the long texts of an object, except for the members `except`. These texts are copies of a
/// result, or the data from which the result was made, and are not sent to the model.
fn long_texts<'a>(object: JsonNode<'a>, except: &'a [&str]) -> impl Iterator<Item = EditSite> + 'a {
    let is_long = |value: JsonNode<'_>| value.is_string() && value.raw().len() > 64;
    let members =
        object.members().filter(|(key, _)| !except.iter().any(|except| except.as_bytes() == key.as_ref()));
    members.filter(move |(_, value)| is_long(*value)).map(|(_, value)| value.edit_site(values::empty_string))
}
