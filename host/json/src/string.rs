//! The string scanner. Most bytes of a transcript are in strings.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, u8x64};

use super::{Malformed, Scan, Scanner};
use crate::byte_block::{BLOCK_BYTES, Block, short_escapes};

/// After this many blocks without a special byte, the next blocks are searched together.
const PLAIN_BLOCKS_MIN: usize = 2;

impl Scanner<'_> {
    /// Skips a string. The cursor must be at its first quote.
    #[inline]
    pub(super) fn string(&mut self) -> Scan<()> {
        if self.ends_in_block() {
            return Ok(());
        }
        self.long_string()
    }

    /// Skips a string that is ASCII without escapes and ends in the current block, as most strings do. For any other
    /// string, returns `false` and skips nothing.
    #[inline]
    fn ends_in_block(&mut self) -> bool {
        let start = self.at + 1;
        let offset = start.wrapping_sub(self.block_start);
        if offset >= BLOCK_BYTES {
            return false;
        }
        let from_start = u64::MAX << offset;
        let quotes = self.block.quotes & from_start;
        let before_quote = quotes.wrapping_sub(1) & !quotes;
        if quotes == 0 || (self.block.others | self.block.non_ascii) & from_start & before_quote != 0 {
            return false;
        }
        self.has_escapes = false;
        self.at = self.block_start + quotes.trailing_zeros() as usize + 1;
        true
    }

    #[inline(never)]
    fn long_string(&mut self) -> Scan<()> {
        dispatch!(Level::new(), simd => self.long_string_by(simd))
    }

    #[inline(always)]
    fn long_string_by<S: Simd>(&mut self, simd: S) -> Scan<()> {
        let start = self.at + 1;
        let (mut has_escapes, mut non_ascii) = (false, 0);
        // The number of leading bytes of the block that are the end of an escape that began in the previous block.
        let (mut block_start, mut skipped) = (start, 0);
        // The number of consecutive blocks up to this block that have no special byte.
        let mut plain_blocks = 0;
        loop {
            self.load_block(simd, block_start);
            let block = self.block;
            let mask = mask_from(skipped);
            let special = (block.quotes | block.others) & mask;
            let non_ascii_in_block = block.non_ascii & mask;
            plain_blocks = if special | non_ascii_in_block == 0 { plain_blocks + 1 } else { 0 };
            skipped = 0;
            let escapes = match self.bytes.get(block_start..).and_then(|rest| rest.first_chunk()) {
                Some(bytes) if block.others & mask != 0 => short_escapes(simd, bytes, mask),
                _ => 0,
            };
            let mut stops = special & !escapes;
            while stops != 0 {
                let stop = stops.trailing_zeros() as usize;
                let bit = stops & stops.wrapping_neg();
                let at = block_start + stop;
                if block.quotes & bit != 0 {
                    non_ascii |= non_ascii_in_block & (bit - 1);
                    self.at = at + 1;
                    self.has_escapes = has_escapes || escapes & (bit - 1) != 0;
                    return if non_ascii == 0 { Ok(()) } else { self.check_utf8(start) };
                }
                match self.bytes.get(at..at + 2) {
                    Some([b'\\', next]) if IS_SHORT_ESCAPE[usize::from(*next)] => {
                        stops &= !(bit | (bit << 1));
                        skipped = usize::from(stop == BLOCK_BYTES - 1);
                    }
                    Some([b'\\', _]) => {
                        let escape_end = self.skip_long_escape(at)? - block_start;
                        stops &= mask_from(escape_end);
                        skipped = escape_end.saturating_sub(BLOCK_BYTES);
                    }
                    _ => return Err(self.stop_error(at)),
                }
                has_escapes = true;
            }
            non_ascii |= non_ascii_in_block;
            has_escapes |= escapes != 0;
            block_start += BLOCK_BYTES;
            // The string is probably long, such as Base64.
            if plain_blocks >= PLAIN_BLOCKS_MIN {
                block_start += plain_bytes(simd, self.bytes.get(block_start..).unwrap_or_default());
            }
        }
    }

    /// Returns the error for a control character in a string, or for the end of the input.
    #[cold]
    fn stop_error(&self, at: usize) -> Malformed {
        match self.bytes.get(at) {
            Some(b'\\') => Malformed { offset: at + 1, message: "the input ends inside a string" },
            Some(_) => Malformed { offset: at, message: "a control character in a string" },
            None => Malformed { offset: at, message: "the input ends inside a string" },
        }
    }

    #[inline(always)]
    fn load_block<S: Simd>(&mut self, simd: S, start: usize) {
        self.block = Block::new(simd, self.bytes.get(start..).unwrap_or_default());
        self.block_start = start;
    }

    /// Checks that the text between `start` and the quote before the cursor is UTF-8.
    fn check_utf8(&self, start: usize) -> Scan<()> {
        let text = &self.bytes[start..self.at - 1];
        if simdutf8::basic::from_utf8(text).is_ok() {
            return Ok(());
        }
        let valid_bytes = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
        Err(Malformed { offset: start + valid_bytes, message: "invalid UTF-8" })
    }

    /// Skips the escape at `start`, which has more than two characters or is invalid. Returns its end.
    #[cold]
    fn skip_long_escape(&mut self, start: usize) -> Scan<usize> {
        self.at = start;
        let error = |message| Err(Malformed { offset: start, message });
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'u') => match self.take_hex() {
                Some(0xDC00..=0xDFFF) => self.accept_if_lenient(start, "a lone surrogate in a string")?,
                Some(0xD800..=0xDBFF) => {
                    let first_half_end = self.at;
                    let is_pair = self.bytes[first_half_end..].starts_with(b"\\u") && {
                        self.at += 1;
                        matches!(self.take_hex(), Some(0xDC00..=0xDFFF))
                    };
                    if !is_pair {
                        self.at = first_half_end;
                        self.accept_if_lenient(start, "a lone surrogate in a string")?;
                    }
                }
                Some(_) => {}
                None => return error("an invalid escape in a string"),
            },
            _ => return error("an invalid escape in a string"),
        }
        Ok(self.at)
    }

    /// Takes the `u` at the cursor and the four hexadecimal digits after it.
    fn take_hex(&mut self) -> Option<u16> {
        let digits = self.bytes.get(self.at + 1..self.at + 5)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 5;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}

/// Returns the number of bytes in the blocks before the first block with a quote, a backslash, a control character, or a
/// byte outside of ASCII.
#[inline(always)]
fn plain_bytes<S: Simd>(simd: S, rest: &[u8]) -> usize {
    let blocks = rest.as_chunks::<BLOCK_BYTES>().0;
    let is_special = |block: &[u8; BLOCK_BYTES]| {
        let bytes = u8x64::simd_from(simd, *block);
        let is_outside = bytes.simd_lt(0x20) | bytes.simd_ge(0x80);
        (is_outside | bytes.simd_eq(b'"') | bytes.simd_eq(b'\\')).any_true()
    };
    BLOCK_BYTES * blocks.iter().position(is_special).unwrap_or(blocks.len())
}

/// Whether a backslash and this byte are a complete escape.
const IS_SHORT_ESCAPE: [bool; 256] = {
    let mut is_short_escape = [false; 256];
    let mut rest: &[u8] = b"\"\\/bfnrt";
    while let [byte, others @ ..] = rest {
        is_short_escape[*byte as usize] = true;
        rest = others;
    }
    is_short_escape
};

/// Returns a mask with `bit` and all higher bits.
#[inline]
fn mask_from(bit: usize) -> u64 {
    if bit < BLOCK_BYTES { u64::MAX << bit } else { 0 }
}
