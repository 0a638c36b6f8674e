//! A classifier for blocks of bytes. It finds the bytes that matter in a JSON string, many at a time. Nearly all bytes
//! of a transcript pass through it.

use wide::u8x16;

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
    #[inline]
    pub(crate) fn new(bytes: [u8; BLOCK_BYTES]) -> Self {
        let (mut quotes, mut others, mut all) = (0, 0, u8x16::ZERO);
        let chunks = bytes.as_chunks().0;
        for (chunk, bytes) in chunks.iter().enumerate() {
            let bytes = u8x16::new(*bytes);
            let equals = |byte: u8| bytes.simd_eq(u8x16::splat(byte));
            // `min` leaves a byte unchanged only if it is not greater.
            let is_control = bytes.min(u8x16::splat(0x1F)).simd_eq(bytes);
            quotes |= u64::from(equals(b'"').to_bitmask()) << (16 * chunk);
            others |= u64::from((equals(b'\\') | is_control).to_bitmask()) << (16 * chunk);
            all |= bytes;
        }
        let mut non_ascii = 0;
        // Most blocks are ASCII.
        if all.to_bitmask() != 0 {
            for (chunk, bytes) in chunks.iter().enumerate() {
                non_ascii |= u64::from(u8x16::new(*bytes).to_bitmask()) << (16 * chunk);
            }
        }
        Self { quotes, others, non_ascii }
    }

    /// Classifies an incomplete block. Missing bytes count as control characters.
    pub(crate) fn of_rest(rest: &[u8]) -> Self {
        let mut bytes = [0; BLOCK_BYTES];
        for (byte, source) in bytes.iter_mut().zip(rest) {
            *byte = *source;
        }
        Self::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &[u8]) {
        let mask = |matches: fn(u8) -> bool| {
            text.iter().enumerate().fold(0, |mask, (index, byte)| mask | (u64::from(matches(*byte)) << index))
        };
        let quotes = mask(|byte| byte == b'"');
        let others = mask(|byte| byte < 0x20 || byte == b'\\');
        let missing = u64::MAX.checked_shl(u32::try_from(text.len()).unwrap()).unwrap_or(0);
        let block = Block::of_rest(text);
        let non_ascii = mask(|byte| byte >= 0x80);
        let masks = |block: Block| (block.quotes, block.others, block.non_ascii);
        assert_eq!(masks(block), (quotes, others | missing, non_ascii), "{text:?}");
        if let Ok(whole) = text.try_into() {
            assert_eq!(masks(Block::new(whole)), (quotes, others, non_ascii), "{text:?}");
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
