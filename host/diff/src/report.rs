//! The parts of a report about a comparison that depend on the whole stream: the tokens of both views, and the strategies
//! that made the overlays.

use jp_compact_core::estimate::Estimate;
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::receipts::receipts;
use jp_compact_core::{Stream, View};
use jp_compact_schema::document::{JpTokens, TokenCounts};
use serde_json::{Map, Value};

use crate::compare::Comparison;
use crate::selection::OverlayChoice;

/// Returns the strategies of each overlay, joined by commas, and the version of the first, from the receipts.
#[must_use]
pub fn overlay_origins(stream: &Stream) -> Vec<Option<(String, String)>> {
    // Several strategies can share an overlay.
    let origin = |receipts: Vec<Map<String, Value>>| {
        let values = |name: &str| -> Vec<String> {
            receipts.iter().filter_map(|receipt| receipt.get(name)?.as_str().map(str::to_owned)).collect()
        };
        let version = values("version").into_iter().next()?;
        Some((values("strategy").join(", "), version))
    };
    receipts(stream).into_iter().map(origin).collect()
}

/// Returns the tokens of both views, and of the views that JP sends.
#[must_use]
pub fn view_tokens(comparison: &Comparison<'_>, choice: &OverlayChoice, estimate: &Estimate) -> TokenCounts {
    let Comparison { stream, pairs, before, after, .. } = comparison;
    let raw = estimate.stream_tokens();
    let jp_tokens = |overlays: &[Overlay], view: &View| {
        let jp_view = jp_view_with(stream, pairs, overlays);
        estimate.view_tokens(jp_view.as_ref().map_or(view, |jp_view| &jp_view.view))
    };
    let jp = stream.is_jp().then(|| JpTokens {
        raw,
        view_before: jp_tokens(&choice.before, before),
        view_after: jp_tokens(&choice.after, after),
    });
    TokenCounts {
        raw,
        view_before: estimate.view_tokens(before),
        view_after: estimate.view_tokens(after),
        jp,
    }
}
