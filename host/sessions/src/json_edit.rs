//! The replacement of strings inside JSON. Every other byte is copied. A line that is not JSON is copied unchanged,
//! because the agents skip such lines.

use std::borrow::Cow;

use jp_compact_core::text;
use jp_compact_json::{Malformed, Scanner, Span};
use serde_json::Value;

/// The edits of a document: the members to skip, and the new text of a string.
pub(crate) struct StringEdits<'a> {
    /// Members with content of the conversation. Nothing inside them is replaced.
    pub(crate) skipped: &'a [&'a str],
    /// Receives the name of the nearest member and a string. Returns the string that replaces it.
    pub(crate) replace: &'a dyn Fn(&str, &str) -> Option<String>,
}

impl StringEdits<'_> {
    /// Returns a JSON value with its strings replaced.
    pub(crate) fn apply(&self, json: &[u8]) -> Vec<u8> {
        let mut edits = Vec::new();
        let mut scanner = Scanner::lenient(json, 0);
        if self.visit(&mut scanner, json, 0, "", &mut edits).is_err() || !scanner.has_ended() {
            return json.to_vec();
        }
        let (mut out, mut offset) = (Vec::with_capacity(json.len()), 0);
        for (span, text) in edits {
            out.extend_from_slice(&json[offset..span.start]);
            out.extend_from_slice(text.as_bytes());
            offset = span.end;
        }
        out.extend_from_slice(&json[offset..]);
        out
    }

    fn visit(
        &self,
        scanner: &mut Scanner<'_>,
        json: &[u8],
        depth: usize,
        name: &str,
        edits: &mut Vec<(Span, String)>,
    ) -> Result<(), Malformed> {
        match scanner.peek() {
            Some(b'{') => scanner.object(depth, |scanner, key| {
                let key = text::unquote(key.slice(json));
                if self.skipped.contains(&&*key) {
                    return scanner.value(depth + 1).map(drop);
                }
                self.visit(scanner, json, depth + 1, &key, edits)
            }),
            Some(b'[') => scanner.array(depth, |scanner| self.visit(scanner, json, depth + 1, name, edits)),
            Some(b'"') => {
                let span = scanner.value(depth)?;
                let value: Cow<'_, str> = text::unquote(span.slice(json));
                let new = (self.replace)(name, &value);
                edits.extend(new.map(|new| (span, Value::from(new).to_string())));
                Ok(())
            }
            _ => scanner.value(depth).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let replace = |name: &str, value: &str| (name == "id" && value == "a").then(|| "b\"".to_owned());
        let edits = StringEdits { skipped: &["message"], replace: &replace };
        assert_eq!(String::from_utf8(edits.apply(json.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn replaces_strings_of_a_member_and_of_its_lists() {
        check(r#"{"id" : "a","x":{"id":["a", "c"]}}"#, r#"{"id" : "b\"","x":{"id":["b\"", "c"]}}"#);
        check(r#"{"i\u0064":"\u0061"}"#, r#"{"i\u0064":"b\""}"#);
    }

    #[test]
    fn leaves_content_numbers_and_malformed_lines_alone() {
        check(r#"{"message":{"id":"a"},"n":1.50e3,"id":2}"#, r#"{"message":{"id":"a"},"n":1.50e3,"id":2}"#);
        check(r#"{"id":"a""#, r#"{"id":"a""#);
        check(r#"{"id":"a"} x"#, r#"{"id":"a"} x"#);
        check("starting up", "starting up");
    }
}
