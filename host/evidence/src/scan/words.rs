//! Numbers, identifiers, and words. Except for the fraction of a number, their expressions match whole runs of word
//! characters, so a text is split into runs once, and each run is classified:
//!
//! - number: `[0-9]{3,}(?:\.[0-9]+)?`, with neither `\w` nor `.` before it, and without `\w` after it
//! - identifier: `\b(?:[a-z]+_[a-z0-9_]{3,}|[a-z]+[A-Z]\w{3,}|[A-Z][a-z]+[A-Z]\w{2,})\b`
//! - word: `\b[a-z]{7,}\b`

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::class::Class;

/// A run of word characters, as in Python: letters and numbers of any language, and `_`. Combining marks do not count.
static RUN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]+").expect("the expression is constant"));

pub(super) fn for_each_name(text: &str, mut found: impl FnMut(Class, Range<usize>)) {
    let bytes = text.as_bytes();
    // The end of the last number's fraction.
    let mut fraction_end = 0;
    for run in RUN.find_iter(text) {
        let span = run.range();
        let run = &bytes[span.clone()];
        if run[0].is_ascii_digit() {
            if span.start < fraction_end || !is_digits(run) {
                continue;
            }
            let follows_dot = span.start > 0 && bytes[span.start - 1] == b'.';
            if run.len() >= 3 && !follows_dot {
                let end = fraction(text, span.end).unwrap_or(span.end);
                fraction_end = end;
                found(Class::Number, span.start..end);
            }
        } else if is_identifier(&text[span.clone()]) {
            found(Class::Identifier, span);
        } else if run.len() >= 7 && run.iter().all(u8::is_ascii_lowercase) {
            found(Class::Word, span);
        }
    }
}

fn is_digits(run: &[u8]) -> bool {
    run.iter().all(u8::is_ascii_digit)
}

/// Returns the end of a fraction (`.` and digits) at `start`, if no word character follows it.
fn fraction(text: &str, start: usize) -> Option<usize> {
    let digits = text[start..].strip_prefix('.')?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let next = digits[length..].chars().next();
    let continues = next.is_some_and(|next| RUN.is_match(next.encode_utf8(&mut [0; 4])));
    (length > 0 && !continues).then_some(start + 1 + length)
}

fn is_identifier(run: &str) -> bool {
    let bytes = run.as_bytes();
    let lower = bytes.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let rest = &bytes[lower..];
    if lower > 0 {
        return match rest.first() {
            // `[a-z]+_[a-z0-9_]{3,}`
            Some(b'_') => {
                let is_allowed =
                    |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
                rest.len() > 3 && rest[1..].iter().all(is_allowed)
            }
            // `[a-z]+[A-Z]\w{3,}`
            Some(byte) if byte.is_ascii_uppercase() => run[lower + 1..].chars().take(3).count() == 3,
            _ => false,
        };
    }
    // `[A-Z][a-z]+[A-Z]\w{2,}`
    let Some((first, rest)) = bytes.split_first() else { return false };
    let lower = rest.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    first.is_ascii_uppercase()
        && lower > 0
        && rest.get(lower).is_some_and(u8::is_ascii_uppercase)
        && run[lower + 2..].chars().take(2).count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, class: Class, expected: &[&str]) {
        let mut names = Vec::new();
        for_each_name(text, |found_class, span| {
            if found_class == class {
                names.push(&text[span]);
            }
        });
        assert_eq!(names, expected, "{text}");
    }

    #[test]
    fn numbers_have_at_least_three_digits_and_no_adjacent_word_characters() {
        let check = |text, expected| check(text, Class::Number, expected);
        check("12 123 1234", &["123", "1234"]);
        check("port 8080, took 123.45 s.", &["8080", "123.45"]);
        check("123.", &["123"]);
        check("x123 123x _123 123_ \u{e9}123", &[]);
        check(".123 1.234 0.123", &[]);
        check("1234.5a", &["1234"]);
        check("1234.56a", &["1234"]);
        check("1234.567.890", &["1234.567"]);
        check("1.2.345", &[]);
        check("-404- $500", &["404", "500"]);
        // Digits of other languages are word characters, but not digits.
        check("\u{663}\u{664}\u{665} 123\u{663}", &[]);
        check("123.\u{663}", &["123"]);
        check("192.168.100.200", &["192.168"]);
    }

    #[test]
    fn identifiers_are_whole_runs() {
        let check = |text, expected| check(text, Class::Identifier, expected);
        check("read_file x_ab a_b_c snake_Case", &["read_file", "a_b_c"]);
        check("getUser aB aBcd aBcde", &["getUser", "aBcde"]);
        check("HashMap HaM HaMap Ham HTTPServer", &["HashMap", "HaMap"]);
        check("self.read_file(my_var_1)", &["read_file", "my_var_1"]);
        check("2read_file read_file\u{e9} getUs\u{e9}r", &["getUs\u{e9}r"]);
        check("_read_file __init__", &[]);
    }

    #[test]
    fn words_are_lower_case_and_long() {
        let check = |text, expected| check(text, Class::Word, expected);
        check("elephant Elephant elephants1 seven eleven7 sevenths", &["elephant", "sevenths"]);
        check("caf\u{e9}teria don't-retrieve", &["retrieve"]);
    }
}
