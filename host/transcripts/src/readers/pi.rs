//! The reader of pi's sessions: JSONL, a tree by `id` and `parentId`. A record is an entry. The model received the path
//! from the root to the last entry. The first version has no ids, and its path is the whole file. Other branches, and
//! entries before those that pi's own compaction kept, stay in the file and are not events.

use serde_json::{Value, json};

use super::pi_path::{FirstKept, PiEntry, Reference, first_kept, path, redirect_references};
use super::values;
use crate::builder::{EventBuilder, EventDraft, NewEvent, time_of};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Pi;

const WANTED: MemberFilter = |key| matches!(key, b"message" | b"content");

const ROLES: [&str; 4] = ["user", "assistant", "toolResult", "bashExecution"];

/// pi's own tools. The details of their results repeat the result. Details of other tools may be state that an
/// extension reads, and must stay.
const TOOLS: [&str; 7] = ["bash", "read", "edit", "write", "grep", "find", "ls"];

impl Reader for Pi {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| match line.text_of("type").as_deref() {
            Some("session") => {
                line.string("id").is_some() && line.string("timestamp").is_some() && line.get("cwd").is_some()
            }
            Some("message") => {
                let role = line.get("message").and_then(|message| message.text_of("role"));
                line.string("timestamp").is_some() && role.is_some_and(|role| ROLES.contains(&&*role))
            }
            _ => false,
        })
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut entries: Vec<PiEntry> = Vec::new();
        let mut is_tree = false;
        builder.read_lines(WANTED, |builder, at, node| {
            ensure(node.is_object(), "pi", node, "a line is not an object")?;
            is_tree |= node.get("parentId").is_some();
            entries.push(read_entry(builder, at, node));
            Ok(())
        })?;
        let (path, broken_at) = if is_tree { path(&entries) } else { ((0..entries.len()).collect(), None) };
        let compaction =
            path.iter().rposition(|entry| matches!(entries[*entry].reference, Reference::Kept { .. }));
        let from = compaction.map_or(0, |compaction| first_kept(&entries, &path, compaction));
        redirect_references(builder, &entries, &path, compaction, from);
        count_left_out(builder, &entries, &path, from, broken_at);
        let mut summary = compaction.and_then(|compaction| match &entries[path[compaction]].reference {
            Reference::Kept { summary, .. } if !summary.body.is_empty() => Some(summary.clone()),
            _ => None,
        });
        for index in path.into_iter().skip(from) {
            let PiEntry { events, mut starts_turn, .. } = std::mem::take(&mut entries[index]);
            if events.is_empty() {
                continue;
            }
            // pi's summary is in the turn of the first entry that pi kept, so one summary of ours replaces both.
            if let Some(summary) = summary.take() {
                builder.add_request(*summary);
                starts_turn = false;
            }
            builder.add_all(events, starts_turn);
        }
        // No entry with events follows.
        if let Some(summary) = summary {
            builder.add_request(*summary);
        }
        Ok(())
    }

    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        let mut line = json!({
            "type": "custom_message",
            "customType": "jp-compact",
            "timestamp": format!("{:.3}", note.at),
            "content": note.request,
            "display": false,
        });
        if note.first.get("parentId").is_some() {
            line["id"] = note.ids[0].as_str().into();
            line["parentId"] = serde_json::from_str(note.parent).unwrap_or_default();
        }
        vec![line.to_string()]
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let is_tree = pair.first.get("parentId").is_some();
        let [first, second] = &pair.ids;
        let milliseconds = pair.at.as_millisecond();
        let line = |id: &str, parent: Value, message: Value| {
            let at = format!("{:.3}", pair.at);
            let line = if is_tree {
                json!({ "type": "message", "id": id, "parentId": parent, "timestamp": at, "message": message })
            } else {
                json!({ "type": "message", "timestamp": at, "message": message })
            };
            line.to_string()
        };
        let content = |text| json!([{ "type": "text", "text": text }]);
        let cost = json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 });
        let usage = json!({
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost,
        });
        let request = json!({ "role": "user", "content": content(pair.request), "timestamp": milliseconds });
        let response = json!({
            "role": "assistant",
            "content": content(pair.response),
            "api": "<synthetic>",
            "provider": "<synthetic>",
            "model": "<synthetic>",
            "usage": usage,
            "stopReason": "stop",
            "timestamp": milliseconds,
        });
        let parent = serde_json::from_str(pair.parent).unwrap_or_default();
        vec![line(first, parent, request), line(second, first.as_str().into(), response)]
    }
}

/// Counts entries that are not sent (of other branches, or compacted) and entries that cannot be reached.
fn count_left_out(
    builder: &mut EventBuilder,
    entries: &[PiEntry],
    path: &[usize],
    from: usize,
    broken_at: Option<usize>,
) {
    let mut stays = vec![false; entries.len()];
    path.iter().for_each(|index| stays[*index] = true);
    let text = |entry: &PiEntry| entry.events.iter().map(|(_, draft)| draft.body.len() as u64).sum::<u64>();
    let mut lost = Vec::new();
    for (index, entry) in entries.iter().enumerate().filter(|(index, _)| !stays[*index]) {
        match text(entry) {
            0 => {}
            text if broken_at.is_some_and(|broken_at| index < broken_at) => lost.push(text),
            text => builder.count_unsent(text),
        }
    }
    path[..from].iter().for_each(|index| builder.count_unsent(text(&entries[*index])));
    builder.count_unreachable(&lost);
}

