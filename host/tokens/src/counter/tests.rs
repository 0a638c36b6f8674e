//! Tests of the counter. The reference implementation reads one byte after the other.

use proptest::prelude::*;

use super::*;

/// Counts by the definitions of the pieces.
fn reference(text: &str) -> PieceCounts {
    let bytes = text.as_bytes();
    let mut pieces = PieceCounts { bytes: bytes.len() as u64, ..PieceCounts::default() };
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t');
    let is_punctuation = |byte: u8| {
        byte.is_ascii() && !byte.is_ascii_alphanumeric() && !is_space(byte) && !matches!(byte, b'\n' | b'\r')
    };
    let (mut letters, mut digits) = (0, 0);
    for (index, &byte) in bytes.iter().enumerate() {
        let before = index.checked_sub(1).map_or(b'\n', |before| bytes[before]);
        let is_letter = byte.is_ascii_alphabetic();
        let starts = is_letter
            && (!before.is_ascii_alphabetic() || (byte.is_ascii_uppercase() && before.is_ascii_lowercase()));
        letters = if starts { 1 } else { (letters + 1) * u64::from(is_letter) };
        digits = (digits + 1) * u64::from(byte.is_ascii_digit());
        pieces.words += u64::from(starts && !is_punctuation(before));
        pieces.long_letters += u64::from(letters > 10);
        pieces.digit_groups += u64::from(digits % 3 == 1);
        pieces.punctuation_runs += u64::from(is_punctuation(byte) && !is_punctuation(before));
        pieces.line_breaks += u64::from(matches!(byte, b'\n' | b'\r'));
        pieces.non_ascii_bytes += u64::from(!byte.is_ascii());
        let is_second = is_space(byte) && is_space(before) && !(index > 1 && is_space(bytes[index - 2]));
        pieces.space_runs += u64::from(is_second);
    }
    pieces
}

#[track_caller]
fn check(text: &str, expected: [u64; 7]) {
    let pieces = PieceCounts::of_text(text.as_bytes());
    assert_eq!(pieces.counts(), expected, "{text}");
    assert_eq!(pieces, reference(text), "{text}");
    let raw = serde_json::to_string(text).unwrap();
    assert_eq!(PieceCounts::of_json_string(raw.as_bytes()), Some(pieces), "{raw}");
}

#[test]
fn empty_text_has_no_pieces() {
    check("", [0; 7]);
    assert_eq!(PieceCounts::default().weight(), 0);
}

#[test]
fn counts_words_by_spaces_and_capitals() {
    check("one two", [2, 0, 0, 0, 0, 0, 0]);
    check("readFile HTTPServer", [3, 0, 0, 0, 0, 0, 0]);
    check("considerations", [1, 4, 0, 0, 0, 0, 0]);
}

#[test]
fn word_after_punctuation_belongs_to_it() {
    check("snake_case", [1, 0, 0, 1, 0, 0, 0]);
    check("(\"a\")", [0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn counts_digits_in_threes() {
    check("1 12 123 1234 1234567", [0, 0, 8, 0, 0, 0, 0]);
}

#[test]
fn counts_line_breaks_and_runs_of_spaces() {
    check("a\r\n\n  b \t c d", [4, 0, 0, 0, 3, 2, 0]);
}

#[test]
fn counts_non_ascii_bytes() {
    check("h\u{e9}llo \u{1F600}", [2, 0, 0, 0, 0, 0, 6]);
}

#[test]
fn refuses_values_that_are_not_strings() {
    assert_eq!(PieceCounts::of_json_string(b"12"), None);
    assert_eq!(PieceCounts::of_json_string(b"\""), None);
}

#[test]
fn decodes_escapes_of_every_form() {
    let check = |raw: &str| {
        let text: String = serde_json::from_str(raw).unwrap();
        assert_eq!(PieceCounts::of_json_string(raw.as_bytes()), Some(reference(&text)), "{raw}");
    };
    check(r#""\"\\\/\b\f\n\r\t""#);
    check(r#""\u0041bc\u00e9\u20ac\ud83d\ude00\u000a\u001b""#);
    check(r#""\\u0041\\\\n""#);
}

#[test]
fn lone_surrogate_counts_as_replacement_character() {
    let pieces = PieceCounts::of_json_string(br#""a\ud83d b\ude00\ud83dc""#).unwrap();
    assert_eq!(pieces, reference("a\u{fffd} b\u{fffd}\u{fffd}c"));
}

#[test]
fn escaped_tab_is_a_run_only_with_other_spaces() {
    for filler in 0..140 {
        for text in ["\t", "\ta", "a\tb\t", " \t", "\t ", "\t\t", "a \t\tb", "\t\n\t", "\\t\t", "\t\"\t"] {
            let text = format!("{}{text}", "x".repeat(filler));
            let raw = serde_json::to_string(&text).unwrap();
            let pieces = PieceCounts::of_json_string(raw.as_bytes());
            assert_eq!(pieces, Some(reference(&text)), "{raw}");
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_reference(text in "([a-zA-Z0-9 \t\n._\"\\\\\u{e9}\u{20ac}\u{1F600}]{0,40}[0-9]{0,9}[a-zA-Z]{0,9} {0,3}){0,12}") {
        let expected = reference(&text);
        prop_assert_eq!(PieceCounts::of_text(text.as_bytes()), expected);
        let raw = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(PieceCounts::of_json_string(raw.as_bytes()), Some(expected));
    }

    #[test]
    fn agrees_with_the_reference_at_the_borders_of_blocks(
        filler in 0..1100_usize, byte in "[a1 .\n\t\"\\\\]", text in "[a-cnrtuA-C0-9 .\n\r\t\"\\\\\u{8}\u{c}]{0,80}",
    ) {
        let text = format!("{}{text}", byte.repeat(filler));
        let expected = reference(&text);
        prop_assert_eq!(PieceCounts::of_text(text.as_bytes()), expected);
        let raw = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(PieceCounts::of_json_string(raw.as_bytes()), Some(expected));
    }
}
