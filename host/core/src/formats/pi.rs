//! pi's sessions: JSONL, a tree by `id` and `parentId`, of which the path from the last entry to the root is what a model
//! is sent. The first version has no ids: there it is all. What pi compacted itself is a summary and the entries from
//! one that it names; those before are not sent any more.

use serde_json::{Value, json};

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::pi_path::{Entry, FirstKept, Names, first_kept, path, tie};
use super::reading::{Draft, Reading, time_of};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct Pi;

const WANTED: Wanted = |key| matches!(key, b"message" | b"content");

const ROLES: [&str; 4] = ["user", "assistant", "toolResult", "bashExecution"];

/// The tools that pi has itself: the details of their results say once more what a result says. Those of other tools
/// may be state that an extension reads.
const TOOLS: [&str; 7] = ["bash", "read", "edit", "write", "grep", "find", "ls"];

impl Transcript for Pi {
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

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut is_tree = false;
        reading.lines(WANTED, |reading, at, look| {
            if !look.is_object() {
                return Err(not_of("pi", look.span().start, "a line that is no object"));
            }
            is_tree |= look.get("parentId").is_some();
            entries.push(entry(reading, at, look));
            Ok(())
        })?;
        let (path, broken) = if is_tree { path(&entries) } else { ((0..entries.len()).collect(), None) };
        let compacted = path.iter().rposition(|entry| matches!(entries[*entry].names, Names::Kept { .. }));
        let from = compacted.map_or(0, |compacted| first_kept(&entries, &path, compacted));
        tie(reading, &entries, &path, compacted, from);
        left_out(reading, &entries, &path, from, broken);
        let mut summary = compacted.and_then(|compacted| match &entries[path[compacted]].names {
            Names::Kept { summary, .. } if !summary.body.is_empty() => Some(summary.clone()),
            _ => None,
        });
        for place in path.into_iter().skip(from) {
            let Entry { found, opens, .. } = &mut entries[place];
            let (found, opens) = (std::mem::take(found), *opens);
            let Some(time) = found.first().map(|(_, draft)| draft.time) else { continue };
            // What pi summarised is of the same turn as what it kept: a summary of its own stands for both.
            if let Some(summary) = summary.take() {
                reading.turn(summary.time);
                reading.add(Kind::ChatRequest, *summary);
            } else if opens {
                reading.turn(time);
            }
            for (kind, draft) in found {
                reading.add(kind, draft);
            }
        }
        Ok(())
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
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

/// Counts what is on another branch or compacted, which no model is sent, and what cannot be reached.
fn left_out(reading: &mut Reading, entries: &[Entry], path: &[usize], from: usize, broken: Option<usize>) {
    let mut stays = vec![false; entries.len()];
    path.iter().for_each(|place| stays[*place] = true);
    let text = |entry: &Entry| entry.found.iter().map(|(_, draft)| draft.body.len() as u64).sum::<u64>();
    let (mut lost, mut records) = (0, 0);
    for (place, entry) in entries.iter().enumerate().filter(|(place, _)| !stays[*place]) {
        match text(entry) {
            0 => {}
            text if broken.is_some_and(|broken| place < broken) => {
                (lost, records) = (lost + text, records + 1);
            }
            text => reading.passed_over(text),
        }
    }
    path[..from].iter().for_each(|place| reading.passed_over(text(&entries[*place])));
    if records > 0 {
        reading.unreachable(lost, records);
    }
}

/// What pi writes beside what a model is sent.
const BESIDE: [&str; 4] = ["custom", "label", "session_info", "thinking_level_change"];

/// Finds the events of an entry.
fn entry(reading: &mut Reading, at: At, look: Look<'_>) -> Entry {
    let mut entry = Entry {
        at,
        id: look.text_of("id").map(Into::into),
        parent: look.text_of("parentId").map(Into::into),
        found: Vec::new(),
        opens: false,
        names: Names::Nothing,
    };
    if let (Some(id), Some(parent)) = (look.string("id"), look.get("parentId")) {
        reading.link(at, id.span(), parent.span());
    }
    let draft = Draft { time: time_of(look, "timestamp"), record: Some(at), ..Draft::default() };
    match look.text_of("type").as_deref() {
        Some("session") => entry.id = None,
        Some("message") => {
            if let Some(message) = look.get("message") {
                entry.found = message_of(reading, message, draft);
                entry.opens = message.text_of("role").as_deref() == Some("user");
            }
        }
        Some("model_change") => {
            if let Some(model) = look.text_of("modelId") {
                reading.model(&model);
            }
        }
        Some("custom_message") => entry.found.extend(request(reading, look, draft)),
        Some("branch_summary") => {
            if let Some(from) = look.string("fromId") {
                reading.link(at, Span::default(), from.span());
            }
            if let Some(body) = summary(reading, look, "Another branch, which was left") {
                entry.found.push((Kind::ChatRequest, Draft { span: look.span(), body, ..draft }));
            }
        }
        Some("compaction") => {
            let body = summary(reading, look, "The conversation before this").unwrap_or_default();
            let span = look.string("summary").map_or_else(Span::default, Look::span);
            let id = look.string("firstKeptEntryId").map(|id| FirstKept::Id(id.span(), id.text().into()));
            let number = look.get("firstKeptEntryIndex");
            let number = number.and_then(|number| std::str::from_utf8(number.raw()).ok()?.parse().ok());
            let first = id.or(number.map(FirstKept::Number)).unwrap_or(FirstKept::Nothing);
            // It stays, whatever becomes of its words: without it all that it stands for would be sent again.
            let summary =
                Box::new(Draft { span, body, cut: Cut::Value(span, "\"\""), record: None, ..draft });
            entry.names = Names::Kept { summary, first };
        }
        kind => {
            if !kind.is_some_and(|kind| BESIDE.contains(&kind)) {
                reading.unknown(look);
            }
            // A label, or whatever else later versions say of another entry.
            if let Some(target) = look.string("targetId") {
                entry.names = Names::Marked { span: target.span(), id: target.text().into() };
            }
        }
    }
    entry
}

/// What a model is told of what it is not sent.
fn summary(reading: &mut Reading, look: Look<'_>, what: &str) -> Option<Span> {
    let text = look.text_of("summary").filter(|text| !text.is_empty())?;
    Some(reading.made(&format!("{what} is summarised:\n\n<summary>\n{text}\n</summary>")))
}

/// The events of a message.
fn message_of(reading: &mut Reading, message: Look<'_>, draft: Draft) -> Vec<(Kind, Draft)> {
    match message.text_of("role").as_deref() {
        // The last two are one: what an extension says to the model.
        Some("user" | "custom" | "hookMessage") => request(reading, message, draft).into_iter().collect(),
        Some("assistant") => {
            if let Some(model) = message.text_of("model").filter(|model| !model.starts_with('<')) {
                reading.model(&model);
            }
            said(reading, message, &draft)
        }
        Some("toolResult") => vec![result(reading, message, draft)],
        Some("bashExecution") if !message.is_true("excludeFromContext") => {
            let text = |name| message.text_of(name).unwrap_or_default();
            let text = format!("Ran `{}`:\n{}", text("command"), text("output"));
            let body = reading.made(&text);
            vec![(Kind::ChatRequest, Draft { span: message.span(), body, ..draft })]
        }
        Some("bashExecution" | "branchSummary" | "compactionSummary") => Vec::new(),
        _ => {
            reading.unknown(message);
            Vec::new()
        }
    }
}

/// What the user's side says: a text, or blocks of text and images.
fn request(reading: &mut Reading, look: Look<'_>, draft: Draft) -> Option<(Kind, Draft)> {
    let content = look.get("content")?;
    let body = if content.is_string() {
        content.span()
    } else {
        let blocks: Vec<Span> = content
            .items()
            .filter_map(|block| match block.text_of("type").as_deref() {
                Some("image") => Some(reading.made("[image]")),
                _ => {
                    let text = block.string("text").map(Look::span);
                    if text.is_none() {
                        reading.unknown(block);
                    }
                    text
                }
            })
            .collect();
        if blocks.is_empty() {
            return None;
        }
        reading.joined(&blocks)
    };
    Some((Kind::ChatRequest, Draft { span: content.span(), body, ..draft }))
}

/// What the assistant says, thinks and calls.
fn said(reading: &mut Reading, message: Look<'_>, draft: &Draft) -> Vec<(Kind, Draft)> {
    let Some(content) = message.get("content") else { return Vec::new() };
    if content.is_string() {
        let draft = Draft { span: content.span(), body: content.span(), ..draft.clone() };
        return vec![(Kind::Message, draft)];
    }
    let api = message.text_of("api").unwrap_or_default();
    let several = content.items().len() > 1;
    let list = several.then(|| reading.items(content, None));
    let mut found: Vec<(Kind, Draft)> = Vec::new();
    let mut thought = None;
    for (element, block) in content.items().enumerate() {
        let cut = list.map_or(Cut::Nothing, |list| Cut::Element(At { list, element }));
        let draft = Draft { span: block.span(), cut, ..draft.clone() };
        let Some((kind, draft)) = block_of(reading, block, &api, draft) else {
            reading.unknown(block);
            continue;
        };
        if kind == Kind::Reasoning {
            thought = Some(found.len());
        } else if let Some((name, _)) = signature(block, &api)
            && let Some((_, thought)) = thought.and_then(|thought| found.get_mut(thought))
            && let Some(element) = block.position(name)
        {
            // Google signs what a thought led to.
            thought.also.push(Cut::Element(At { list: reading.members(block), element }));
        }
        found.push((kind, draft));
    }
    found
}

/// The event that a block is; None for one that says nothing.
fn block_of(reading: &mut Reading, block: Look<'_>, api: &str, draft: Draft) -> Option<(Kind, Draft)> {
    let has_text = |text: &Look<'_>| text.raw().len() > 2;
    let metadata = metadata(reading, block, api);
    let draft = Draft { metadata, ..draft };
    Some(match &*block.text_of("type")? {
        "text" => (Kind::Message, Draft { body: block.string("text").filter(has_text)?.span(), ..draft }),
        "thinking" => {
            let thinking = block.string("thinking")?;
            if !has_text(&thinking) && block.string("thinkingSignature").is_none() {
                return None;
            }
            (Kind::Reasoning, Draft { body: thinking.span(), ..draft })
        }
        "toolCall" => {
            let arguments = block.get("arguments");
            let slot = |value: Look<'_>, write| Slot { span: value.span(), write };
            let mut slots: Vec<Slot> =
                arguments.map(|value| slot(value, write::object)).into_iter().collect();
            // What was left of the stream when it ended in between.
            slots.extend(block.get("partialJson").map(|value| slot(value, write::text)));
            let draft = Draft {
                id: block.string("id").map_or_else(Span::default, Look::span),
                name: block.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown")),
                body: arguments.map_or_else(Span::default, Look::span),
                slots,
                ..draft
            };
            (Kind::ToolRequest, draft)
        }
        _ => return None,
    })
}

/// What signs a block, by the member that holds it.
fn signature<'a>(block: Look<'a>, api: &str) -> Option<(&'static str, Look<'a>)> {
    let name = match &*block.text_of("type")? {
        "thinking" => "thinkingSignature",
        "text" if api.starts_with("google") => "textSignature",
        "toolCall" if api.starts_with("google") => "thoughtSignature",
        _ => return None,
    };
    Some((name, block.string(name)?))
}