/// Entry types that the model does not receive.
const IGNORED: [&str; 4] = ["custom", "label", "session_info", "thinking_level_change"];

fn read_entry(builder: &mut EventBuilder, at: ElementRef, node: JsonNode<'_>) -> PiEntry {
    let mut entry = PiEntry {
        at,
        id: node.text_of("id").map(Into::into),
        id_span: node.string_span("id"),
        parent: node.text_of("parentId").map(Into::into),
        ..PiEntry::default()
    };
    if let (Some(id), Some(parent)) = (node.string("id"), node.get("parentId")) {
        builder.add_link(at, id.span(), parent.span());
    }
    let draft = EventDraft::of_record(at, time_of(node, "timestamp"));
    match node.text_of("type").as_deref() {
        Some("session") => entry.id = None,
        Some("message") => {
            if let Some(message) = node.get("message") {
                entry.events = message_events(builder, message, draft);
                entry.starts_turn = message.text_is("role", "user");
            }
        }
        Some("model_change") => {
            builder.read_model(node, "modelId");
        }
        Some("custom_message") => {
            let event = request_event(builder, node, draft);
            entry.events.extend(event.map(|(kind, draft)| (kind, builder.by_agent("custom", draft))));
        }
        Some("branch_summary") => {
            if let Some(from) = node.string("fromId") {
                builder.add_link(at, Span::default(), from.span());
            }
            if let Some(body) = summary_text(builder, node, "Another branch, which was left") {
                entry.events.push((Kind::ChatRequest, EventDraft { span: node.span(), body, ..draft }));
            }
        }
        Some("compaction") => {
            let body = summary_text(builder, node, "The conversation before this").unwrap_or_default();
            let span = node.string_span("summary");
            let id = node.string("firstKeptEntryId").map(|id| FirstKept::Id(id.span(), id.text().into()));
            let number = node.get("firstKeptEntryIndex").and_then(JsonNode::number);
            let first = id.or(number.map(FirstKept::Number)).unwrap_or(FirstKept::Nothing);
            // The entry stays even if its text is deleted. Without it pi would send the summarized entries again.
            let summary = Box::new(EventDraft {
                span,
                body,
                deletion: Deletion::Value(span, "\"\""),
                record: None,
                ..draft
            });
            entry.reference = Reference::Kept { summary, first };
        }
        kind => {
            if !kind.is_some_and(|kind| IGNORED.contains(&kind)) {
                builder.count_unknown(node);
            }
            // A label, or another mark of a later version.
            if let Some(target) = node.string("targetId") {
                entry.reference = Reference::Marked { span: target.span(), id: target.text().into() };
            }
        }
    }
    entry
}

/// Returns the text that pi sends in place of summarized entries.
fn summary_text(builder: &mut EventBuilder, node: JsonNode<'_>, subject: &str) -> Option<Span> {
    let text = node.text_of("summary").filter(|text| !text.is_empty())?;
    Some(builder.new_string(&format!("{subject} is summarized:\n\n<summary>\n{text}\n</summary>")))
}

fn message_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: EventDraft) -> Vec<NewEvent> {
    match message.text_of("role").as_deref() {
        Some("user") => request_event(builder, message, draft).into_iter().collect(),
        // Both have the same form: a message of an extension to the model.
        Some("custom" | "hookMessage") => {
            let event = request_event(builder, message, draft);
            event.map(|(kind, draft)| (kind, builder.by_agent("custom", draft))).into_iter().collect()
        }
        Some("assistant") => {
            if let Some(model) = message.text_of("model").filter(|model| !model.starts_with('<')) {
                builder.set_model(&model);
            }
            assistant_events(builder, message, &draft)
        }
        Some("toolResult") => vec![result_event(builder, message, draft)],
        Some("bashExecution") if !message.is_true("excludeFromContext") => {
            let text = |name| message.text_of(name).unwrap_or_default();
            let text = format!("Ran `{}`:\n{}", text("command"), text("output"));
            let body = builder.new_string(&text);
            let draft = EventDraft { span: message.span(), body, ..draft };
            vec![(Kind::ChatRequest, builder.by_agent("output", draft))]
        }
        Some("bashExecution" | "branchSummary" | "compactionSummary") => Vec::new(),
        _ => {
            builder.count_unknown(message);
            Vec::new()
        }
    }
}

