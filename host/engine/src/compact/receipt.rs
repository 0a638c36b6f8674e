//! The receipts of a run: a new overlay gets one, and the receipts of existing overlays are compared with the strategy.

use jp_compact_core::append::{Entry, Receipt};
use jp_compact_core::validate::Compaction;
use jp_compact_runtime::trust::Cleared;
use serde_json::{Map, Value};

use super::PreparedStrategy;

/// Returns the entry of a compaction, with the receipt of the strategy that made it.
pub(super) fn entry(
    strategy: &PreparedStrategy,
    compaction: Compaction,
    input_sha256: &str,
    merges: Option<u32>,
) -> Entry {
    let described = &strategy.described;
    let receipt = Receipt {
        strategy: described.confined.cleared.plugin.name.clone(),
        version: described.description.version.clone(),
        executable_sha256: described.confined.cleared.sha256.clone(),
        options: strategy.options.clone(),
        input_sha256: input_sha256.to_owned(),
        tier: described.confined.tier().to_string(),
        merges,
    };
    Entry { compaction, receipt }
}

/// Returns whether the receipt names this strategy, with the same executable and options.
pub(super) fn names_strategy(receipt: &Map<String, Value>, strategy: &PreparedStrategy) -> bool {
    let Cleared { plugin, sha256, .. } = &strategy.described.confined.cleared;
    has_text(receipt, "strategy", plugin.name.as_str())
        && has_text(receipt, "version", &strategy.described.description.version)
        && has_text(receipt, "executable_sha256", sha256)
        && receipt.get("options").and_then(Value::as_object) == Some(&strategy.options)
}

/// Returns whether the receipt has this text at `key`.
pub(super) fn has_text(receipt: &Map<String, Value>, key: &str, text: &str) -> bool {
    receipt.get(key).and_then(Value::as_str) == Some(text)
}
