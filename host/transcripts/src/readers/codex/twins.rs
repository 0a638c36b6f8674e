//! Twins: the records of a rollout that repeat an item for display. A twin is deleted with its item, and content
//! that the item loses must be removed from the twin too.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::Found;
use crate::json_index::JsonNode;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Voice {
    User,
    Agent,
    Thought,
}

/// The property by which an item and its twin are matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Call(String),
    Answer(String),
    Item(String),
    /// The hash of the text, for records without ids. Only nearby records match.
    Text(Voice, u64),
}

impl Key {
    pub(super) fn text(voice: Voice, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self::Text(voice, hasher.finish())
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
    is_of_turn: bool,
    /// Edits for emptied arguments and for a replaced result.
    requests: Vec<EditSite>,
    responses: Vec<EditSite>,
    /// Whether it marks the tool call as failed.
    has_failed: bool,
}

impl Twin {
    /// Returns a twin that is deleted with its turn.
    pub(super) fn of_turn(at: ElementRef, turn: usize) -> Self {
        Self {
            line: at.element,
            turn,
            keys: Vec::new(),
            deletion: Deletion::Element(at),
            is_of_turn: true,
            requests: Vec::new(),
            responses: Vec::new(),
            has_failed: false,
        }
    }

    /// Returns the twin of an event record, if its kind repeats an item.
    pub(super) fn new(kind: &str, payload: JsonNode<'_>, at: ElementRef, turn: usize) -> Option<Self> {
        let twin = Self { is_of_turn: false, ..Self::of_turn(at, turn) };
        let (voice, name) = match kind {
            "user_message" => (Voice::User, "message"),
            "agent_message" => (Voice::Agent, "message"),
            "agent_reasoning" | "agent_reasoning_raw_content" => (Voice::Thought, "text"),
            "task_complete" | "turn_complete" => (Voice::Agent, "last_agent_message"),
            "item_completed" | "item_started" => return of_item(twin, payload.get("item")?),
            _ => return Some(of_call(twin, payload, payload.text_of("call_id")?.into_owned())),
        };
        let item = payload.string(name)?;
        // The end of a task has content of its own, so only the repeated text is removed.
        let deletion = if name == "last_agent_message" {
            Deletion::Value(item.span(), "null")
        } else {
            twin.deletion.clone()
        };
        Some(Self { keys: vec![Key::text(voice, &item.text())], deletion, ..twin })
    }
}

fn of_item(twin: Twin, item: JsonNode<'_>) -> Option<Twin> {
    let id = item.text_of("id")?.into_owned();
    let texts = item.get("content").into_iter().flat_map(JsonNode::items);
    let text: String = texts.filter_map(|block| block.text_of("text")).collect();
    let keys = match &*item.text_of("type")? {
        "UserMessage" => vec![Key::Item(id), Key::text(Voice::User, &text)],
        "AgentMessage" => vec![Key::Item(id), Key::text(Voice::Agent, &text)],
        "Reasoning" => vec![Key::Item(id)],
        _ => return Some(of_call(twin, item, id)),
    };
    Some(Twin { keys, ..twin })
}

fn of_call(twin: Twin, item: JsonNode<'_>, id: String) -> Twin {
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    let mut has_failed = matches!(item.text_of("status").as_deref(), Some("failed" | "declined" | "error"));
    for (name, value) in item.members() {
        let edit = |write| value.edit_site(write);
        match &*name {
            b"stdout" | b"stderr" | b"aggregated_output" | b"formatted_output" if value.is_string() => {
                responses.push(edit(|_| "\"\"".into()));
            }
            b"content_items" if value.is_array() => responses.push(edit(no_items)),
            b"command" | b"parsed_cmd" if value.is_array() => requests.push(edit(no_items)),
            b"arguments" | b"changes" if value.is_object() => requests.push(edit(no_members)),
            b"invocation" => {
                let arguments = value.get("arguments").filter(|arguments| arguments.is_object());
                requests.extend(arguments.map(|it| EditSite { span: it.span(), write: no_members }));
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
    let keys = vec![Key::Answer(id.clone()), Key::Call(id)];
    Twin { keys, is_of_turn: true, requests, responses, has_failed, ..twin }
}

fn no_items(_: &str) -> String {
    "[]".into()
}

fn no_members(_: &str) -> String {
    "{}".into()
}

/// The action of a shell call with emptied arguments.
pub(super) fn no_action(_: &str) -> String {
    r#"{"type":"exec","command":[]}"#.into()
}

/// Attaches each twin to the nearest items that it matches.
pub(super) fn tie(found: &mut [Found], twins: Vec<Twin>) {
    let mut by_key: HashMap<Key, Vec<usize>> = HashMap::new();
    let mut by_turn: HashMap<usize, usize> = HashMap::new();
    for (place, event) in found.iter_mut().enumerate() {
        for key in std::mem::take(&mut event.keys) {
            by_key.entry(key).or_default().push(place);
        }
        if matches!(event.kind, Kind::ChatRequest | Kind::Message) {
            by_turn.entry(event.turn).or_insert(place);
        }
    }
    for twin in twins {
        let mut items: Vec<usize> = twin
            .keys
            .iter()
            .filter_map(|key| nearest(found, by_key.get(key)?, twin.line))
            .filter(|item| found[*item].turn.abs_diff(twin.turn) <= 1)
            .collect();
        if items.is_empty() && twin.is_of_turn {
            items.extend(by_turn.get(&twin.turn));
        }
        // The first key is the most specific one.
        if let Some(item) = items.first() {
            found[*item].draft.further_deletions.push(twin.deletion);
        }
        for item in items {
            let Found { kind, draft, .. } = &mut found[item];
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

/// Returns the event nearest to a line. The events are in order.
fn nearest(found: &[Found], sources: &[usize], line: usize) -> Option<usize> {
    let next = sources.partition_point(|place| found[*place].line < line);
    let around = [next.checked_sub(1), Some(next)].into_iter().flatten();
    around
        .filter_map(|place| sources.get(place).copied())
        .min_by_key(|place| found[*place].line.abs_diff(line))
}