/// Returns the event of a message of the user's side: a text, or blocks of text and images.
fn request_event(builder: &mut EventBuilder, node: JsonNode<'_>, draft: EventDraft) -> Option<NewEvent> {
    let content = node.get("content")?;
    let body = if content.is_string() {
        content.span()
    } else {
        let blocks: Vec<Span> = content
            .items()
            .filter_map(|block| match block.text_of("type").as_deref() {
                Some("image") => Some(builder.new_string("[image]")),
                _ => {
                    let text = block.string("text").map(JsonNode::span);
                    if text.is_none() {
                        builder.count_unknown(block);
                    }
                    text
                }
            })
            .collect();
        if blocks.is_empty() {
            return None;
        }
        builder.joined(&blocks)
    };
    Some((Kind::ChatRequest, EventDraft { span: content.span(), body, ..draft }))
}

/// Returns the events of the assistant: text, reasoning, and calls.
fn assistant_events(builder: &mut EventBuilder, message: JsonNode<'_>, draft: &EventDraft) -> Vec<NewEvent> {
    let Some(content) = message.get("content") else { return Vec::new() };
    if content.is_string() {
        return vec![(Kind::Message, draft.text_part(content, Deletion::Nothing))];
    }
    let api = message.text_of("api").unwrap_or_default();
    let mut events: Vec<NewEvent> = Vec::new();
    let mut thought = None;
    for (deletion, block) in builder.blocks(content) {
        let Some((kind, draft)) = block_event(builder, block, &api, draft.part(block, deletion)) else {
            builder.count_unknown(block);
            continue;
        };
        if kind == Kind::Reasoning {
            thought = Some(events.len());
        } else if let Some((name, _)) = signature(block, &api)
            && let Some((_, thought)) = thought.and_then(|thought| events.get_mut(thought))
        {
            // Google's signature is on the part that follows the reasoning.
            thought.further_deletions.push(builder.members(block).deletion(name));
        }
        events.push((kind, draft));
    }
    events
}

/// Returns the event of a block, or `None` if the block is empty or unknown.
fn block_event(
    builder: &mut EventBuilder,
    block: JsonNode<'_>,
    api: &str,
    draft: EventDraft,
) -> Option<NewEvent> {
    let metadata = metadata(builder, block, api);
    let draft = EventDraft { metadata, ..draft };
    Some(match &*block.text_of("type")? {
        "text" => (Kind::Message, draft.with_body(block.non_empty_string("text")?.span())),
        "thinking" => {
            let thinking = block.string("thinking")?;
            if thinking.raw().len() <= 2 && block.string("thinkingSignature").is_none() {
                return None;
            }
            (Kind::Reasoning, draft.with_body(thinking.span()))
        }
        "toolCall" => {
            let (arguments, draft) = (block.get("arguments"), draft.with_id(block.string_span("id")));
            let draft = builder.call(block, "name", arguments, values::empty_object, draft);
            // The rest of a stream that was interrupted.
            (Kind::ToolRequest, draft.with_edit(block.get("partialJson"), values::text))
        }
        _ => return None,
    })
}

/// Returns the member with the signature of a block: its name and its value.
fn signature<'a>(block: JsonNode<'a>, api: &str) -> Option<(&'static str, JsonNode<'a>)> {
    let name = match &*block.text_of("type")? {
        "thinking" => "thinkingSignature",
        "text" if api.starts_with("google") => "textSignature",
        "toolCall" if api.starts_with("google") => "thoughtSignature",
        _ => return None,
    };
    Some((name, block.string(name)?))
}

/// Returns the data that must be sent back to the provider with a block. The form of the signature depends on the API.
fn metadata(builder: &mut EventBuilder, block: JsonNode<'_>, api: &str) -> Span {
    let Some((_, signature)) = signature(block, api) else { return Span::default() };
    let text = signature.text();
    let kept = if api.starts_with("google") {
        json!({ "google_thought_signature": text })
    } else if api.starts_with("anthropic") || api.starts_with("bedrock") {
        let is_redacted = block.is_true("redacted");
        let name = if is_redacted { "anthropic_redacted_thinking" } else { "anthropic_thinking_signature" };
        json!({ name: text })
    } else if api.contains("responses") {
        // The whole item, as JSON in a string.
        let item: Value = serde_json::from_str(&text).unwrap_or_default();
        match (item["id"].as_str(), item["encrypted_content"].as_str()) {
            (Some(id), Some(encrypted)) => {
                json!({ "openai_item_id": id, "openai_encrypted_content": encrypted })
            }
            _ => return Span::default(),
        }
    } else {
        return Span::default();
    };
    builder.new_json(&kept.to_string())
}

fn result_event(builder: &mut EventBuilder, message: JsonNode<'_>, draft: EventDraft) -> NewEvent {
    let content = message.get("content");
    let write = if content.is_some_and(JsonNode::is_string) { values::text } else { values::text_block };
    let id = message.string_span("toolCallId");
    let draft = builder.result(content, write, EventDraft { span: message.span(), id, ..draft });
    let is_pi_tool = message.text_of("toolName").is_some_and(|name| TOOLS.contains(&&*name));
    let details = message.object("details").filter(|_| is_pi_tool);
    let kind = Kind::ToolResponse { is_error: message.is_true("isError") };
    (kind, draft.with_edit(details, values::empty_object))
}
