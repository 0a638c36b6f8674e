//! Compares a file with bytes in memory, one piece at a time. It never makes a second copy of a large transcript.

use std::{
    fs::{File, Metadata},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
};

const STEP_BYTES: usize = 1 << 20;

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

/// Returns the length of the common prefix of the file and `ours`.
pub(super) fn common_prefix(file: &mut File, ours: &[u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    let mut step = vec![0; STEP_BYTES.min(ours.len().max(1))];
    let mut common = 0;
    while common < ours.len() {
        let read = read_some(file, &mut step)?;
        let theirs = &step[..read];
        let rest = &ours[common..];
        if read == 0 {
            break;
        }
        if !rest.starts_with(theirs) {
            return Ok(common + theirs.iter().zip(rest).take_while(|(a, b)| a == b).count());
        }
        common += read;
    }
    Ok(common)
}

fn read_some(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(into) {
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
            theirs in prop::collection::vec(0u8..3, 0..40),
            ours in prop::collection::vec(0u8..3, 0..40),
        ) {
            let expect = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_prefix(&mut file(&theirs), &ours).unwrap(), expect);
        }
    }

    #[test]
    fn finds_difference_after_first_step() {
        let ours = vec![7; STEP_BYTES + 10];
        let mut theirs = ours.clone();
        theirs[STEP_BYTES + 3] = 8;
        assert_eq!(common_prefix(&mut file(&theirs), &ours).unwrap(), STEP_BYTES + 3);
    }
}
