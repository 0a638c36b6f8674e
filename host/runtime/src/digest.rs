//! SHA-256 digests in hexadecimal.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of these bytes.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// A writer that computes the digest of all bytes written through it.
pub struct DigestWriter<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> DigestWriter<W> {
    /// Creates a writer around `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// Returns the digest of the bytes written so far.
    pub fn sha256(self) -> String {
        hexadecimal(self.hash)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Formats a finished hash in lower-case hexadecimal.
pub fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
