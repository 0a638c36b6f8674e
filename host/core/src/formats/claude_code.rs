//! Claude Code's sessions: JSONL, one block of content a line, tied to a tree by `uuid` and `parentUuid`. Only the
//! path from the last line to the root is what a model was sent; side chains and what was rewound are not.

mod attachment;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading, records, time_of};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;
use crate::text;

pub(super) struct ClaudeCode;

/// The members of a line that a pair has in common with its neighbours.
const SHARED: [&str; 8] =
    ["isSidechain", "agentId", "userType", "cwd", "sessionId", "version", "gitBranch", "slug"];

const WANTED: Wanted = |key| {
    matches!(
        key,
        b"message"
            | b"content"
            | b"attachment"
            | b"file"
            | b"files"
            | b"skills"
            | b"memories"
            | b"diagnostics"
            | b"compactMetadata"
            | b"preservedSegment"
            | b"preservedMessages"
            | b"uuids"
    )
};

/// A line of a session that a model may have been sent. All but the flags are JSON strings of the source; the parent may
/// be `null`.
struct Line {
    uuid: Span,
    parent: Span,
    /// Whether that is the line before it, as nearly always.
    follows_last: bool,
    /// The API's message that it is a part of; those of several lines go together.
    message: Span,
    answers: bool,
    is_side: bool,
    /// Its events, by how many came before.
    events: std::ops::Range<usize>,
}

impl Transcript for ClaudeCode {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let of_session = line.get("parentUuid").is_some() && line.string("uuid").is_some();
            let is_line = of_session && line.string("type").is_some() && line.get("sessionId").is_some();
            // Titles of earlier sessions come first, and may be many.
            let is_title =
                || line.text_of("type").as_deref() == Some("summary") && line.string("leafUuid").is_some();
            is_line || is_title()
        })
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let bytes = reading.bytes();
        let mut lines: Vec<Line> = Vec::with_capacity(records(&bytes));
        reading.lines(WANTED, |reading, at, look| {
            if !look.is_object() {
                return Err(not_of("Claude Code", look.span().start, "a line that is no object"));
            }
            let Some(uuid) = look.string("uuid") else {
                named(reading, at, look);
                if !is_known(look) {
                    reading.unknown(look);
                }
                return Ok(());
            };
            let parent = look.get("parentUuid").map_or_else(Span::default, Look::span);
            let last = lines.last().map(|line| line.uuid);
            let follows_last =
                !parent.is_empty() && last.is_some_and(|last| last.of(&bytes) == parent.of(&bytes));
            reading.link(at, uuid.span(), parent);
            let message = look.get("message");
            let model = message.and_then(|message| message.text_of("model"));
            if let Some(model) = model.filter(|model| !model.starts_with('<')) {
                reading.model(&model);
            }
            let before = reading.len();
            let answers = content(reading, look, at);
            if reading.len() == before {
                named(reading, at, look);
                if !is_known(look) && !says_nothing(message) {
                    reading.unknown(look);
                }
            }
            lines.push(Line {
                uuid: uuid.span(),
                parent,
                follows_last,
                message: message
                    .and_then(|message| message.string("id"))
                    .map_or_else(Span::default, Look::span),
                answers,
                is_side: look.is_true("isSidechain"),
                events: before..reading.len(),
            });
            Ok(())
        })?;
        // What an agent of another session did is a file of its own, all of it beside that session.
        if lines.iter().all(|line| line.is_side || line.events.is_empty()) {
            lines.iter_mut().for_each(|line| line.is_side = false);
        }
        let (on_path, broken) = path(&reading.bytes(), &lines);
        if let Some(broken) = broken {
            let lost = lines[..broken].iter().zip(&on_path);
            let lost = lost.filter(|(line, on_path)| !**on_path && !line.is_side && !line.events.is_empty());
            let (mut text, mut records) = (0, 0);
            for (line, _) in lost {
                (text, records) = (text + reading.text_of(line.events.clone()), records + 1);
            }
            if records > 0 {
                reading.unreachable_after_all(text, records);
            }
        }
        let mut stays = vec![true; reading.len()];
        for (line, _) in lines.iter().zip(on_path).filter(|(_, on_path)| !on_path) {
            stays[line.events.clone()].fill(false);
        }
        reading.keep(|event| stays[event]);
        Ok(())
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let [first, second] = &pair.ids;
        let line = |parent: Value, kind: &str, message: Value, uuid: &str| {
            let mut line = Map::new();
            line.insert("parentUuid".into(), parent);
            line.insert("isSidechain".into(), false.into());
            for name in SHARED {
                if let Some(value) =
                    pair.first.get(name).and_then(|value| serde_json::from_slice(value.raw()).ok())
                {
                    line.insert(name.into(), value);
                }
            }
            line.insert("type".into(), kind.into());
            line.insert("message".into(), message);
            line.insert("uuid".into(), uuid.into());
            line.insert("timestamp".into(), pair.at.to_string().into());
            Value::Object(line).to_string()
        };
        let parent = serde_json::from_str(pair.parent).unwrap_or_default();
        let answer = json!({
            "id": format!("msg_{}", second.replace('-', "")),
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "content": [{ "type": "text", "text": pair.response }],
            "stop_reason": "end_turn",
            "stop_sequence": null,
            "usage": { "input_tokens": 0, "output_tokens": 0 },
        });
        vec![
            line(parent, "user", json!({ "role": "user", "content": pair.request }), first),
            line(first.as_str().into(), "assistant", answer, second),
        ]
    }
}

