//! The lines of a file, and an estimate of their number.

use jp_compact_json::Span;

/// Estimates the number of records, for `with_capacity`. Unused capacity costs nothing, but a vector that grows
/// is copied.
pub(crate) fn estimated_records(bytes: usize) -> usize {
    bytes / 1024
}

/// Returns the end of the line that begins at `start`, including its line break.
pub(crate) fn line_end(bytes: &[u8], start: usize) -> usize {
    memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |end| start + end + 1)
}

/// Returns the start of the text, after a UTF-8 byte order mark if there is one.
pub(crate) fn text_start(bytes: &[u8]) -> usize {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    if bytes.starts_with(MARK) { MARK.len() } else { 0 }
}

/// Returns the lines of a text, each including its line break.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = Span> + Clone + '_ {
    let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let rest = (!bytes.is_empty() && bytes.last() != Some(&b'\n')).then_some(bytes.len());
    let mut start = text_start(bytes);
    ends.chain(rest).map(move |end| Span { start: std::mem::replace(&mut start, end), end })
}
