//! SHA-256 of bytes and of raw input, in hexadecimal.

use jp_compact_core::Stream;
use sha2::{Digest as _, Sha256};

/// The digest of some bytes.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// The digest of the raw input: of every event that carries a number, a newline behind each. Neither an
/// overlay nor a change of config changes it.
#[must_use]
pub fn of_raw_input(stream: &Stream) -> String {
    let mut hash = Sha256::new();
    for event in stream.raw_input() {
        hash.update(event);
        hash.update(b"\n");
    }
    hexadecimal(hash)
}

pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
