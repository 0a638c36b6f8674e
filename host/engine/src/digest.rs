//! Hexadecimal digests of raw input and of output.

use jp_compact_core::splice::Piece;
use jp_compact_core::{Stream, TurnRange};
use jp_compact_runtime::digest::hexadecimal;
use sha2::{Digest as _, Sha256};
use twox_hash::xxhash3_128;

/// Returns the SHA-256 of the raw input: every numbered event, followed by a newline. Overlays and changes of the
/// configuration do not affect it.
#[must_use]
pub fn of_raw_input(stream: &Stream) -> String {
    let mut hash = Sha256::new();
    for event in stream.raw_input() {
        hash.update(event);
        hash.update(b"\n");
    }
    hexadecimal(hash)
}

/// Returns the 128-bit XXH3 of the events in a range, each followed by a newline. It is computed at every read, and
/// does not protect against an attacker.
#[must_use]
pub fn of_range(stream: &Stream, range: TurnRange) -> String {
    let mut hash = xxhash3_128::Hasher::new();
    for event in stream.raw_input_of(range) {
        hash.write(event);
        hash.write(b"\n");
    }
    format!("{:032x}", hash.finish_128())
}

/// Returns the SHA-256 of the bytes of these pieces.
pub(crate) fn of_pieces(pieces: &[Piece], old: &[u8]) -> String {
    let mut hash = Sha256::new();
    pieces.iter().for_each(|piece| hash.update(piece.bytes(old)));
    hexadecimal(hash)
}
