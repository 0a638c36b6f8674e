//! Text as JP stores it: JSON strings, some of them in base64 (docs/reference/store.md#on-disk). A string that is not
//! base64 of UTF-8 is taken literally.

use std::borrow::Cow;

use base64_simd::STANDARD;
use serde_json::Value;

pub use jp_compact_json::{unquote, unquote_bytes, unquote_key};

/// Returns a JSON string with canonical escapes, so that equal strings have equal bytes.
pub fn canonical(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.contains(&b'\\') {
        return Cow::Owned(Value::from(&*unquote(raw)).to_string().into_bytes());
    }
    Cow::Borrowed(raw)
}

/// Decodes a text that is base64 of UTF-8. Returns any other text unchanged.
pub fn decode(stored: &str) -> Cow<'_, str> {
    match STANDARD.decode_to_vec(stored).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(stored),
    }
}

/// Encodes text as JP does.
pub fn encode(text: &str) -> String {
    STANDARD.encode_to_string(text)
}

/// Decodes every string below `value`. Keys are never encoded.
pub fn decode_all(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(decoded) = decode(text) {
                *text = decoded;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(decode_all),
        Value::Object(members) => members.values_mut().for_each(decode_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Calls `read` with the text of a stored JSON string. Base64 is decoded directly from the raw bytes.
pub fn with_stored<T>(raw: &[u8], buffer: &mut Vec<u8>, read: impl FnOnce(&str) -> T) -> T {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    match decoded(inner, buffer) {
        Some(text) => read(text),
        None => with_decoded(&unquote(raw), &mut Vec::new(), read),
    }
}

/// Same as [`with_stored`], for a string without its JSON quotes and escapes.
pub fn with_decoded<T>(stored: &str, buffer: &mut Vec<u8>, read: impl FnOnce(&str) -> T) -> T {
    read(decoded(stored.as_bytes(), buffer).unwrap_or(stored))
}

/// Decodes base64 into `buffer`.
fn decoded<'a>(base64: &[u8], buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    buffer.clear();
    STANDARD.decode_append(base64, buffer).ok()?;
    simdutf8::basic::from_utf8(buffer).ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(stored: &str, text: &str) {
        assert_eq!(decode(stored), text);
        assert_eq!(with_decoded(stored, &mut Vec::new(), str::to_owned), text);
        let raw = serde_json::to_vec(stored).unwrap();
        assert_eq!(with_stored(&raw, &mut Vec::new(), str::to_owned), text);
    }

    #[test]
    fn decodes_base64_of_utf8_only() {
        check("ZjAucnM=", "f0.rs");
        check("w6k=", "\u{e9}");
        check("abcd", "abcd"); // not UTF-8
        check("AAAA", "\0\0\0");
        check("/w==", "/w==");
        check("ZjAucnM", "ZjAucnM"); // no padding
        check("plain text", "plain text");
        check("plain \"text\"\n", "plain \"text\"\n");
        check("", "");
    }

    proptest! {
        #[test]
        fn base64_decoder_agrees_with_reference(
            whole in "([A-Za-z0-9+/]{4}){0,40}", end in "[A-Za-z0-9+/=_ -]{0,4}", suffix in "(|[A-Za-z=]{4})",
        ) {
            let stored = format!("{whole}{end}{suffix}");
            let expected = base64::engine::general_purpose::STANDARD.decode(&stored).ok();
            prop_assert_eq!(STANDARD.decode_to_vec(&stored).ok(), expected);
        }
    }

    #[test]
    fn decodes_base64_with_json_escapes() {
        assert_eq!(with_stored(br#""w6\u006b=""#, &mut Vec::new(), str::to_owned), "\u{e9}");
    }

    #[test]
    fn unquotes_with_and_without_escapes() {
        assert_eq!(unquote(br#""plain""#), "plain");
        assert_eq!(unquote(br#""a\n\u00e9""#), "a\n\u{e9}");
        assert_eq!(*unquote_bytes(br#""plain""#), *b"plain");
        assert_eq!(*unquote_bytes(br#""typ\u0065""#), *b"type");
    }
}
