//! Attachments to a request: files named with `@`, files that a compaction attached again, and notes of hooks. The
//! model receives them with the user's message, so they are events, and a summary covers them.

use crate::builder::{EventBuilder, EventDraft, NewEvent};
use jp_compact_core::event::Kind;
use jp_compact_json::{JsonNode, Span};

use serde_json::json;

/// Attachments that are only displayed or hold the program's state.
const SHOWN: [&str; 4] = ["hook_success", "hook_cancelled", "prompt_snapshot", "file_snapshot"];
/// Members that contain text, or objects with text.
const TEXTS: [&str; 9] =
    ["content", "file", "text", "snippet", "prompt", "skills", "memories", "diagnostics", "files"];
/// Members that name the attached file or the hook.
const NAMES: [&str; 5] = ["displayPath", "filename", "filePath", "path", "hookName"];
const DEPTH_MAX: usize = 6;

/// Returns the event of an attachment if it contains text or an image.
pub(super) fn event(builder: &mut EventBuilder, line: JsonNode<'_>, draft: EventDraft) -> Option<NewEvent> {
    let attachment = line.get("attachment")?;
    let kind = attachment.text_of("type")?;
    if SHOWN.contains(&&*kind) {
        return None;
    }
    let mut texts = Vec::new();
    // Newer versions record the text that they send.
    collect_texts(builder, line.get("rendered").unwrap_or(attachment), DEPTH_MAX, &mut texts);
    if texts.is_empty() {
        return None;
    }
    let body = builder.one_or_joined(&texts);
    let name = NAMES.iter().find_map(|name| attachment.text_of(name));
    let metadata = json!({ "attachment": name.as_deref().unwrap_or(&kind) });
    let metadata = builder.new_json(&metadata.to_string());
    Some((Kind::ChatRequest, EventDraft { span: attachment.span(), body, metadata, ..draft }))
}

/// Collects the texts inside a value. The members of an object come in the order of [`TEXTS`].
fn collect_texts(builder: &mut EventBuilder, value: JsonNode<'_>, depth: usize, texts: &mut Vec<Span>) {
    if depth == 0 {
        return;
    }
    if value.text_is("type", "image") {
        texts.push(builder.new_string("[image]"));
        return;
    }
    for name in TEXTS {
        let Some(member) = value.get(name) else { continue };
        if member.is_string() && member.raw().len() > 2 {
            texts.push(member.span());
        }
        collect_texts(builder, member, depth - 1, texts);
    }
    for item in value.items() {
        if item.is_string() && item.raw().len() > 2 {
            texts.push(item.span());
        }
        collect_texts(builder, item, depth - 1, texts);
    }
}
