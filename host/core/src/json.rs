//! The one pass over a transcript's bytes: checks that they are JSON, and tells where each value lies.
//! Nothing is decoded, copied or kept. It accepts what `serde_json` reads into a `Value`, and no more (a
//! property holds the two together), so that whatever passed here can be decoded later without failing.
//! A lenient scanner, for other programs' transcripts, passes over two things more, and tells where they are.

mod string;

use crate::plain::Block;

/// How deep values may nest, the outermost counted: the limit that `serde_json`, and so JP, has.
pub(crate) const DEPTH_MAX: usize = 127;

/// Where bytes stopped being JSON, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Offset of the byte, from the start of the input.
    pub(crate) at: usize,
    /// What is wrong, as a fragment: "a control character in a string".
    pub(crate) what: &'static str,
}

/// A place in the bytes: `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes of `source` that lie here.
    #[must_use]
    pub fn of(self, source: &[u8]) -> &[u8] {
        &source[self.start..self.end]
    }

    /// How many bytes lie here.
    #[must_use]
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether nothing lies here: an optional value that is absent.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A cursor over bytes.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `serde_json` would have stopped, for a scanner that goes on there.
    odd: Option<Vec<Span>>,
    /// Whether a line break ends the input.
    is_in_line: bool,
    /// Whether the last string was written with escapes.
    has_escapes: bool,
    /// What was looked at last, and where that begins: most strings are short, and several lie in it.
    block: Block,
    block_at: usize,
}

type Scan<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    /// A cursor that stands at `at`.
    pub(crate) fn at_byte(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            odd: None,
            is_in_line: false,
            has_escapes: false,
            block: Block::default(),
            block_at: usize::MAX,
        }
    }

    /// The same, which passes over what other programs write as well: half a character that was cut in two, as an
    /// escape of its own, and a number that is larger than any of ours.
    pub(crate) fn lenient(bytes: &'a [u8], at: usize) -> Self {
        Self { odd: Some(Vec::new()), ..Self::at_byte(bytes, at) }
    }

    /// A lenient one, for which there is nothing behind the next line break.
    pub(crate) fn in_line(bytes: &'a [u8], at: usize) -> Self {
        Self { is_in_line: true, ..Self::lenient(bytes, at) }
    }

    /// Where a lenient cursor met such.
    pub(crate) fn odd(&self) -> &[Span] {
        self.odd.as_deref().unwrap_or_default()
    }

    /// Passes over what `serde_json` refuses, up to where the cursor stands.
    fn pass(&mut self, start: usize, what: &'static str) -> Scan<()> {
        let end = self.at;
        match &mut self.odd {
            Some(odd) => {
                odd.push(Span { start, end });
                Ok(())
            }
            None => Err(Malformed { at: start, what }),
        }
    }

    /// Whether the string that was passed over last is written with escapes.
    pub(crate) fn has_escapes(&self) -> bool {
        self.has_escapes
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is no white space, without taking it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\r' | b'\t' => {}
                b'\n' if !self.is_in_line => {}
                _ => return Some(byte),
            }
            self.at += 1;
        }
        None
    }

    /// Whether there is nothing more but white space.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.peek(), None | Some(b'\n'))
    }

    /// Takes `byte` if it comes next, white space skipped.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes `byte`, or says that `what` is wrong.
    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Scan<()> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn wrong(&self, what: &'static str) -> Malformed {
        let what = if self.at >= self.bytes.len() { "the input ends in the middle of a value" } else { what };
        Malformed { at: self.at, what }
    }

    /// Passes over one value that stands inside `depth` others.
    pub(crate) fn value(&mut self, depth: usize) -> Scan<Span> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => self.string()?,
            Some(b'{') => self.object(depth, |scanner, _key| scanner.value(depth + 1).map(drop))?,
            Some(b'[') => self.array(depth, |scanner| scanner.value(depth + 1).map(drop))?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return Err(self.wrong("not a JSON value")),
        }
        Ok(Span { start, end: self.at })
    }

    /// Passes over an object; `member` is called with each key's span (quotes included) and must pass over
    /// the value.
    pub(crate) fn object(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&mut Self, Span) -> Scan<()>,
    ) -> Scan<()> {
        self.deeper(depth)?;
        self.expect(b'{', "not an object")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("an object's key must be a string"));
            }
            let start = self.at;
            self.string()?;
            let key = Span { start, end: self.at };
            self.expect(b':', "expected `:` after an object's key")?;
            member(self, key)?;
            if self.ends(b'}', "expected `,` or `}` in an object")? {
                return Ok(());
            }
        }
    }

    /// Passes over an array; `item` is called before each item and must pass over it.
    pub(crate) fn array(&mut self, depth: usize, mut item: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.deeper(depth)?;
        self.expect(b'[', "not an array")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.ends(b']', "expected `,` or `]` in an array")? {
                return Ok(());
            }
        }
    }

    /// Takes what stands behind a member or an item: whether it was the last.
    #[inline]
    fn ends(&mut self, end: u8, what: &'static str) -> Scan<bool> {
        let next = self.peek();
        if next != Some(b',') && next != Some(end) {
            return Err(self.wrong(what));
        }
        self.at += 1;
        Ok(next == Some(end))
    }

    fn deeper(&self, depth: usize) -> Scan<()> {
        if depth >= DEPTH_MAX {
            return Err(self.wrong("values nest deeper than 127 levels"));
        }
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8]) -> Scan<()> {
        let rest = &self.bytes[self.at..];
        let same = rest.iter().zip(word).take_while(|(byte, letter)| byte == letter).count();
        self.at += same;
        if same == word.len() { Ok(()) } else { Err(self.wrong("not a JSON value")) }
    }

    fn digits(&mut self) -> Scan<usize> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wrong("a number lacks a digit"));
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Scan<()> {
        let start = self.at;
        self.at += usize::from(self.bytes[self.at] == b'-');
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.digits()?;
        if leading_zero && whole > 1 {
            return Err(Malformed { at: start, what: "a number begins with a zero" });
        }
        let mut plain = whole < 19;
        if self.bytes.get(self.at) == Some(&b'.') {
            plain = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            plain = false;
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        let fits = plain
            || std::str::from_utf8(&self.bytes[start..self.at])
                .ok()
                .and_then(|text| text.parse::<f64>().ok())
                .is_some_and(f64::is_finite);
        if fits { Ok(()) } else { self.pass(start, "a number out of range") }
    }
}

/// A value that a lenient scanner passed over, as `serde_json` reads it: what stands for half a character, and the largest
/// number that there is.
pub(crate) fn mended(raw: &[u8]) -> Vec<u8> {
    let mut scanner = Scanner::lenient(raw, 0);
    let _ = scanner.value(0);
    let (mut mended, mut at) = (Vec::with_capacity(raw.len()), 0);
    for span in scanner.odd() {
        let fresh: &[u8] = match span.of(raw) {
            [b'\\', ..] => b"\\ufffd",
            [b'-', ..] => b"-1.7976931348623157e308",
            _ => b"1.7976931348623157e308",
        };
        mended.extend_from_slice(&raw[at..span.start]);
        mended.extend_from_slice(fresh);
        at = span.end;
    }
    mended.extend_from_slice(&raw[at..]);
    mended
}

#[cfg(test)]
mod tests;
