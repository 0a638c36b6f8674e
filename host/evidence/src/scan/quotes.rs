//! Quotes: every run of 8 consecutive words (`[a-z0-9_./-]+` of the lower-cased text).

use std::ops::Range;

use super::{AnchorHash, fnv, mix};

/// The number of words of a quote.
const WORDS: usize = 8;
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
const SEED: u64 = 0x5851_f42d_4c95_7f2d;

/// Calls `found` with the hash and the position of each quote.
pub(crate) fn for_each_quote(text: &str, mut found: impl FnMut(AnchorHash, Range<usize>)) {
    // The factor of the word that leaves the window.
    let oldest_factor = (0..WORDS).fold(1_u64, |factor, _| factor.wrapping_mul(BASE));
    let mut window = [(0_u64, 0_usize); WORDS];
    let (mut sum, mut count) = (0_u64, 0_usize);
    for_each_word(text, |word, span| {
        let slot = count % WORDS;
        let (oldest, _) = window[slot];
        sum = sum.wrapping_mul(BASE).wrapping_add(word);
        if count >= WORDS {
            sum = sum.wrapping_sub(oldest.wrapping_mul(oldest_factor));
        }
        window[slot] = (word, span.start);
        count += 1;
        if count >= WORDS {
            let (_, start) = window[count % WORDS];
            found(mix(sum), start..span.end);
        }
    });
}

/// Calls `found` with the hash and the position of each word of the lower-cased text.
fn for_each_word(text: &str, mut found: impl FnMut(u64, Range<usize>)) {
    let bytes = text.as_bytes();
    let (mut at, mut start, mut hash, mut is_word) = (0, 0, SEED, false);
    while at < bytes.len() {
        let (letter, length) = lower_letter(&bytes[at..]);
        if let Some(letter) = letter {
            if !is_word {
                (start, hash, is_word) = (at, SEED, true);
            }
            hash = fnv(hash, &[letter]);
        } else if is_word {
            found(mix(hash), start..at);
            is_word = false;
        }
        // The lower case of this letter has a combining mark after the `i`, which ends the word.
        let ends_word = length == 2 && letter.is_some();
        at += length;
        if ends_word {
            found(mix(hash), start..at);
            is_word = false;
        }
    }
    if is_word {
        found(mix(hash), start..bytes.len());
    }
}

/// Returns the lower-case letter of a word at the start of `bytes`, if there is one, and the number of bytes to skip. Two
/// letters outside of ASCII have a lower case in ASCII: the Kelvin sign, and the dotted capital `I`.
fn lower_letter(bytes: &[u8]) -> (Option<u8>, usize) {
    match bytes {
        [byte @ (b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'/' | b'-'), ..] => (Some(*byte), 1),
        [byte @ b'A'..=b'Z', ..] => (Some(byte.to_ascii_lowercase()), 1),
        [0xE2, 0x84, 0xAA, ..] => (Some(b'k'), 3),
        [0xC4, 0xB0, ..] => (Some(b'i'), 2),
        _ => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotes(text: &str) -> Vec<(AnchorHash, &str)> {
        let mut quotes = Vec::new();
        for_each_quote(text, |hash, span| quotes.push((hash, &text[span])));
        quotes
    }

    #[test]
    fn quotes_are_runs_of_eight_words() {
        let text = "One two, three four (five six) seven eight. nine!";
        let found: Vec<_> = quotes(text).into_iter().map(|(_, text)| text).collect();
        let first = "One two, three four (five six) seven eight.";
        assert_eq!(found, [first, "two, three four (five six) seven eight. nine"]);
        assert!(quotes("one two three four five six seven").is_empty());
    }

    #[test]
    fn hash_depends_on_words_and_their_order_only() {
        let hash = |text| quotes(text)[0].0;
        let text = "a b c d e f g h";
        assert_eq!(hash(text), hash("A, B\nC  d (E) f; g h"));
        assert_eq!(hash(text), quotes("x y a b c d e f g h")[2].0, "the window forgets older words");
        assert_ne!(hash(text), hash("b a c d e f g h"));
        assert_ne!(hash(text), hash("a b c d e f g h."));
    }

    #[test]
    fn words_are_those_of_the_lower_cased_text() {
        for text in [
            "\u{212a}elvin \u{130}x na\u{ef}ve",
            "a\u{e9}b",
            "\u{130}",
            "x\u{130}\u{130}y",
            "\u{212a}",
            "A.b/C-d_9",
        ] {
            let lower = text.to_lowercase();
            let is_letter = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '.' | '/' | '-');
            let expected: Vec<u64> = lower
                .split(|c| !is_letter(c))
                .filter(|word| !word.is_empty())
                .map(|word| mix(fnv(SEED, word.as_bytes())))
                .collect();
            let mut words = Vec::new();
            for_each_word(text, |hash, _| words.push(hash));
            assert_eq!(words, expected, "{text}");
        }
    }
}
