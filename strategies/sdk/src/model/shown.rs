//! The form in which a model sees an event. Messages are complete. Long reasoning, arguments, output, and attachments
//! are shortened to the budget of an event, which depends on the model's window. The omitted text is counted, and the
//! user gets the count.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::EventBody;
use crate::text::shorten_between_blocks;

/// The smallest limit for one of many texts in the arguments of a call.
const ARGUMENT_CHARS_MIN: usize = 200;

/// The size of a transcript, and how much of it a model sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSize {
    /// The number of shortened events.
    pub shortened: u64,
    /// The bytes of the texts that the model sees.
    pub shown_bytes: u64,
    /// The bytes of the complete texts.
    pub raw_bytes: u64,
}

impl AddAssign for ShownSize {
    fn add_assign(&mut self, other: Self) {
        self.shortened += other.shortened;
        self.shown_bytes += other.shown_bytes;
        self.raw_bytes += other.raw_bytes;
    }
}

impl std::fmt::Display for ShownSize {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { shortened, shown_bytes, raw_bytes } = *self;
        let events = if shortened == 1 {
            "1 long event was".to_owned()
        } else {
            format!("{shortened} long events were")
        };
        write!(out, "{events} shortened: {} of {} shown", size_text(shown_bytes), size_text(raw_bytes))
    }
}

/// Formats a size for people, such as `340 KB` or `1.2 MB`.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..999_500 => format!("{} KB", (bytes + 500) / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// An event as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownEvent {
    /// The event, with long texts shortened.
    pub body: EventBody,
    /// The characters of the complete text.
    pub raw_chars: u64,
    /// The bytes of the complete and of the shortened text.
    pub size: ShownSize,
}

/// Shortens the texts of an event to about `chars_max` characters. Messages, data, and inquiries stay complete.
#[must_use]
pub fn shorten_event(body: EventBody, chars_max: usize) -> ShownEvent {
    let (raw_bytes, raw_chars) = measured(&body);
    let body = match body {
        _ if raw_chars <= chars_max as u64 => body,
        EventBody::Attachment { name, text } => {
            EventBody::Attachment { name, text: shortened(text, chars_max) }
        }
        EventBody::Reasoning(text) => EventBody::Reasoning(shortened(text, chars_max)),
        EventBody::Call(mut call) => {
            call.arguments = shorten_arguments(call.arguments, chars_max);
            EventBody::Call(call)
        }
        EventBody::Output(mut output) => {
            output.content = shortened(output.content, chars_max);
            EventBody::Output(output)
        }
        other => other,
    };
    let (shown_bytes, _) = measured(&body);
    // A text in place of the arguments can have more bytes than the arguments, because its quotes are escaped.
    let is_shortened = shown_bytes != raw_bytes;
    ShownEvent {
        body,
        raw_chars,
        size: ShownSize { shortened: u64::from(is_shortened), shown_bytes, raw_bytes },
    }
}

fn shortened(text: String, chars_max: usize) -> String {
    shorten_between_blocks(&text, chars_max).into_owned()
}

/// Returns the bytes and the characters of the text of an event.
fn measured(body: &EventBody) -> (u64, u64) {
    let of_text = |text: &str| (text.len() as u64, text.chars().count() as u64);
    match body {
        EventBody::User(text)
        | EventBody::Summary(text)
        | EventBody::Assistant(text)
        | EventBody::Reasoning(text)
        | EventBody::Attachment { text, .. } => of_text(text),
        EventBody::Structured(value) | EventBody::Inquiry(value) | EventBody::InquiryAnswer(value) => {
            of_text(&value.to_string())
        }
        EventBody::Call(call) => of_text(&arguments_text(&call.arguments)),
        EventBody::Output(output) => of_text(&output.content),
        _ => (0, 0),
    }
}

/// Returns the arguments of a call as JSON.
pub(super) fn arguments_text(arguments: &Map<String, Value>) -> String {
    serde_json::to_string(arguments).unwrap_or_default()
}

/// Shortens the longest texts of arguments until all of them fit. Short texts stay complete. If there are too many
/// texts, one text replaces the arguments.
fn shorten_arguments(arguments: Map<String, Value>, chars_max: usize) -> Map<String, Value> {
    let mut limit = chars_max;
    while limit >= ARGUMENT_CHARS_MIN {
        let short: Map<String, Value> =
            arguments.iter().map(|(name, value)| (name.clone(), shorten_value(value, limit))).collect();
        if arguments_text(&short).chars().count() <= chars_max.saturating_add(ARGUMENT_CHARS_MIN) {
            return short;
        }
        limit /= 2;
    }
    let text = shortened(arguments_text(&arguments), chars_max);
    Map::from_iter([("arguments".to_owned(), Value::String(text))])
}

fn shorten_value(value: &Value, chars_max: usize) -> Value {
    match value {
        Value::String(text) => shorten_between_blocks(text, chars_max).into_owned().into(),
        Value::Array(values) => values.iter().map(|value| shorten_value(value, chars_max)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shorten_value(value, chars_max))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{ToolCall, ToolOutput};

    fn call(arguments: Value) -> EventBody {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        EventBody::Call(ToolCall { id: "1".into(), tool: "write".into(), arguments })
    }

    #[test]
    fn events_within_the_budget_are_complete() {
        let output = ToolOutput { id: "1".into(), content: "o".repeat(500), is_error: false };
        for body in [
            EventBody::Output(output),
            EventBody::Reasoning("r".repeat(500)),
            EventBody::User("u".repeat(9_000)),
            call(json!({"content": "c".repeat(400)})),
        ] {
            let shown = shorten_event(body.clone(), 500);
            assert_eq!((&shown.body, shown.size.shortened), (&body, 0));
            assert_eq!(shown.size.shown_bytes, shown.size.raw_bytes);
        }
    }

    #[test]
    fn omitted_bytes_are_counted() {
        let output = |chars| {
            let content = "o".repeat(chars);
            shorten_event(EventBody::Output(ToolOutput { id: "1".into(), content, is_error: false }), 1_000)
                .size
        };
        let mut sum = ShownSize::default();
        [100, 20_000, 1_200_000].into_iter().for_each(|chars| sum += output(chars));
        assert_eq!((sum.shortened, sum.raw_bytes), (2, 1_220_100));
        assert!((2_100..2_300).contains(&sum.shown_bytes), "{}", sum.shown_bytes);
        assert_eq!(sum.to_string(), "2 long events were shortened: 2 KB of 1.2 MB shown");
        assert_eq!(output(5_000).to_string(), "1 long event was shortened: 1 KB of 5 KB shown");
    }

    #[test]
    fn short_arguments_stay_complete_next_to_long_ones() {
        let shown = shorten_event(
            call(json!({"path": "src/a.rs", "patches": ["p".repeat(900), "q".repeat(900)]})),
            1_000,
        );
        let EventBody::Call(call) = &shown.body else { panic!("{shown:?}") };
        assert_eq!(call.arguments["path"], "src/a.rs");
        assert!(arguments_text(&call.arguments).len() <= 1_200, "{}", arguments_text(&call.arguments).len());
        assert_eq!(shown.size.shortened, 1);
    }

    #[test]
    fn arguments_of_many_texts_become_one_text() {
        let many: Map<String, Value> =
            (0..500).map(|number| (format!("k{number}"), json!("value"))).collect();
        let shown = shorten_event(call(Value::Object(many)), 1_000);
        let EventBody::Call(call) = &shown.body else { panic!("{shown:?}") };
        assert!(call.arguments["arguments"].as_str().unwrap().contains("characters left out"));
    }
}
