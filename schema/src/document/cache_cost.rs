//! The cost of a compaction when the provider caches prompts. All costs are in tokens of uncached input.

use serde::{Deserialize, Serialize};

/// The cost of a compaction when the provider caches prompts, with the prices of the conversation's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct CacheCost {
    /// The family of models whose prices apply.
    pub family: String,
    /// Whether the provider still has the conversation in its cache.
    pub state: CacheState,
    /// The time of the last request. Null if the transcript has no times.
    pub last_request: Option<String>,
    /// The time after which the cache forgets a conversation without a request.
    pub ttl_minutes: u32,
    /// The tokens of the leading events that the compaction does not change, up to the last cache breakpoint.
    pub prefix_tokens: u64,
    /// The tokens of the rest of the view, which the next request writes into the cache again.
    pub rewritten_tokens: u64,
    /// The price of asking a model for the summaries.
    pub summary: f64,
    /// The cost of the compaction in the present state of the cache. An unknown state counts as warm.
    pub one_time: f64,
    /// The cost of the compaction with a warm cache.
    pub one_time_warm: f64,
    /// The cost of the compaction with a cold cache.
    pub one_time_cold: f64,
    /// The cost of the view in each later request without the compaction.
    pub per_request_before: f64,
    /// The cost of the view in each later request with the compaction.
    pub per_request_after: f64,
    /// The number of requests after which the compaction has paid for itself. Null if nothing is saved.
    pub break_even_requests: Option<f64>,
}

/// A compaction that is due and waits, because it would not pay back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct AutoWait {
    /// The reason.
    pub reason: WaitReason,
    /// The number of requests after which the compaction would have paid for itself. Null if nothing would be saved.
    pub break_even_requests: Option<f64>,
    /// The number of requests until the view has `view_max` tokens, if the conversation grows as it did so far.
    pub requests_left: f64,
    /// The number of tokens in the view up to which a compaction waits.
    pub view_max: u64,
}

/// The reason why a compaction waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitReason {
    /// It would save nothing in any request.
    NeverPaysBack,
    /// It would pay back only after the window is almost full.
    PaysBackTooLate,
}

/// Whether a provider has a conversation in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheState {
    /// The last request is not older than the time to live.
    Warm,
    /// The last request is older than the time to live, so a compaction loses nothing.
    Cold,
    /// The transcript has no times.
    Unknown,
}
