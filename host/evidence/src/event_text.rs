//! The text of an event, as `docs/reference/evidence.md` defines it: decoded, and for a call only the values of its
//! arguments. Names of tools and keys of arguments are not part of the text.

use std::borrow::Cow;

use jp_compact_core::Stream;
use jp_compact_core::decode;
use jp_compact_core::event::Kind;
use jp_compact_core::text;
use jp_compact_core::view::{Part, SUMMARY_REQUEST, note_text};
use serde_json::Value;

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    User,
    /// A message of the assistant.
    Assistant,
    Reasoning,
    Call,
    Result,
}

impl TextRole {
    /// Returns the role of an element. `None` if the element has no text that a model receives.
    #[must_use]
    pub fn of_kind(kind: Kind) -> Option<Self> {
        match kind {
            Kind::ChatRequest => Some(Self::User),
            Kind::Message | Kind::Data => Some(Self::Assistant),
            Kind::Reasoning => Some(Self::Reasoning),
            Kind::ToolRequest => Some(Self::Call),
            Kind::ToolResponse { .. } => Some(Self::Result),
            _ => None,
        }
    }

    /// Returns whether the model wrote it.
    #[must_use]
    pub fn is_of_model(self) -> bool {
        matches!(self, Self::Assistant | Self::Reasoning | Self::Call)
    }
}

/// Returns whether a request is an attachment: a file, or a text that the agent wrote, not the user.
pub(crate) fn is_attachment(stream: &Stream, element: usize) -> bool {
    let metadata = decode::raw(stream, element).and_then(|mut event| event.remove("metadata"));
    metadata.is_some_and(|metadata| metadata.get("attachment").is_some())
}

/// Returns the text of an element. Empty for an element without text.
#[must_use]
pub fn element_text(stream: &Stream, element: usize) -> Cow<'_, str> {
    let event = &stream.events()[element];
    match event.kind {
        Kind::ChatRequest | Kind::Message | Kind::Reasoning => stream.text(event.body),
        Kind::Data => String::from_utf8_lossy(stream.bytes_at(event.body)),
        Kind::ToolResponse { .. } if stream.is_encoded() => stream.stored_text(event.body).into(),
        Kind::ToolResponse { .. } => stream.text(event.body),
        Kind::ToolRequest => argument_text(&arguments(stream, element)).into(),
        _ => Cow::Borrowed(""),
    }
}

/// Returns the decoded arguments of a call.
#[must_use]
pub fn arguments(stream: &Stream, element: usize) -> Value {
    let mut arguments = stream.arguments(&stream.events()[element]);
    if stream.is_encoded() {
        text::decode_all(&mut arguments);
    }
    arguments
}

/// Returns the role and the text of a view's part that differs from its element. `None` for an element that is shown
/// whole, and for a part without text.
#[must_use]
pub fn changed_text(part: &Part) -> Option<(TextRole, Cow<'_, str>)> {
    match part {
        Part::Kept(_) | Part::Short(_) | Part::Emptied(_) | Part::SummaryStart { .. } => None,
        Part::Replaced(_, text) => Some((TextRole::Result, text.as_str().into())),
        Part::SummaryRequest { .. } => Some((TextRole::User, SUMMARY_REQUEST.into())),
        Part::SummaryResponse { text, .. } => Some((TextRole::Assistant, text.as_str().into())),
        Part::SummaryNote { text, .. } => Some((TextRole::User, note_text(text).into())),
    }
}

/// Returns the strings and numbers below a value, one per line.
fn argument_text(value: &Value) -> String {
    let mut lines = String::new();
    add_values(value, &mut lines);
    lines
}

fn add_values(value: &Value, lines: &mut String) {
    let mut add_line = |line: &str| {
        if !lines.is_empty() {
            lines.push('\n');
        }
        lines.push_str(line);
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => add_line(&number.to_string()),
        Value::String(text) => add_line(text),
        Value::Array(items) => items.iter().for_each(|item| add_values(item, lines)),
        Value::Object(members) => members.values().for_each(|member| add_values(member, lines)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_of_a_call_has_values_without_keys() {
        let value =
            json!({"path": "src/a.rs", "all": true, "none": null, "edits": [{"old": "x y", "line": 120}]});
        assert_eq!(argument_text(&value), "src/a.rs\nx y\n120");
        assert_eq!(argument_text(&json!({})), "");
    }
}
