//! Copies ranges of an open file to another file. Long ranges are copied by the system if the output is a regular file.
//! Short ranges, and all ranges for a pipe, go through a small window, because the pages of a file that the system
//! moves into a pipe could still change.

use std::{
    fs::File,
    io::{self, Write as _},
    ops::Range,
    os::unix::fs::FileExt as _,
};

/// The size of the window, and of the output's buffer. Both fit the processor's cache.
const WINDOW_BYTES: usize = 64 << 10;

/// From this size, the system copies a range. For a shorter one, the calls cost more than the copying.
const SYSTEM_COPY_BYTES: u64 = 64 << 10;

pub(super) struct RangeCopier<'a> {
    source: &'a File,
    output: &'a File,
    /// Whether the system can copy between the two files.
    by_system: bool,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    /// Bytes of the source.
    window: Vec<u8>,
    window_range: Range<u64>,
}

impl<'a> RangeCopier<'a> {
    pub(super) fn new(source: &'a File, output: &'a File) -> Self {
        let by_system =
            cfg!(target_os = "linux") && output.metadata().is_ok_and(|metadata| metadata.is_file());
        Self {
            source,
            output,
            by_system,
            pending: Vec::with_capacity(WINDOW_BYTES),
            window: vec![0; WINDOW_BYTES],
            window_range: 0..0,
        }
    }

    /// Writes bytes after those written so far.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.pending.len() + bytes.len() > WINDOW_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WINDOW_BYTES {
            return self.output.write_all(bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes a range of the source.
    pub(super) fn copy(&mut self, mut range: Range<u64>) -> io::Result<()> {
        if self.by_system && range.end - range.start >= SYSTEM_COPY_BYTES {
            self.flush()?;
            self.copy_by_system(&mut range)?;
        }
        while !range.is_empty() {
            if !self.window_range.contains(&range.start) {
                self.load(range.start)?;
            }
            let start = usize::try_from(range.start - self.window_range.start).unwrap_or_default();
            let end = usize::try_from(range.end.min(self.window_range.end) - self.window_range.start)
                .unwrap_or_default();
            // The window is moved out, because `write` needs the rest of `self`.
            let window = std::mem::take(&mut self.window);
            let written = self.write(&window[start..end]);
            self.window = window;
            written?;
            range.start += (end - start) as u64;
        }
        Ok(())
    }

    /// Writes the bytes that are not written yet.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn load(&mut self, start: u64) -> io::Result<()> {
        loop {
            match self.source.read_at(&mut self.window, start) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    self.window_range = start..start + bytes as u64;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Copies the front of a range. The rest must be copied through the window, which also finds the cause of an error.
    #[cfg(target_os = "linux")]
    fn copy_by_system(&mut self, range: &mut Range<u64>) -> io::Result<()> {
        while !range.is_empty() {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let mut from = range.start;
            match rustix::fs::copy_file_range(self.source, Some(&mut from), self.output, None, len) {
                Ok(0) => break,
                Ok(_) => range.start = from,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::debug!(%error, "the system does not copy the file");
                    self.by_system = false;
                    break;
                }
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn copy_by_system(&mut self, _range: &mut Range<u64>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    /// A source of three windows and a half.
    fn source(folder: &std::path::Path) -> (Vec<u8>, File) {
        let bytes: Vec<u8> = (0..WINDOW_BYTES * 7 / 2).map(|byte| (byte % 251) as u8).collect();
        fs::write(folder.join("source"), &bytes).unwrap();
        (bytes, File::open(folder.join("source")).unwrap())
    }

    #[track_caller]
    fn check(open: impl Fn(&std::path::Path) -> File) {
        let temp = tempfile::tempdir().unwrap();
        let (bytes, source) = source(temp.path());
        let output = open(&temp.path().join("output"));
        let mut copier = RangeCopier::new(&source, &output);
        let mut expected = Vec::new();
        let end = bytes.len();
        let long = WINDOW_BYTES;
        for (range, new) in [
            (0..10, "a"),
            (20..30, ""),
            (30..long + 31, "b"),
            (long + 40..long + 50, "c"),
            (7..9, ""),
            (end - 5..end, "d"),
            (0..end, "e"),
        ] {
            copier.copy(range.start as u64..range.end as u64).unwrap();
            copier.write(new.as_bytes()).unwrap();
            expected.extend_from_slice(&bytes[range]);
            expected.extend_from_slice(new.as_bytes());
        }
        copier.write(&bytes).unwrap();
        copier.flush().unwrap();
        expected.extend_from_slice(&bytes);
        assert!(fs::read(temp.path().join("output")).unwrap() == expected);
    }

    #[test]
    fn ranges_are_copied_to_a_file() {
        check(|path| File::create(path).unwrap());
    }

    #[test]
    fn ranges_are_copied_without_help_of_the_system() {
        // The system refuses to copy into a file that is open for appending.
        check(|path| OpenOptions::new().append(true).create(true).open(path).unwrap());
    }

    #[test]
    fn range_after_the_end_of_the_source_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let (bytes, source) = source(temp.path());
        let output = File::create(temp.path().join("output")).unwrap();
        for start in [0, bytes.len() - 1] {
            let error = RangeCopier::new(&source, &output).copy(start as u64..bytes.len() as u64 + 1);
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
