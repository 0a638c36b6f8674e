//! Reads the lines of an input. Each line is passed on as soon as it is complete, so a client can write one line and
//! wait for its answer.

use std::io::{self, Read};

use bytes::Bytes;

/// The longest line that is read completely.
pub const LINE_BYTES_MAX: usize = 128 << 20;
/// The kept beginning of a longer line.
const BEGINNING_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;

/// A line without its line break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputLine {
    Whole(Bytes),
    /// The beginning of a line above the limit.
    TooLong(Bytes),
}

/// Reads lines until the input ends or `want` returns false. Blank lines are skipped.
///
/// # Errors
/// The input cannot be read.
pub fn each(input: impl Read, want: impl FnMut(InputLine) -> bool) -> io::Result<()> {
    each_of(input, LINE_BYTES_MAX, want)
}

fn each_of(
    mut input: impl Read,
    bytes_max: usize,
    mut want: impl FnMut(InputLine) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut gathered = Gathered { bytes: Vec::new(), is_too_long: false, bytes_max };
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..length];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            gathered.add(&rest[..end]);
            rest = &rest[end + 1..];
            if gathered.take().is_some_and(|line| !want(line)) {
                return Ok(());
            }
        }
        gathered.add(rest);
    }
    // The last line may have no line break.
    if let Some(line) = gathered.take() {
        want(line);
    }
    Ok(())
}

/// The bytes of a line so far.
struct Gathered {
    bytes: Vec<u8>,
    is_too_long: bool,
    bytes_max: usize,
}

impl Gathered {
    fn add(&mut self, more: &[u8]) {
        if self.is_too_long {
            return;
        }
        if self.bytes.len() + more.len() > self.bytes_max {
            self.is_too_long = true;
            self.bytes.extend_from_slice(&more[..more.len().min(BEGINNING_BYTES)]);
            self.bytes.truncate(BEGINNING_BYTES);
            self.bytes.shrink_to_fit();
        } else {
            self.bytes.extend_from_slice(more);
        }
    }

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

    /// Reads the input `step` bytes at a time.
    fn read(input: &[u8], step: usize) -> Vec<InputLine> {
        struct Steps<'a>(&'a [u8], usize);
        impl Read for Steps<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = self.1.min(self.0.len());
                buffer[..length].copy_from_slice(&self.0[..length]);
                self.0 = &self.0[length..];
                Ok(length)
            }
        }
        let mut lines = Vec::new();
        let done = each_of(Steps(input, step), 8, |line| {
            lines.push(line);
            true
        });
        done.unwrap();
        lines
    }

    fn whole(line: &'static str) -> InputLine {
        InputLine::Whole(Bytes::from_static(line.as_bytes()))
    }

    #[test]
    fn chunk_size_does_not_change_lines() {
        for step in 1..20 {
            let lines = read(b"one\n\n \t\r\n12345678\ntwo", step);
            assert_eq!(lines, [whole("one"), whole("12345678"), whole("two")], "{step}");
        }
    }

    #[test]
    fn too_long_line_does_not_affect_others() {
        for step in 1..20 {
            let lines = read(b"one\n123456789 and more\ntwo\n", step);
            assert!(matches!(lines.as_slice(), [_, InputLine::TooLong(_), _]), "{lines:?}");
            assert_eq!((&lines[0], &lines[2]), (&whole("one"), &whole("two")), "{step}");
        }
        assert!(matches!(read(b"123456789", 3).as_slice(), [InputLine::TooLong(_)]));
    }

    #[test]
    fn reading_stops_when_want_returns_false() {
        let mut seen = 0;
        let done = each_of(&b"1\n2\n3\n"[..], 8, |_| {
            seen += 1;
            seen < 2
        });
        done.unwrap();
        assert_eq!(seen, 2);
    }
}
