//! The counts of pieces. They are computed from bit masks of whole blocks, not byte by byte.

use crate::byte_classes::{BLOCK_BYTES, ByteClasses};
use crate::json_string;
use crate::weights::PIECE_WEIGHTS;

/// The number of letters of a word after which the others are counted.
const SHORT_WORD: u32 = 10;
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
        let mut counter = PieceCounter::default();
        counter.push(text);
        counter.pieces
    }

    /// Counts the pieces of the text of a JSON string, which must be valid and have quotes. The text is not allocated.
    /// `None` if it is not a string.
    #[must_use]
    pub fn of_json_string(raw: &[u8]) -> Option<Self> {
        let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let mut counter = PieceCounter::default();
        json_string::for_each_chunk(inner, |chunk| counter.push(chunk));
        Some(counter.pieces)
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

/// A counter that reads a text in chunks. All chunks but the last must be a multiple of a block.
#[derive(Debug, Default)]
struct PieceCounter {
    pieces: PieceCounts,
    /// The classes of the previous block.
    previous: ByteClasses,
    /// The letters of the previous block that continue a word.
    previous_continued: u64,
    /// The number of digits of the incomplete group at the end of the previous block.
    open_digits: u32,
}

impl PieceCounter {
    fn push(&mut self, text: &[u8]) {
        self.pieces.bytes += text.len() as u64;
        let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.add(ByteClasses::new(block));
        }
        if !rest.is_empty() {
            self.add(ByteClasses::of_rest(rest));
        }
    }

    fn add(&mut self, block: ByteClasses) {
        let (previous, pieces) = (self.previous, &mut self.pieces);
        let (letter, previous_letter) = (block.lower | block.upper, previous.lower | previous.upper);
        let follows_letter = shifted(letter, previous_letter, 1);
        let follows_lower = shifted(block.lower, previous.lower, 1);
        let follows_punctuation = shifted(block.punctuation, previous.punctuation, 1);
        let start = letter & (!follows_letter | (block.upper & follows_lower));
        let continued = letter & !start;
        let long = (1..SHORT_WORD)
            .fold(continued, |long, bits| long & shifted(continued, self.previous_continued, bits));
        let follows_space = shifted(block.space, previous.space, 1);
        let second_space = block.space & follows_space & !shifted(block.space, previous.space, 2);
        let count = |mask: u64| u64::from(mask.count_ones());
        pieces.words += count(start & !follows_punctuation);
        pieces.long_letters += count(long);
        pieces.punctuation_runs += count(block.punctuation & !follows_punctuation);
        pieces.line_breaks += count(block.line_break);
        pieces.space_runs += count(second_space);
        pieces.non_ascii_bytes += count(block.non_ascii);
        self.pieces.digit_groups += self.digit_groups(block.digit);
        (self.previous, self.previous_continued) = (block, continued);
    }

    /// Returns the number of groups of digits that begin in a block.
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

/// Shifts a mask by `bits` bytes. The first bits come from the end of the previous mask.
fn shifted(mask: u64, previous: u64, bits: u32) -> u64 {
    (mask << bits) | (previous >> (u64::BITS - bits))
}

#[cfg(test)]
mod tests;
