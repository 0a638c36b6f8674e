//! The view: the elements of a stream after the projection, in order. It refers to elements of the stream and copies
//! none. Strategies never receive a view.

use std::io::{self, Write};

use jiff::Timestamp;
pub use jp_compact_schema::{SUMMARY_NOTE, SUMMARY_REQUEST, has_summary_note};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode;
use crate::position::Position;
use crate::stream::Stream;
use crate::time;
use crate::turn::TurnRange;

/// Returns the text of the user message that replaces steps of a turn.
#[must_use]
pub fn note_text(summary: &str) -> String {
    let lines =
        summary.lines().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
    std::iter::once(SUMMARY_NOTE.to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// The reduced view of a stream. Only the projection makes views.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub(crate) items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The turn in the view, from 0. Turns are renumbered.
    pub turn: usize,
    pub origin: ItemOrigin,
    pub part: Part,
}

impl Item {
    /// Returns the event that providers receive, decoded. `None` if they receive none.
    #[must_use]
    pub fn event(&self, stream: &Stream) -> Option<ViewEvent> {
        let event = self.part.event(stream)?;
        Some(ViewEvent { turn: self.turn, origin: self.origin, event })
    }
}

/// The source of an element of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemOrigin {
    /// A turn of the stream.
    Kept(usize),
    /// A run of turns that one summary replaces. The steps are present if the run begins or ends inside a turn.
    Summary {
        from: usize,
        to: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_step: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        to_step: Option<usize>,
    },
}

impl ItemOrigin {
    /// Returns the turn of the stream. For a summary, the first turn that it replaces.
    #[must_use]
    pub fn turn(self) -> usize {
        match self {
            Self::Kept(turn) => turn,
            Self::Summary { from, .. } => from,
        }
    }

    /// Returns the range that a summary replaces.
    #[must_use]
    pub fn summarized(self) -> Option<TurnRange> {
        match self {
            Self::Kept(_) => None,
            Self::Summary { from, to, from_step, to_step } => TurnRange::between(
                Position { turn: from, step: from_step },
                Position { turn: to, step: to_step },
            ),
        }
    }
}

/// The content of an element of a view. Indexes refer to elements of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// An unchanged element.
    Kept(usize),
    /// An element that a strip leaves unchanged, because it is not longer than its replacement.
    Short(usize),
    /// A tool request with the arguments `{}`.
    Emptied(usize),
    /// A tool response with this content.
    Replaced(usize, String),
    /// The start of the synthetic turn of a summary.
    SummaryStart {
        /// The time of the first event that the summary replaces. If user events of the first turn stay after the pair,
        /// the time of the first of them.
        timestamp: Timestamp,
    },
    /// The user's half of the synthetic pair: [`SUMMARY_REQUEST`].
    SummaryRequest { timestamp: Timestamp },
    /// The assistant's half: the summary.
    SummaryResponse { timestamp: Timestamp, text: String },
    /// The user message that replaces steps of a turn: [`SUMMARY_NOTE`] and the summary, indented.
    SummaryNote { timestamp: Timestamp, text: String },
}

/// One event that providers receive, decoded. An item of the array that `print --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ViewEvent {
    /// The turn in the view.
    pub turn: usize,
    pub origin: ItemOrigin,
    /// The event, with decoded base64, a timestamp in JP's form, and no empty metadata.
    pub event: Map<String, Value>,
}

impl Part {
    /// Returns the element of the stream that the part shows. `None` for a summary.
    #[must_use]
    pub fn element(&self) -> Option<usize> {
        match self {
            Self::Kept(element)
            | Self::Short(element)
            | Self::Emptied(element)
            | Self::Replaced(element, _) => Some(*element),
            Self::SummaryStart { .. }
            | Self::SummaryRequest { .. }
            | Self::SummaryResponse { .. }
            | Self::SummaryNote { .. } => None,
        }
    }

    /// Returns the event that providers receive, decoded. `None` if they receive none.
    #[must_use]
    pub fn event(&self, stream: &Stream) -> Option<Map<String, Value>> {
        match self {
            Self::Kept(element) | Self::Short(element) => decode::visible(stream, *element),
            Self::Emptied(element) => {
                let mut event = decode::visible(stream, *element)?;
                event.insert("arguments".into(), Value::Object(Map::new()));
                Some(event)
            }
            Self::Replaced(element, text) => {
                let mut event = decode::visible(stream, *element)?;
                event.insert("content".into(), text.as_str().into());
                Some(event)
            }
            Self::SummaryStart { .. } => None,
            Self::SummaryRequest { timestamp } => {
                Some(decode::synthetic(*timestamp, "chat_request", "content", SUMMARY_REQUEST))
            }
            Self::SummaryResponse { timestamp, text } => {
                Some(decode::synthetic(*timestamp, "chat_response", "message", text))
            }
            Self::SummaryNote { timestamp, text } => {
                Some(decode::synthetic(*timestamp, "chat_request", "content", &note_text(text)))
            }
        }
    }
}

impl View {
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Iterates over the events that providers receive, decoded, in order.
    pub fn events<'a>(&'a self, stream: &'a Stream) -> impl Iterator<Item = ViewEvent> + 'a {
        self.items.iter().filter_map(|item| item.event(stream))
    }

    /// Writes the view as an array of [`ViewEvent`]s, one per line.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_json(&self, stream: &Stream, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for (number, event) in self.events(stream).enumerate() {
            out.write_all(if number == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &event)?;
        }
        out.write_all(b"\n]\n")
    }
}

/// Formats a timestamp in JP's form.
#[must_use]
pub fn timestamp_text(timestamp: Timestamp) -> String {
    time::format(timestamp)
}
