//! The part of the report of `eval` about cost. All costs are in tokens of uncached input.

use serde::{Deserialize, Serialize};

/// The price list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalPrices {
    /// The source of the prices.
    pub source: String,
    /// The date of the prices.
    pub date: String,
    /// Whether a person compared the prices with the provider's page.
    pub verified: bool,
    /// The families of models. The first one is the default.
    pub families: Vec<EvalPriceFamily>,
}

/// The prices of a family of models, relative to uncached input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalPriceFamily {
    /// The name of the family, for example `anthropic`.
    pub name: String,
    /// The models.
    pub models: String,
    /// The price of reading a cached token.
    pub read: f64,
    /// The price of writing a token into the cache.
    pub write: f64,
    /// The price of an output token.
    pub output: f64,
    /// The length of a cached prefix is a multiple of this number of tokens. 0 if the cache keeps whole requests.
    pub block: u64,
    /// The cache forgets a prefix after this number of minutes without a request.
    pub ttl_minutes: u32,
}

/// The cost of one compaction at each cut, summed over all cuts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalCache {
    /// The part of the prefix that the cache still has after the compaction, in percent of its tokens.
    pub prefix_kept_percent: f64,
    /// The number of requests after which a compaction has paid for itself, with a warm cache, for the first family.
    /// Null if nothing is saved.
    pub break_even_requests: Option<f64>,
    /// The cost for each family of models.
    pub families: Vec<EvalCost>,
}

/// The cost of the compactions for one family of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalCost {
    /// The name of the family.
    pub family: String,
    /// The tokens of the leading events that the compactions do not change, up to the last cache breakpoint.
    pub prefix_tokens: u64,
    /// The price of asking a model for the summaries.
    pub summary: f64,
    /// The cost of the compactions with a warm cache.
    pub one_time_warm: f64,
    /// The cost of the compactions with a cold cache.
    pub one_time_cold: f64,
    /// The cost of the prefixes in each later request without the compactions.
    pub per_request_before: f64,
    /// The cost of the views in each later request with the compactions.
    pub per_request_after: f64,
    /// The number of requests after which the compactions have paid for themselves. Null if nothing is saved.
    pub break_even_requests: Option<f64>,
}

/// The cost of whole sessions in which `auto` compacts with the strategy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalReplay {
    /// The cost of all requests.
    pub cost: f64,
    /// The number of requests.
    pub requests: usize,
    /// The tokens of the largest request.
    pub largest_context: u64,
    /// The number of compactions.
    pub compactions: usize,
    /// The number of requests that are larger than the window.
    pub above_window: usize,
}
