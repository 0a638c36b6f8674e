//! `OpenHands`' events, of both makes: a list of them, lines, or the results of an evaluation with a `history` each.
//! What a condenser forgot stays what it was: its record names the events, and loses the names of those that go.

mod legacy;
mod sdk;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::Transcript;
use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use crate::event::Kind;
use crate::json::Span;
use crate::time;

pub(super) struct OpenHands;

const WANTED: Wanted = |key| {
    matches!(
        key,
        b"history"
            | b"items"
            | b"args"
            | b"extras"
            | b"forgotten_event_ids"
            | b"tool_call_metadata"
            | b"model_response"
            | b"choices"
            | b"message"
            | b"tool_calls"
            | b"function"
            | b"thought"
            | b"llm_message"
            | b"content"
            | b"extended_content"
            | b"tool_call"
            | b"observation"
            | b"thinking_blocks"
            | b"responses_reasoning_item"
            | b"summary"
            | b"system_prompt"
            | b"dynamic_context"
    )
};

/// The members of a document that hold events.
const LISTS: [&str; 2] = ["history", "items"];

/// An event of theirs, and the events that it is to us.
struct Record {
    at: At,
    /// As JSON: one make counts its events, the other names them.
    id: String,
    parent: Option<String>,
    /// The event that it answers.
    cause: Option<String>,
    opens: bool,
    found: Vec<Found>,
    /// The events that it says were forgotten, and where it does.
    forgets: Vec<(String, At)>,
    /// Where it holds what other events say, by the name of that.
    twins: Vec<(String, Slot)>,
}

struct Found {
    kind: Kind,
    draft: Draft,
    /// Under what names other records hold the same once more.
    twins: Vec<String>,
}

impl Record {
    fn of(at: At, event: Look<'_>) -> Self {
        let raw = |name: &str| event.get(name).filter(|value| !value.is_null()).map(as_json);
        Self {
            at,
            id: raw("id").unwrap_or_default(),
            parent: event.string("parent_id").map(as_json),
            cause: raw("cause"),
            opens: false,
            found: Vec::new(),
            forgets: Vec::new(),
            twins: Vec::new(),
        }
    }

    fn add(&mut self, kind: Kind, draft: Draft) {
        self.found.push(Found { kind, draft, twins: Vec::new() });
    }

    fn forgotten(&mut self, reading: &mut Reading, ids: Look<'_>) {
        let list = reading.items(ids, None);
        let named = ids.items().enumerate().map(|(element, id)| (as_json(id), At { list, element }));
        self.forgets.extend(named);
    }
}

impl Transcript for OpenHands {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let of_list = |list: Look<'_>| {
            list.items().any(|item| is_event(item) || (item.is_array() && item.items().any(is_event)))
        };
        let holds = |document: Look<'_>| {
            of_list(document) || LISTS.iter().any(|name| document.get(name).is_some_and(of_list))
        };
        sample.document.is_some_and(holds) || sample.any_line(|line| is_event(line) || holds(line))
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut records = Vec::new();
        if super::detect::is_document(&reading.bytes()) {
            let mut is_alone = false;
            reading.document(WANTED, |reading, document| {
                is_alone = is_event(document);
                if is_alone { Ok(()) } else { conversation(reading, document) }
            })?;
            if !is_alone {
                return Ok(());
            }
        }
        reading.lines(WANTED, |reading, at, line| {
            if !line.is_object() {
                return Err(not_of("OpenHands", line.span().start, "a line that is no object"));
            }
            if LISTS.iter().any(|name| line.get(name).is_some_and(Look::is_array)) {
                reading.conversation(line)?;
                return conversation(reading, line);
            }
            records.push(record(reading, at, line));
            Ok(())
        })?;
        told(reading, records);
        Ok(())
    }

    fn says_thoughts(&self) -> bool {
        true
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let first = pair.first.items().next().unwrap_or(pair.first);
        let written = first.text_of("timestamp");
        let has_zone = written.is_some_and(|time| time.parse::<Timestamp>().is_ok());
        let at = pair.at.to_string();
        let at = if has_zone { at.as_str() } else { at.trim_end_matches('Z') };
        if first.get("kind").is_some() {
            return sdk::pair(pair, first, at);
        }
        let both = legacy::pair(pair, first, at);
        // The oldest form holds what was done and what came of it as one.
        if pair.first.is_array() {
            vec![Value::Array(both).to_string()]
        } else {
            both.iter().map(Value::to_string).collect()
        }
    }
}

fn is_event(look: Look<'_>) -> bool {
    let of_sdk = || look.text_of("kind").is_some_and(|kind| sdk::is_kind(&kind));
    let is_action = || look.string("action").is_some() && look.get("args").is_some_and(Look::is_object);
    let is_observation = || look.string("observation").is_some() && look.get("content").is_some();
    look.is_object()
        && look.get("role").is_none()
        && ((of_sdk() && look.get("id").is_some()) || is_action() || is_observation())
}

/// A list of events, or what holds one.
fn conversation(reading: &mut Reading, document: Look<'_>) -> Result<(), Unreadable> {
    let list = LISTS.iter().find_map(|name| document.get(name)).unwrap_or(document);
    if !list.is_array() {
        return Err(not_of("OpenHands", document.span().start, "there is no list of events"));
    }
    let number = reading.items(list, None);
    let mut records = Vec::new();
    for (element, item) in list.items().enumerate() {
        let at = At { list: number, element };
        if item.is_object() {
            records.push(record(reading, at, item));
        } else if item.is_array() {
            let inner = reading.items(item, Some(at));
            for (element, item) in item.items().enumerate() {
                let mut record = record(reading, at, item);
                for found in &mut record.found {
                    if matches!(found.kind, Kind::ToolResponse { .. }) {
                        found.draft.cut = Cut::Element(At { list: inner, element });
                    }
                }
                records.push(record);
            }
        } else {
            return Err(not_of("OpenHands", item.span().start, "an event that is no object"));
        }
    }
    told(reading, records);
    Ok(())
}

