//! A classifier for blocks of bytes. It finds the classes of many bytes of a text at a time. Nearly all text of a
//! transcript passes through it, so it is compiled for several levels of the processor. A function that gets the level
//! must be `#[inline(always)]`. Otherwise it would be compiled for the lowest level.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, u8x64};

pub(crate) const BLOCK_BYTES: usize = 64;

/// The classes of the bytes in a block, one bit per byte. The lowest bit is for the first byte. Each byte has one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByteClasses {
    pub(crate) lower: u64,
    pub(crate) upper: u64,
    pub(crate) digit: u64,
    /// Spaces and tabs.
    pub(crate) space: u64,
    pub(crate) line_break: u64,
    pub(crate) non_ascii: u64,
    /// All other bytes: punctuation and control characters.
    pub(crate) punctuation: u64,
    /// The backslashes of tabs in a JSON string. They are also in `space`.
    pub(crate) tab_backslash: u64,
}

/// Returns a mask of the bytes in a block that equal `byte`.
#[inline(always)]
pub(crate) fn positions<S: Simd>(simd: S, bytes: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    u8x64::simd_from(simd, *bytes).simd_eq(byte).to_bitmask()
}

/// Returns an incomplete block, filled with zeros.
pub(crate) fn padded(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

impl ByteClasses {
    #[inline(always)]
    pub(crate) fn new<S: Simd>(simd: S, bytes: &[u8; BLOCK_BYTES]) -> Self {
        let bytes = u8x64::simd_from(simd, *bytes);
        let letter = ((bytes | 0x20) - b'a').simd_le(b'z' - b'a').to_bitmask();
        // Capital letters lack this bit.
        let lower_case = (bytes & 0x20).simd_eq(0x20).to_bitmask();
        let digit = (bytes - b'0').simd_le(9).to_bitmask();
        let space = (bytes.simd_eq(b' ') | bytes.simd_eq(b'\t')).to_bitmask();
        let line_break = (bytes.simd_eq(b'\n') | bytes.simd_eq(b'\r')).to_bitmask();
        let non_ascii = bytes.simd_ge(0x80).to_bitmask();
        Self {
            lower: letter & lower_case,
            upper: letter & !lower_case,
            digit,
            space,
            line_break,
            non_ascii,
            punctuation: !(letter | digit | space | line_break | non_ascii),
            tab_backslash: 0,
        }
    }

    /// Classifies an incomplete block. Missing bytes have no class.
    #[inline(always)]
    pub(crate) fn of_rest<S: Simd>(simd: S, rest: &[u8]) -> Self {
        let mut classes = Self::new(simd, &padded(rest));
        classes.punctuation &= (1 << rest.len()) - 1;
        classes
    }
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};

    use super::*;

    /// Returns the classes by the best level of this processor, after a comparison with the lowest level.
    fn classes(text: &[u8; BLOCK_BYTES]) -> ByteClasses {
        let [best, lowest] = [Level::new(), Level::baseline()]
            .map(|level| dispatch!(level, simd => ByteClasses::new(simd, text)));
        assert_eq!(best, lowest);
        best
    }

    fn classes_of_rest(rest: &[u8]) -> ByteClasses {
        dispatch!(Level::new(), simd => ByteClasses::of_rest(simd, rest))
    }

    #[track_caller]
    fn check(byte: u8, index: usize) {
        let mut text = [b' '; BLOCK_BYTES];
        text[index] = byte;
        let classes = classes(&text);
        let mask = |is_in_class: bool| u64::from(is_in_class) << index;
        let expected = ByteClasses {
            lower: mask(byte.is_ascii_lowercase()),
            upper: mask(byte.is_ascii_uppercase()),
            digit: mask(byte.is_ascii_digit()),
            space: !mask(!matches!(byte, b' ' | b'\t')),
            line_break: mask(matches!(byte, b'\n' | b'\r')),
            non_ascii: mask(!byte.is_ascii()),
            punctuation: mask(
                byte.is_ascii_punctuation()
                    || (byte.is_ascii_control() && !byte.is_ascii_whitespace())
                    || byte == 0x0C,
            ),
            tab_backslash: 0,
        };
        assert_eq!(classes, expected, "{byte} at {index}");
    }

    #[test]
    fn classifies_every_byte_at_every_position() {
        for byte in 0..=u8::MAX {
            for index in 0..BLOCK_BYTES {
                check(byte, index);
            }
        }
    }

    #[test]
    fn missing_bytes_have_no_class() {
        let expected = ByteClasses { lower: 1, punctuation: 2, ..ByteClasses::default() };
        assert_eq!(classes_of_rest(b"a!"), expected);
        assert_eq!(classes_of_rest(b""), ByteClasses::default());
    }
}
