//! The counts of pieces. They are computed from bit masks of whole blocks, not byte by byte.

use fearless_simd::{Level, Simd, dispatch};

use crate::byte_classes::{BLOCK_BYTES, ByteClasses};
use crate::json_string::{self, EscapedBlocks};
use crate::weights::PIECE_WEIGHTS;

/// The maximum number of digits in a token.
const GROUP_DIGITS: u32 = 3;

/// The pieces of a text, and its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PieceCounts {
    /// Runs of letters that do not follow punctuation. A tokenizer joins a word and the character before it. A capital
    /// letter after a small one starts a word.
    pub words: u64,
    /// Letters after the tenth of a word.
    pub long_letters: u64,
    /// Groups of up to three digits.
    pub digit_groups: u64,
    pub punctuation_runs: u64,
    pub line_breaks: u64,
    /// Runs of two or more spaces or tabs.
    pub space_runs: u64,
    pub non_ascii_bytes: u64,
    /// The length in UTF-8.
    pub bytes: u64,
}

impl PieceCounts {
    /// Counts the pieces of a text.
    #[must_use]
    pub fn of_text(text: &[u8]) -> Self {
        dispatch!(Level::new(), simd => count_text(simd, text))
    }

    /// Counts the pieces of the text of a JSON string, which must be valid and have quotes. The text is not allocated.
    /// `None` if it is not a string.
    #[must_use]
    pub fn of_json_string(raw: &[u8]) -> Option<Self> {
        let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let pieces = dispatch!(Level::new(), simd => count_escaped(simd, inner));
        Some(pieces.unwrap_or_else(|| {
            let mut counter = PieceCounter::default();
            json_string::for_each_chunk(inner, |chunk| counter.push_chunk(chunk));
            counter.pieces
        }))
    }

    /// Returns the counts, in the order of the weights.
    #[must_use]
    pub fn counts(self) -> [u64; 7] {
        [
            self.words,
            self.long_letters,
            self.digit_groups,
            self.punctuation_runs,
            self.line_breaks,
            self.space_runs,
            self.non_ascii_bytes,
        ]
    }

    /// Returns the weight, in thousandths of a token.
    #[must_use]
    pub fn weight(self) -> u64 {
        self.counts().iter().zip(PIECE_WEIGHTS).map(|(count, weight)| count * weight).sum()
    }
}

#[inline(always)]
fn count_text<S: Simd>(simd: S, text: &[u8]) -> PieceCounts {
    let mut counter = PieceCounter::default();
    counter.push(simd, text);
    counter.pieces
}

/// Counts the pieces of the text of a JSON string. `None` if it has a Unicode escape.
#[inline(always)]
fn count_escaped<S: Simd>(simd: S, inner: &[u8]) -> Option<PieceCounts> {
    let mut counter = PieceCounter::default();
    counter.push_escaped(simd, inner).then_some(counter.pieces)
}

/// A counter that reads a text in chunks. All chunks but the last must be a multiple of a block.
#[derive(Debug, Default)]
struct PieceCounter {
    pieces: PieceCounts,
    /// The classes of the previous block.
    previous: ByteClasses,
    /// The letters of the previous block that continue a word.
    previous_continued: LetterRuns,
    /// The number of digits of the incomplete group at the end of the previous block.
    open_digits: u32,
}

impl PieceCounter {
    fn push_chunk(&mut self, text: &[u8]) {
        dispatch!(Level::new(), simd => self.push(simd, text));
    }

