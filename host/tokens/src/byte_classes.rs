//! A classifier for blocks of bytes: the class of each byte of a text, many at a time. Nearly all text of a transcript
//! passes through it.

use wide::u8x16;

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
pub(crate) fn positions(bytes: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    let chunks = bytes.as_chunks().0.iter().enumerate();
    chunks.fold(0, |mask, (chunk, bytes)| {
        mask | u64::from(u8x16::new(*bytes).simd_eq(u8x16::splat(byte)).to_bitmask()) << (16 * chunk)
    })
}

/// Returns an incomplete block, filled with zeros.
pub(crate) fn padded(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

impl ByteClasses {
    #[inline]
    pub(crate) fn new(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let (mut letter, mut lower_case, mut classes) = (0, 0, Self::default());
        for (chunk, bytes) in bytes.as_chunks().0.iter().enumerate() {
            let bytes = u8x16::new(*bytes);
            let shifted = |bits: u32| u64::from(bits) << (16 * chunk);
            let equals = |byte: u8| bytes.simd_eq(u8x16::splat(byte));
            // `min` leaves a byte unchanged only if it is not greater.
            let is_at_most = |bytes: u8x16, max: u8| bytes.min(u8x16::splat(max)).simd_eq(bytes);
            let is_letter = is_at_most((bytes | u8x16::splat(0x20)) - u8x16::splat(b'a'), b'z' - b'a');
            letter |= shifted(is_letter.to_bitmask());
            // Small letters have a bit that capital letters lack. It becomes the highest bit.
            let doubled = bytes + bytes;
            lower_case |= shifted((doubled + doubled).to_bitmask());
            classes.digit |= shifted(is_at_most(bytes - u8x16::splat(b'0'), 9).to_bitmask());
            classes.space |= shifted((equals(b' ') | equals(b'\t')).to_bitmask());
            classes.line_break |= shifted((equals(b'\n') | equals(b'\r')).to_bitmask());
            classes.non_ascii |= shifted(bytes.to_bitmask());
        }
        classes.lower = letter & lower_case;
        classes.upper = letter & !lower_case;
        classes.punctuation =
            !(letter | classes.digit | classes.space | classes.line_break | classes.non_ascii);
        classes
    }

    /// Classifies an incomplete block. Missing bytes have no class.
    pub(crate) fn of_rest(rest: &[u8]) -> Self {
        let mut classes = Self::new(&padded(rest));
        classes.punctuation &= (1 << rest.len()) - 1;
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(byte: u8, index: usize) {
        let mut text = [b' '; BLOCK_BYTES];
        text[index] = byte;
        let classes = ByteClasses::new(&text);
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
        assert_eq!(ByteClasses::of_rest(b"a!"), expected);
        assert_eq!(ByteClasses::of_rest(b""), ByteClasses::default());
    }
}