fn record(reading: &mut Reading, at: At, event: Look<'_>) -> Record {
    let mut record = Record::of(at, event);
    let draft = Draft { span: event.span(), time: moment(event), record: Some(at), ..Draft::default() };
    if event.string("kind").is_some() {
        if let (Some(id), Some(parent)) = (event.get("id"), event.string("parent_id")) {
            reading.link(at, id.span(), parent.span());
        }
        sdk::read(reading, event, &draft, &mut record);
    } else {
        legacy::read(reading, event, &draft, &mut record);
    }
    record
}

/// Adds what was found, each answer to the call that it is of.
fn told(reading: &mut Reading, records: Vec<Record>) {
    let mut all: HashMap<String, Vec<Slot>> = HashMap::new();
    for (name, slot) in records.iter().flat_map(|record| &record.twins) {
        all.entry(name.clone()).or_default().push(*slot);
    }
    let by_id: HashMap<String, At> = records.iter().map(|record| (record.id.clone(), record.at)).collect();
    let (on_path, broken) = path(&records);
    let is_on_path = |at: &At| on_path.as_ref().is_none_or(|path| path.contains(at));
    let (mut lost, mut lost_records) = (0, 0);
    for (place, record) in records.iter().enumerate().filter(|(_, record)| !is_on_path(&record.at)) {
        let text: u64 = record.found.iter().map(|found| found.draft.body.len() as u64).sum();
        match broken {
            Some(broken) if place < broken && text > 0 => {
                (lost, lost_records) = (lost + text, lost_records + 1);
            }
            _ => reading.passed_over(text),
        }
    }
    if lost_records > 0 {
        reading.unreachable(lost, lost_records);
    }
    let mut waiting: Vec<(String, Span)> = Vec::new();
    for Record { at, id, cause, opens, found, forgets, .. } in records {
        for (forgotten, element) in forgets {
            if let Some(record) = by_id.get(&forgotten) {
                reading.mention(*record, element);
            }
        }
        if !is_on_path(&at) {
            continue;
        }
        if opens {
            reading.turn(found.first().and_then(|found| found.draft.time));
        }
        for Found { kind, mut draft, twins } in found {
            let slots = twins.iter().filter_map(|name| all.get(name)).flatten();
            match kind {
                Kind::ToolRequest => {
                    draft.slots.extend(slots);
                    if draft.id.is_empty() {
                        draft.id = reading.next_id();
                    }
                    waiting.push((id.clone(), draft.id));
                }
                Kind::Reasoning => {
                    let values = slots.map(|slot| Cut::Value(slot.span, "null"));
                    draft.cut = Cut::Several(std::iter::once(draft.cut).chain(values).collect());
                }
                Kind::ToolResponse { .. } if draft.id.is_empty() => {
                    let place = match &cause {
                        Some(cause) => waiting.iter().position(|(id, _)| id == cause),
                        None => waiting.len().checked_sub(1),
                    };
                    let Some(place) = place else {
                        // It answers what is no call, and goes with that.
                        let record = cause.as_ref().and_then(|cause| by_id.get(cause));
                        if let Some(record) = record.filter(|record| **record != at) {
                            reading.mention(*record, at);
                        }
                        continue;
                    };
                    draft.id = waiting.remove(place).1;
                }
                _ => {}
            }
            reading.add(kind, draft);
        }
    }
}

/// The events on the way from the last one to the root, where any says what it follows: one that does not follows the
/// one before it. And the place of the one that names an event that is missing.
fn path(records: &[Record]) -> (Option<HashSet<At>>, Option<usize>) {
    if records.iter().all(|record| record.parent.is_none()) {
        return (None, None);
    }
    let by_id: HashMap<&str, usize> =
        records.iter().enumerate().map(|(place, record)| (&*record.id, place)).collect();
    let mut on_path = HashSet::new();
    let (mut next, mut broken) = (records.len().checked_sub(1), None);
    while let Some((place, record)) = next.and_then(|place| Some((place, records.get(place)?))) {
        if !on_path.insert(record.at) {
            break;
        }
        next = match &record.parent {
            Some(parent) => by_id.get(&**parent).copied(),
            None => place.checked_sub(1),
        };
        broken = Some(place).filter(|_| next.is_none() && record.parent.is_some());
    }
    (Some(on_path), broken)
}

fn as_json(look: Look<'_>) -> String {
    String::from_utf8_lossy(look.raw()).into_owned()
}

/// When it happened; a time without a zone is taken for UTC.
fn moment(event: Look<'_>) -> Option<Timestamp> {
    let text = event.text_of("timestamp")?;
    time::parse(&text).or_else(|| time::parse(&format!("{text}Z")))
}

/// A text that is left empty.
fn empty(_: &str) -> String {
    "\"\"".into()
}

/// The texts of a result that are not sent, and are long: the same once more, or what it was made of.
fn long_texts<'a>(object: Look<'a>, but: &'a [&str]) -> impl Iterator<Item = Slot> + 'a {
    let is_long = |value: Look<'_>| value.is_string() && value.raw().len() > 64;
    let members = object.members().filter(|(key, _)| !but.iter().any(|but| but.as_bytes() == key.as_ref()));
    members
        .filter(move |(_, value)| is_long(*value))
        .map(|(_, value)| Slot { span: value.span(), write: empty })
}