/// What a provider wants back with a block. What signs it depends on the interface that it came by.
fn metadata(reading: &mut Reading, block: Look<'_>, api: &str) -> Span {
    let Some((_, signature)) = signature(block, api) else { return Span::default() };
    let text = signature.text();
    let kept = if api.starts_with("google") {
        json!({ "google_thought_signature": text })
    } else if api.starts_with("anthropic") || api.starts_with("bedrock") {
        let is_redacted = block.is_true("redacted");
        let name = if is_redacted { "anthropic_redacted_thinking" } else { "anthropic_thinking_signature" };
        json!({ name: text })
    } else if api.contains("responses") {
        // The whole item, in a string.
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
    reading.made_raw(&kept.to_string())
}

fn result(reading: &mut Reading, message: Look<'_>, draft: Draft) -> (Kind, Draft) {
    let mut slots = Vec::new();
    let body = match message.get("content") {
        Some(content) => {
            let write = if content.is_string() { write::text } else { write::blocks };
            slots.push(Slot { span: content.span(), write });
            reading.text(content)
        }
        None => reading.made(""),
    };
    let is_own = message.text_of("toolName").is_some_and(|name| TOOLS.contains(&&*name));
    let details = message.get("details").filter(|details| is_own && details.is_object());
    slots.extend(details.map(|details| Slot { span: details.span(), write: write::object }));
    let id = message.string("toolCallId").map_or_else(Span::default, Look::span);
    let kind = Kind::ToolResponse { is_error: message.is_true("isError") };
    (kind, Draft { span: message.span(), id, body, slots, ..draft })
}
