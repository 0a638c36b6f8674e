//! SHA-256 of executables and of raw input, in hexadecimal.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use jp_compact_core::Stream;
use sha2::{Digest as _, Sha256};

/// The digest of a file's bytes.
///
/// # Errors
/// The file cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(hash)),
            read => hash.update(&buffer[..read]),
        }
    }
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

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
