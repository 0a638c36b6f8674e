//! `compact`: the header line of a request.
//!
//! With `input` `none` and `outline` the header is the whole request. With `input: full`, the lines of
//! [`event`](crate::event) follow.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::context::{CompactionRef, Context, Turn};
use crate::describe::ContentKind;
use crate::outline::Outline;
use crate::range::Range;

/// The constant `"compact"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompactTag {
    /// The only value.
    #[default]
    #[serde(rename = "compact")]
    Compact,
}

/// A request for compactions of a range. The first three fields are the same in every protocol version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct CompactRequest {
    /// Always `"compact"`.
    #[cfg_attr(feature = "generate", schemars(with = "String", extend("const" = "compact")))]
    pub r#type: CompactTag,
    /// The id of the request. Every line of the reply repeats it.
    pub id: String,
    /// The protocol version, which the host chose from the description's `protocols`.
    pub protocol: u32,
    /// The name under which the host found the strategy.
    pub strategy: String,
    /// The conversation to compact.
    pub conversation: Conversation,
    /// The turns to compact. For a strategy that produces summaries, the host extends `requested_range` over existing
    /// summaries.
    pub range: Range,
    /// The turns that the user selected.
    pub requested_range: Range,
    /// Whether a summary must cover exactly `range`. The host sets it in a second request, after a summary whose range
    /// cut an existing summary in two.
    pub range_exact: bool,
    /// The reason why the host sends the request once more. Absent in a first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RequestReason>,
    /// The options, validated against `options_schema`, with its defaults filled in.
    pub options: Map<String, Value>,
    /// Facts about the conversation that a strategy can base its decision on.
    pub context: Context,
    /// The envelope of each event, for `input: outline`. Otherwise null.
    pub outline: Option<Outline>,
    /// The way in which the host sends the events, for `input: full`. Otherwise null.
    pub events: Option<Events>,
    /// The limits for the reply.
    pub limits: Limits,
    /// The answers to the `needs` of all earlier rounds, by key. With `limits.needs_many`, only the last round's.
    #[serde(default)]
    pub answers: BTreeMap<String, Answer>,
    /// The unchanged `state` of the last `needs`. Null in the first round.
    pub state: Option<String>,
    /// Whether the host will append nothing. The reply should not depend on it.
    #[serde(default)]
    pub dry_run: bool,
}

impl CompactRequest {
    /// Deserializes the options to a type of the strategy.
    ///
    /// # Errors
    ///
    /// The options do not fit the type.
    pub fn options_as<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(&self.options)
    }

    /// Returns the rows of the turn table for the turns in the range.
    pub fn turns_in(&self, range: Range) -> impl Iterator<Item = &Turn> {
        self.context.turns.iter().filter(move |row| range.contains(row.turn))
    }

    /// Returns the existing overlays whose policy of this kind the view shows in `requested_range`.
    pub fn shown(&self, kind: ContentKind) -> impl Iterator<Item = &CompactionRef> {
        self.context
            .compactions
            .iter()
            .filter(move |overlay| overlay.shown.iter().any(|name| name == kind.name()))
    }
}

/// The reason for a second request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestReason {
    /// The range of a summary cut an existing summary in two. The summary must cover `range`, which contains both.
    Overlap,
    /// A reason that this version of the crate does not know.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// The whole conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Conversation {
    /// The id in the transcript, if it has one.
    pub id: Option<String>,
    /// The format of the transcript, for example `jp`. New formats may be added.
    pub format: String,
    /// The number of turns.
    pub turns: usize,
    /// The number of events that have a `seq`.
    pub events: u64,
    /// The size of the transcript, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the transcript, in lower-case hexadecimal. Present only with `wants: ["digest"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The way in which the host sends the events of `input: full`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "mode", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Events {
    /// After the header, one event per line, then `events_end`.
    Inline {
        /// The number of event lines.
        count: u64,
    },
    /// In a read-only file, without `events_end`. No lines follow the header. Only for strategies with the feature
    /// `events.file`.
    File {
        /// The path of the file. Open exactly this path.
        path: String,
        /// The size of the file.
        bytes: u64,
        /// The SHA-256 of the file, in lower-case hexadecimal.
        sha256: String,
    },
}

/// The limits for one round of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Limits {
    /// The time after which the host kills the strategy, in milliseconds. Each round has the full time.
    pub deadline_ms: u64,
    /// The maximum size of the whole reply, in bytes, including `progress` and `log`.
    pub result_bytes_max: u64,
    /// Whether the host applies the rules of the feature `needs.many` to this request: `answers` has the answers of the
    /// last round only, `state` has up to 1 MiB, and the model budget bounds the rounds and the needs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_many: bool,
}
