//! The `context` of a request: turn table, sizes, earlier overlays, and hints.
//!
//! It describes the view in numbers only. It must never contain text of the conversation, except for summaries that
//! the strategy asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::compaction::Reasoning;
use crate::range::Range;

/// Facts about the conversation that a strategy can base its decision on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Context {
    /// The time of the request, in RFC 3339. A pure strategy reads no other clock.
    pub now: String,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The size of the conversation.
    pub tokens: Tokens,
    /// The context window of the model that the conversation is sent to, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The size of the view that the user asked for, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_tokens: Option<u64>,
    /// The model that answers `llm.complete`, if the strategy may ask one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    /// The turn table: one row per turn of the scope, in order.
    pub turns: Vec<Turn>,
    /// The existing overlays: ranges and kinds, without texts.
    #[serde(default)]
    pub compactions: Vec<CompactionRef>,
    /// The user's hints for the calls of single tools, by tool name.
    #[serde(default)]
    pub tool_hints: BTreeMap<String, ToolHint>,
    /// The existing summaries. Present only if the description has `wants: ["previous_summaries"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_summaries: Option<Vec<PreviousSummary>>,
}

/// Sizes in tokens, counted by the estimator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Tokens {
    /// The size of all raw events.
    pub raw: u64,
    /// The size of the view with all existing overlays.
    pub view: u64,
    /// The size of the raw events of the range.
    pub in_range: u64,
}

/// The model that the host asks for the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Llm {
    /// The model's name, as `provider/model`.
    pub model: String,
    /// The model's context window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// One row of the turn table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The turn's number.
    pub turn: usize,
    /// The number of raw events.
    pub events: u64,
    /// The size of the raw events, in tokens.
    pub tokens: u64,
    /// The size of the part that the view still shows, in tokens.
    pub view_tokens: u64,
    /// Whether the turn is finished. False if the last turn still waits for a tool or for the assistant.
    pub complete: bool,
    /// The number of steps. Only with the feature `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// The part that the view still shows, by kind of content.
    pub kinds: Kinds,
}

/// The part of a turn that the view still shows. Content that is already stripped or omitted counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Kinds {
    /// The number of reasoning events.
    pub reasoning: u64,
    /// The size of the reasoning events, in tokens.
    pub reasoning_tokens: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of tool calls that failed.
    pub tool_errors: u64,
    /// The size of the tool calls' arguments, in tokens. Stripped arguments count as 0.
    pub tool_request_tokens: u64,
    /// The size of the tool responses' content, in tokens. Stripped content counts as 0.
    pub tool_response_tokens: u64,
}

/// An existing overlay: its range and its policies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct CompactionRef {
    /// The number of the overlay in the host's reports, from 1. Older hosts do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// The names of the strategies that made it, from its receipts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strategies: Vec<String>,
    /// The first turn.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
    /// Whether it has a summary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Its policy for reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Its policy for tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCallsRef>,
    /// The kinds of its policies that have an effect in `requested_range`: `summary`, `reasoning`, or `tool_calls`. New
    /// kinds may be added. A kind is missing if newer overlays replace the policy there, or if the range has no event
    /// of the kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Whether `tool_hints` now lead to another policy for tool calls in `requested_range`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hints_changed: bool,
}

impl CompactionRef {
    /// Returns its range.
    #[must_use]
    pub const fn range(&self) -> Range {
        let Self { from_turn, to_turn, from_step, to_step, .. } = self;
        Range { from_turn: *from_turn, to_turn: *to_turn, from_step: *from_step, to_step: *to_step }
    }
}

/// The policy for tool calls of an existing overlay, without lists and texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallsRef {
    /// Arguments, content, or both are stripped.
    Strip {
        /// Whether the arguments are stripped.
        request: bool,
        /// Whether the content is stripped.
        response: bool,
    },
    /// The calls are removed.
    Omit,
    /// Single calls have their own actions.
    Selective {
        /// The listed events in `requested_range` whose action the view shows.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seqs: Vec<u64>,
    },
    /// A policy that this version of the crate does not know.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// The user's hint for the calls of one tool. If a half is absent, the strategy decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ToolHint {
    /// The hint for the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Hint>,
    /// The hint for the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Hint>,
}

/// The user's hint for one half of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hint {
    /// Keep it.
    Keep,
    /// Strip it, even if a `strip` policy keeps this half.
    Strip,
}

/// An existing summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct PreviousSummary {
    /// The first turn.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
    /// The text.
    pub text: String,
}

impl PreviousSummary {
    /// Returns its range.
    #[must_use]
    pub const fn range(&self) -> Range {
        let Self { from_turn, to_turn, from_step, to_step, .. } = self;
        Range { from_turn: *from_turn, to_turn: *to_turn, from_step: *from_step, to_step: *to_step }
    }
}
