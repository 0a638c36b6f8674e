//! Hexadecimal digests of the events that a strategy reads, and of the bytes that a run writes.

use jp_compact_core::splice::Piece;
use jp_compact_core::{Stream, TurnRange};
use jp_compact_runtime::digest::hexadecimal;
use sha2::{Digest as _, Sha256};
use twox_hash::xxhash3_128;

/// Returns the SHA-256 of the raw input: the events that have a number, each followed by a newline. Overlays and
/// changes of the configuration have no number, so they do not affect it.
#[must_use]
pub fn of_raw_input(stream: &Stream) -> String {
    of_events(stream.raw_input())
}

/// Returns the SHA-256 of events, each followed by a newline.
pub(crate) fn of_events<'a>(events: impl Iterator<Item = &'a [u8]>) -> String {
    of_more_events(Sha256::new(), events)
}

/// Returns the SHA-256 of events, each followed by a newline. `hash` is the state after the events that precede them.
pub(crate) fn of_more_events<'a>(mut hash: Sha256, events: impl Iterator<Item = &'a [u8]>) -> String {
    for event in events {
        hash.update(event);
        hash.update(b"\n");
    }
    hexadecimal(hash)
}

/// Returns the 128-bit XXH3 of the events in a range, each followed by a newline. Every read of a transcript with a
/// sidecar computes it, so it must be fast. It does not protect against an attacker.
#[must_use]
pub fn of_range(stream: &Stream, range: TurnRange) -> String {
    let mut hash = RangeHash::default();
    for event in stream.raw_input_of(range) {
        hash.add(event);
        hash.end_event();
    }
    hash.digest()
}

/// The digest of [`of_range`], computed from the parts of the events.
#[derive(Clone, Default)]
pub(crate) struct RangeHash(xxhash3_128::Hasher);

impl RangeHash {
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.write(part);
    }

    pub(crate) fn end_event(&mut self) {
        self.0.write(b"\n");
    }

    pub(crate) fn digest(&self) -> String {
        format!("{:032x}", self.0.finish_128())
    }
}

/// Returns the SHA-256 of the content that these pieces compose. `old` is the content that they change.
pub(crate) fn of_pieces(pieces: &[Piece], old: &[u8]) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(piece.bytes(old));
    }
    hexadecimal(hash)
}
