//! The index of a transcript without its texts, for overlays that depend on events of other turns. The bytes that the
//! projection reads stay in memory: ids, names, overlays, and the boundaries of values. So memory grows with the number of
//! events.
//!
//! The removed bytes are holes. A hole is always inside an event, and never begins at a boundary of a piece, so each
//! boundary has one offset in the file. The remaining bytes of an event are not JSON, so the stream must stay in this
//! module.

use jp_compact_core::event::{Event, Kind};
use jp_compact_core::index::{Indexer, Unreadable};
use jp_compact_core::projection::project;
use jp_compact_core::splice::Piece;
use jp_compact_core::{Stream, source};
use jp_compact_json::Span;

use super::holes::Holes;

/// The minimum size of a hole. A smaller hole would need more memory than it saves.
const HOLE_BYTES_MIN: usize = 24;

/// The size of one read. At this size the bytes are still in the processor's cache when they are parsed.
const WINDOW_BYTES: usize = 128 << 10;

/// A reader that scans a transcript in windows, and drops the texts.
#[derive(Default)]
struct Condenser {
    /// The remaining bytes of the complete events, and the bytes after them. Only the first `len` bytes are used.
    buffer: Vec<u8>,
    len: usize,
    indexer: Indexer,
    /// The number of events that are condensed.
    events: usize,
    /// Offset after the last condensed event.
    condensed_end: usize,
    holes: Holes,
}

/// The assumed size of an event, for reserving space. Unused space costs no memory, but a growing vector is copied, and
/// page faults take a fifth of the time of `print`.
const BYTES_OF_EVENT: usize = 1 << 10;

impl Condenser {
    /// Makes a condenser for a file of about this size.
    fn for_file_of(bytes: usize) -> Self {
        let mut condenser = Self::default();
        let events = bytes / BYTES_OF_EVENT;
        condenser.indexer.read_part().0.reserve(events);
        condenser.buffer.reserve(bytes / 16);
        condenser.holes.reserve(3 * events);
        condenser
    }

    /// Returns the space for the next bytes of the file.
    fn window(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.len + bytes;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        &mut self.buffer[self.len..end]
    }

    /// Scans the first `bytes` bytes of the last window, and drops the texts of all complete events. Only
    /// [`Condenser::finish`] reports errors.
    fn advance(&mut self, bytes: usize) {
        self.len += bytes;
        self.indexer.advance(&self.buffer[..self.len]);
        self.condense();
    }

    /// Scans the rest, and returns the condensed transcript.
    ///
    /// # Errors
    /// The bytes are not a transcript of JP. The error is the same as if all bytes were in memory.
    fn finish(self) -> Result<IndexedEvents, Unreadable> {
        let Self { mut buffer, len, indexer, holes, .. } = self;
        buffer.truncate(len);
        let stream = indexer.finish(buffer.into()).and_then(Stream::from_index);
        let stream =
            stream.map_err(|error| Unreadable { offset: holes.file_offset(error.offset), ..error })?;
        Ok(IndexedEvents { stream, holes })
    }

    /// Moves the remaining bytes of the new events, and all bytes after them, to the front.
    fn condense(&mut self) {
        let (events, next_at) = self.indexer.read_part();
        let mut shift = Shift {
            buffer: &mut self.buffer,
            holes: &mut self.holes,
            read_end: self.condensed_end,
            written_end: self.condensed_end,
        };
        for event in &mut events[self.events..] {
            shift.add(event);
        }
        self.events = events.len();
        self.condensed_end = shift.written_end;
        let removed = shift.read_end - shift.written_end;
        if removed > 0 {
            self.buffer.copy_within(self.condensed_end + removed..self.len, self.condensed_end);
            *next_at -= removed;
            self.len -= removed;
        }
    }
}

