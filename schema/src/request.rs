//! `compact`: the header of a request, the one line that is all of it for `input` `none` and `outline`.
//! Types only; what the lines after it look like is in [`event`](crate::event).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::context::{Context, Turn};
use crate::outline::Outline;

/// The constant `"compact"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompactTag {
    /// The one value.
    #[default]
    #[serde(rename = "compact")]
    Compact,
}

/// The host asks for compactions of a range. The first three fields never change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactRequest {
    /// Always `"compact"`.
    #[schemars(with = "String", extend("const" = "compact"))]
    pub r#type: CompactTag,
    /// Names the request; every reply echoes it.
    pub id: String,
    /// The version that the host chose from the description's `protocols`.
    pub protocol: u32,
    /// The name by which the strategy was found.
    pub strategy: String,
    /// The conversation that the range is part of.
    pub conversation: Conversation,
    /// The turns to compact: `requested_range`, extended over existing summaries for a strategy that
    /// produces one.
    pub range: Range,
    /// The turns that the user asked to compact.
    pub requested_range: Range,
    /// Whether a summary must be of exactly `range`: set when a summary of a range that the strategy chose
    /// itself was not closed over the existing ones.
    pub range_exact: bool,
    /// The options, checked against `options_schema`, defaults filled in.
    pub options: Map<String, Value>,
    /// What else a strategy may want to weigh.
    pub context: Context,
    /// Each event's envelope; for `input: outline`, else null.
    pub outline: Option<Outline>,
    /// How the events come; for `input: full`, else null.
    pub events: Option<Events>,
    /// What the reply may cost.
    pub limits: Limits,
    /// The answers to every `needs` of the rounds before, by key.
    #[serde(default)]
    pub answers: BTreeMap<String, Answer>,
    /// The `state` of the last `needs`, as it was; null in the first round.
    pub state: Option<String>,
    /// Whether nothing will be appended. The answer should be the same.
    #[serde(default)]
    pub dry_run: bool,
}

impl CompactRequest {
    /// The options as a type of the strategy's own.
    ///
    /// # Errors
    ///
    /// The options do not fit the type.
    pub fn options_as<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(&self.options)
    }

    /// The rows of the turn table that lie in the range.
    pub fn turns_in(&self, range: Range) -> impl Iterator<Item = &Turn> {
        self.context.turns.iter().filter(move |row| range.contains(row.turn))
    }
}

/// The conversation as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// The id that its own program gave it, if it has one.
    pub id: Option<String>,
    /// The transcript's format: `jp`, and others to come.
    pub format: String,
    /// How many turns it has.
    pub turns: usize,
    /// How many events it has; what carries a `seq` counts.
    pub events: u64,
    /// The size of the raw input.
    pub bytes: u64,
    /// SHA-256 of the raw input, in lower-case hexadecimal; for `wants: ["digest"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A range of turns: 0-based, inclusive at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The first turn.
    pub from_turn: usize,
    /// The last turn.
    pub to_turn: usize,
}

impl Range {
    /// Whether the turn lies in the range.
    #[must_use]
    pub fn contains(&self, turn: usize) -> bool {
        (self.from_turn..=self.to_turn).contains(&turn)
    }
}

/// How the events of `input: full` come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Events {
    /// The host writes them after the header, one a line, then `events_end`.
    Inline {
        /// How many lines.
        count: u64,
    },
    /// The host has written the lines to a read-only file, and sends neither them nor `events_end`. Only for
    /// a strategy with the feature `events.file`.
    File {
        /// Where the file is; open it by this very name.
        path: String,
        /// Its size.
        bytes: u64,
        /// SHA-256 of its bytes, in lower-case hexadecimal.
        sha256: String,
    },
}

/// What the reply may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The time until the strategy is ended; a round of `needs` begins it anew.
    pub deadline_ms: u64,
    /// The size of the whole reply.
    pub result_bytes_max: u64,
}
