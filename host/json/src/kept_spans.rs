//! Spans of a file that is read in windows. The other bytes of the file are not in memory.
//!
//! A read of other bytes is recorded, because its result is wrong. The caller must then read the whole file.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::Span;

/// Spans of a file, in order, with their bytes.
#[derive(Debug, Default)]
pub struct KeptSpans {
    parts: Vec<Part>,
    bytes: Vec<u8>,
    /// The index of the part that was read last. The next part is nearly always near.
    last: AtomicUsize,
    has_missed: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Part {
    /// Offset in the file.
    start: usize,
    /// Offset in `bytes`.
    at: usize,
}

/// The number of parts that are searched one by one, from the part that was read last.
const NEAR_PARTS: usize = 8;

/// Space is reserved for one part per this many bytes of the file. Unused space costs no memory, but a vector that
/// grows is copied.
const BYTES_PER_PART: usize = 512;

/// Space is reserved for one kept byte per this many bytes of the file.
const BYTES_PER_KEPT_BYTE: usize = 8;

impl KeptSpans {
    /// Makes an empty list, with space for the spans of a file of this size.
    #[must_use]
    pub fn for_file_of(bytes: usize) -> Self {
        let parts = bytes / BYTES_PER_PART;
        Self {
            parts: Vec::with_capacity(parts),
            bytes: Vec::with_capacity(bytes / BYTES_PER_KEPT_BYTE),
            ..Self::default()
        }
    }

    /// Adds a span with its bytes. Spans must be added in the order of their starts. Bytes that are in memory are not
    /// added again.
    pub fn add(&mut self, start: usize, bytes: &[u8]) {
        let end = self.end();
        debug_assert!(self.parts.last().is_none_or(|last| last.start <= start), "the spans are not in order");
        let bytes = bytes.get(end.saturating_sub(start)..).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        if start > end || self.parts.is_empty() {
            self.parts.push(Part { start, at: self.bytes.len() });
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the offset in the file after the last kept byte.
    #[must_use]
    pub fn end(&self) -> usize {
        self.parts.last().map_or(0, |last| last.start + self.bytes.len() - last.at)
    }

    /// Returns the bytes of a span if all of them are in memory.
    #[must_use]
    pub fn get(&self, span: Span) -> Option<&[u8]> {
        if span.is_empty() {
            return Some(&[]);
        }
        let index = self.find(span.start)?;
        let part = self.parts[index];
        let part_end = self.parts.get(index + 1).map_or(self.bytes.len(), |next| next.at);
        let start = part.at + (span.start - part.start);
        let end = start + span.len();
        (end <= part_end).then(|| &self.bytes[start..end])
    }

    /// Like [`Self::get`], but records the read of a span that is not in memory, and returns no bytes for it.
    #[must_use]
    pub fn bytes_at(&self, span: Span) -> &[u8] {
        self.get(span).unwrap_or_else(|| {
            self.has_missed.store(true, Relaxed);
            &[]
        })
    }

    /// Returns whether a span was read that is not in memory.
    #[must_use]
    pub fn has_missed(&self) -> bool {
        self.has_missed.load(Relaxed)
    }

    /// Returns the index of the last part that starts at `offset` or before it.
    fn find(&self, offset: usize) -> Option<usize> {
        let starts_before = |part: &Part| part.start <= offset;
        let last = self.last.load(Relaxed);
        let near = self.parts.get(last).filter(|part| starts_before(part)).and_then(|_| {
            let following = &self.parts[last + 1..];
            let near = following.iter().take(NEAR_PARTS).take_while(|part| starts_before(part)).count();
            (near < NEAR_PARTS).then_some(last + near)
        });
        let index = match near {
            Some(index) => index,
            None => self.parts.partition_point(starts_before).checked_sub(1)?,
        };
        self.last.store(index, Relaxed);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn returns_bytes_of_kept_spans_only(
            file in prop::collection::vec(any::<u8>(), 1..200),
            mut kept in prop::collection::vec((0..200_usize, 0..30_usize), 0..40),
            reads in prop::collection::vec((0..200_usize, 0..30_usize), 0..40),
        ) {
            kept.sort_unstable();
            let span = |(start, len): (usize, usize)| {
                let start = start.min(file.len());
                Span { start, end: file.len().min(start + len) }
            };
            let (mut spans, mut is_kept) = (KeptSpans::default(), vec![false; file.len()]);
            for span in kept.into_iter().map(span) {
                spans.add(span.start, span.slice(&file));
                is_kept[span.start..span.end].fill(true);
            }
            for span in reads.into_iter().map(span) {
                let expected = is_kept[span.start..span.end].iter().all(|is_kept| *is_kept);
                prop_assert_eq!(spans.get(span), expected.then(|| span.slice(&file)));
                prop_assert!(!spans.has_missed());
            }
        }
    }

    #[test]
    fn records_a_missed_read() {
        let mut spans = KeptSpans::default();
        spans.add(2, b"ab");
        assert_eq!(spans.bytes_at(Span { start: 2, end: 4 }), b"ab");
        assert_eq!(spans.bytes_at(Span { start: 7, end: 7 }), b"");
        assert!(!spans.has_missed());
        assert_eq!(spans.bytes_at(Span { start: 3, end: 5 }), b"");
        assert!(spans.has_missed());
    }
}
