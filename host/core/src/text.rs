//! Text as JP stores it: JSON strings, some of them in base64 (docs/reference/store.md#on-disk). A string that is not
//! base64 of UTF-8 is taken literally.

use std::borrow::Cow;

use base64_simd::STANDARD;
use serde_json::Value;

/// Returns the text of a JSON string that the index has checked.
pub fn unquote(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    // Cannot fail: the scanner accepted it.
    if !has_escapes(inner) {
        return Cow::Borrowed(std::str::from_utf8(inner).unwrap_or_default());
    }
    let repaired = || serde_json::from_slice(&jp_compact_json::repaired(raw)).unwrap_or_default();
    Cow::Owned(serde_json::from_slice::<String>(raw).unwrap_or_else(|_| repaired()))
}

/// Avoids `memchr` for short strings: the many names, ids, and times.
fn has_escapes(inner: &[u8]) -> bool {
    match inner.len() {
        ..64 => inner.iter().fold(false, |found, byte| found | (*byte == b'\\')),
        _ => memchr::memchr(b'\\', inner).is_some(),
    }
}

/// Same as [`unquote`], but without the UTF-8 check. For keys, which are many and only compared.
pub fn unquote_bytes(raw: &[u8]) -> Cow<'_, [u8]> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if has_escapes(inner) {
        return Cow::Owned(unquote(raw).into_owned().into_bytes());
    }
    Cow::Borrowed(inner)
}

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
    std::str::from_utf8(buffer).ok()
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Length {
    pub chars: usize,
    /// Length in UTF-8.
    pub bytes: usize,
}

impl Length {
    pub fn of_ascii(text: &[u8]) -> Self {
        Self { chars: text.len(), bytes: text.len() }
    }

    pub fn new(text: &str) -> Self {
        Self { chars: chars(text.as_bytes()), bytes: text.len() }
    }
}

/// Counts the characters that begin in these bytes of UTF-8.
fn chars(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // Blocks are small enough for a sum of `u8`, which is vectorized.
    let count = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(!matches!(byte, 0x80..=0xBF))).sum::<u8>();
    let (blocks, rest) = text.as_chunks::<128>();
    blocks.iter().map(|block| usize::from(count(block))).sum::<usize>() + usize::from(count(rest))
}

/// Returns the length of [`unquote`]'s result without making it. `None` if `raw` is not a string.
pub fn quoted_length(raw: &[u8]) -> Option<Length> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut length = Length { chars: chars(inner), bytes: inner.len() };
    let mut escape_end = 0;
    for at in memchr::memchr_iter(b'\\', inner) {
        if at < escape_end {
            continue;
        }
        let escape = &inner[at..];
        let (text_bytes, escape_bytes) = match escape.get(1)? {
            b'u' => match u16::from_str_radix(std::str::from_utf8(escape.get(2..6)?).ok()?, 16).ok()? {
                0..0x80 => (1, 6),
                0x80..0x800 => (2, 6),
                // The first half of a pair: the scanner accepts no other.
                0xD800..=0xDFFF => (4, 12),
                _ => (3, 6),
            },
            _ => (1, 2),
        };
        // An escape is ASCII, and represents one character.
        length.chars = length.chars.checked_sub(escape_bytes - 1)?;
        length.bytes = length.bytes.checked_sub(escape_bytes - text_bytes)?;
        escape_end = at + escape_bytes;
    }
    Some(length)
}

/// Returns the length of the text that [`with_stored`] passes. `None` if it is not known without decoding escapes.
pub fn stored_length(raw: &[u8], buffer: &mut Vec<u8>) -> Option<Length> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    match decoded(inner, buffer) {
        Some(text) => Some(Length::new(text)),
        None if has_escapes(inner) => None,
        None => quoted_length(raw),
    }
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
        let len = |text: &str| Length { chars: text.chars().count(), bytes: text.len() };
        assert_eq!(quoted_length(&raw), Some(len(stored)));
        assert!(stored_length(&raw, &mut Vec::new()).is_none_or(|length| length == len(text)), "{stored}");
        assert_eq!(stored_length(&raw, &mut Vec::new()).is_none(), raw.contains(&b'\\'), "{stored}");
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

    #[test]
    fn stored_length_counts_non_ascii_text() {
        let length = |text: &str| Length { chars: text.chars().count(), bytes: text.len() };
        let ascii: String = (0..0x80_u8).cycle().take(300).map(char::from).collect();
        for position in 0..ascii.len() {
            let (left, right) = ascii.split_at(position);
            for text in [
                left.to_owned(),
                format!("{left}\u{e9}{right}"),
                format!("{left}\u{1F600}\u{20ac}{right}\u{e9}"),
            ] {
                let raw = format!("\"{}\"", encode(&text));
                assert_eq!(stored_length(raw.as_bytes(), &mut Vec::new()), Some(length(&text)), "{text:?}");
            }
        }
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
    fn quoted_length_counts_unescaped_text() {
        for raw in [
            r#""""#,
            r#""\n""#,
            r#""a\n\"b""#,
            r#""\\n\\\\""#,
            r#""\u0041\u00e9\u20ac\ud83d\ude00.""#,
            "\"\u{e9}\\t\u{1F600}\u{20ac}\"",
        ] {
            let text = unquote(raw.as_bytes());
            let length = Length { chars: text.chars().count(), bytes: text.len() };
            assert_eq!(quoted_length(raw.as_bytes()), Some(length), "{raw}");
        }
        assert_eq!(quoted_length(b"null"), None);
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
