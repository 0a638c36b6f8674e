//! The lines of an input. The caller gets each line as soon as it is complete, so a client can write one line and wait
//! for its answer.

use std::io::{self, Read};

use bytes::Bytes;

/// The longest line that is read completely.
pub const LINE_BYTES_MAX: usize = 128 << 20;
/// The length of the kept beginning of a longer line.
const BEGINNING_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;

/// A line without its line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputLine {
    Whole(Bytes),
    /// The beginning of a line above the limit.
    TooLong(Bytes),
}

/// Calls `visit` for each line, until the input ends or `visit` returns false. Blank lines are skipped.
///
/// # Errors
/// The input cannot be read.
pub fn for_each_line(input: impl Read, visit: impl FnMut(InputLine) -> bool) -> io::Result<()> {
    each_up_to(LINE_BYTES_MAX, input, visit)
}

fn each_up_to(
    line_bytes_max: usize,
    mut input: impl Read,
    mut visit: impl FnMut(InputLine) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut current_line = LineBuffer { bytes: Vec::new(), is_too_long: false, bytes_max: line_bytes_max };
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..length];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            current_line.add(&rest[..end]);
            rest = &rest[end + 1..];
            if current_line.take().is_some_and(|line| !visit(line)) {
                return Ok(());
            }
        }
        current_line.add(rest);
    }
    // The last line may have no line break.
    if let Some(line) = current_line.take() {
        visit(line);
    }
    Ok(())
}

/// The bytes of an incomplete line.
struct LineBuffer {
    bytes: Vec<u8>,
    is_too_long: bool,
    bytes_max: usize,
}

impl LineBuffer {
    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.bytes.len() + bytes.len() > self.bytes_max {
            self.is_too_long = true;
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(BEGINNING_BYTES)]);
            self.bytes.truncate(BEGINNING_BYTES);
            self.bytes.shrink_to_fit();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns the complete line, and starts the next one. Returns `None` for a blank line.
    fn take(&mut self) -> Option<InputLine> {
        let bytes = std::mem::take(&mut self.bytes);
        if std::mem::take(&mut self.is_too_long) {
            return Some(InputLine::TooLong(bytes.into()));
        }
        (!bytes.trim_ascii().is_empty()).then(|| InputLine::Whole(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that returns `chunk_size` bytes at a time.
    struct Chunks<'a> {
        rest: &'a [u8],
        chunk_size: usize,
    }

    impl Read for Chunks<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.chunk_size.min(self.rest.len());
            buffer[..length].copy_from_slice(&self.rest[..length]);
            self.rest = &self.rest[length..];
            Ok(length)
        }
    }

    fn read(input: &[u8], chunk_size: usize) -> Vec<InputLine> {
        let mut lines = Vec::new();
        each_up_to(8, Chunks { rest: input, chunk_size }, |line| {
            lines.push(line);
            true
        })
        .unwrap();
        lines
    }

    fn whole(line: &'static str) -> InputLine {
        InputLine::Whole(Bytes::from_static(line.as_bytes()))
    }

    #[test]
    fn chunk_size_does_not_change_lines() {
        for chunk_size in 1..20 {
            let lines = read(b"one\n\n \t\r\n12345678\ntwo", chunk_size);
            assert_eq!(lines, [whole("one"), whole("12345678"), whole("two")], "{chunk_size}");
        }
    }

    #[test]
    fn too_long_line_does_not_affect_others() {
        for chunk_size in 1..20 {
            let lines = read(b"one\n123456789 and more\ntwo\n", chunk_size);
            assert!(matches!(lines.as_slice(), [_, InputLine::TooLong(_), _]), "{lines:?}");
            assert_eq!((&lines[0], &lines[2]), (&whole("one"), &whole("two")), "{chunk_size}");
        }
        assert!(matches!(read(b"123456789", 3).as_slice(), [InputLine::TooLong(_)]));
    }

    #[test]
    fn reading_stops_when_visit_returns_false() {
        let mut visits = 0;
        each_up_to(8, &b"1\n2\n3\n"[..], |_| {
            visits += 1;
            visits < 2
        })
        .unwrap();
        assert_eq!(visits, 2);
    }
}
