//! The reader of Claude Code's sessions: JSONL, one content block per line, linked into a tree by `uuid` and
//! `parentUuid`. The model received the path from the root to the last line. Side chains, rewound lines, and the
//! program's own records are kept in the file and are not events. A deleted line must not break the tree.

mod attachment;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use serde_json::{Map, Value, json};

use super::values;
use crate::builder::{EventBuilder, EventDraft, NewEvent};
use crate::lines::estimated_records;
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_core::{text, time};
use jp_compact_json::{JsonNode, MemberFilter, Span, span_of};

pub(super) struct ClaudeCode;

/// Members that a summary's pair copies from the first line that it replaces.
const SHARED: [&str; 8] =
    ["isSidechain", "agentId", "userType", "cwd", "sessionId", "version", "gitBranch", "slug"];

const WANTED: MemberFilter = |key| {
    matches!(key, b"message" | b"content" | b"attachment" | b"file" | b"files" | b"skills")
        || matches!(key, b"memories" | b"diagnostics" | b"rendered" | b"compactMetadata")
        || matches!(key, b"preservedSegment" | b"preservedMessages" | b"uuids")
};

/// A line of a session that the model may have received. All spans are JSON strings of the source; the parent may be
/// `null`.
struct Line {
    uuid: Span,
    parent: Span,
    parent_tail: Tail,
    /// Whether the parent is the previous line, as it nearly always is.
    follows_last: bool,
    /// The digest of the id of the API message. 0 without an id. Lines of one message belong together.
    message: u64,
    has_results: bool,
    is_side: bool,
    /// The number of models in the lines up to this one, if this line names its model.
    models: usize,
    /// The range of its events.
    events: std::ops::Range<usize>,
}

/// The members that are read from every line.
const MEMBERS: [&str; 7] = ["type", "uuid", "parentUuid", "message", "timestamp", "isMeta", "isSidechain"];

/// The last bytes of a name. Different tails prove that two names differ, without a read of the source, which is no
/// longer in the processor's cache.
type Tail = [u8; 8];

fn tail(name: &[u8]) -> Tail {
    name.last_chunk().copied().unwrap_or_default()
}

impl Reader for ClaudeCode {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let has_ids = line.get("parentUuid").is_some() && line.string("uuid").is_some();
            let is_line = has_ids && line.string("type").is_some() && line.get("sessionId").is_some();
            // Titles of earlier sessions come first, and there may be many.
            let is_title = || line.text_is("type", "summary") && line.string("leafUuid").is_some();
            is_line || is_title()
        })
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut lines: Vec<Line> = Vec::with_capacity(estimated_records(builder.size()));
        let mut models: Vec<String> = Vec::new();
        let key = RandomState::new();
        builder.read_lines(WANTED, |builder, at, node| {
            ensure(node.is_object(), "Claude Code", node, "a line is not an object")?;
            let members = node.members_named(&MEMBERS);
            let [_, uuid, parent, message, _, _, is_side] = members;
            let Some(uuid) = uuid.filter(|uuid| uuid.is_string()) else {
                link_mentions(builder, at, node);
                if !is_known(node) && !is_bookkeeping(node) {
                    builder.count_unknown(node);
                }
                return Ok(());
            };
            let parent = span_of(parent);
            let follows_last = builder.add_link(at, uuid.span(), parent);
            let model = message.and_then(|message| message.text_of("model"));
            let model = model.filter(|model| !model.starts_with('<'));
            if model.is_some() && model.as_deref() != models.last().map(String::as_str) {
                models.extend(model.as_deref().map(str::to_owned));
            }
            let before = builder.len();
            let has_results = add_events(builder, node, members, at);
            if builder.len() == before {
                link_mentions(builder, at, node);
                if !is_known(node) && !has_empty_content(message) {
                    builder.count_unknown(node);
                }
            }
            let message_id = span_of(message.and_then(|message| message.string("id")));
            let message = if message_id.len() > 2 { key.hash_one(builder.raw(message_id)) } else { 0 };
            lines.push(Line {
                uuid: uuid.span(),
                parent,
                parent_tail: tail(builder.raw(parent)),
                follows_last,
                message,
                has_results,
                is_side: is_side.is_some_and(JsonNode::is_literal_true),
                models: model.map_or(0, |_| models.len()),
                events: before..builder.len(),
            });
            Ok(())
        })?;
        // The session of a subagent is a separate file. Every line in it is a side chain.
        if lines.iter().all(|line| line.is_side || line.events.is_empty()) {
            lines.iter_mut().for_each(|line| line.is_side = false);
        }
        let (on_path, broken_at) = path(builder, &lines);
        if let Some(broken_at) = broken_at {
            let is_lost =
                |(line, on_path): &(&Line, &bool)| !**on_path && !line.is_side && !line.events.is_empty();
            let lost = lines[..broken_at].iter().zip(&on_path).filter(is_lost);
            let texts: Vec<u64> = lost.map(|(line, _)| builder.text_len(line.events.clone())).collect();
            builder.recount_as_unreachable(&texts);
        }
        let last = lines.iter().zip(&on_path).rfind(|(line, on_path)| **on_path && line.models > 0);
        if let Some((line, _)) = last {
            builder.set_model(&models[line.models - 1]);
        }
        let mut stays = vec![true; builder.len()];
        for (line, _) in lines.iter().zip(on_path).filter(|(_, on_path)| !on_path) {
            stays[line.events.clone()].fill(false);
        }
        builder.retain(|event| stays[event]);
        Ok(())
    }

    fn reads_lines_once(&self) -> bool {
        true
    }

    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        let mut records = self.pair(note);
        records.truncate(1);
        if let Some(record) = records.first_mut() {
            record.insert_str(1, "\"isMeta\":true,");
        }
        records
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
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
        let response = json!({
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
            line(first.as_str().into(), "assistant", response, second),
        ]
    }
}

