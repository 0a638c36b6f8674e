//! Measures arguments directly from their bytes, without parsing them into a value.

use super::Measure;
use crate::event::Kind;
use crate::text;
use jp_compact_json::{Malformed, Scanner};

/// The maximum number of keys per object that are compared with each other.
const KEYS_MAX: usize = 32;

/// Measures every key and value, with base64 decoded. `None` if the result depends on the parser, which selects one of
/// duplicate keys and formats numbers.
pub(super) fn measure(raw: &[u8], kind: Kind, buffer: &mut Vec<u8>) -> Option<Measure> {
    let mut arguments =
        Arguments { raw, kind, buffer, keys: Vec::new(), sum: Measure::default(), is_exact: true };
    arguments.add_value(&mut Scanner::at_byte(raw, 0)).ok()?;
    arguments.is_exact.then_some(arguments.sum)
}

struct Arguments<'a> {
    raw: &'a [u8],
    kind: Kind,
    buffer: &'a mut Vec<u8>,
    /// The keys of the objects around the current value.
    keys: Vec<&'a [u8]>,
    sum: Measure,
    /// Whether the sum does not depend on the parser.
    is_exact: bool,
}

impl Arguments<'_> {
    fn add_value(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Malformed> {
        match scanner.peek() {
            Some(b'{') => {
                let first_key = self.keys.len();
                scanner.object(0, |scanner, key| {
                    let (key, keys) = (key.slice(self.raw), &self.keys[first_key..]);
                    self.is_exact &= keys.len() < KEYS_MAX && !key.contains(&b'\\') && !keys.contains(&key);
                    self.keys.push(key);
                    self.add(text::quoted_length(key));
                    if self.is_exact { self.add_value(scanner) } else { scanner.value(0).map(drop) }
                })?;
                self.keys.truncate(first_key);
                Ok(())
            }
            Some(b'[') => scanner.array(0, |scanner| self.add_value(scanner)),
            _ => {
                let value = scanner.value(0)?.slice(self.raw);
                match value {
                    b"null" => {}
                    [b'"', ..] => {
                        let length = text::stored_length(value, self.buffer);
                        self.add(length);
                    }
                    b"true" | b"false" => self.add(Some(text::Length::of_ascii(value))),
                    number => self.add(is_canonical(number).then(|| text::Length::of_ascii(number))),
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, length: Option<text::Length>) {
        match length {
            Some(length) => self.sum = self.sum + Measure::new(self.kind, length),
            None => self.is_exact = false,
        }
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
    use crate::estimate::{Estimator, measure_strings};

    /// Returns the weight and bytes of arguments, measured from their bytes and from a parsed value.
    fn both(raw: &str) -> (Option<(u64, u64)>, (u64, u64)) {
        let measure_text = |text: &str| Estimator::Characters.measure(Kind::ToolRequest, text);
        let value = serde_json::from_str(raw).unwrap();
        let parsed = measure_strings(&value, &mut |text, is_key| match is_key {
            true => measure_text(text),
            false => text::with_decoded(text, &mut Vec::new(), measure_text),
        });
        let unparsed = measure(raw.as_bytes(), Kind::ToolRequest, &mut Vec::new());
        (unparsed.map(|measure| (measure.weight, measure.bytes)), (parsed.weight, parsed.bytes))
    }

    #[track_caller]
    fn check(raw: &str) {
        let (unparsed, parsed) = both(raw);
        assert_eq!(unparsed, Some(parsed), "{raw}");
    }

    #[track_caller]
    fn check_needs_parser(raw: &str) {
        assert_eq!(both(raw).0, None, "{raw}");
    }

    #[test]
    fn raw_arguments_measure_like_parsed_ones() {
        check("{}");
        check(r#"{"path":"ZjAucnM=","start":12,"end":-3,"all":true,"none":null,"big":999999999999999999}"#);
        check(
            r#"{"patterns":[{"old":"w6k=","new":"plain"},{"old":"","new":"a b"}],"x":[[],{},[1,[false]]]}"#,
        );
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
        check_needs_parser(r#"{"a":"line\n"}"#);
        let keys: Vec<_> = (0..=KEYS_MAX).map(|key| format!("\"{key}\":0")).collect();
        check(&format!("{{{}}}", keys[..KEYS_MAX].join(",")));
        check_needs_parser(&format!("{{{}}}", keys.join(",")));
    }
}
