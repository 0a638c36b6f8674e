//! The cache of requests to a model whose answers were not used: the answer was rejected, led to no overlay, or saved
//! too little, or the compaction waits for a cold cache. `auto` and `query` must not pay for the same request twice.
//! All other commands always send their requests.

use std::collections::BTreeMap;

use jp_compact_runtime::digest;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file::Cache;
use jp_compact_runtime::small_file;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PreparedStrategy;
use jp_compact_core::TurnRange;
use jp_compact_core::select::Selected;
use jp_compact_schema::{Llm, ToolHint};

/// The failures of earlier requests, by the digest of the request. If a failure cannot be stored, the same request is
/// sent and paid again.
#[derive(Debug, Clone)]
pub struct LlmFailureCache(Cache<String, LlmFailure>);

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LlmFailure {
    /// The answer was rejected, with the reason.
    Refused(String),
    /// The strategy proposed no overlay that the run could use, with the reason.
    Unused(String),
    /// The run would have saved too little, with the reason. It declined the overlays of all strategies.
    #[serde(rename = "low")]
    LowSaving(String),
    /// The compaction of all strategies waits for a cold prompt cache. With a cold cache, the request is sent again.
    Waiting {
        /// The number of requests after which it would pay back. `None` if it never does.
        break_even_requests: Option<f64>,
    },
}

impl LlmFailureCache {
    /// Opens the cache of the user.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        let folder = environment.cache().map(|cache| cache.join("llm-failures"));
        Self(Cache::new(folder, small_file::RECORD))
    }

    pub(super) fn get(&self, key: &String) -> Option<LlmFailure> {
        self.0.get(key)
    }

    pub(super) fn put(&self, key: &String, failure: &LlmFailure) {
        self.0.put(key, failure);
    }
}

/// The values of a run that determine an answer, or the check of its saving.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestContext<'a> {
    /// All strategies of the run, because the saving is that of the whole run.
    pub(super) strategies: &'a [PreparedStrategy],
    pub(super) hints: &'a BTreeMap<String, ToolHint>,
    /// Whether the view may become larger.
    pub(super) allows_growth: bool,
    pub(super) min_saving: f64,
    /// The digest of the raw input.
    pub(super) input_sha256: &'a str,
    /// The tokens of the view, which depend on the existing overlays.
    pub(super) view_tokens: u64,
    /// The model that is asked, with its window.
    pub(super) llm: Option<&'a Llm>,
    /// The window of the conversation's model.
    pub(super) conversation_window: Option<u64>,
}

/// Returns the digest of all values that determine the answer and the check of its saving.
pub(super) fn key(strategy: &PreparedStrategy, selected: &Selected, context: RequestContext<'_>) -> String {
    let bounds = |range: TurnRange| [range.start(), range.end()];
    let described =
        |strategy: &PreparedStrategy| json!([strategy.described.confined.cleared.sha256, strategy.options]);
    let request = json!([
        described(strategy),
        context.strategies.iter().map(described).collect::<Vec<_>>(),
        bounds(selected.range),
        bounds(selected.requested),
        context.llm,
        context.conversation_window,
        context.input_sha256,
        context.view_tokens,
        context.hints,
        context.allows_growth,
        context.min_saving,
    ]);
    digest::of_bytes(request.to_string().as_bytes())
}