/// What Claude Code writes beside what a model is sent.
const KNOWN: [&str; 26] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "attachment",
    "attribution-snapshot",
    "content-replacement",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "marble-origami-commit",
    "marble-origami-snapshot",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "speculation-accept",
    "started",
    "summary",
    "system",
    "tag",
    "task-summary",
    "worktree-state",
];

fn is_known(line: Look<'_>) -> bool {
    line.text_of("type").is_some_and(|kind| KNOWN.contains(&&*kind))
}

/// Whether a message has a content, and nothing in it.
fn says_nothing(message: Option<Look<'_>>) -> bool {
    let content = message.and_then(|message| message.get("content"));
    content.is_some_and(|content| content.raw().len() <= 2 || content.is_null())
}

/// Ties a line that says nothing to those that it names beside the one that it follows.
fn named(reading: &mut Reading, at: At, look: Look<'_>) {
    let compacted = look.get("compactMetadata");
    let [segment, messages] = ["preservedSegment", "preservedMessages"]
        .map(|kept| compacted.and_then(|compacted| compacted.get(kept)));
    let of = |names: &[&str], look: Option<Look<'_>>| {
        let found = names.iter().filter_map(|name| look?.string(name));
        found.map(Look::span).collect::<Vec<_>>()
    };
    let all = messages.and_then(|messages| messages.get("uuids")).into_iter().flat_map(Look::items);
    let all = all.filter(|uuid| uuid.is_string()).map(Look::span);
    let others = [
        of(&["leafUuid", "logicalParentUuid"], Some(look)),
        of(&["headUuid", "anchorUuid", "tailUuid"], segment),
        of(&["anchorUuid"], messages),
    ];
    others.into_iter().flatten().chain(all).for_each(|uuid| reading.link(at, Span::default(), uuid));
}

/// Adds the events of a line. Whether they answer calls.
fn content(reading: &mut Reading, look: Look<'_>, at: At) -> bool {
    if look.text_of("type").as_deref() == Some("attachment") {
        let draft = Draft { time: time_of(look, "timestamp"), record: Some(at), ..Draft::default() };
        if let Some((kind, draft)) = attachment::event(reading, look, draft) {
            reading.add(kind, draft);
        }
        return false;
    }
    let (Some(kind), Some(message)) = (look.text_of("type"), look.get("message")) else { return false };
    let is_user = match &*kind {
        "user" => true,
        "assistant" => false,
        _ => return false,
    };
    let Some(content) = message.get("content") else { return false };
    let draft = Draft { time: time_of(look, "timestamp"), record: Some(at), ..Draft::default() };
    let asks = is_user && !look.is_true("isMeta");
    let said = if is_user { Kind::ChatRequest } else { Kind::Message };
    if content.is_string() {
        let span = content.span();
        if asks {
            reading.turn(draft.time);
        }
        reading.add(said, Draft { span, body: span, ..draft });
        return false;
    }
    let several = content.items().len() > 1;
    let list = several.then(|| reading.items(content, None));
    let mut found: Vec<(Kind, Draft)> = Vec::with_capacity(content.items().len());
    for (element, block) in content.items().enumerate() {
        let cut = list.map_or(Cut::Nothing, |list| Cut::Element(At { list, element }));
        let draft = Draft { span: block.span(), cut, ..draft.clone() };
        let Some((kind, next)) = block_of(reading, look, block, said, draft) else {
            reading.unknown(block);
            continue;
        };
        // An image and the words beside it are one request.
        match found.last_mut() {
            Some((Kind::ChatRequest, last)) if kind == Kind::ChatRequest => {
                last.body = reading.joined(&[last.body, next.body]);
                last.span.end = block.span().end;
                last.cut = Cut::Several(vec![std::mem::take(&mut last.cut), next.cut]);
            }
            _ => found.push((kind, next)),
        }
    }
    let answers = found.iter().any(|(kind, _)| matches!(kind, Kind::ToolResponse { .. }));
    if asks && !answers && !found.is_empty() {
        reading.turn(draft.time);
    }
    found.into_iter().for_each(|(kind, draft)| reading.add(kind, draft));
    answers
}

