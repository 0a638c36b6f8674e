//! The receipts of a run. A new overlay gets a receipt from each strategy that made a part of it. The receipts of
//! existing overlays are compared with the current strategy.

use jp_compact_core::append::{Entry, Receipt};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::receipts;
use jp_compact_core::validate::Compaction;
use jp_compact_runtime::trust::Cleared;
use jp_compact_schema::Payload;
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

/// Returns the part of an overlay that this strategy made with the same executable and options, according to the
/// overlay's receipts.
pub(super) fn overlay_of(
    strategy: &PreparedStrategy,
    overlay: &Overlay,
    receipts: &[Map<String, Value>],
) -> Option<Overlay> {
    let receipt = receipts.iter().find(|receipt| names_strategy(receipt, strategy))?;
    Some(match receipts::kinds(receipt) {
        Some(kinds) => overlay.with_kinds(&kinds),
        None => overlay.clone(),
    })
}

fn names_strategy(receipt: &Map<String, Value>, strategy: &PreparedStrategy) -> bool {
    let Cleared { plugin, sha256, .. } = &strategy.described.confined.cleared;
    has_text(receipt, "strategy", plugin.name.as_str())
        && has_text(receipt, "version", &strategy.described.description.version)
        && has_text(receipt, "executable_sha256", sha256)
        && receipt.get("options").and_then(Value::as_object) == Some(&strategy.options)
}

/// Returns whether the overlay with these receipts was made from the raw input with this digest.
pub(super) fn has_input(receipts: &[Map<String, Value>], input_sha256: &str) -> bool {
    receipts.iter().any(|receipt| has_text(receipt, "input_sha256", input_sha256))
}

/// Returns whether the receipt has this text at `key`.
fn has_text(receipt: &Map<String, Value>, key: &str, text: &str) -> bool {
    receipt.get(key).and_then(Value::as_str) == Some(text)
}

/// Returns the texts of the summaries, except for blank ones.
pub(super) fn summary_texts(payloads: &[Payload]) -> impl Iterator<Item = String> {
    let summaries = payloads.iter().filter_map(|payload| payload.summary.as_ref());
    summaries.map(|summary| summary.summary.clone()).filter(|text| !text.trim().is_empty())
}
