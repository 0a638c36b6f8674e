//! Twins: the records of a rollout that repeat an item for display. A twin is deleted with its item, and content
//! that the item loses must be removed from the twin too.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::FoundEvent;
use crate::readers::values;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_json::JsonNode;

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Speaker {
    User,
    Agent,
    Reasoning,
}

/// The property that an item has in common with its twin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Call(String),
    Result(String),
    Item(String),
    /// The hash of the text, for records without ids. Only nearby records match.
    Text(Speaker, u64),
}

impl Key {
    pub(super) fn text(speaker: Speaker, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self::Text(speaker, hasher.finish())
    }
}

/// A record that repeats an item.
pub(super) struct Twin {
    pub(super) line: usize,
    turn: usize,
    /// The twin matches an item with any of these keys.
    keys: Vec<Key>,
    deletion: Deletion,
    /// Whether the twin is deleted with its turn if no item matches.
    belongs_to_turn: bool,
    /// Edits for emptied arguments and for a replaced result.
    requests: Vec<EditSite>,
    responses: Vec<EditSite>,
    /// Whether the twin marks the tool call as failed.
    has_failed: bool,
}

impl Twin {
    /// Returns a twin that is deleted with its turn.
    pub(super) fn for_turn(at: ElementRef, turn: usize) -> Self {
        Self {
            line: at.element,
            turn,
            keys: Vec::new(),
            deletion: Deletion::Element(at),
            belongs_to_turn: true,
            requests: Vec::new(),
            responses: Vec::new(),
            has_failed: false,
        }
    }

    /// Returns the twin of an event record, if its kind repeats an item.
    pub(super) fn new(kind: &str, payload: JsonNode<'_>, at: ElementRef, turn: usize) -> Option<Self> {
        let twin = Self { belongs_to_turn: false, ..Self::for_turn(at, turn) };
        let (speaker, name) = match kind {
            "user_message" => (Speaker::User, "message"),
            "agent_message" => (Speaker::Agent, "message"),
            "agent_reasoning" | "agent_reasoning_raw_content" => (Speaker::Reasoning, "text"),
            "task_complete" | "turn_complete" => (Speaker::Agent, "last_agent_message"),
            "item_completed" | "item_started" => return for_item(twin, payload.get("item")?),
            _ => return Some(for_call(twin, payload, payload.text_of("call_id")?.into_owned())),
        };
        let item = payload.string(name)?;
        // The end of a task has its own content, so only the repeated text is removed.
        let deletion = if name == "last_agent_message" {
            Deletion::Value(item.span(), "null")
        } else {
            twin.deletion.clone()
        };
        Some(Self { keys: vec![Key::text(speaker, &item.text())], deletion, ..twin })
    }
}

fn for_item(twin: Twin, item: JsonNode<'_>) -> Option<Twin> {
    let id = item.text_of("id")?.into_owned();
    let texts = item.items_of("content");
    let text: String = texts.filter_map(|block| block.text_of("text")).collect();
    let keys = match &*item.text_of("type")? {
        "UserMessage" => vec![Key::Item(id), Key::text(Speaker::User, &text)],
        "AgentMessage" => vec![Key::Item(id), Key::text(Speaker::Agent, &text)],
        "Reasoning" => vec![Key::Item(id)],
        _ => return Some(for_call(twin, item, id)),
    };
    Some(Twin { keys, ..twin })
}

fn for_call(twin: Twin, item: JsonNode<'_>, id: String) -> Twin {
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    let mut has_failed = matches!(item.text_of("status").as_deref(), Some("failed" | "declined" | "error"));
    for (name, value) in item.members() {
        let edit = |write| value.edit_site(write);
        match &*name {
            b"stdout" | b"stderr" | b"aggregated_output" | b"formatted_output" if value.is_string() => {
                responses.push(edit(values::empty_string));
            }
            b"content_items" if value.is_array() => responses.push(edit(values::empty_array)),
            b"command" | b"parsed_cmd" if value.is_array() => requests.push(edit(values::empty_array)),
            b"arguments" | b"changes" if value.is_object() => requests.push(edit(values::empty_object)),
            b"invocation" => {
                let arguments = value.object("arguments");
                requests.extend(arguments.map(|value| value.edit_site(values::empty_object)));
            }
            b"result" if value.get("Ok").is_some() => {
                responses.push(edit(|_| r#"{"Ok":{"content":[]}}"#.into()));
            }
            b"result" if value.get("Err").is_some() => {
                has_failed = true;
                responses.push(edit(|_| r#"{"Err":""}"#.into()));
            }
            b"result" if value.get("content").is_some() => {
                has_failed |= value.is_true("isError");
                responses.push(edit(|_| r#"{"content":[]}"#.into()));
            }
            b"exit_code" => has_failed |= !matches!(value.raw(), b"0" | b"null"),
            b"success" => has_failed |= value.raw() == b"false",
            _ => {}
        }
    }
    let keys = vec![Key::Result(id.clone()), Key::Call(id)];
    Twin { keys, belongs_to_turn: true, requests, responses, has_failed, ..twin }
}

/// Returns the action of a shell call with emptied arguments.
pub(super) fn empty_action(_: &str) -> String {
    r#"{"type":"exec","command":[]}"#.into()
}

/// Attaches each twin to the nearest items that it matches.
pub(super) fn attach(events: &mut [FoundEvent], twins: Vec<Twin>) {
    let mut by_key: HashMap<Key, Vec<usize>> = HashMap::new();
    let mut by_turn: HashMap<usize, usize> = HashMap::new();
    for (index, event) in events.iter_mut().enumerate() {
        for key in std::mem::take(&mut event.keys) {
            by_key.entry(key).or_default().push(index);
        }
        if matches!(event.kind, Kind::ChatRequest | Kind::Message) {
            by_turn.entry(event.turn).or_insert(index);
        }
    }
    for twin in twins {
        let mut items: Vec<usize> = twin
            .keys
            .iter()
            .filter_map(|key| nearest(events, by_key.get(key)?, twin.line))
            .filter(|item| events[*item].turn.abs_diff(twin.turn) <= 1)
            .collect();
        if items.is_empty() && twin.belongs_to_turn {
            items.extend(by_turn.get(&twin.turn));
        }
        // The first item matches the most specific key.
        if let Some(item) = items.first() {
            events[*item].draft.further_deletions.push(twin.deletion);
        }
        for item in items {
            let FoundEvent { kind, draft, .. } = &mut events[item];
            match kind {
                Kind::ToolRequest => draft.edits.extend(&twin.requests),
                Kind::ToolResponse { is_error } => {
                    *is_error |= twin.has_failed;
                    draft.edits.extend(&twin.responses);
                }
                _ => {}
            }
        }
    }
}

/// Returns the index of the event nearest to a line. The indexes are in order.
fn nearest(events: &[FoundEvent], indices: &[usize], line: usize) -> Option<usize> {
    let next = indices.partition_point(|index| events[*index].line < line);
    let around = [next.checked_sub(1), Some(next)].into_iter().flatten();
    around
        .filter_map(|index| indices.get(index).copied())
        .min_by_key(|index| events[*index].line.abs_diff(line))
}
