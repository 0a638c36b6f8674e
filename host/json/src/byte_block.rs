//! A classifier for blocks of bytes. It finds the bytes that matter in a JSON string, many at a time. Nearly all bytes
//! of a transcript pass through it, so it is compiled for several levels of the processor. A function that gets the level
//! must be `#[inline(always)]`. Otherwise it would be compiled for the lowest level.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, u8x32, u8x64};

pub(crate) const BLOCK_BYTES: usize = 64;

/// Classes of the bytes in a block, one bit per byte. The lowest bit is for the first byte.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub(crate) quotes: u64,
    /// Backslashes and control characters.
    pub(crate) others: u64,
    /// Non-ASCII bytes.
    pub(crate) non_ascii: u64,
}

impl Block {
    /// Classifies the first block of `rest`. Missing bytes count as control characters.
    #[inline(always)]
    pub(crate) fn new<S: Simd>(simd: S, rest: &[u8]) -> Self {
        let (bytes, present) = match rest.first_chunk() {
            Some(whole) => (u8x64::simd_from(simd, *whole), u64::MAX),
            None => (u8x64::simd_from(simd, padded(rest)), (1 << rest.len()) - 1),
        };
        Self {
            quotes: bytes.simd_eq(b'"').to_bitmask() & present,
            others: bytes.simd_eq(b'\\').to_bitmask() | bytes.simd_lt(0x20).to_bitmask() | !present,
            non_ascii: bytes.simd_ge(0x80).to_bitmask() & present,
        }
    }
}

/// Returns the bits of the escapes of two characters that are complete and valid, such as `\n`. Only the bytes in `mask` are
/// considered, and the first of them is not escaped. There is no branch for each escape, because most blocks of code have
/// some, at positions that the processor cannot predict.
#[inline(always)]
pub(crate) fn short_escapes<S: Simd>(simd: S, bytes: &[u8; BLOCK_BYTES], mask: u64) -> u64 {
    const ODD_BITS: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let (mut backslashes, mut ends) = (0, 0);
    for (half, bytes) in bytes.chunks_exact(BLOCK_BYTES / 2).enumerate() {
        let bytes = u8x32::from_slice(simd, bytes);
        let backslash = bytes.simd_eq(b'\\');
        let end = [b'"', b'/', b'b', b'f', b'n', b'r', b't']
            .into_iter()
            .fold(backslash, |end, letter| end | bytes.simd_eq(letter));
        backslashes |= backslash.to_bitmask() << (32 * half);
        ends |= end.to_bitmask() << (32 * half);
    }
    // In a run of backslashes, every second one is escaped. The subtraction finds where each run ends, and the odd bits show
    // whether its length is even.
    let backslashes = backslashes & mask;
    let runs = ((backslashes << 1) | ODD_BITS).wrapping_sub(backslashes) ^ ODD_BITS;
    let escaped = (runs ^ backslashes) & ends;
    escaped | (escaped >> 1)
}

/// Returns an incomplete block, filled with zeros.
#[inline(never)]
fn padded(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    fn masks(block: Block) -> (u64, u64, u64) {
        (block.quotes, block.others, block.non_ascii)
    }

    #[track_caller]
    fn check(text: &[u8]) {
        let mask = |matches: fn(u8) -> bool| {
            text.iter().enumerate().fold(0, |mask, (index, byte)| mask | (u64::from(matches(*byte)) << index))
        };
        let quotes = mask(|byte| byte == b'"');
        let others = mask(|byte| byte < 0x20 || byte == b'\\');
        let missing = u64::MAX.checked_shl(u32::try_from(text.len()).unwrap()).unwrap_or(0);
        let non_ascii = mask(|byte| byte >= 0x80);
        for level in [Level::new(), Level::baseline()] {
            let block = dispatch!(level, simd => Block::new(simd, text));
            assert_eq!(masks(block), (quotes, others | missing, non_ascii), "{text:?}");
        }
    }

    #[test]
    fn classifies_every_byte_at_every_position() {
        for byte in 0..=u8::MAX {
            for index in 0..BLOCK_BYTES {
                let mut text = [b'a'; BLOCK_BYTES];
                text[index] = byte;
                check(&text);
            }
        }
    }

    proptest! {
        #[test]
        fn classifies_any_bytes(text in prop::collection::vec(any::<u8>(), 0..=BLOCK_BYTES)) {
            check(&text);
        }
    }
}
