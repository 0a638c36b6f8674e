//! The text of one part of a view, as a comparison shows it. The arguments of a call have one line for each member. The
//! lines of a string with line breaks follow its key, so the removed content of a file is readable.

use jp_compact_core::decode;
use jp_compact_core::event::Kind;
use jp_compact_core::stream::Stream;
use jp_compact_core::view::{Part, SUMMARY_REQUEST, note_text};
use serde_json::Value;

/// If two texts have this many characters in common at one end, the new text keeps a part of the old text.
const COMMON_CHARACTERS_MIN: usize = 16;

/// Returns the text of a view's part. An emptied call has no text.
pub(crate) fn part_text(stream: &Stream, part: &Part) -> String {
    match part {
        Part::Kept(element) | Part::Short(element) => element_text(stream, *element),
        Part::Emptied(_) | Part::SummaryStart { .. } => String::new(),
        Part::Replaced(_, text) | Part::SummaryResponse { text, .. } => text.clone(),
        Part::SummaryRequest { .. } => SUMMARY_REQUEST.to_owned(),
        Part::SummaryNote { text, .. } => note_text(text),
    }
}

fn element_text(stream: &Stream, element: usize) -> String {
    let event = &stream.events()[element];
    match event.kind {
        Kind::ChatRequest | Kind::Message | Kind::Reasoning => stream.text(event.body).into_owned(),
        Kind::ToolResponse { .. } => stream.stored_text(event.body),
        Kind::Data => stream.value(event.body).map(|data| format!("{data:#}")).unwrap_or_default(),
        Kind::ToolRequest => {
            let decoded = decode::visible(stream, element);
            arguments_text(decoded.as_ref().and_then(|event| event.get("arguments")))
        }
        _ => String::new(),
    }
}

fn arguments_text(arguments: Option<&Value>) -> String {
    let Some(Value::Object(members)) = arguments else { return String::new() };
    let mut text = String::new();
    for (key, value) in members {
        match value {
            Value::String(value) if value.contains('\n') => {
                text.push_str(&format!("{key}:\n"));
                value.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            }
            Value::String(value) => text.push_str(&format!("{key}: {value}\n")),
            value => text.push_str(&format!("{key}: {value}\n")),
        }
    }
    text.pop();
    text
}

/// Returns whether a part of `old` stays in `new`: a line, or enough characters at one end.
pub(crate) fn keeps_part(old: &str, new: &str) -> bool {
    let lines: Vec<&str> = new.lines().filter(|line| !line.trim().is_empty()).collect();
    let common = |equal: usize| equal >= COMMON_CHARACTERS_MIN;
    let equal_start = old.chars().zip(new.chars()).take_while(|(left, right)| left == right).count();
    let equal_end =
        old.chars().rev().zip(new.chars().rev()).take_while(|(left, right)| left == right).count();
    common(equal_start) || common(equal_end) || old.lines().any(|line| lines.contains(&line))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_have_a_line_for_each_member() {
        let arguments = json!({"path": "a.rs", "text": "fn a() {\n}\n", "from": 3, "all": [true, null]});
        let expected = "path: a.rs\ntext:\n  fn a() {\n  }\nfrom: 3\nall: [true,null]";
        assert_eq!(arguments_text(Some(&arguments)), expected);
        assert_eq!(arguments_text(Some(&json!({}))), "");
        assert_eq!(arguments_text(None), "");
    }

    #[track_caller]
    fn check_keeps(old: &str, new: &str, expected: bool) {
        assert_eq!(keeps_part(old, new), expected, "{old:?} {new:?}");
    }

    #[test]
    fn recognizes_shortened_text() {
        check_keeps("one\ntwo\nthree", "one\n[2 lines removed]", true);
        check_keeps("one\ntwo\nthree", "[2 lines removed]\nthree", true);
        check_keeps("a line of many words, and more", "a line of many words [10 characters removed]", true);
        check_keeps("one\n\ntwo", "[compacted] read: success", false);
        check_keeps("one\n\ntwo", "\n", false);
        check_keeps("", "", false);
    }
}
