//! The beginning of a transcript, indexed far enough to detect its format.

use jp_compact_core::index::Unreadable;
use jp_compact_core::json::Span;

use crate::json_index::{JsonIndex, JsonNode, MemberFilter};
use crate::lines::{begin, lines};

/// The number of lines in a sample, and in the second sample if the first does not suffice. A log may begin with
/// many notes.
const LINES_MAX: usize = 40;
const LINES_MAX_OF_ALL: usize = 4000;

/// The members by which formats are detected.
const WANTED: MemberFilter = |key| {
    matches!(
        key,
        b"message"
            | b"messages"
            | b"content"
            | b"contents"
            | b"parts"
            | b"payload"
            | b"info"
            | b"input"
            | b"output"
            | b"items"
            | b"steps"
            | b"history"
            | b"trajectory"
            | b"tool_calls"
            | b"function"
            | b"agent"
            | b"args"
            | b"$set"
            | b"request"
            | b"body"
            | b"params"
            | b"thinking"
            | b"data"
            | b"conversations"
    )
};

pub(crate) struct Sample<'a> {
    /// The first lines, if each is a JSON value. One line for a document without line breaks.
    pub(crate) lines: Vec<JsonNode<'a>>,
    /// The whole source, if it is one JSON value.
    pub(crate) document: Option<JsonNode<'a>>,
}

impl<'a> Sample<'a> {
    pub(crate) fn any_line(&self, is_it: impl Fn(JsonNode<'a>) -> bool) -> bool {
        self.lines.iter().any(|line| is_it(*line))
    }

    /// Returns the objects of an array: of a member of the document, or of the document itself.
    pub(crate) fn objects(&self, member: &str) -> Vec<JsonNode<'a>> {
        let Some(document) = self.document else { return Vec::new() };
        let list = document.get(member).unwrap_or(document);
        list.items().filter(|item| item.is_object()).take(LINES_MAX).collect()
    }
}

/// Calls `detect` with a sample of these bytes, and with a larger one if it returns `None`.
pub(crate) fn with_samples<T>(bytes: &[u8], detect: impl Fn(&Sample<'_>) -> Option<T>) -> Option<T> {
    let mut lines = 0;
    let first = with_sample(bytes, LINES_MAX, |sample| {
        lines = sample.lines.len();
        detect(sample)
    });
    if lines < LINES_MAX { first } else { first.or_else(|| with_sample(bytes, LINES_MAX_OF_ALL, detect)) }
}

fn with_sample<T>(
    bytes: &[u8],
    lines_max: usize,
    detect: impl FnOnce(&Sample<'_>) -> Option<T>,
) -> Option<T> {
    let held = || lines(bytes).filter(|line| !line.slice(bytes).trim_ascii().is_empty()).take(lines_max);
    let read = |line| JsonIndex::new(bytes, line, WANTED);
    let is_line = held().next().is_some_and(|first| read(first).is_ok());
    let whole = match is_line {
        true => None,
        false => read(Span { start: begin(bytes), end: bytes.len() }).ok(),
    };
    // Lines that are not JSON are skipped. A document may have lines that are JSON.
    let nodes: Vec<JsonIndex> = match &whole {
        Some(_) => Vec::new(),
        None => held().filter_map(|line| read(line).ok()).collect(),
    };
    let is_one = |node: &JsonIndex| bytes[JsonNode::new(bytes, node).span().end..].trim_ascii().is_empty();
    let whole = match nodes.as_slice() {
        [] => whole,
        [one] if is_line && is_one(one) => Some(one.clone()),
        _ => None,
    };
    let lines = nodes.iter().map(|node| JsonNode::new(bytes, node)).collect();
    detect(&Sample { lines, document: whole.as_ref().map(|node| JsonNode::new(bytes, node)) })
}

/// Returns whether a source is one JSON value, as opposed to lines that are values.
pub(crate) fn is_document(bytes: &[u8]) -> bool {
    with_sample(bytes, LINES_MAX, |sample| sample.document.map(drop)).is_some()
}

/// Returns whether a source is one object with this member.
pub(crate) fn is_document_with(bytes: &[u8], member: &str) -> bool {
    with_sample(bytes, LINES_MAX, |sample| sample.document?.get(member).map(drop)).is_some()
}

/// Returns the first JSON error. It names a line if the first line is a complete value.
pub fn malformed(bytes: &[u8]) -> Option<Unreadable> {
    let wrong = |span| JsonIndex::new(bytes, span, |_| false).err();
    let all = wrong(Span { start: begin(bytes), end: bytes.len() })?;
    let mut each = lines(bytes).enumerate().filter(|(_, line)| !line.slice(bytes).trim_ascii().is_empty());
    if each.clone().next().is_none_or(|(_, first)| wrong(first).is_some()) {
        return Some(Unreadable { at: all.at, element: None, what: all.what.into() });
    }
    let in_line = |(line, span)| wrong(span).map(|wrong| (line + 1, wrong));
    let (line, wrong) = each.find_map(in_line)?;
    Some(Unreadable { at: wrong.at, element: None, what: format!("line {line}: {}", wrong.what) })
}

/// The types of JP's elements and of ours among them.
const JP_TYPES: [&str; 11] = [
    "turn_start",
    "chat_request",
    "chat_response",
    "tool_call_request",
    "tool_call_response",
    "inquiry_request",
    "inquiry_response",
    "config_delta",
    "compaction",
    "jp_compact_overlay",
    "jp_compact_receipt",
];

/// Returns whether this is JP's format: an array of elements with a time and one of JP's types.
pub(crate) fn is_jp(sample: &Sample<'_>) -> bool {
    let Some(document) = sample.document.filter(|document| document.is_array()) else { return false };
    let mut elements = document.items();
    let is_element = |element: JsonNode<'_>| {
        element.string("timestamp").is_some()
            && element.text_of("type").is_some_and(|kind| JP_TYPES.contains(&&*kind))
    };
    elements.len() == 0 || elements.any(is_element)
}

/// The error for a value that is not part of the format.
pub(crate) fn not_of(format: &str, at: usize, what: &str) -> Unreadable {
    Unreadable { at, element: None, what: format!("not a transcript of {format}: {what}") }
}
