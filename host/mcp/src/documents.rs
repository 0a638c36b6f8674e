//! The structured results of tools for which no command has the same JSON document. Some clients show a model only the
//! structured result, so it must have everything that the text has.

use jp_compact_schema::document::CompactionReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of `compact`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactAnswer {
    #[serde(flatten)]
    pub report: CompactionReport,
    /// When a model receives the smaller view, and by which command.
    pub takes_effect: String,
}

/// A page of `print` or `expand`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextPage {
    /// The text of this page.
    pub text: String,
    /// The number of its first character.
    pub offset: usize,
    /// The `offset` of the next page. Null for the last page.
    pub next_offset: Option<usize>,
    /// The number of characters on all pages.
    pub total_chars: usize,
}

/// The result of `search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    /// The events that contain the text, in the order of the conversation.
    pub matches: Vec<FoundEvent>,
}

/// An event that contains the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundEvent {
    /// The number of the event, from 0. `expand` accepts it.
    pub event: usize,
    /// The turn of the event, from 0.
    pub turn: u64,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text around the first match.
    pub excerpt: String,
}
