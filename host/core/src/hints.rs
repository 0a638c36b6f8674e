//! The user's policies for single tools, called hints (RFD D17). They are stored with a `strip` policy, because the
//! projection knows only the stream. A new or changed hint must not change the effect of an existing overlay.

use std::collections::BTreeMap;

use jp_compact_schema::{Hint, ToolHint};

use crate::event::Kind;
use crate::overlay::{Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// Returns the hints that differ from a `strip` policy for calls in the range. A half without a hint uses the policy.
pub(crate) fn overrides(
    stream: &Stream,
    pairs: &Pairs,
    hints: &BTreeMap<String, ToolHint>,
    range: TurnRange,
    (request, response): (bool, bool),
) -> BTreeMap<String, ToolHint> {
    let differing = |policy: bool, hint: Option<Hint>| hint.filter(|hint| (*hint == Hint::Strip) != policy);
    let mut overrides: BTreeMap<String, ToolHint> = BTreeMap::new();
    if hints.is_empty() {
        return overrides;
    }
    for (element, event) in stream.events().iter().enumerate() {
        if !event.kind.is_tool() || !stream.is_in(range, element) {
            continue;
        }
        let tool = pairs.tool(stream, element);
        let Some(name) = tool.or_else(|| pairs.name_by_id(stream, element)) else { continue };
        let Some(hint) = hints.get(&*name) else { continue };
        let (request, response) = match event.kind {
            Kind::ToolRequest => (differing(request, hint.request), None),
            _ => (None, differing(response, hint.response)),
        };
        if request.is_some() || response.is_some() {
            let entry = overrides.entry(name.into_owned()).or_default();
            entry.request = entry.request.or(request);
            entry.response = entry.response.or(response);
        }
    }
    overrides
}

/// Returns whether an overlay has a `strip` policy that was made with other hints. Only the tools in the common part of its
/// range and `range` count.
#[must_use]
pub fn have_changed(
    stream: &Stream,
    pairs: &Pairs,
    hints: &BTreeMap<String, ToolHint>,
    overlay: &Overlay,
    range: TurnRange,
) -> bool {
    let Some(ToolPolicy::Strip { request, response, overrides: stored }) = &overlay.tool_calls else {
        return false;
    };
    if hints.is_empty() && stored.is_empty() {
        return false;
    }
    let common = overlay.effective_range(stream.turns()).and_then(|own| own.intersection(range));
    common.is_some_and(|common| {
        let overrides_with = |hints| overrides(stream, pairs, hints, common, (*request, *response));
        overrides_with(hints) != overrides_with(stored)
    })
}
