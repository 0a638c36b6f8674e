//! The reports of a run on one transcript: a compaction, and a reset.

use serde::{Deserialize, Serialize};

use super::cache_cost::CacheCost;
use super::lost_paths::LostPaths;
use super::tokens::{Saved, TokenCounts};
use crate::reply::{Diagnostic, Level};

/// The report of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "compact-report"))]
pub struct CompactionReport {
    /// The path of the transcript.
    pub path: String,
    /// The format of the transcript.
    pub format: String,
    /// The file that holds the overlays.
    pub written_to: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The size of the conversation.
    pub tokens: TokenCounts,
    /// The effect of this run.
    pub saved: Saved,
    /// The cost of this run in the provider's prompt cache. Set only in a dry run, in `auto`, and in `query`, and null
    /// without a result.
    pub cache_cost: Option<CacheCost>,
    /// For a conversation of JP, the paths that stripped calls lose. Set only in a dry run or on a terminal, and null
    /// if the run strips no arguments.
    pub lost_paths: Option<LostPaths>,
    /// The tokens that the view shows again, because a new policy replaces an older one. 0 if it replaces none.
    pub restored_tokens: u64,
    /// The new overlays. An overlay that several strategies share has one entry for each.
    pub overlays: Vec<OverlayReport>,
    /// The strategies that made no overlay.
    pub declines: Vec<DeclineReport>,
    /// In a dry run, the requests that were not sent to a model.
    pub would: Vec<WouldReport>,
    /// The diagnostics of the strategies.
    pub diagnostics: Vec<DiagnosticReport>,
    /// The log lines of the strategies.
    pub logs: Vec<LogReport>,
    /// The turns that changed.
    pub turns: Vec<ChangedTurn>,
    /// The lowest tier of the strategies: `isolated`, `partly-isolated`, or `contained`. Null without a strategy.
    pub tier: Option<String>,
    /// The reason why no strategy was asked.
    pub nothing: Option<String>,
    /// Remarks on ranges, rules, and savings.
    pub notes: Vec<String>,
}

/// One overlay and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct OverlayReport {
    /// The number of the overlay in the transcript, from 1.
    pub number: usize,
    /// The first turn, from 0.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
    /// The kinds of content that the strategy changes with the overlay.
    pub kinds: Vec<String>,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy's version.
    pub version: String,
    /// The SHA-256 of the strategy's executable.
    pub executable_sha256: String,
    /// The tier in which the strategy was confined.
    pub tier: String,
    /// Whether JP itself applies the overlay.
    pub applied_by_jp: bool,
}

/// A strategy that made no overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DeclineReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The version of the strategy.
    pub version: String,
    /// The reason.
    pub reason: String,
}

/// A request that a dry run did not send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct WouldReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The version of the strategy.
    pub version: String,
    /// The request.
    pub request: String,
}

/// A diagnostic of a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DiagnosticReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The diagnostic, as the strategy reported it.
    pub found: Diagnostic,
}

/// A log line of a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct LogReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The level.
    pub level: Level,
    /// The text.
    pub message: String,
}

/// A turn whose view changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ChangedTurn {
    /// The number of the turn.
    pub turn: usize,
    /// The tokens of the turn in the view before the command.
    pub view_before: u64,
    /// The tokens of the turn in the view after the command. A summary counts for its first turn.
    pub view_after: u64,
}

/// The report of a reset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "reset-report"))]
pub struct ResetDocument {
    /// The path of the transcript.
    pub path: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The number of removed overlays.
    pub removed: usize,
    /// The size of the conversation. Null if only its overlays can be read, or not even these.
    pub tokens: Option<TokenCounts>,
    /// The effect of the reset. It is negative, because the view shows hidden events again. Null without `tokens`.
    pub saved: Option<Saved>,
}