/// The event that a block is; None for one that says nothing to us.
pub(super) fn block_of(
    reading: &mut Reading,
    look: Look<'_>,
    block: Look<'_>,
    said: Kind,
    draft: Draft,
) -> Option<(Kind, Draft)> {
    Some(match &*block.text_of("type")? {
        "text" => (said, Draft { body: block.string("text")?.span(), ..draft }),
        "image" | "document" => (said, Draft { body: reading.made("[image]"), ..draft }),
        "thinking" => {
            let signed = block.string("signature").map(|it| ("anthropic_thinking_signature", it.span()));
            (Kind::Reasoning, Draft { body: block.string("thinking")?.span(), signed, ..draft })
        }
        "redacted_thinking" => {
            let signed = Some(("anthropic_redacted_thinking", block.string("data")?.span()));
            (Kind::Reasoning, Draft { body: reading.made(""), signed, ..draft })
        }
        "tool_use" | "mcp_tool_use" => {
            let input = block.get("input").map(Look::span);
            let draft = Draft {
                id: block.string("id").map_or_else(Span::default, Look::span),
                name: block.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown")),
                body: input.unwrap_or_default(),
                slots: input.map(|span| Slot { span, write: write::object }).into_iter().collect(),
                ..draft
            };
            (Kind::ToolRequest, draft)
        }
        "tool_result" | "mcp_tool_result" => {
            let (slot, body) = match block.get("content") {
                Some(content) => (Slot { span: content.span(), write: write::text }, reading.text(content)),
                None => {
                    let end = block.span().end - 1;
                    (Slot { span: Span { start: end, end }, write: write::content_member }, reading.made(""))
                }
            };
            // The same once more, for Claude Code's own display.
            let twin = look.get("toolUseResult").map(|twin| Slot { span: twin.span(), write: write::text });
            let slots = twin.map_or_else(|| vec![slot], |twin| vec![slot, twin]);
            let is_error = block.is_true("is_error");
            (
                Kind::ToolResponse { is_error },
                Draft { id: block.string("tool_use_id")?.span(), body, slots, ..draft },
            )
        }
        _ => return None,
    })
}

/// Which lines are on the way from the last one to the root, and the line that names one that is missing. Calls that were made at once fork the way: their answers,
/// and the other lines of a message, belong to it all the same, but for those that were written down twice.
fn path(bytes: &[u8], lines: &[Line]) -> (Vec<bool>, Option<usize>) {
    let by_uuid: OnceCell<HashMap<Cow<'_, [u8]>, usize>> = OnceCell::new();
    let name = |span: Span| text::canonical(span.of(bytes));
    let in_order = || lines.iter().enumerate().map(|(place, line)| (name(line.uuid), place));
    let parent = |place: usize| {
        if lines[place].follows_last {
            return place.checked_sub(1);
        }
        let parent = Some(lines[place].parent.of(bytes)).filter(|parent| parent != b"null")?;
        by_uuid.get_or_init(|| in_order().collect()).get(&text::canonical(parent)).copied()
    };
    let mut on_path = vec![false; lines.len()];
    let (mut next, mut broken) = (leaf(bytes, lines), None);
    while let Some(place) = next.filter(|place| !on_path[*place]) {
        on_path[place] = true;
        next = parent(place);
        let is_named = lines[place].parent.of(bytes).first() == Some(&b'"');
        broken = Some(place).filter(|_| next.is_none() && is_named);
    }
    if lines.iter().zip(&on_path).any(|(line, on_path)| !on_path && !line.is_side) {
        let of_path = || lines.iter().zip(&on_path).filter(|(_, on_path)| **on_path);
        let messages: HashSet<&[u8]> = of_path().map(|(line, _)| line.message.of(bytes)).collect();
        // Of nothing, and of an empty string, there may be many.
        let is_sent = |line: &Line| {
            let message = line.message.of(bytes);
            message.len() > 2 && messages.contains(message)
        };
        let mut sent: HashSet<Cow<'_, [u8]>> = of_path().map(|(line, _)| name(line.uuid)).collect();
        for (place, line) in lines.iter().enumerate().rev() {
            let answers = || line.answers && parent(place).is_some_and(|parent| is_sent(&lines[parent]));
            if !on_path[place] && !line.is_side && (is_sent(line) || answers()) {
                on_path[place] = sent.insert(name(line.uuid));
            }
        }
    }
    for (on_path, line) in on_path.iter_mut().zip(lines) {
        *on_path &= !line.is_side;
    }
    (on_path, broken)
}

/// The last line that says something, and that none follows which does.
fn leaf(bytes: &[u8], lines: &[Line]) -> Option<usize> {
    let says = |line: &&Line| !line.is_side && !line.events.is_empty();
    let last = lines.iter().rposition(|line| says(&line));
    let Some(last) = last else { return lines.iter().rposition(|line| !line.is_side) };
    let uuid = lines[last].uuid.of(bytes);
    if lines.iter().filter(says).all(|line| line.parent.of(bytes) != uuid) {
        return Some(last);
    }
    // They lie in another order than they follow one another.
    let followed: HashSet<&[u8]> = lines.iter().filter(says).map(|line| line.parent.of(bytes)).collect();
    let is_leaf = |line: &Line| says(&line) && !followed.contains(line.uuid.of(bytes));
    Some(lines.iter().rposition(is_leaf).unwrap_or(last))
}
