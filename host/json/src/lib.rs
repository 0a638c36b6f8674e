//! The scanner of a transcript's bytes. In one pass it checks that they are JSON, and finds the span of each value.
//! Nothing is decoded or copied. The scanner accepts exactly what `serde_json` reads into a `Value` (a property test
//! compares the two), so later decoding cannot fail. A lenient scanner, for transcripts of other programs, also accepts
//! two errors and records their spans.
//!
//! The interface is not stable. The crate is published because `cargo install jp-compact` needs it.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod byte_block;
mod json_index;
mod kept_spans;
mod string;
mod text;

use crate::byte_block::Block;
pub use crate::json_index::{EditSite, JsonIndex, JsonNode, MemberFilter, span_of};
pub use crate::kept_spans::KeptSpans;
pub use crate::text::{unquote, unquote_bytes, unquote_key};

/// The maximum nesting depth of values, including the outermost. `serde_json`, and therefore JP, has this limit.
pub const DEPTH_MAX: usize = 127;

/// A JSON error and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Byte offset from the start of the input.
    pub offset: usize,
    /// The error as a fragment, such as "a control character in a string".
    pub message: &'static str,
}

/// A byte range, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the bytes of `source` at this span.
    #[must_use]
    #[inline]
    pub fn slice(self, source: &[u8]) -> &[u8] {
        &source[self.start..self.end]
    }

    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Returns whether the span is empty. An absent optional value has an empty span.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The value of `block_start` until a block is loaded. It is more than a block away from any offset, even if the
/// subtraction wraps.
const NO_BLOCK: usize = usize::MAX / 2;

pub struct Scanner<'a> {
    bytes: &'a [u8],
    /// The cursor: the offset of the next byte.
    at: usize,
    /// Lenient scanners only: the spans that `serde_json` would reject.
    lenient_spans: Option<Vec<Span>>,
    ends_at_line_break: bool,
    /// Whether the last string has escapes.
    has_escapes: bool,
    /// The last block that was classified. Most strings are short, so a block holds several.
    block: Block,
    block_start: usize,
}

