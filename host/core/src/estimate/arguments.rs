//! Measures arguments directly from their bytes, without parsing them into a value.

use super::Measure;
use crate::event::Kind;
use crate::json::{Malformed, Scanner};
use crate::text;

/// The maximum number of keys per object that are compared with each other.
const KEYS_MAX: usize = 32;

/// Measures every key and value, with base64 decoded. `None` if only a parsed value can decide: which of two equal keys
/// counts, or how a number is formatted.
pub(super) fn measured(raw: &[u8], kind: Kind, buffer: &mut Vec<u8>) -> Option<Measure> {
    let mut arguments =
        Arguments { raw, kind, buffer, keys: Vec::new(), sum: Measure::default(), is_plain: true };
    arguments.value(&mut Scanner::at_byte(raw, 0)).ok()?;
    arguments.is_plain.then_some(arguments.sum)
}

struct Arguments<'a> {
    raw: &'a [u8],
    kind: Kind,
    buffer: &'a mut Vec<u8>,
    /// The keys of the open objects.
    keys: Vec<&'a [u8]>,
    sum: Measure,
    is_plain: bool,
}

impl Arguments<'_> {
    fn value(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Malformed> {
        match scanner.peek() {
            Some(b'{') => {
                let outer = self.keys.len();
                scanner.object(0, |scanner, key| {
                    let (key, keys) = (key.slice(self.raw), &self.keys[outer..]);
                    self.is_plain &= keys.len() < KEYS_MAX && !key.contains(&b'\\') && !keys.contains(&key);
                    self.keys.push(key);
                    self.add(text::quoted_length(key));
                    if self.is_plain { self.value(scanner) } else { scanner.value(0).map(drop) }
                })?;
                self.keys.truncate(outer);
                Ok(())
            }
            Some(b'[') => scanner.array(0, |scanner| self.value(scanner)),
            _ => {
                let value = scanner.value(0)?.slice(self.raw);
                match value {
                    b"null" => {}
                    [b'"', ..] => {
                        let length = text::stored_length(value, self.buffer);
                        self.add(length);
                    }
                    b"true" | b"false" => self.add(Some(text::Length::of_ascii(value))),
                    number => self.add(is_plain(number).then(|| text::Length::of_ascii(number))),
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, length: Option<text::Length>) {
        match length {
            Some(length) => self.sum = self.sum + Measure::new(self.kind, length),
            None => self.is_plain = false,
        }
    }
}

/// Returns whether a number is an integer that `serde_json` formats the same way.
fn is_plain(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.len() < 19 && digits.iter().all(u8::is_ascii_digit) && number != b"-0"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimator, strings};

    /// Measures arguments from their bytes, and from a parsed value.
    fn both(raw: &str) -> (Option<(u64, u64)>, (u64, u64)) {
        let measure = |text: &str| Estimator::Characters.measure(Kind::ToolRequest, text);
        let value = serde_json::from_str(raw).unwrap();
        let by_value = strings(&value, &mut |text, is_key| match is_key {
            true => measure(text),
            false => text::with_decoded(text, &mut Vec::new(), measure),
        });
        let here = measured(raw.as_bytes(), Kind::ToolRequest, &mut Vec::new());
        (here.map(|here| (here.weight, here.bytes)), (by_value.weight, by_value.bytes))
    }

    #[track_caller]
    fn check(raw: &str) {
        let (here, by_value) = both(raw);
        assert_eq!(here, Some(by_value), "{raw}");
    }

    #[track_caller]
    fn check_left(raw: &str) {
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
        check_left(r#"{"a":"long","a":1}"#);
        check_left(r#"{"a":1,"\u0061":1}"#);
        check_left(r#"{"a":1.50}"#);
        check_left(r#"{"a":1e3}"#);
        check_left(r#"{"a":-0}"#);
        check_left(r#"{"a":12345678901234567890}"#);
        check_left(r#"{"a":"line\n"}"#);
        let keys: Vec<_> = (0..=KEYS_MAX).map(|key| format!("\"{key}\":0")).collect();
        check(&format!("{{{}}}", keys[..KEYS_MAX].join(",")));
        check_left(&format!("{{{}}}", keys.join(",")));
    }
}
