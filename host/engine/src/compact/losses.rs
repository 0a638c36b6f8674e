//! The number of file paths that a view loses because the arguments and the results of calls are stripped. RFD 064's
//! default profile for JP strips both. JP also has a policy that keeps the arguments (docs/evidence.md).

use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::{Stream, View};
use jp_compact_evidence::lost_paths::PathCounts;
use jp_compact_schema::document::{BetterPolicy, LostPaths};

/// The policy that keeps the arguments.
const BETTER: &str = "strip-responses";

/// Counts the paths that a view of a conversation of JP lost, if one of these overlays strips arguments. This function
/// reads the whole view, so it is called only for a report.
#[must_use]
pub fn lost_paths<'a>(
    stream: &Stream,
    overlays: impl IntoIterator<Item = &'a Overlay>,
    view: &View,
) -> Option<LostPaths> {
    let strips_arguments = |overlay: &Overlay| {
        matches!(&overlay.tool_calls, Some(ToolPolicy::Strip { request: true, .. })) && !overlay.stale
    };
    if !stream.is_jp() || !overlays.into_iter().any(strips_arguments) {
        return None;
    }
    let counts = PathCounts::new(stream, view);
    let better = || BetterPolicy { tool_calls: BETTER.to_owned(), lost: counts.lost_in_results };
    Some(LostPaths {
        stripped: counts.stripped,
        lost: counts.lost,
        is_much: counts.is_much(),
        better: (counts.lost_in_results < counts.lost).then(better),
    })
}