type Scan<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    /// Creates a strict scanner that starts at `at`.
    pub fn at_byte(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            lenient_spans: None,
            ends_at_line_break: false,
            has_escapes: false,
            block: Block::default(),
            block_start: NO_BLOCK,
        }
    }

    /// Creates a scanner that also accepts two errors of other programs: an escaped half of a surrogate pair, and a
    /// number out of the range of `f64`.
    pub fn lenient(bytes: &'a [u8], at: usize) -> Self {
        Self { lenient_spans: Some(Vec::new()), ..Self::at_byte(bytes, at) }
    }

    /// Creates a lenient scanner that treats the next line break as the end of the input.
    pub fn in_line(bytes: &'a [u8], at: usize) -> Self {
        Self { ends_at_line_break: true, ..Self::lenient(bytes, at) }
    }

    /// Returns the spans that only a lenient scanner accepts.
    pub fn lenient_spans(&self) -> &[Span] {
        self.lenient_spans.as_deref().unwrap_or_default()
    }

    /// Handles the bytes from `start` to the cursor, which `serde_json` rejects. A lenient scanner records their span.
    fn accept_if_lenient(&mut self, start: usize, error: &'static str) -> Scan<()> {
        let end = self.at;
        match &mut self.lenient_spans {
            Some(lenient_spans) => {
                lenient_spans.push(Span { start, end });
                Ok(())
            }
            None => Err(Malformed { offset: start, message: error }),
        }
    }

    /// Returns whether the last string has escapes.
    #[inline]
    pub fn has_escapes(&self) -> bool {
        self.has_escapes
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Skips white space, and returns the next byte without taking it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte > b' ' => Some(byte),
            _ => self.peek_after_space(),
        }
    }

    #[inline(never)]
    fn peek_after_space(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\r' | b'\t' => {}
                b'\n' if !self.ends_at_line_break => {
                    // The indentation of the next line.
                    if let Some(next) = self.bytes[self.at + 1..].first_chunk() {
                        self.at += leading_spaces(*next);
                    }
                }
                byte => return Some(byte),
            }
            self.at += 1;
        }
    }

    /// Returns whether only white space is left.
    #[inline]
    pub fn has_ended(&mut self) -> bool {
        matches!(self.peek(), None | Some(b'\n'))
    }

    /// Takes `byte` if it is next after white space.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes `byte` if it is next after white space. Otherwise fails with `message`.
    #[inline]
    pub fn expect(&mut self, byte: u8, message: &'static str) -> Scan<()> {
        if self.take(byte) { Ok(()) } else { Err(self.error_at_cursor(message)) }
    }

    #[cold]
    fn error_at_cursor(&self, message: &'static str) -> Malformed {
        let is_end = self.at >= self.bytes.len();
        let message = if is_end { "the input ends in the middle of a value" } else { message };
        Malformed { offset: self.at, message }
    }

    /// Skips one value at nesting depth `depth`.
    #[inline]
    pub fn value(&mut self, depth: usize) -> Scan<Span> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => self.string()?,
            Some(b'{' | b'[') => self.container(depth)?,
            _ => self.scalar(first)?,
        }
        Ok(Span { start, end: self.at })
    }

    /// Skips an object or an array.
    fn container(&mut self, depth: usize) -> Scan<()> {
        let (start, lenient_count) = (self.at, self.lenient_spans().len());
        if self.well_formed_container(depth) {
            return Ok(());
        }
        // Skipped again from its start, to find the error and its position.
        self.at = start;
        self.lenient_spans.iter_mut().for_each(|spans| spans.truncate(lenient_count));
        self.nested_value(depth)
    }

    /// Skips a value like [`Self::value`]. Each level of nesting is a call.
    fn nested_value(&mut self, depth: usize) -> Scan<()> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(depth, |scanner, _key| scanner.nested_value(depth + 1)),
            Some(b'[') => self.array(depth, |scanner| scanner.nested_value(depth + 1)),
            first => self.scalar(first),
        }
    }

    /// Skips an object or an array in one loop. Returns `false` if it is malformed or nests too deeply. The cursor is
    /// then somewhere inside.
    fn well_formed_container(&mut self, depth: usize) -> bool {
        // The open objects and arrays, one bit each, 1 for an object. The lowest bit is for the innermost.
        const { assert!(DEPTH_MAX < 128) };
        let (mut kinds, mut open): (u128, usize) = (0, depth);
        loop {
            match self.peek() {
                Some(b'"') => {
                    if self.string().is_err() {
                        return false;
                    }
                }
                Some(first @ (b'{' | b'[')) => {
                    if open >= DEPTH_MAX {
                        return false;
                    }
                    self.at += 1;
                    // In ASCII, the closing bracket is two after the opening bracket.
                    if !self.take(first + 2) {
                        let is_object = first == b'{';
                        (kinds, open) = (kinds << 1 | u128::from(is_object), open + 1);
                        if is_object && !self.key() {
                            return false;
                        }
                        continue;
                    }
                }
                first => {
                    if self.scalar(first).is_err() {
                        return false;
                    }
                }
            }
            loop {
                if open == depth {
                    return true;
                }
                let is_object = kinds & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if is_object && !self.key() {
                            return false;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {}
                    Some(b']') if !is_object => {}
                    _ => return false,
                }
                self.at += 1;
                (kinds, open) = (kinds >> 1, open - 1);
            }
        }
    }

    /// Skips a key and its colon. Returns `false` if there is none.
    #[inline]
    fn key(&mut self) -> bool {
        self.peek() == Some(b'"') && self.string().is_ok() && self.take(b':')
    }

    /// Skips a literal or a number that begins with `first`.
    #[inline(never)]
    fn scalar(&mut self, first: Option<u8>) -> Scan<()> {
        match first {
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.error_at_cursor("not a JSON value")),
        }
    }

    /// Skips an object. `member` gets each key's span, including its quotes, and must skip the value.
    #[inline]
    pub fn object(&mut self, depth: usize, mut member: impl FnMut(&mut Self, Span) -> Scan<()>) -> Scan<()> {
        self.check_depth(depth)?;
        self.expect(b'{', "not an object")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error_at_cursor("an object's key must be a string"));
            }
            let start = self.at;
            self.string()?;
            let key = Span { start, end: self.at };
            self.expect(b':', "expected `:` after an object's key")?;
            member(self, key)?;
            if self.take_separator(b'}', "expected `,` or `}` in an object")? {
                return Ok(());
            }
        }
    }

    /// Skips an array. `item` is called at the start of each item, and must skip it.
    #[inline]
    pub fn array(&mut self, depth: usize, mut item: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.check_depth(depth)?;
        self.expect(b'[', "not an array")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take_separator(b']', "expected `,` or `]` in an array")? {
                return Ok(());
            }
        }
    }

    /// Takes the comma or the closing bracket after a member or an item. Returns whether it was the bracket.
    #[inline]
    fn take_separator(&mut self, bracket: u8, message: &'static str) -> Scan<bool> {
        let next = self.peek();
        if next != Some(b',') && next != Some(bracket) {
            return Err(self.error_at_cursor(message));
        }
        self.at += 1;
        Ok(next == Some(bracket))
    }

    fn check_depth(&self, depth: usize) -> Scan<()> {
        if depth >= DEPTH_MAX {
            return Err(self.error_at_cursor("values nest deeper than 127 levels"));
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8]) -> Scan<()> {
        let rest = &self.bytes[self.at..];
        let matching = rest.iter().zip(word).take_while(|(byte, letter)| byte == letter).count();
        self.at += matching;
        if matching == word.len() { Ok(()) } else { Err(self.error_at_cursor("not a JSON value")) }
    }

    fn digits(&mut self) -> Scan<usize> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error_at_cursor("a number lacks a digit"));
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Scan<()> {
        let start = self.at;
        self.at += usize::from(self.bytes[self.at] == b'-');
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let integer_digits = self.digits()?;
        if leading_zero && integer_digits > 1 {
            return Err(Malformed { offset: start, message: "a number begins with a zero" });
        }
        let mut is_short_integer = integer_digits < 19;
        if self.bytes.get(self.at) == Some(&b'.') {
            is_short_integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            is_short_integer = false;
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        let fits = is_short_integer
            || std::str::from_utf8(&self.bytes[start..self.at])
                .ok()
                .and_then(|text| text.parse::<f64>().ok())
                .is_some_and(f64::is_finite);
        if fits { Ok(()) } else { self.accept_if_lenient(start, "a number out of range") }
    }
}

/// Returns the number of spaces before the first other byte.
#[inline]
fn leading_spaces(bytes: [u8; 8]) -> usize {
    let others = u64::from_le_bytes(bytes) ^ u64::from_le_bytes([b' '; 8]);
    others.trailing_zeros() as usize / 8
}

/// Returns a copy that `serde_json` can read. Replaces half a surrogate pair with U+FFFD, and a number out of range
/// with the largest `f64`.
pub fn repaired(raw: &[u8]) -> Vec<u8> {
    let mut scanner = Scanner::lenient(raw, 0);
    let _ = scanner.value(0);
    let (mut repaired, mut copied_end) = (Vec::with_capacity(raw.len()), 0);
    for span in scanner.lenient_spans() {
        let replacement: &[u8] = match span.slice(raw) {
            [b'\\', ..] => b"\\ufffd",
            [b'-', ..] => b"-1.7976931348623157e308",
            _ => b"1.7976931348623157e308",
        };
        repaired.extend_from_slice(&raw[copied_end..span.start]);
        repaired.extend_from_slice(replacement);
        copied_end = span.end;
    }
    repaired.extend_from_slice(&raw[copied_end..]);
    repaired
}

#[cfg(test)]
mod tests;
