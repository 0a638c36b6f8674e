//! How far a JSON string goes on without anything to stop at. Nearly all bytes of a transcript are passed over
//! here, so it looks at many of them at once. Whether they are UTF-8 it does not say.

/// How much is looked at in one step, of long texts: the compiler makes vector code of the loop over it.
const BLOCK_BYTES: usize = 64;

/// How many bytes come before the first quote, backslash or control character, and whether they are ASCII.
pub(crate) fn plain(text: &[u8]) -> (usize, bool) {
    let (mut at, mut high) = (0, 0);
    while let Some(block) = text.get(at..at + BLOCK_BYTES) {
        // With this bit turned, a quote comes right behind the control characters; what is not ASCII is negative.
        let special = block
            .iter()
            .fold(false, |special, byte| special | ((byte ^ 2).cast_signed() <= 0x20) | (*byte == b'\\'));
        if special {
            for eight in block.as_chunks::<8>().0 {
                let eight = u64::from_le_bytes(*eight);
                let stops = stops_in(eight);
                if stops != 0 {
                    // The bits below the first stop are those of the bytes before it.
                    high |= eight & (stops ^ (stops - 1)) & HIGHS;
                    return (at + stops.trailing_zeros() as usize / 8, high == 0);
                }
                high |= eight & HIGHS;
                at += 8;
            }
        } else {
            at += BLOCK_BYTES;
        }
    }
    let rest = &text[at..];
    let length =
        rest.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
    (at + length, high == 0 && rest[..length].is_ascii())
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// The high bit of each byte that is a quote, a backslash or a control character. Bits above the first may be
/// wrong, for a borrow runs upwards.
fn stops_in(word: u64) -> u64 {
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5C)) | control) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &[u8]) {
        let stops = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
        let length = text.iter().position(stops).unwrap_or(text.len());
        assert_eq!(plain(text), (length, text[..length].is_ascii()), "{text:?}");
    }

    #[test]
    fn every_byte_stops_or_passes_wherever_it_stands_in_a_long_text() {
        for byte in 0..=u8::MAX {
            for place in 0..150 {
                let mut text = [b'a'; 150];
                text[place] = byte;
                check(&text);
            }
        }
    }

    proptest! {
        #[test]
        fn a_long_text_is_plain_up_to_the_first_byte_that_is_not(
            text in prop::collection::vec(prop_oneof![200 => 0x20..=0x7Eu8, 2 => any::<u8>()], 0..400),
        ) {
            check(&text);
        }
    }
}
