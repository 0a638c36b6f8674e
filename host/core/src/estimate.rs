//! How many tokens a text is, about: characters of decoded text / 4, rounded up (RFD D17, "Trigger"). What is
//! counted is the text that a model is sent: messages, reasoning, keys and values of arguments, the content of
//! responses, base64 undone. Punctuation of JSON, names of tools, ids, metadata and inquiries count nothing.

use serde_json::Value;

use crate::event::Kind;
use crate::stream::Stream;
use crate::text;
use crate::view::{Part, SUMMARY_REQUEST, View};

/// The name of this estimate, as requests carry it.
pub const ESTIMATOR: &str = "chars/4";

/// The tokens of so many characters.
#[must_use]
pub fn tokens(chars: u64) -> u64 {
    chars.div_ceil(4)
}

/// The characters of each element of a stream.
#[derive(Debug, Clone)]
pub struct Estimate {
    chars: Vec<u64>,
}

impl Estimate {
    /// Counts a stream's characters.
    #[must_use]
    pub fn of(stream: &Stream) -> Self {
        let mut buffer = Vec::new();
        let chars = stream.events().iter().map(|event| match event.kind {
            Kind::ChatRequest | Kind::Message | Kind::Reasoning => stream.text(event.body).chars().count(),
            Kind::Data => event.body.end - event.body.start,
            Kind::ToolResponse { .. } => text::stored_chars(event.body.of(stream.bytes()), &mut buffer),
            Kind::ToolRequest => {
                stream.value(event.body).map_or(0, |arguments| strings(&arguments, &mut buffer))
            }
            _ => 0,
        });
        Self { chars: chars.map(|chars| chars as u64).collect() }
    }

    /// The characters of one element.
    #[must_use]
    pub fn chars(&self, element: usize) -> u64 {
        self.chars[element]
    }

    /// The tokens of one element.
    #[must_use]
    pub fn tokens(&self, element: usize) -> u64 {
        tokens(self.chars[element])
    }

    /// The characters that an element of a view still shows.
    #[must_use]
    pub fn shown(&self, part: &Part) -> u64 {
        match part {
            Part::Kept(element) => self.chars[*element],
            Part::Emptied(_) | Part::SummaryStart { .. } => 0,
            Part::Replaced(_, text) | Part::SummaryResponse { text, .. } => text.chars().count() as u64,
            Part::SummaryRequest { .. } => SUMMARY_REQUEST.len() as u64,
        }
    }

    /// The tokens of a whole stream.
    #[must_use]
    pub fn stream_tokens(&self) -> u64 {
        tokens(self.chars.iter().sum())
    }

    /// The tokens of a whole view.
    #[must_use]
    pub fn view_tokens(&self, view: &View) -> u64 {
        tokens(view.items().iter().map(|item| self.shown(&item.part)).sum())
    }
}

/// The characters of every key and value below `value`, strings decoded.
fn strings(value: &Value, buffer: &mut Vec<u8>) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) => value.to_string().len(),
        Value::String(text) => text::decoded_chars(text, buffer),
        Value::Array(items) => items.iter().map(|item| strings(item, buffer)).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.chars().count() + strings(value, buffer)).sum()
        }
    }
}
