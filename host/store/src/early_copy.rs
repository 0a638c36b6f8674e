//! A copy that begins before its source is completely checked. A large transcript without overlays is printed unchanged.
//! If the output is a file, each window is written while its bytes are still in the processor's cache, and the file is
//! not read a second time. If the transcript is invalid, or is not printed unchanged, the copy is removed again. If the
//! disk is full, or a signal ends the program, a part of the copy stays.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
};

/// A copy at the end of a file. Dropping it removes the written bytes, unless it is kept.
pub(super) struct EarlyCopy {
    output: File,
    /// The size of the output before the copy.
    start: u64,
    written: u64,
    is_kept: bool,
}

impl EarlyCopy {
    /// Begins a copy. `None` if it could not be removed again: the output is not a file, or its position is not at its
    /// end.
    pub(super) fn begin(output: &File) -> Option<Self> {
        let mut output = output.try_clone().ok()?;
        if !output.metadata().ok()?.is_file() {
            return None;
        }
        let start = output.stream_position().ok()?;
        let copy = Self { output, start, written: 0, is_kept: false };
        copy.is_end_of_file().then_some(copy)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.output.write_all(bytes);
        self.written = self.output.stream_position()?.saturating_sub(self.start);
        written
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Returns whether the output ends where the copy ends. It does not if another program also writes into it.
    fn is_end_of_file(&self) -> bool {
        self.output.metadata().is_ok_and(|metadata| metadata.len() == self.start + self.written)
    }
}

impl Drop for EarlyCopy {
    fn drop(&mut self) {
        if self.is_kept || self.written == 0 || !self.is_end_of_file() {
            return;
        }
        let removed = self.output.set_len(self.start);
        if let Err(error) = removed.and_then(|()| self.output.seek(SeekFrom::Start(self.start))) {
            tracing::warn!(%error, "failed to remove an incomplete copy");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    #[test]
    fn copy_is_removed_unless_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut output = File::create(&path).unwrap();
        output.write_all(b"before ").unwrap();
        let begin = || {
            let mut copy = EarlyCopy::begin(&output).unwrap();
            copy.write(b"a ").unwrap();
            copy.write(b"copy").unwrap();
            assert_eq!(copy.written(), 6);
            copy
        };
        drop(begin());
        assert_eq!(fs::read(&path).unwrap(), b"before ");
        begin().keep();
        assert_eq!(fs::read(&path).unwrap(), b"before a copy");
    }

    #[test]
    fn bytes_of_other_programs_are_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut copy = EarlyCopy::begin(&File::create(&path).unwrap()).unwrap();
        copy.write(b"a copy").unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"!").unwrap();
        drop(copy);
        assert_eq!(fs::read(&path).unwrap(), b"a copy!");
        fs::write(&path, "longer").unwrap();
        assert!(EarlyCopy::begin(&OpenOptions::new().write(true).open(&path).unwrap()).is_none());
    }
}
