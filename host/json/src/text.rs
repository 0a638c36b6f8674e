//! The texts of JSON strings.

use std::borrow::Cow;

/// Returns the text of a JSON string that a scanner has checked.
pub fn unquote(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    // Cannot fail: the scanner accepted it.
    if !has_escapes(inner) {
        return Cow::Borrowed(simdutf8::basic::from_utf8(inner).unwrap_or_default());
    }
    let repaired = || serde_json::from_slice(&crate::repaired(raw)).unwrap_or_default();
    Cow::Owned(serde_json::from_slice::<String>(raw).unwrap_or_else(|_| repaired()))
}

/// Avoids `memchr` for short strings: the many names, ids, and times.
fn has_escapes(inner: &[u8]) -> bool {
    match inner.len() {
        ..64 => inner.iter().fold(false, |found, byte| found | (*byte == b'\\')),
        _ => memchr::memchr(b'\\', inner).is_some(),
    }
}

/// Same as [`unquote`], but without the UTF-8 check. For keys and ids, which are many and only compared.
pub fn unquote_bytes(raw: &[u8]) -> Cow<'_, [u8]> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if has_escapes(inner) {
        return Cow::Owned(unquote(raw).into_owned().into_bytes());
    }
    Cow::Borrowed(inner)
}

/// Same as [`unquote_bytes`], if the scanner reported whether the key has escapes.
#[inline]
pub fn unquote_key(raw: &[u8], has_escapes: bool) -> Cow<'_, [u8]> {
    if has_escapes { unquote_bytes(raw) } else { Cow::Borrowed(&raw[1..raw.len() - 1]) }
}
