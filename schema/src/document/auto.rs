//! The reports of `auto` and `query`, which contain reports of compactions.

use serde::{Deserialize, Serialize};

use super::cache_cost::AutoWait;
use super::compaction::CompactionReport;
use super::error::ErrorReport;
use crate::answer::Usage;

/// The report of `auto`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "auto-report"))]
pub struct AutoReport {
    /// The path of the transcript.
    pub path: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// The profile for a conversation that is too large.
    pub profile: String,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The profiles of `auto.always`.
    pub always: Vec<AlwaysReport>,
    /// Whether the conversation was too large.
    pub due: bool,
    /// The reason for `due`, as text for people.
    pub reason: String,
    /// The reason for `due`, in numbers.
    pub trigger: TriggerReport,
    /// The compaction, if there was one.
    pub report: Option<CompactionReport>,
    /// With `cost = "prefer-cold"`, the reason why a compaction that is due waits. Null if it does not wait.
    pub wait: Option<AutoWait>,
    /// The failure of the compaction, with `on_failure = "continue"`.
    pub warning: Option<ErrorReport>,
    /// The run of `auto.fallback_profile`, if the conversation was still too large after `profile`.
    pub fallback: Option<AlwaysReport>,
    /// The reason, for people, why the conversation is still too large. Null if it is not.
    pub still_due: Option<String>,
}

/// One profile of `auto.always`, or the fallback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct AlwaysReport {
    /// The name of the profile.
    pub profile: String,
    /// The compaction, if there was something to compact.
    pub report: Option<CompactionReport>,
    /// The failure of the compaction, with `on_failure = "continue"`.
    pub warning: Option<ErrorReport>,
}

/// The comparison of a conversation with its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct TriggerReport {
    /// The result of the comparison.
    pub result: TriggerResult,
    /// The tokens of the view. Null if they were not compared.
    pub view_tokens: Option<u64>,
    /// The tokens that the view may have. Null if they were not compared.
    pub threshold: Option<u64>,
    /// The number of turns, if they are too few.
    pub turns: Option<usize>,
    /// The number of turns that must be exceeded, if there are too few.
    pub min_turns: Option<usize>,
    /// The model whose context window applies, if it is known.
    pub model: Option<String>,
    /// The context window in tokens, if it is known.
    pub context_window: Option<u64>,
    /// The origin of the context window.
    pub window_origin: Option<WindowOrigin>,
}

/// The origin of a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WindowOrigin {
    /// The command line.
    CommandLine,
    /// The configuration.
    Configured,
    /// The built-in table.
    BuiltIn,
    /// The provider of the model.
    Provider,
    /// The smallest window of similar models. The model's own window is not known.
    Family,
}

/// The result of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TriggerResult {
    /// The view has more tokens than it may have.
    Due,
    /// The view has at most as many tokens as it may have.
    BelowThreshold,
    /// The conversation has too few turns.
    TooFewTurns,
    /// The context window is unknown.
    UnknownWindow,
}

/// The report of `query`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "query-report"))]
pub struct QueryReport {
    /// The path of the transcript.
    pub path: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// Whether nothing was written and no model was called.
    pub dry_run: bool,
    /// The compaction before the question, with `--compact`.
    pub compaction: Option<CompactionReport>,
    /// The number of the new turn.
    pub turn: Option<usize>,
    /// The model that answered.
    pub model: Option<String>,
    /// The answer.
    pub answer: Option<String>,
    /// The tokens that the model read and wrote, if the provider reports them.
    pub usage: Option<Usage>,
    /// The automatic compaction after the turn, if it is enabled.
    pub auto: Option<AutoReport>,
    /// The failure. The other members have the results of the steps before it.
    pub error: Option<ErrorReport>,
}
