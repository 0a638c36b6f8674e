//! Text as JP stores it: a JSON string, some of them in base64 (JP-STREAM, "On disk"). Decoding is best
//! effort, string by string: what is no base64, or decodes to no UTF-8, is taken literally.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// The text of a JSON string that the index has checked, quotes and escapes undone.
pub(crate) fn unquote(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    // The scanner let it through, so it can be read; an empty text stands for what it never returns.
    if memchr::memchr(b'\\', inner).is_none() {
        return Cow::Borrowed(std::str::from_utf8(inner).unwrap_or_default());
    }
    Cow::Owned(serde_json::from_slice::<String>(raw).unwrap_or_default())
}

/// The bytes of such a text. For keys: there are many, and they are only compared.
pub(crate) fn unquote_bytes(raw: &[u8]) -> Cow<'_, [u8]> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if inner.contains(&b'\\') {
        return Cow::Owned(unquote(raw).into_owned().into_bytes());
    }
    Cow::Borrowed(inner)
}

/// Undoes JP's base64 where it can.
pub(crate) fn decode(stored: &str) -> Cow<'_, str> {
    match STANDARD.decode(stored).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(stored),
    }
}

/// Stores text as JP does.
pub(crate) fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// Undoes base64 in every string value below `value`; keys are never encoded.
pub(crate) fn decode_all(value: &mut Value) {
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

/// Looks at a JSON string once it is decoded, without looking at what is base64 as text first.
pub(crate) fn with_stored<T>(raw: &[u8], buffer: &mut Vec<u8>, look: impl FnOnce(&str) -> T) -> T {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    buffer.clear();
    match STANDARD.decode_vec(inner, buffer).ok().and_then(|()| std::str::from_utf8(buffer).ok()) {
        Some(text) => look(text),
        None => with_decoded(&unquote(raw), &mut Vec::new(), look),
    }
}

/// Looks at stored text once it is decoded, into a buffer that is used again.
pub(crate) fn with_decoded<T>(stored: &str, buffer: &mut Vec<u8>, look: impl FnOnce(&str) -> T) -> T {
    buffer.clear();
    let decoded = STANDARD.decode_vec(stored, buffer).ok().and_then(|()| std::str::from_utf8(buffer).ok());
    look(decoded.unwrap_or(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stored: &str, text: &str) {
        assert_eq!(decode(stored), text);
        assert_eq!(with_decoded(stored, &mut Vec::new(), str::to_owned), text);
        assert_eq!(with_stored(&serde_json::to_vec(stored).unwrap(), &mut Vec::new(), str::to_owned), text);
    }

    #[test]
    fn decodes_what_is_base64_of_utf8_and_leaves_the_rest() {
        check("ZjAucnM=", "f0.rs");
        check("w6k=", "\u{e9}");
        check("abcd", "abcd"); // bytes that are no UTF-8
        check("AAAA", "\0\0\0");
        check("/w==", "/w==");
        check("ZjAucnM", "ZjAucnM"); // no padding
        check("plain text", "plain text");
        check("plain \"text\"\n", "plain \"text\"\n");
        check("", "");
    }

    #[test]
    fn sees_what_is_base64_behind_its_escapes() {
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
