//! The measurement of arguments directly from their bytes, without parsing them into a value.

use super::Measure;
use crate::text;
use jp_compact_json::{Malformed, Scanner};
use jp_compact_tokens::PieceCounts;

/// The maximum number of keys per object that are compared with each other.
const KEYS_MAX: usize = 32;

/// Measures every key and value of an object, with base64 decoded if `is_encoded`. `None` for any other value, and if
/// the result could depend on the parser: on its choice between duplicate keys, or on its format for numbers.
pub(super) fn measure(raw: &[u8], is_encoded: bool, buffer: &mut Vec<u8>) -> Option<Measure> {
    if raw.first() != Some(&b'{') {
        return None;
    }
    let mut arguments = Arguments {
        raw,
        is_encoded,
        buffer,
        keys: Vec::new(),
        sum: Measure::default(),
        is_independent_of_parser: true,
    };
    arguments.add_value(&mut Scanner::at_byte(raw, 0)).ok()?;
    arguments.is_independent_of_parser.then_some(arguments.sum)
}

struct Arguments<'a> {
    raw: &'a [u8],
    is_encoded: bool,
    buffer: &'a mut Vec<u8>,
    /// The keys of the objects around the current value.
    keys: Vec<&'a [u8]>,
    sum: Measure,
    is_independent_of_parser: bool,
}

impl Arguments<'_> {
    fn add_value(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Malformed> {
        match scanner.peek() {
            Some(b'{') => {
                let first_key = self.keys.len();
                scanner.object(0, |scanner, key| {
                    let (key, keys) = (key.slice(self.raw), &self.keys[first_key..]);
                    self.is_independent_of_parser &=
                        keys.len() < KEYS_MAX && !key.contains(&b'\\') && !keys.contains(&key);
                    self.keys.push(key);
                    self.add(PieceCounts::of_json_string(key).unwrap_or_default());
                    match self.is_independent_of_parser {
                        true => self.add_value(scanner),
                        false => scanner.value(0).map(drop),
                    }
                })?;
                self.keys.truncate(first_key);
                Ok(())
            }
            Some(b'[') => scanner.array(0, |scanner| self.add_value(scanner)),
            _ => {
                let value = scanner.value(0)?.slice(self.raw);
                match value {
                    b"null" => {}
                    [b'"', ..] if self.is_encoded => {
                        let count = |text: &str| PieceCounts::of_text(text.as_bytes());
                        let pieces = text::with_stored(value, self.buffer, count);
                        self.add(pieces);
                    }
                    [b'"', ..] => self.add(PieceCounts::of_json_string(value).unwrap_or_default()),
                    b"true" | b"false" => self.add(PieceCounts::of_text(value)),
                    number => {
                        self.is_independent_of_parser &= is_canonical(number);
                        self.add(PieceCounts::of_text(number));
                    }
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, pieces: PieceCounts) {
        self.sum = self.sum + pieces.into() + Measure::ARGUMENT;
    }
}

/// Returns whether a number is an integer that `serde_json` formats the same way.
fn is_canonical(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.len() < 19 && digits.iter().all(u8::is_ascii_digit) && number != b"-0"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimator, for_each_argument};

    type Sums = (u64, u64);

    /// Returns the weight and bytes of arguments, measured from their bytes and from a parsed value.
    fn both(raw: &str, is_encoded: bool) -> (Option<Sums>, Sums) {
        let (value, mut parsed) = (serde_json::from_str(raw).unwrap(), Measure::default());
        let mut add = |text: &str| parsed = parsed + Estimator::Pieces.measure(text) + Measure::ARGUMENT;
        for_each_argument(&value, &mut |text, is_key| match is_key || !is_encoded {
            true => add(text),
            false => text::with_decoded(text, &mut Vec::new(), &mut add),
        });
        let sums = |measure: Measure| (measure.content, measure.bytes);
        (measure(raw.as_bytes(), is_encoded, &mut Vec::new()).map(sums), sums(parsed))
    }

    #[track_caller]
    fn check(raw: &str) {
        for is_encoded in [true, false] {
            let (unparsed, parsed) = both(raw, is_encoded);
            assert_eq!(unparsed, Some(parsed), "{raw}");
        }
    }

    #[track_caller]
    fn check_needs_parser(raw: &str) {
        assert_eq!(both(raw, true).0, None, "{raw}");
    }

    #[test]
    fn raw_arguments_measure_like_parsed_ones() {
        check("{}");
        check(r#"{"path":"ZjAucnM=","start":12,"end":-3,"all":true,"none":null,"big":999999999999999999}"#);
        check(
            r#"{"patterns":[{"old":"w6k=","new":"plain"},{"old":"","new":"a b"}],"x":[[],{},[1,[false]]]}"#,
        );
        check(r#"{"a":"line\n","b":"w6\u006b=","c":[true,null,"\"\u00e9\""]}"#);
        check("{\"a\":\"caf\u{e9} \u{1F600}\",\"caf\u{e9}\":{\"a\":0}}");
    }

    #[test]
    fn leaves_ambiguous_arguments_to_the_parser() {
        check_needs_parser(r#"{"a":"long","a":1}"#);
        check_needs_parser(r#"{"a":1,"\u0061":1}"#);
        check_needs_parser(r#"{"a":1.50}"#);
        check_needs_parser(r#"{"a":1e3}"#);
        check_needs_parser(r#"{"a":-0}"#);
        check_needs_parser(r#"{"a":12345678901234567890}"#);
        let keys: Vec<_> = (0..=KEYS_MAX).map(|key| format!("\"{key}\":0")).collect();
        check(&format!("{{{}}}", keys[..KEYS_MAX].join(",")));
        check_needs_parser(&format!("{{{}}}", keys.join(",")));
    }
}
