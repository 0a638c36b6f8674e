//! The reader of Qwen Code's sessions: JSONL, linked into a tree by `uuid` and `parentUuid`, with messages in Google's
//! form. The model received the messages on the path from the root to the last line. A compression of Qwen Code
//! replaces all messages before it. Other branches and the program's own records stay in the file and are not events.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::gemini::{self, Calls};
use super::values;
use crate::builder::{EventBuilder, EventDraft, time_of};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, span_of};

pub(super) struct QwenCode;

const WANTED: MemberFilter = |key| {
    matches!(key, b"message" | b"systemPayload" | b"compressedHistory" | b"toolCallResult")
        || gemini::WANTED(key)
};

/// Members that a summary's pair copies from the first line that it replaces.
const SHARED: [&str; 4] = ["sessionId", "cwd", "version", "gitBranch"];

/// A line of the tree.
struct Line {
    uuid: String,
    parent: Option<String>,
    /// The range of its events.
    events: Range<usize>,
    /// Whether its events replace all events before it.
    restarts: bool,
}

impl Reader for QwenCode {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let has_parts = line.inner("message", "parts").is_some_and(JsonNode::is_array);
            line.string("uuid").is_some()
                && line.get("sessionId").is_some()
                && (has_parts || line.get("systemPayload").is_some())
        })
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let (mut lines, mut calls) = (Vec::new(), Calls::default());
        builder.read_lines(WANTED, |builder, at, node| {
            ensure(node.is_object(), "Qwen Code", node, "a line is not an object")?;
            let Some(uuid) = node.string("uuid") else {
                builder.count_unknown(node);
                return Ok(());
            };
            let parent = node.get("parentUuid");
            builder.add_link(at, uuid.span(), span_of(parent));
            let before = builder.len();
            let restarts = add_events(builder, node, at, &mut calls);
            lines.push(Line {
                uuid: uuid.text().into_owned(),
                parent: parent.filter(|parent| parent.is_string()).map(|parent| parent.text().into_owned()),
                events: before..builder.len(),
                restarts,
            });
            Ok(())
        })?;
        let (on_path, broken_at) = path(&lines);
        if let Some(broken_at) = broken_at {
            let is_lost = |line: &&Line| !on_path.contains(&*line.uuid) && !line.events.is_empty();
            let lost = lines[..broken_at].iter().filter(is_lost);
            let texts: Vec<u64> = lost.map(|line| builder.text_len(line.events.clone())).collect();
            builder.recount_as_unreachable(&texts);
        }
        let restart = lines.iter().rposition(|line| line.restarts && on_path.contains(&*line.uuid));
        let mut stays = vec![false; builder.len()];
        for (index, line) in lines.iter().enumerate() {
            let is_sent = restart.is_none_or(|restart| index >= restart) && on_path.contains(&*line.uuid);
            stays[line.events.clone()].fill(is_sent);
        }
        builder.retain(|event| stays[event]);
        Ok(())
    }

    fn has_nested_messages(&self) -> bool {
        true
    }

    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        let content = content("user", note.request);
        let parent = serde_json::from_str(note.parent).unwrap_or_default();
        vec![if note.is_nested { content.to_string() } else { record(note, &note.ids[0], parent, &content) }]
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let [first, second] = &pair.ids;
        let response = content("model", pair.response);
        let response = match pair.is_nested {
            true => response.to_string(),
            false => record(pair, second, first.as_str().into(), &response),
        };
        self.note(pair).into_iter().chain([response]).collect()
    }
}

fn content(role: &str, text: &str) -> Value {
    json!({ "role": role, "parts": [{ "text": text }] })
}

fn record(pair: &SummaryPair<'_>, id: &str, parent: Value, message: &Value) -> String {
    let mut line = Map::new();
    line.insert("uuid".into(), id.into());
    line.insert("parentUuid".into(), parent);
    for name in SHARED {
        let value = pair.first.get(name).and_then(|value| serde_json::from_slice(value.raw()).ok());
        line.extend(value.map(|value: Value| (name.to_owned(), value)));
    }
    line.insert("timestamp".into(), format!("{:.3}", pair.at).into());
    line.insert("type".into(), if message["role"] == "user" { "user" } else { "assistant" }.into());
    line.insert("message".into(), message.clone());
    Value::Object(line).to_string()
}

/// Adds the events of a line. The messages of a compression are parts of its line. Returns whether it is a compression.
fn add_events(builder: &mut EventBuilder, line: JsonNode<'_>, at: ElementRef, calls: &mut Calls) -> bool {
    let time = time_of(line, "timestamp");
    if line.text_is("type", "system") {
        let history = line.inner("systemPayload", "compressedHistory");
        let Some(history) = history.filter(|_| line.text_is("subtype", "chat_compression")) else {
            return false;
        };
        // Without a compression, the model would receive the older messages again.
        builder.pin(at);
        for (content_at, content) in builder.elements(history, None) {
            let response = builder.next_response();
            let draft = EventDraft { response, ..EventDraft::of_record(at, time) };
            add_message(builder, content, &draft, line, Some(content_at), calls);
        }
        return true;
    }
    builder.read_model(line, "model");
    match line.get("message") {
        Some(message) => add_message(builder, message, &EventDraft::of_record(at, time), line, None, calls),
        None => builder.count_unknown(line),
    }
    false
}

/// Adds the events of a message. `holder` is the message in a compression. It is deleted with the message's last part.
fn add_message(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: &EventDraft,
    line: JsonNode<'_>,
    holder: Option<ElementRef>,
    calls: &mut Calls,
) {
    let Some(all) = message.array("parts") else { return builder.count_unknown(message) };
    let all: Vec<_> = builder.elements(all, holder).map(|(at, part)| (part, Deletion::Element(at))).collect();
    if message.text_is("role", "model") {
        let events = gemini::model_events(builder, &all, draft, calls);
        return builder.add_all(events, false);
    }
    let mut events = gemini::user_events(builder, &all, draft, calls);
    let result = events.iter_mut().find(|(kind, _)| kind.is_tool());
    let has_results = result.is_some();
    if let Some((_, result)) = result {
        // A copy of the result for display.
        let display = line.get("toolCallResult").and_then(|result| result.non_null("resultDisplay"));
        result.edits.extend(display.map(|display| display.edit_site(values::text)));
    }
    let starts_turn = !has_results && !events.is_empty();
    builder.add_all(events, starts_turn);
}

/// Returns the ids on the path from the last line to the root, and the line at which the path ends because its parent is
/// missing. Lines with the same id are one message, and the first of them is linked.
fn path(lines: &[Line]) -> (HashSet<&str>, Option<usize>) {
    let mut by_uuid: HashMap<&str, usize> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        by_uuid.entry(&line.uuid).or_insert(index);
    }
    let mut on_path = HashSet::new();
    let mut next = lines.last().and_then(|last| by_uuid.get(&*last.uuid).copied());
    while let Some(index) = next {
        let line = &lines[index];
        if !on_path.insert(&*line.uuid) {
            break;
        }
        next = line.parent.as_deref().and_then(|parent| by_uuid.get(parent).copied());
        if next.is_none() && line.parent.is_some() {
            return (on_path, Some(index));
        }
    }
    (on_path, None)
}
