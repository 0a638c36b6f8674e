//! The cache of requests without a usable answer of a model: a summary was rejected, or saved too little. `auto` and
//! `query` must not pay for the same request twice. All other commands always send their requests.

use jp_compact_runtime::digest;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file::Cache;
use jp_compact_runtime::small_file;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PreparedStrategy;
use jp_compact_core::TurnRange;
use jp_compact_core::select::Selected;

/// The failures of earlier requests, by the digest of the request. If a failure cannot be stored, the same request is
/// sent and paid again.
#[derive(Debug, Clone)]
pub struct LlmFailureCache(Cache<String, LlmFailure>);

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LlmFailure {
    /// The answer was rejected, with the reason.
    Refused(String),
    /// The answer would have saved too little, with the reason.
    #[serde(rename = "low")]
    LowSaving(String),
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

/// Returns the digest of all values that determine the answer and the check of its saving.
pub(super) fn key(
    strategy: &PreparedStrategy,
    selected: &Selected,
    model: Option<&str>,
    input_sha256: &str,
    min_saving: f64,
) -> String {
    let bounds = |range: TurnRange| [range.start(), range.end()];
    let request = json!([
        strategy.described.confined.cleared.sha256,
        strategy.options,
        bounds(selected.range),
        bounds(selected.requested),
        model,
        input_sha256,
        min_saving,
    ]);
    digest::of_bytes(request.to_string().as_bytes())
}
