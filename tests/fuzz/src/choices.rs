//! The part of a fuzz input that selects options, ranges, and times.

use jiff::Timestamp;

/// Bytes that select values. After the last byte, the first value is always selected.
#[derive(Debug, Clone)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Splits an input at its last NUL into the text and the choices.
    #[must_use]
    pub fn split(input: &'a [u8]) -> (&'a [u8], Self) {
        match input.iter().rposition(|byte| *byte == 0) {
            Some(end) => (&input[..end], Self(&input[end + 1..])),
            None => (input, Self(&[])),
        }
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Returns a number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()).checked_rem(end).unwrap_or_default()
    }

    /// Returns a boolean.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns one of several values.
    pub fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Returns a time in 2026, or an extreme one. Years before 0 are excluded, because no clock returns them
    /// and JP cannot read them.
    pub fn time(&mut self) -> Timestamp {
        let byte = self.byte();
        match byte {
            254 => Timestamp::UNIX_EPOCH,
            255 => Timestamp::MAX,
            // 2026-01-01T00:00:00Z.
            _ => Timestamp::constant(1_767_225_600 + 3_600 * i64::from(byte), 0),
        }
    }
}
