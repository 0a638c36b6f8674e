//! The copying of ranges of an open file to another file. Long ranges are copied by the system if the output is a
//! regular file. Short ranges go through a small window. So do all ranges for a pipe, because the pages of a file that
//! the system moves into a pipe could still change.

use std::{
    fs::File,
    io::{self, Write as _},
    ops::Range,
    os::unix::fs::FileExt as _,
};

use jp_compact_core::splice::Piece;

/// The size of the window, and of the output's buffer. Both fit the processor's cache.
const WINDOW_BYTES: usize = 64 << 10;

/// The longest gap between two ranges that is read with them. It is the size of a page.
const GAP_BYTES: u64 = 4 << 10;

/// From this size, the system copies a range. For a shorter range, the calls cost more than the copying.
const SYSTEM_COPY_BYTES: u64 = 64 << 10;

pub(super) struct RangeCopier<'a> {
    source: &'a File,
    output: &'a File,
    /// Whether the system can copy between the two files.
    by_system: bool,
    /// Bytes that have not been written yet.
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

    /// Writes pieces. [`Piece::Old`] is a range of the source.
    pub(super) fn write_pieces(&mut self, pieces: &[Piece]) -> io::Result<()> {
        for (index, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Old(range) => self.copy(range.start as u64..range.end as u64, &pieces[index + 1..])?,
                Piece::New(bytes) => self.write(bytes)?,
            }
        }
        Ok(())
    }

    /// Appends bytes to the output.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.pending.len() + bytes.len() > WINDOW_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WINDOW_BYTES {
            return self.output.write_all(bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes a range of the source. `following` are the next pieces.
    fn copy(&mut self, mut range: Range<u64>, following: &[Piece]) -> io::Result<()> {
        if self.by_system && range.end - range.start >= SYSTEM_COPY_BYTES {
            self.flush()?;
            self.copy_by_system(&mut range)?;
        }
        while !range.is_empty() {
            if !self.window_range.contains(&range.start) {
                self.load(&range, following)?;
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

    /// Writes the pending bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    /// Reads the front of a range, and the next ranges if they are near. Long gaps are not read.
    fn load(&mut self, range: &Range<u64>, following: &[Piece]) -> io::Result<()> {
        let (start, mut end) = (range.start, range.end);
        for piece in following {
            let Piece::Old(next) = piece else { continue };
            let next = next.start as u64..next.end as u64;
            if next.start < end || next.start - end > GAP_BYTES || end - start >= WINDOW_BYTES as u64 {
                break;
            }
            end = next.end;
        }
        let bytes = usize::try_from(end - start).map_or(WINDOW_BYTES, |bytes| bytes.min(WINDOW_BYTES));
        loop {
            match self.source.read_at(&mut self.window[..bytes], start) {
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

    use jp_compact_core::splice::concat;

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
        let (end, long) = (bytes.len(), WINDOW_BYTES);
        let ranges = [
            0..10,
            20..30,
            30..long + 31,
            long + 40..long + 50,
            long + 5000..long + 5010,
            2 * long..2 * long + 10,
            7..9,
            end - 5..end,
            0..end,
        ];
        let mut pieces = vec![Piece::New(bytes.clone()), Piece::New(b"a".to_vec())];
        for (number, range) in ranges.into_iter().enumerate() {
            pieces.push(Piece::Old(range));
            if number % 2 == 0 {
                pieces.push(Piece::New(number.to_string().into_bytes()));
            }
        }
        copier.write_pieces(&pieces).unwrap();
        copier.flush().unwrap();
        assert!(fs::read(temp.path().join("output")).unwrap() == concat(&pieces, &bytes));
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
            let piece = Piece::Old(start..bytes.len() + 1);
            let error = RangeCopier::new(&source, &output).write_pieces(&[piece]);
            assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
