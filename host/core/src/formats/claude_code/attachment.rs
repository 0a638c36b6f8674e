//! What Claude Code attaches to a request: files named with `@`, those that a compaction attaches again, notes of hooks.
//! A model is sent them with the user's side, so that they are events; a summary covers them.

use serde_json::json;

use super::super::reading::{Draft, Reading};
use super::super::tree::Look;
use crate::event::Kind;
use crate::json::Span;

/// Attachments that are only shown, or keep what the program needs.
const SHOWN: [&str; 4] = ["hook_success", "hook_cancelled", "prompt_snapshot", "file_snapshot"];
/// Members that hold text, or what holds it.
const TEXTS: [&str; 9] =
    ["content", "file", "text", "snippet", "prompt", "skills", "memories", "diagnostics", "files"];
/// Members that name what is attached.
const NAMES: [&str; 5] = ["displayPath", "filename", "filePath", "path", "hookName"];
/// How deep texts are looked for.
const DEPTH_MAX: usize = 6;

/// The event that an attachment is, if it holds text or an image.
pub(super) fn event(reading: &mut Reading, line: Look<'_>, draft: Draft) -> Option<(Kind, Draft)> {
    let attachment = line.get("attachment")?;
    let kind = attachment.text_of("type")?;
    if SHOWN.contains(&&*kind) {
        return None;
    }
    let mut texts = Vec::new();
    collect(reading, attachment, DEPTH_MAX, &mut texts);
    let body = match texts.as_slice() {
        [] => return None,
        [one] => *one,
        several => reading.joined(several),
    };
    let name = NAMES.iter().find_map(|name| attachment.text_of(name));
    let metadata = json!({ "attachment": name.as_deref().unwrap_or(&kind) });
    let metadata = reading.made_raw(&metadata.to_string());
    Some((Kind::ChatRequest, Draft { span: attachment.span(), body, metadata, ..draft }))
}

/// The texts below a value, in order.
fn collect(reading: &mut Reading, value: Look<'_>, depth: usize, texts: &mut Vec<Span>) {
    if depth == 0 {
        return;
    }
    if value.text_of("type").as_deref() == Some("image") {
        texts.push(reading.made("[image]"));
        return;
    }
    for name in TEXTS {
        let Some(held) = value.get(name) else { continue };
        if held.is_string() && held.raw().len() > 2 {
            texts.push(held.span());
        }
        collect(reading, held, depth - 1, texts);
    }
    for item in value.items() {
        if item.is_string() && item.raw().len() > 2 {
            texts.push(item.span());
        }
        collect(reading, item, depth - 1, texts);
    }
}
