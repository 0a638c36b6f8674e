//! `context` of a request: the turn table, sizes, earlier overlays, hints. Types only. It tells what the view
//! still shows in numbers, and never a word of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compaction::Reasoning;

/// What a strategy may want to weigh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    /// The time of the request, RFC 3339. The only clock that a pure strategy reads.
    pub now: String,
    /// How tokens were counted, e.g. `chars/4`.
    pub estimator: String,
    /// The conversation's size.
    pub tokens: Tokens,
    /// The window of the model that the conversation is for, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The size that the user wants the view to have, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_tokens: Option<u64>,
    /// The model behind `llm.complete`, if one was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    /// One row a turn of the scope, in order.
    pub turns: Vec<Turn>,
    /// The overlays made so far: ranges and kinds, never their text.
    #[serde(default)]
    pub compactions: Vec<CompactionRef>,
    /// How calls of a tool are to be compacted, by tool name.
    #[serde(default)]
    pub tool_hints: BTreeMap<String, ToolHint>,
    /// The summaries made so far; for `wants: ["previous_summaries"]` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_summaries: Option<Vec<PreviousSummary>>,
}

/// Sizes in tokens, by the estimator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Every raw event.
    pub raw: u64,
    /// The view, with all overlays so far.
    pub view: u64,
    /// The raw events of the range.
    pub in_range: u64,
}

/// The host's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Llm {
    /// `provider/model`.
    pub model: String,
    /// Its window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// One row of the turn table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// The turn's number.
    pub turn: usize,
    /// Its raw events.
    pub events: u64,
    /// Its raw size in tokens.
    pub tokens: u64,
    /// What the view still shows of it, in tokens.
    pub view_tokens: u64,
    /// Whether it is over: false for a last turn that waits for a tool, or for the assistant.
    pub complete: bool,
    /// What the view still shows of it, by kind.
    pub kinds: Kinds,
}

/// What the view still shows of a turn. What is stripped or left out already counts nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Kinds {
    /// Reasoning events.
    pub reasoning: u64,
    /// Their tokens.
    pub reasoning_tokens: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Those that failed.
    pub tool_errors: u64,
    /// Tokens of the arguments; 0 where they are stripped.
    pub tool_request_tokens: u64,
    /// Tokens of the responses' content; 0 where it is stripped.
    pub tool_response_tokens: u64,
}

/// An overlay made earlier: what it covers, and what kind it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionRef {
    /// First turn.
    pub from_turn: usize,
    /// Last turn.
    pub to_turn: usize,
    /// Whether it is a summary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
    /// Its policy for reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Its policy for tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCallsRef>,
}

/// The policy for tool calls of an earlier overlay, without lists or texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallsRef {
    /// Arguments, contents, or both are stripped.
    Strip {
        /// The arguments.
        request: bool,
        /// The contents.
        response: bool,
    },
    /// Calls are left out.
    Omit,
    /// Some calls, each in its own way.
    Selective,
    /// A policy that is newer than this crate.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// How a tool's calls are to be compacted. An absent half leaves it to the strategy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolHint {
    /// For the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Hint>,
    /// For the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Hint>,
}

/// What is to become of one half of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hint {
    /// It stays.
    Keep,
    /// It may go.
    Strip,
}

/// A summary made earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreviousSummary {
    /// First turn.
    pub from_turn: usize,
    /// Last turn.
    pub to_turn: usize,
    /// What it says.
    pub text: String,
}
