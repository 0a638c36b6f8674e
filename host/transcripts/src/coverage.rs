//! The amount of text that a reader understood. The reader counts the text of the events that it found. The readers of
//! trees and of Codex also count events that the model no longer receives (side chains, rewound branches). Each reader
//! counts the text of records that it does not know. Known records without events (snapshots, progress, usage, system
//! prompts) are not counted.

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coverage {
    /// Bytes of text in events.
    pub(crate) understood: u64,
    /// Bytes of text in records that are unknown or cannot be reached.
    pub(crate) lost: u64,
    /// The number of those records. Unknown records without text do not count.
    pub(crate) records: u64,
}

impl Coverage {
    pub(crate) fn count_lost(&mut self, raw: &[u8]) {
        let text_len = text_len(raw);
        self.lost += text_len;
        self.records += u64::from(text_len > 0);
    }

    /// Returns the understood part in percent. Without any text it is 100.
    pub(crate) fn percent(self) -> u64 {
        (self.understood * 100).checked_div(self.understood + self.lost).unwrap_or(100)
    }
}

/// Returns the length of the text in a record, which may be cut off or not be JSON. Text is a string value with a space
/// or a non-ASCII character. Ids, times, and type names have neither.
fn text_len(raw: &[u8]) -> u64 {
    let is_text = |bytes: &[u8]| bytes.iter().any(|byte| *byte == b' ' || !byte.is_ascii());
    let raw = raw.trim_ascii();
    if !matches!(raw.first(), Some(b'{' | b'[' | b'"')) {
        return if is_text(raw) { raw.len() as u64 } else { 0 };
    }
    let (mut offset, mut text_len) = (0, 0);
    while let Some(open) = memchr::memchr(b'"', &raw[offset..]) {
        let start = offset + open + 1;
        let mut end = start;
        while let Some(stop) = memchr::memchr2(b'"', b'\\', &raw[end..]) {
            end += stop;
            if raw[end] == b'"' {
                break;
            }
            end = raw.len().min(end + 2);
        }
        if end >= raw.len() || raw[end] != b'"' {
            end = raw.len();
        }
        let string = &raw[start..end];
        let is_key = raw[raw.len().min(end + 1)..].trim_ascii_start().first() == Some(&b':');
        if !is_key && is_text(string) {
            text_len += string.len() as u64;
        }
        offset = raw.len().min(end + 1);
    }
    text_len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &str) {
        assert_eq!(text_len(raw.as_bytes()), expected.len() as u64, "{raw}");
    }

    #[test]
    fn counts_strings_with_spaces_or_non_ascii() {
        check(r#"{"id":"a1","a key":"two words","n":1}"#, "two words");
        check(r#"{"a":["ok","größe",{"b":"x y"}]}"#, "größex y");
        check(r#"{"a":"he said \"no \\"}"#, r#"he said \"no \\"#);
    }

    #[test]
    fn counts_cut_off_json_up_to_its_end() {
        check(r#"{"a":"two words"#, "two words");
        check(r#"{"a":"two words \"#, r"two words \");
        check("starting up", "starting up");
        check("\0\0", "");
        check("{", "");
    }
}
