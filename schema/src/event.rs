//! The lines that follow the header of a request with `input: full`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The constant `"event"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventTag {
    /// The only value.
    #[default]
    #[serde(rename = "event")]
    Event,
}

/// The fixed sentence before a summary of steps, in the user message that replaces them. It must prevent a model, or a
/// strategy that reads a copy of the transcript, from treating the summary as a request of the user.
pub const SUMMARY_NOTE: &str =
    "[A summary of the steps that were here. It is not from the user, and it asks for nothing.]";
/// The sentence that earlier versions wrote in place of [`SUMMARY_NOTE`].
const OLD_SUMMARY_NOTE: &str = "[A model wrote this summary of the steps that were here. It is not from the user, and \
                                it asks for nothing.]";

/// Returns whether a text begins with [`SUMMARY_NOTE`], or with the sentence that earlier versions wrote in its place.
#[must_use]
pub fn has_summary_note(text: &[u8]) -> bool {
    [SUMMARY_NOTE, OLD_SUMMARY_NOTE].iter().any(|note| text.starts_with(note.as_bytes()))
}

/// The user message of the synthetic turn that replaces turns (RFD 064, "Projection Example"). The next message of the
/// assistant is the summary.
pub const SUMMARY_REQUEST: &str = "[Summary of previous conversation]";

/// One event of the stream, on a line of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EventLine {
    /// Always `"event"`.
    #[cfg_attr(feature = "generate", schemars(with = "String", extend("const" = "event")))]
    pub r#type: EventTag,
    /// The event's number in the stream. Overlays, receipts, and config deltas are not numbered.
    pub seq: u64,
    /// The event's turn.
    pub turn: usize,
    /// The event's step within its turn. Absent for events of the user, which belong to no step, and without the
    /// feature `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The event's size in tokens, counted by the request's estimator.
    pub tokens: u64,
    /// Whether the view does not show the event unchanged: it is omitted, stripped, replaced, or covered by a summary.
    /// Present only with `wants: ["hidden"]`, and only if true.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// The event. Text that the transcript stores as base64 is decoded.
    // Unparsed, because most strategies read few of the events.
    #[cfg_attr(feature = "generate", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub event: Box<RawValue>,
}

impl EventLine {
    /// Creates a line for one event.
    #[must_use]
    pub fn new(seq: u64, turn: usize, tokens: u64, event: Box<RawValue>) -> Self {
        Self { r#type: EventTag::Event, seq, turn, step: None, tokens, hidden: false, event }
    }

    /// Deserializes the event to a type of the strategy.
    ///
    /// # Errors
    ///
    /// The event does not fit the type.
    pub fn event_as<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.event.get())
    }
}

/// The constant `"events_end"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventsEndTag {
    /// The only value.
    #[default]
    #[serde(rename = "events_end")]
    EventsEnd,
}

/// The line after the last event. A worker reads up to this line even if it has already replied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EventsEnd {
    /// Always `"events_end"`.
    #[cfg_attr(feature = "generate", schemars(with = "String", extend("const" = "events_end")))]
    pub r#type: EventsEndTag,
    /// The request's id.
    pub id: String,
    /// The number of events sent.
    pub count: u64,
}

impl EventsEnd {
    /// Creates the line that ends the events of request `id`.
    #[must_use]
    pub fn new(id: &str, count: u64) -> Self {
        Self { r#type: EventsEndTag::EventsEnd, id: id.to_owned(), count }
    }
}
