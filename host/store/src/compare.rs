//! The comparison of a file with bytes in memory, one piece at a time. It never makes a second copy of a large
//! transcript.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
};

/// The size of one read. At this size, the bytes are still in the processor's cache when they are compared.
const CHUNK_BYTES: usize = 256 << 10;

/// Identifies a state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    pub(super) fn new(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Returns the length of the common prefix of the file and `expected`.
pub(super) fn common_prefix(file: &mut File, expected: &[u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; CHUNK_BYTES.min(expected.len().max(1))];
    let mut common = 0;
    while common < expected.len() {
        let read_bytes = read_chunk(file, &mut buffer)?;
        let chunk = &buffer[..read_bytes];
        let rest = &expected[common..];
        if read_bytes == 0 {
            break;
        }
        if !rest.starts_with(chunk) {
            return Ok(common + chunk.iter().zip(rest).take_while(|(a, b)| a == b).count());
        }
        common += read_bytes;
    }
    Ok(common)
}

fn read_chunk(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    proptest! {
        #[test]
        fn common_prefix_has_maximal_length(
            content in prop::collection::vec(0u8..3, 0..40),
            expected in prop::collection::vec(0u8..3, 0..40),
        ) {
            let length = content.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_prefix(&mut file(&content), &expected).unwrap(), length);
        }
    }

    #[test]
    fn finds_difference_after_first_chunk() {
        let expected = vec![7; CHUNK_BYTES + 10];
        let mut content = expected.clone();
        content[CHUNK_BYTES + 3] = 8;
        assert_eq!(common_prefix(&mut file(&content), &expected).unwrap(), CHUNK_BYTES + 3);
    }
}
