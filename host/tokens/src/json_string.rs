//! The text of a JSON string. The short escapes, such as `\n`, are classified without decoding them. Strings with Unicode
//! escapes are decoded into a buffer on the stack, so that a text of any length needs no memory.

use fearless_simd::Simd;

use crate::byte_classes::{BLOCK_BYTES, ByteClasses, padded, positions};

/// The blocks of a JSON string. The bytes of an escape get the class of the decoded character, so that pieces keep
/// their neighbors: an escaped quote is one run of punctuation. The backslash of an escaped line break has no class.
#[derive(Debug, Default)]
pub(crate) struct EscapedBlocks {
    /// 1 if the previous block ends in the backslash of an escape.
    first_is_escaped: u64,
    pub(crate) escapes: u64,
}

impl EscapedBlocks {
    /// Classifies a block. `next` is the byte after it. `None` if it has a Unicode escape.
    #[inline(always)]
    pub(crate) fn classes<S: Simd>(
        &mut self,
        simd: S,
        bytes: &[u8; BLOCK_BYTES],
        next: Option<u8>,
    ) -> Option<ByteClasses> {
        self.with_escapes(simd, ByteClasses::new(simd, bytes), bytes, next)
    }

    /// Classifies the incomplete block at the end. Missing bytes have no class.
    #[inline(always)]
    pub(crate) fn classes_of_rest<S: Simd>(&mut self, simd: S, rest: &[u8]) -> Option<ByteClasses> {
        self.with_escapes(simd, ByteClasses::of_rest(simd, rest), &padded(rest), None)
    }

    #[inline(always)]
    fn with_escapes<S: Simd>(
        &mut self,
        simd: S,
        mut classes: ByteClasses,
        bytes: &[u8; BLOCK_BYTES],
        next: Option<u8>,
    ) -> Option<ByteClasses> {
        let backslashes = positions(simd, bytes, b'\\');
        if backslashes | self.first_is_escaped == 0 {
            return Some(classes);
        }
        let (escaped, starts_escape) = self.escapes(backslashes);
        let letters = escaped & classes.lower;
        let mut line_breaks = letters & positions(simd, bytes, b'n');
        let (mut line_break_backslash, mut tabs, mut tab_backslash) = (line_breaks >> 1, 0, 0);
        // Most escaped letters are line breaks.
        if letters != line_breaks {
            if letters & positions(simd, bytes, b'u') != 0 {
                return None;
            }
            line_breaks |= letters & positions(simd, bytes, b'r');
            tabs = letters & positions(simd, bytes, b't');
            (line_break_backslash, tab_backslash) = (line_breaks >> 1, tabs >> 1);
        }
        if starts_escape >> 63 == 1 {
            match next {
                Some(b'u') => return None,
                Some(b'n' | b'r') => line_break_backslash |= 1 << 63,
                Some(b't') => tab_backslash |= 1 << 63,
                _ => {}
            }
        }
        classes.lower &= !escaped;
        classes.line_break |= line_breaks;
        classes.space |= tabs | tab_backslash;
        classes.punctuation |= escaped;
        classes.punctuation &= !(line_breaks | line_break_backslash | tabs | tab_backslash);
        classes.tab_backslash = tab_backslash;
        self.escapes += u64::from(escaped.count_ones());
        Some(classes)
    }

    /// Returns the bytes after the backslash of an escape, and these backslashes. In a run of backslashes, every second
    /// backslash is escaped. A subtraction is faster than a loop, because its borrow crosses the whole run, as in
    /// simdjson.
    #[inline(always)]
    fn escapes(&mut self, backslashes: u64) -> (u64, u64) {
        const ODD_BITS: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        let first_is_escaped = self.first_is_escaped;
        let may_start = backslashes & !first_is_escaped;
        let starts_and_ends = ((may_start << 1) | ODD_BITS).wrapping_sub(may_start) ^ ODD_BITS;
        let (escaped, starts) =
            (starts_and_ends ^ (backslashes | first_is_escaped), starts_and_ends & backslashes);
        self.first_is_escaped = starts >> 63;
        (escaped, starts)
    }
}

/// The size of the buffer.
const CHUNK_BYTES: usize = 16 * BLOCK_BYTES;

/// Calls `read` with the decoded text of a JSON string without its quotes. All chunks but the last are a multiple of a
/// block. Half a surrogate pair becomes U+FFFD.
pub(crate) fn for_each_chunk(inner: &[u8], mut read: impl FnMut(&[u8])) {
    let Some(first_escape) = memchr::memchr(b'\\', inner) else { return read(inner) };
    let unescaped = first_escape / BLOCK_BYTES * BLOCK_BYTES;
    if unescaped > 0 {
        read(&inner[..unescaped]);
    }
    let mut chunk = Chunk { bytes: [0; CHUNK_BYTES], len: 0, read };
    let mut rest = &inner[unescaped..];
    while let Some(at) = memchr::memchr(b'\\', rest) {
        chunk.push(&rest[..at]);
        let (character, length) = escape(&rest[at..]);
        chunk.push(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = rest.get(at + length..).unwrap_or_default();
    }
    chunk.push(rest);
    (chunk.read)(&chunk.bytes[..chunk.len]);
}

struct Chunk<R> {
    bytes: [u8; CHUNK_BYTES],
    len: usize,
    read: R,
}

impl<R: FnMut(&[u8])> Chunk<R> {
    fn push(&mut self, mut text: &[u8]) {
        while text.len() > CHUNK_BYTES - self.len {
            let (head, tail) = text.split_at(CHUNK_BYTES - self.len);
            self.bytes[self.len..].copy_from_slice(head);
            (self.read)(&self.bytes);
            (self.len, text) = (0, tail);
        }
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }
}

/// Returns the character of the escape at the start of `raw`, and the length of the escape.
fn escape(raw: &[u8]) -> (char, usize) {
    let character = match raw.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode_escape(raw),
        Some(byte) => char::from(*byte),
        None => '\\',
    };
    (character, 2)
}

/// Returns the character of an escape such as `\u00e9`, or of two escapes that are a surrogate pair.
fn unicode_escape(raw: &[u8]) -> (char, usize) {
    const HIGH: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
    const LOW: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;
    let first = hex(raw.get(2..6));
    let second = raw.get(6..8).filter(|next| *next == b"\\u").map(|_| hex(raw.get(8..12)));
    if let Some(second) = second.filter(|second| HIGH.contains(&first) && LOW.contains(second)) {
        let code = 0x10000 + ((first - HIGH.start()) << 10) + (second - LOW.start());
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// Returns the value of hexadecimal digits. For invalid digits, returns half a surrogate pair, which is not a
/// character.
fn hex(digits: Option<&[u8]>) -> u32 {
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xD800)
}