/// Known types of records that need not contain a message.
const KNOWN: &str = "agent-color agent-name agent-setting ai-title api-request api-request-blob api-request-shape \
    atis-latch attachment attribution-snapshot content-replacement cost-state custom-title file-history-delta \
    file-history-snapshot last-prompt marble-origami-commit marble-origami-snapshot mode permission-mode \
    pr-link progress queue-operation relocated speculation-accept started summary system tag \
    task-summary tools-used worktree-state";

fn is_known(line: JsonNode<'_>) -> bool {
    line.text_of("type").is_some_and(|kind| KNOWN.split(' ').any(|known| known == kind))
}

/// Returns whether a line without a `uuid` is a note of the program about its session, such as a log of its requests.
/// Such a line is not in the tree, so the model does not receive it.
fn is_bookkeeping(line: JsonNode<'_>) -> bool {
    line.string("type").is_some() && line.string("sessionId").is_some()
}

fn has_empty_content(message: Option<JsonNode<'_>>) -> bool {
    let content = message.and_then(|message| message.get("content"));
    content.is_some_and(|content| content.raw().len() <= 2 || content.is_null())
}

/// Links a line without events to the lines that it names, in addition to its parent.
fn link_mentions(builder: &mut EventBuilder, at: ElementRef, node: JsonNode<'_>) {
    let compacted = node.get("compactMetadata");
    let [segment, messages] = ["preservedSegment", "preservedMessages"]
        .map(|name| compacted.and_then(|compacted| compacted.get(name)));
    let spans_of = |names: &[&str], node: Option<JsonNode<'_>>| {
        let members = names.iter().filter_map(|name| node?.string(name));
        members.map(JsonNode::span).collect::<Vec<_>>()
    };
    let uuids = messages.into_iter().flat_map(|messages| messages.items_of("uuids"));
    let uuids = uuids.filter(|uuid| uuid.is_string()).map(JsonNode::span);
    let members = [
        spans_of(&["leafUuid", "logicalParentUuid"], Some(node)),
        spans_of(&["headUuid", "anchorUuid", "tailUuid"], segment),
        spans_of(&["anchorUuid"], messages),
    ];
    members.into_iter().flatten().chain(uuids).for_each(|uuid| {
        builder.add_link(at, Span::default(), uuid);
    });
}

