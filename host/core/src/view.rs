//! The view: what the projection leaves of a stream, in order. It holds places in the stream, no copies, and
//! no strategy is ever sent one.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode;
use crate::stream::Stream;
use crate::time;

/// The user's half of a synthetic pair (RFD 064, "Projection Example").
pub const SUMMARY_REQUEST: &str = "[Summary of previous conversation]";

/// The reduced view of a stream. Made only by the projection.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub(crate) items: Vec<Item>,
}

/// One element of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its turn in the view, 0-based: turns are counted anew.
    pub turn: usize,
    /// Where it comes from.
    pub origin: Origin,
    /// What it is.
    pub part: Part,
}

/// Where an element of a view comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A turn of the stream.
    Kept(usize),
    /// A run of turns that one summary stands for.
    Summary {
        /// First turn of the run.
        from: usize,
        /// Last turn of the run.
        to: usize,
    },
}

impl Origin {
    /// The turn of the stream: for a summary the first that it stands for.
    #[must_use]
    pub fn turn(self) -> usize {
        match self {
            Self::Kept(turn) => turn,
            Self::Summary { from, .. } => from,
        }
    }
}

/// What an element of a view is. Numbers are those of the stream's elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// An element as it is.
    Kept(usize),
    /// An element that a strip leaves as it is, because it is no longer than its replacement.
    Short(usize),
    /// A tool request whose arguments are `{}`.
    Emptied(usize),
    /// A tool response with this content.
    Replaced(usize, String),
    /// Opens the synthetic turn of a summary.
    SummaryStart {
        /// The time of the first event that the summary stands for.
        at: Timestamp,
    },
    /// The user's half of the synthetic pair: [`SUMMARY_REQUEST`].
    SummaryRequest {
        /// As above.
        at: Timestamp,
    },
    /// The assistant's half: the summary.
    SummaryResponse {
        /// As above.
        at: Timestamp,
        /// The summary's text.
        text: String,
    },
}

/// One event that a provider is sent, decoded: an item of the array that `print --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ViewEvent {
    /// Its turn in the view.
    pub turn: usize,
    /// Where it comes from.
    pub origin: Origin,
    /// The event: base64 undone, timestamp in JP's form, empty metadata left out.
    pub event: Map<String, Value>,
}

impl Part {
    /// The element of the stream that it shows.
    #[must_use]
    pub fn element(&self) -> Option<usize> {
        match self {
            Self::Kept(element)
            | Self::Short(element)
            | Self::Emptied(element)
            | Self::Replaced(element, _) => Some(*element),
            Self::SummaryStart { .. } | Self::SummaryRequest { .. } | Self::SummaryResponse { .. } => None,
        }
    }

    /// What a provider is sent of it, decoded. None for what no provider is sent.
    pub(crate) fn event(&self, stream: &Stream) -> Option<Map<String, Value>> {
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
            Self::SummaryRequest { at } => {
                Some(decode::synthetic(*at, "chat_request", "content", SUMMARY_REQUEST))
            }
            Self::SummaryResponse { at, text } => {
                Some(decode::synthetic(*at, "chat_response", "message", text))
            }
        }
    }
}

impl View {
    /// Its elements, in order.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// What a provider is sent, decoded, in order.
    pub fn events<'a>(&'a self, stream: &'a Stream) -> impl Iterator<Item = ViewEvent> + 'a {
        self.items.iter().filter_map(|item| {
            let event = item.part.event(stream)?;
            Some(ViewEvent { turn: item.turn, origin: item.origin, event })
        })
    }

    /// Writes the view as an array of [`ViewEvent`]s, one a line.
    ///
    /// # Errors
    /// What `out` reports.
    pub fn write_json(&self, stream: &Stream, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"[")?;
        for (place, event) in self.events(stream).enumerate() {
            out.write_all(if place == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut *out, &event)?;
        }
        out.write_all(b"\n]\n")
    }
}

/// The text of a timestamp in JP's form, for those who show a view.
#[must_use]
pub fn timestamp_text(at: Timestamp) -> String {
    time::format(at)
}
