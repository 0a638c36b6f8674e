//! The string scanner. Most bytes of a transcript are in strings.

use super::{Malformed, Scan, Scanner};
use crate::plain::{BLOCK_BYTES, Block};

impl Scanner<'_> {
    /// Skips a string. The cursor must be at its first quote.
    pub(super) fn string(&mut self) -> Scan<()> {
        let start = self.at + 1;
        let mut high = 0;
        self.has_escapes = false;
        // Only bytes after this position count: the start of the string, or the end of an escape from the previous
        // block.
        let known = start.checked_sub(self.block_at).filter(|passed| *passed < BLOCK_BYTES);
        let mut passed = known.unwrap_or_default();
        if known.is_none() {
            self.look_at(start);
        }
        loop {
            let begin = self.block_at;
            let mut stops = self.block.stops & from(passed);
            let text = self.block.high & from(passed);
            passed = 0;
            while stops != 0 {
                let place = stops.trailing_zeros() as usize;
                let at = begin + place;
                match self.bytes.get(at) {
                    Some(b'\\') => {
                        self.has_escapes = true;
                        let behind = match self.bytes.get(at + 1) {
                            Some(byte) if IS_ESCAPED[usize::from(*byte)] => place + 2,
                            _ => self.escape(at)? - begin,
                        };
                        stops &= from(behind);
                        passed = behind.saturating_sub(BLOCK_BYTES);
                    }
                    Some(b'"') => {
                        high |= text & !from(place);
                        self.at = at + 1;
                        return if high == 0 { Ok(()) } else { self.text(start) };
                    }
                    Some(_) => return Err(Malformed { at, what: "a control character in a string" }),
                    None => return Err(Malformed { at, what: "the input ends inside a string" }),
                }
            }
            high |= text;
            self.look_at(begin + BLOCK_BYTES);
        }
    }

    fn look_at(&mut self, at: usize) {
        let rest = self.bytes.get(at..).unwrap_or_default();
        self.block = rest.first_chunk().map_or_else(|| Block::of_rest(rest), |whole| Block::new(*whole));
        self.block_at = at;
    }

    /// Checks that the text between `start` and the quote before the cursor is UTF-8.
    fn text(&self, start: usize) -> Scan<()> {
        match std::str::from_utf8(&self.bytes[start..self.at - 1]) {
            Ok(_) => Ok(()),
            Err(error) => Err(Malformed { at: start + error.valid_up_to(), what: "invalid UTF-8" }),
        }
    }

    /// Returns the end of an escape of more than two characters.
    #[cold]
    fn escape(&mut self, start: usize) -> Scan<usize> {
        self.at = start;
        let wrong = |what| Err(Malformed { at: start, what });
        self.at += 1;
        match self.bytes.get(self.at) {
            None => return Err(Malformed { at: self.at, what: "the input ends inside a string" }),
            Some(b'u') => match self.hex() {
                Some(0xDC00..=0xDFFF) => self.pass(start, "a lone surrogate in a string")?,
                Some(0xD800..=0xDBFF) => {
                    let behind = self.at;
                    let is_pair = self.bytes[behind..].starts_with(b"\\u") && {
                        self.at += 1;
                        matches!(self.hex(), Some(0xDC00..=0xDFFF))
                    };
                    if !is_pair {
                        self.at = behind;
                        self.pass(start, "a lone surrogate in a string")?;
                    }
                }
                Some(_) => {}
                None => return wrong("an invalid escape in a string"),
            },
            Some(_) => return wrong("an invalid escape in a string"),
        }
        Ok(self.at)
    }

    /// Reads the four hexadecimal digits after the `u` at the cursor.
    fn hex(&mut self) -> Option<u16> {
        let digits = self.bytes.get(self.at + 1..self.at + 5)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 5;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// The characters that form an escape of two characters.
const IS_ESCAPED: [bool; 256] = {
    let mut is_escaped = [false; 256];
    let mut rest: &[u8] = b"\"\\/bfnrt";
    while let [byte, others @ ..] = rest {
        is_escaped[*byte as usize] = true;
        rest = others;
    }
    is_escaped
};

/// Returns a mask of the bits from `place` on.
#[inline]
fn from(place: usize) -> u64 {
    if place < BLOCK_BYTES { u64::MAX << place } else { 0 }
}
