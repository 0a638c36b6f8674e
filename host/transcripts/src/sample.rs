//! The beginning of a transcript, indexed far enough to detect its format.

use std::borrow::Cow;

use jp_compact_core::index::Unreadable;

use crate::lines::{lines, text_start};
use jp_compact_json::{JsonIndex, JsonNode, MemberFilter, Span};

/// The number of lines in the first sample.
const LINES_MAX: usize = 40;
/// The number of lines in the second sample, which is read if no format matches the first. A log may begin with many
/// records that identify no format.
const SECOND_LINES_MAX: usize = 4000;

/// The members that the detection of formats reads.
const WANTED: MemberFilter = |key| MEMBERS.split(' ').any(|member| member.as_bytes() == key);

const MEMBERS: &str = "message messages content contents parts payload info input output items steps \
    history trajectory tool_calls function agent args $set request body params thinking data \
    systemPayload conversations";

pub(crate) struct Sample<'a> {
    /// The first lines that are JSON values. Empty for a document with line breaks.
    pub(crate) lines: Vec<JsonNode<'a>>,
    /// The whole source, if it is one JSON value.
    pub(crate) document: Option<JsonNode<'a>>,
}

impl<'a> Sample<'a> {
    pub(crate) fn any_line(&self, matches: impl Fn(JsonNode<'a>) -> bool) -> bool {
        self.lines.iter().any(|line| matches(*line))
    }

    /// Returns the objects of an array. The array is a member of the document, or the document itself.
    pub(crate) fn objects(&self, member: &str) -> Vec<JsonNode<'a>> {
        let Some(document) = self.document else { return Vec::new() };
        let list = document.get(member).unwrap_or(document);
        list.items().filter(|item| item.is_object()).take(LINES_MAX).collect()
    }
}

/// Calls `detect` with a sample of these bytes. If `detect` returns `None`, calls it again with a larger sample.
pub(crate) fn with_samples<T>(bytes: &[u8], detect: impl Fn(&Sample<'_>) -> Option<T>) -> Option<T> {
    let mut is_document = false;
    let first = with_sample(bytes, LINES_MAX, |sample| {
        is_document = sample.document.is_some();
        detect(sample)
    });
    if first.is_some() || is_document || full_lines(bytes).nth(LINES_MAX).is_none() {
        return first;
    }
    with_sample(bytes, SECOND_LINES_MAX, detect)
}

/// Returns the lines that are not blank.
fn full_lines(bytes: &[u8]) -> impl Iterator<Item = Span> + Clone + '_ {
    lines(bytes).filter(|line| !line.slice(bytes).trim_ascii().is_empty())
}

/// Calls `detect` with the first sample of a file that begins with these bytes. Returns `None` if the sample is not
/// complete, or if the file may be a document.
pub(crate) fn with_lines<T>(bytes: &[u8], detect: impl Fn(&Sample<'_>) -> Option<T>) -> Option<T> {
    let complete = &bytes[..memchr::memrchr(b'\n', bytes)? + 1];
    let first = full_lines(complete).next()?;
    JsonIndex::new(complete, first, |_| false).ok()?;
    with_sample(
        complete,
        LINES_MAX,
        |sample| {
            if sample.lines.len() == LINES_MAX { detect(sample) } else { None }
        },
    )
}

fn with_sample<T>(
    bytes: &[u8],
    lines_max: usize,
    detect: impl FnOnce(&Sample<'_>) -> Option<T>,
) -> Option<T> {
    let sample_lines = || full_lines(bytes).take(lines_max);
    let index = |line| JsonIndex::new(bytes, line, WANTED);
    let is_first_line_json = sample_lines().next().is_some_and(|first| index(first).is_ok());
    let document = match is_first_line_json {
        true => None,
        false => index(Span { start: text_start(bytes), end: bytes.len() }).ok(),
    };
    // Lines that are not JSON are skipped. Lines of a document are not read, because some of them can be JSON by chance.
    let lines: Vec<JsonIndex> = match &document {
        Some(_) => Vec::new(),
        None => sample_lines().filter_map(|line| index(line).ok()).collect(),
    };
    let is_whole = |line: &JsonIndex| bytes[JsonNode::new(bytes, line).span().end..].trim_ascii().is_empty();
    let document = match lines.as_slice() {
        [] => document,
        [line] if is_first_line_json && is_whole(line) => Some(line.clone()),
        _ => None,
    };
    let document = document.as_ref().map(|index| JsonNode::new(bytes, index));
    detect(&Sample { lines: lines.iter().map(|index| JsonNode::new(bytes, index)).collect(), document })
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
    let error_in = |span| JsonIndex::new(bytes, span, |_| false).err();
    let error = error_in(Span { start: text_start(bytes), end: bytes.len() })?;
    let mut full_lines =
        lines(bytes).enumerate().filter(|(_, line)| !line.slice(bytes).trim_ascii().is_empty());
    if full_lines.clone().next().is_none_or(|(_, first)| error_in(first).is_some()) {
        return Some(Unreadable { offset: error.offset, element: None, reason: error.message.into() });
    }
    let (index, error) = full_lines.find_map(|(index, span)| Some((index, error_in(span)?)))?;
    Some(Unreadable {
        offset: error.offset,
        element: None,
        reason: format!("line {}: {}", index + 1, error.message),
    })
}

/// Types of elements that identify a file of JP. Only `jp-compact` writes the last two.
const JP_TYPES: &str = "turn_start chat_request chat_response tool_call_request tool_call_response \
    inquiry_request inquiry_response config_delta compaction jp_compact_overlay jp_compact_receipt";

/// Returns whether this is JP's format: an empty array, or an array with an element of JP's types that has a time.
pub(crate) fn is_jp(sample: &Sample<'_>) -> bool {
    let Some(document) = sample.document.filter(|document| document.is_array()) else { return false };
    let mut elements = document.items();
    let is_element = |element: JsonNode<'_>| {
        element.string("timestamp").is_some()
            && element.text_of("type").is_some_and(|kind| JP_TYPES.split(' ').any(|known| known == kind))
    };
    elements.len() == 0 || elements.any(is_element)
}

/// Returns the error for a value that is not part of the format.
pub(crate) fn format_error(format: &str, value: JsonNode<'_>, reason: &str) -> Unreadable {
    format_error_at(format, value.span().start, reason)
}

pub(crate) fn format_error_at(format: &str, offset: usize, reason: &str) -> Unreadable {
    Unreadable { offset, element: None, reason: format!("not a transcript of {format}: {reason}") }
}

/// Returns the role of a message.
///
/// # Errors
/// The message has no role.
pub(crate) fn role_of<'a>(format: &str, message: JsonNode<'a>) -> Result<Cow<'a, str>, Unreadable> {
    message.text_of("role").ok_or_else(|| format_error(format, message, "a message has no role"))
}

/// Checks that a value has the expected form.
///
/// # Errors
/// The value does not have that form.
pub(crate) fn ensure(
    is_valid: bool,
    format: &str,
    value: JsonNode<'_>,
    reason: &str,
) -> Result<(), Unreadable> {
    if is_valid { Ok(()) } else { Err(format_error(format, value, reason)) }
}