/// Moves bytes to the front of a buffer, except those in holes.
struct Shift<'a> {
    buffer: &'a mut [u8],
    holes: &'a mut Holes,
    /// Offset of the first byte that has been neither moved nor removed.
    read_end: usize,
    /// Offset to which the next byte is moved.
    written_end: usize,
}

impl Shift<'_> {
    /// Moves the bytes before an event, and the bytes of the event that are needed.
    fn add(&mut self, event: &mut Event) {
        let span = event.span;
        self.keep_until(span.start);
        let start = self.written_end;
        // Overlays and receipts keep all of their bytes.
        if !event.kind.is_overlay() && event.kind != Kind::Receipt {
            let body = event.body;
            let mut members = [&mut event.id, &mut event.name, &mut event.body];
            members.sort_unstable_by_key(|member| member.start);
            for member in members.into_iter().filter(|member| !member.is_empty()) {
                self.remove_until(member.start);
                let start = self.written_end;
                if *member == body {
                    self.remove_until(member.end - 1);
                }
                self.keep_until(member.end);
                *member = Span { start, end: self.written_end };
            }
            self.remove_until(span.end - 1);
        }
        self.keep_until(span.end);
        event.span = Span { start, end: self.written_end };
    }

    /// Moves all bytes before `end`.
    fn keep_until(&mut self, end: usize) {
        let bytes = end - self.read_end;
        if self.read_end > self.written_end {
            self.buffer.copy_within(self.read_end..end, self.written_end);
        }
        (self.read_end, self.written_end) = (end, self.written_end + bytes);
    }

    /// Moves the next byte, and removes the other bytes before `end`. If these are only a few, they are moved, too.
    fn remove_until(&mut self, end: usize) {
        if end - self.read_end > HOLE_BYTES_MIN {
            self.keep_until(self.read_end + 1);
            self.holes.add(self.written_end, end - self.read_end);
            self.read_end = end;
        } else {
            self.keep_until(end);
        }
    }
}

/// The events of a transcript, without their texts.
pub(crate) struct IndexedEvents {
    stream: Stream,
    holes: Holes,
}

impl IndexedEvents {
    /// Reads a transcript of `size` bytes. The inner error is the same as for the whole bytes.
    pub(crate) fn read<E>(
        size: usize,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Result<Self, Unreadable>, E> {
        let mut condenser = Condenser::for_file_of(size);
        let mut at = 0;
        while at < size {
            let bytes = read(at as u64, condenser.window(WINDOW_BYTES.min(size - at)))?;
            condenser.advance(bytes);
            at += bytes;
        }
        Ok(condenser.finish())
    }

    /// Returns whether the file has an event of a known type, or no events.
    pub(crate) fn is_understood(&self) -> bool {
        let events = self.stream.events();
        events.is_empty() || events.iter().any(|event| event.kind != Kind::Unknown)
    }

    /// Returns the compacted transcript. [`Piece::Old`] is a range of the file.
    pub(crate) fn compacted(&self) -> Vec<Piece> {
        let mut pieces = source::render(&self.stream, &project(&self.stream));
        let mut file_range = self.holes.file_ranges();
        for piece in &mut pieces {
            if let Piece::Old(range) = piece {
                *range = file_range(range.clone());
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn add(condenser: &mut Condenser, bytes: &[u8]) {
        for chunk in bytes.chunks(1000) {
            condenser.window(chunk.len()).copy_from_slice(chunk);
            condenser.advance(chunk.len());
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_texts() {
        let mut condenser = Condenser::default();
        add(&mut condenser, b"[0");
        for _ in 0..200 {
            let event = json!({"timestamp": "2026-04-02 09:00:00", "type": "chat_request", "content": "x".repeat(20_000)});
            add(&mut condenser, format!(",{event}").as_bytes());
        }
        assert!(condenser.buffer.len() < 120_000, "{} bytes", condenser.buffer.len());
        add(&mut condenser, b"]");
        assert_eq!(condenser.finish().unwrap().compacted().len(), 1);
    }
}
