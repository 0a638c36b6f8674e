//! What a transcript looks like from outside: enough of it to tell its format.

use super::jp::Unreadable;
use super::reading::{begin, lines};
use super::tree::{Look, Tree, Wanted};
use crate::json::Span;

/// How many lines are looked at; and where those say nothing, for a log may begin with notes of whatever kind.
const LINES_MAX: usize = 40;
const LINES_MAX_OF_ALL: usize = 4000;

/// The members that formats are told by.
const WANTED: Wanted = |key| {
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

/// The beginning of a transcript.
pub(super) struct Sample<'a> {
    /// The first lines, where each is a value of its own; one for a document without line breaks.
    pub(super) lines: Vec<Look<'a>>,
    /// The whole, where it is one value.
    pub(super) document: Option<Look<'a>>,
}

impl<'a> Sample<'a> {
    /// Whether a line of the first says so.
    pub(super) fn any_line(&self, is_it: impl Fn(Look<'a>) -> bool) -> bool {
        self.lines.iter().any(|line| is_it(*line))
    }

    /// The objects of an array: of the member of that name of the document, or of the document itself.
    pub(super) fn objects(&self, member: &str) -> Vec<Look<'a>> {
        let Some(document) = self.document else { return Vec::new() };
        let list = document.get(member).unwrap_or(document);
        list.items().filter(|item| item.is_object()).take(LINES_MAX).collect()
    }
}

/// Shows a sample of these bytes, and a larger one where that tells nothing.
pub(super) fn with_samples<T>(bytes: &[u8], look: impl Fn(&Sample<'_>) -> Option<T>) -> Option<T> {
    let mut lines = 0;
    let first = with_sample(bytes, LINES_MAX, |sample| {
        lines = sample.lines.len();
        look(sample)
    });
    if lines < LINES_MAX { first } else { first.or_else(|| with_sample(bytes, LINES_MAX_OF_ALL, look)) }
}

fn with_sample<T>(bytes: &[u8], lines_max: usize, look: impl FnOnce(&Sample<'_>) -> Option<T>) -> Option<T> {
    let held = || lines(bytes).filter(|line| !line.of(bytes).trim_ascii().is_empty()).take(lines_max);
    let read = |line| Tree::of(bytes, line, WANTED);
    let is_line = held().next().is_some_and(|first| read(first).is_ok());
    let whole = match is_line {
        true => None,
        false => read(Span { start: begin(bytes), end: bytes.len() }).ok(),
    };
    // Lines that are not JSON are passed over, but a document may have lines that are.
    let nodes: Vec<Tree> = match &whole {
        Some(_) => Vec::new(),
        None => held().filter_map(|line| read(line).ok()).collect(),
    };
    let is_one = |node: &Tree| bytes[Look::new(bytes, node).span().end..].trim_ascii().is_empty();
    let whole = match nodes.as_slice() {
        [] => whole,
        [one] if is_line && is_one(one) => Some(one.clone()),
        _ => None,
    };
    let lines = nodes.iter().map(|node| Look::new(bytes, node)).collect();
    look(&Sample { lines, document: whole.as_ref().map(|node| Look::new(bytes, node)) })
}

/// Whether a source is one value, and no lines of which each is one.
pub(super) fn is_document(bytes: &[u8]) -> bool {
    with_sample(bytes, LINES_MAX, |sample| sample.document.map(drop)).is_some()
}

/// Whether it is one object that has this member.
pub(super) fn is_document_with(bytes: &[u8], member: &str) -> bool {
    with_sample(bytes, LINES_MAX, |sample| sample.document?.get(member).map(drop)).is_some()
}

/// Where bytes are no JSON: in a line, where the first is a value of its own.
pub(super) fn malformed(bytes: &[u8]) -> Option<Unreadable> {
    let wrong = |span| Tree::of(bytes, span, |_| false).err();
    let all = wrong(Span { start: begin(bytes), end: bytes.len() })?;
    let mut each = lines(bytes).enumerate().filter(|(_, line)| !line.of(bytes).trim_ascii().is_empty());
    if each.clone().next().is_none_or(|(_, first)| wrong(first).is_some()) {
        return Some(Unreadable { at: all.at, element: None, what: all.what.into() });
    }
    let in_line = |(line, span)| wrong(span).map(|wrong| (line + 1, wrong));
    let (line, wrong) = each.find_map(in_line)?;
    Some(Unreadable { at: wrong.at, element: None, what: format!("line {line}: {}", wrong.what) })
}

/// What JP's elements are called, and ours among them.
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

/// Whether it is JP's: an array with elements that have a time and one of JP's types.
pub(super) fn is_jp(sample: &Sample<'_>) -> bool {
    let Some(document) = sample.document.filter(|document| document.is_array()) else { return false };
    let mut elements = document.items();
    let is_element = |element: Look<'_>| {
        element.string("timestamp").is_some()
            && element.text_of("type").is_some_and(|kind| JP_TYPES.contains(&&*kind))
    };
    elements.len() == 0 || elements.any(is_element)
}

/// Nothing of the kind that the format has.
pub(super) fn not_of(format: &str, at: usize, what: &str) -> Unreadable {
    Unreadable { at, element: None, what: format!("no transcript of {format}: {what}") }
}