    #[inline(always)]
    fn push<S: Simd>(&mut self, simd: S, text: &[u8]) {
        self.pieces.bytes += text.len() as u64;
        let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.add(ByteClasses::new(simd, block));
        }
        if !rest.is_empty() {
            self.add(ByteClasses::of_rest(simd, rest));
        }
    }

    /// Reads the text of a JSON string without decoding it. Returns `false` if it has a Unicode escape, such as `\u00e9`.
    /// The counts are then incomplete.
    #[inline(always)]
    fn push_escaped<S: Simd>(&mut self, simd: S, inner: &[u8]) -> bool {
        let mut blocks = EscapedBlocks::default();
        let (whole, rest) = inner.as_chunks::<BLOCK_BYTES>();
        for (index, block) in whole.iter().enumerate() {
            let next = inner.get((index + 1) * BLOCK_BYTES).copied();
            let Some(classes) = blocks.classes(simd, block, next) else { return false };
            self.add(classes);
        }
        // The last block is incomplete, and may be empty: a run of spaces ends in it.
        let Some(classes) = blocks.classes_of_rest(simd, rest) else { return false };
        self.add(classes);
        self.pieces.bytes += inner.len() as u64 - blocks.escapes;
        true
    }

    #[inline(always)]
    fn add(&mut self, block: ByteClasses) {
        let (previous, pieces) = (self.previous, &mut self.pieces);
        let (letter, previous_letter) = (block.lower | block.upper, previous.lower | previous.upper);
        let follows_letter = shifted(letter, previous_letter, 1);
        let follows_lower = shifted(block.lower, previous.lower, 1);
        let follows_punctuation = shifted(block.punctuation, previous.punctuation, 1);
        let start = letter & (!follows_letter | (block.upper & follows_lower));
        let continued = LetterRuns::new(letter & !start, self.previous_continued);
        let follows_space = shifted(block.space, previous.space, 1);
        let second_space = block.space & follows_space & !shifted(block.space, previous.space, 2);
        let count = |mask: u64| u64::from(mask.count_ones());
        pieces.words += count(start & !follows_punctuation);
        pieces.long_letters += count(continued.ten_letters);
        pieces.punctuation_runs += count(block.punctuation & !follows_punctuation);
        pieces.line_breaks += count(block.line_break);
        pieces.space_runs += count(second_space);
        pieces.non_ascii_bytes += count(block.non_ascii);
        if block.tab_backslash | previous.tab_backslash != 0 {
            // A tab without other spaces around it has two bytes, but is not a run.
            let follows_tab = follows_space & shifted(block.tab_backslash, previous.tab_backslash, 2);
            let is_single = follows_tab & !block.space & !shifted(block.space, previous.space, 3);
            pieces.space_runs -= count(is_single);
        }
        self.pieces.digit_groups += self.digit_groups(block.digit);
        (self.previous, self.previous_continued) = (block, continued);
    }

    /// Returns the number of groups of digits that begin in a block.
    #[inline(always)]
    fn digit_groups(&mut self, digits: u64) -> u64 {
        let (mut rest, mut groups, mut open) = (digits, 0, self.open_digits);
        self.open_digits = 0;
        while rest != 0 {
            let start = rest.trailing_zeros();
            let run = (rest >> start).trailing_ones();
            if start > 0 {
                open = 0;
            }
            let group_digits = open + run;
            groups += u64::from(group_digits.div_ceil(GROUP_DIGITS) - open.div_ceil(GROUP_DIGITS));
            if start + run == u64::BITS {
                self.open_digits = group_digits % GROUP_DIGITS;
                break;
            }
            rest &= u64::MAX << (start + run);
        }
        groups
    }
}

/// The letters that continue a word, and the letters that end a run of two or four of these.
#[derive(Debug, Clone, Copy, Default)]
struct LetterRuns {
    one: u64,
    two: u64,
    four: u64,
    /// The letters after the tenth of a word: each of them and each of the nine letters before it continues a word.
    ten_letters: u64,
}

impl LetterRuns {
    #[inline(always)]
    fn new(one: u64, previous: Self) -> Self {
        let two = one & shifted(one, previous.one, 1);
        let four = two & shifted(two, previous.two, 2);
        let eight = four & shifted(four, previous.four, 4);
        Self { one, two, four, ten_letters: eight & shifted(two, previous.two, 8) }
    }
}

/// Shifts a mask by `bits` bytes. The first bits come from the end of the previous mask.
#[inline(always)]
fn shifted(mask: u64, previous: u64, bits: u32) -> u64 {
    (mask << bits) | (previous >> (u64::BITS - bits))
}

#[cfg(test)]
mod tests;