/// Adds the events of a line. Returns whether they contain results of calls.
fn add_events(
    builder: &mut EventBuilder,
    node: JsonNode<'_>,
    [kind, _, _, message, time, is_meta, _]: [Option<JsonNode<'_>>; MEMBERS.len()],
    at: ElementRef,
) -> bool {
    let kind = kind.map(JsonNode::text_bytes).unwrap_or_default();
    let time = || time.and_then(|time| time::parse(&time.text()));
    if *kind == *b"attachment" {
        let draft = EventDraft::of_record(at, time());
        if let Some((kind, draft)) = attachment::event(builder, node, draft) {
            builder.add(kind, draft);
        }
        return false;
    }
    let is_user = match &*kind {
        b"user" => true,
        b"assistant" => false,
        _ => return false,
    };
    let Some(message) = message else { return false };
    let Some(content) = message.get("content") else { return false };
    let time = if builder.log.is_none() { time() } else { None };
    let draft = EventDraft::of_record(at, time);
    let is_meta = is_user && is_meta.is_some_and(JsonNode::is_literal_true);
    let is_request = is_user && !is_meta;
    let text_kind = if is_user { Kind::ChatRequest } else { Kind::Message };
    if content.is_string() {
        let draft = draft.text_part(content, Deletion::Nothing);
        let name = if is_user && is_output(content) { "output" } else { "meta" };
        let draft = if is_meta || name == "output" { builder.by_agent(name, draft) } else { draft };
        builder.add_all(vec![(text_kind, draft)], is_request);
        return false;
    }
    let response = message.string("id").filter(|_| !is_user).map_or(0, |id| builder.response(id.span()));
    let (mut events, mut has_results): (Vec<NewEvent>, _) = (Vec::new(), false);
    for (deletion, block) in builder.blocks(content) {
        let draft = EventDraft { span: block.span(), deletion, response, ..EventDraft::of_record(at, time) };
        let Some((kind, next)) = known_block_event(builder, node, block, text_kind, draft) else {
            builder.count_unknown(block);
            continue;
        };
        has_results |= matches!(kind, Kind::ToolResponse { .. });
        if !is_user {
            builder.add(kind, next);
            continue;
        }
        // An image and the text next to it are one request.
        match events.last_mut() {
            Some((Kind::ChatRequest, last)) if kind == Kind::ChatRequest => {
                last.body = builder.joined(&[last.body, next.body]);
                last.span.end = block.span().end;
                last.deletion = Deletion::Several(vec![std::mem::take(&mut last.deletion), next.deletion]);
            }
            _ if is_meta && kind == Kind::ChatRequest => events.push((kind, builder.by_agent("meta", next))),
            _ => events.push((kind, next)),
        }
    }
    builder.add_all(events, is_request && !has_results);
    has_results
}

/// Returns whether a text is the output of a command that the user ran.
fn is_output(content: JsonNode<'_>) -> bool {
    let tag = content.raw().strip_prefix(b"\"<").and_then(|text| text.split(|byte| *byte == b'>').next());
    matches!(tag, Some(b"bash-stdout" | b"bash-stderr" | b"local-command-stdout" | b"local-command-stderr"))
}

/// Returns the event of a block, or `None` for an unknown block.
pub(super) fn known_block_event(
    builder: &mut EventBuilder,
    node: JsonNode<'_>,
    block: JsonNode<'_>,
    text_kind: Kind,
    draft: EventDraft,
) -> Option<NewEvent> {
    Some(match &*block.string("type")?.text_bytes() {
        b"text" => (text_kind, EventDraft { body: block.string("text")?.span(), ..draft }),
        b"image" | b"document" => (text_kind, EventDraft { body: builder.new_string("[image]"), ..draft }),
        b"thinking" => {
            let signature =
                block.string("signature").map(|signature| ("anthropic_thinking_signature", signature.span()));
            (Kind::Reasoning, EventDraft { body: block.string("thinking")?.span(), signature, ..draft })
        }
        b"redacted_thinking" => {
            let signature = Some(("anthropic_redacted_thinking", block.string("data")?.span()));
            (Kind::Reasoning, EventDraft { body: builder.new_string(""), signature, ..draft })
        }
        b"tool_use" | b"mcp_tool_use" => {
            let (input, draft) = (block.get("input"), draft.with_id(block.string_span("id")));
            (Kind::ToolRequest, builder.call(block, "name", input, values::empty_object, draft))
        }
        b"tool_result" | b"mcp_tool_result" => {
            let (content, end) = (block.get("content"), block.span().end - 1);
            let mut draft = builder.result(content, values::text, draft);
            if content.is_none() {
                draft.edits.push(EditSite { span: Span { start: end, end }, write: values::content_member });
            }
            // A copy for Claude Code's own display.
            let draft = draft.with_edit(node.get("toolUseResult"), values::text);
            let id = block.string("tool_use_id")?.span();
            (Kind::ToolResponse { is_error: block.is_true("is_error") }, draft.with_id(id))
        }
        _ => return None,
    })
}

/// Marks the lines on the path from the last line to the root. Also returns the first line of the path if the parent of
/// that line is missing. Parallel calls fork the path. Their results and the other lines of their message belong to the
/// path too, except for lines that were written twice.
fn path(builder: &EventBuilder, lines: &[Line]) -> (Vec<bool>, Option<usize>) {
    let by_uuid: OnceCell<HashMap<Cow<'_, [u8]>, usize>> = OnceCell::new();
    let name = |span: Span| text::canonical(builder.raw(span));
    let uuids_in_order = || lines.iter().enumerate().map(|(index, line)| (name(line.uuid), index));
    let parent = |index: usize| {
        if lines[index].follows_last {
            return index.checked_sub(1);
        }
        let parent = Some(builder.raw(lines[index].parent)).filter(|parent| parent != b"null")?;
        by_uuid.get_or_init(|| uuids_in_order().collect()).get(&text::canonical(parent)).copied()
    };
    let mut on_path = vec![false; lines.len()];
    let (mut next, mut broken_at) = (leaf(builder, lines), None);
    while let Some(index) = next.filter(|index| !on_path[*index]) {
        on_path[index] = true;
        next = parent(index);
        let is_named = || parent_name(builder, lines, index).first() == Some(&b'"');
        broken_at = Some(index).filter(|_| next.is_none() && is_named());
    }
    if lines.iter().zip(&on_path).any(|(line, on_path)| !on_path && !line.is_side) {
        let lines_on_path = || lines.iter().zip(&on_path).filter(|(_, on_path)| **on_path);
        let messages: HashSet<u64> = lines_on_path().map(|(line, _)| line.message).collect();
        // Many lines may have no message id, or an empty id.
        let is_sent = |line: &Line| line.message != 0 && messages.contains(&line.message);
        let mut sent: HashSet<Cow<'_, [u8]>> = lines_on_path().map(|(line, _)| name(line.uuid)).collect();
        for (index, line) in lines.iter().enumerate().rev() {
            let is_sent_result =
                || line.has_results && parent(index).is_some_and(|parent| is_sent(&lines[parent]));
            if !on_path[index] && !line.is_side && (is_sent(line) || is_sent_result()) {
                on_path[index] = sent.insert(name(line.uuid));
            }
        }
    }
    for (on_path, line) in on_path.iter_mut().zip(lines) {
        *on_path &= !line.is_side;
    }
    (on_path, broken_at)
}

/// Returns the name of the parent of a line. Nearly always it is the name of the previous line, which stays in memory.
fn parent_name<'a>(builder: &'a EventBuilder, lines: &[Line], index: usize) -> &'a [u8] {
    let line = &lines[index];
    builder.raw(if line.follows_last { lines[index - 1].uuid } else { line.parent })
}

/// Returns the last line with an event that is not the parent of another line with an event.
fn leaf(builder: &EventBuilder, lines: &[Line]) -> Option<usize> {
    let has_events = |line: &&Line| !line.is_side && !line.events.is_empty();
    let last = lines.iter().rposition(|line| has_events(&line));
    let Some(last) = last else { return lines.iter().rposition(|line| !line.is_side) };
    let uuid = builder.raw(lines[last].uuid);
    let last_tail = tail(uuid);
    let parent = |index: usize| parent_name(builder, lines, index);
    let with_events = || lines.iter().enumerate().filter(|(_, line)| has_events(line));
    if !with_events().any(|(index, line)| line.parent_tail == last_tail && parent(index) == uuid) {
        return Some(last);
    }
    // The lines are not in the order of their links.
    let followed: HashSet<&[u8]> = with_events().map(|(index, _)| parent(index)).collect();
    let is_leaf = |line: &Line| has_events(&line) && !followed.contains(builder.raw(line.uuid));
    Some(lines.iter().rposition(is_leaf).unwrap_or(last))
}
