//! The winning overlays of each turn. Here, overlays cover whole turns, and JP reads every policy for tool calls, so
//! the two halves of a call are independent. The rules are those of `jp_compact_core::projection`.

use jp_compact_core::event::Kind;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::{Stream, TurnRange};

/// The effect of the overlays on some consecutive turns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnPolicy {
    pub(crate) from_turn: usize,
    /// The overlay with the summary, and the first turn that the summary replaces.
    pub(crate) summary: Option<(usize, usize)>,
    pub(crate) strips_reasoning: bool,
    pub(crate) calls: CallPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CallPolicy {
    #[default]
    Keep,
    Omit,
    Strip {
        request: bool,
        response: bool,
    },
}

/// Returns whether the overlays need more than the winner of each turn: parts of turns, or policies that depend on a
/// single call or on its tool.
pub(crate) fn needs_pairs(overlays: &Stream) -> bool {
    let is_step = overlays.events().iter().any(|event| event.kind == Kind::StepOverlay);
    is_step || overlays.overlays().iter().any(|overlay| overlay.has_steps() || depends_on_calls(overlay))
}

/// Returns whether an overlay has a policy that depends on a single call or on its tool.
pub(crate) fn depends_on_calls(overlay: &Overlay) -> bool {
    !overlay.applied_by_jp && overlay.tool_calls.is_some()
}

/// Returns whether responses are replaced by their status lines, which name the tool.
pub(crate) fn strips_responses(policies: &[TurnPolicy]) -> bool {
    policies.iter().any(|policy| matches!(policy.calls, CallPolicy::Strip { response: true, .. }))
}

/// Returns the policies of a transcript of `turns` turns, in order. The first policy is for turn 0.
pub(crate) fn turn_policies(overlays: &[Overlay], turns: usize) -> Vec<TurnPolicy> {
    let ranges: Vec<_> = overlays.iter().map(|overlay| overlay.effective_range(turns)).collect();
    let mut starts = vec![0];
    for range in ranges.iter().flatten() {
        starts.extend([range.from(), range.to() + 1]);
    }
    starts.sort_unstable();
    starts.dedup();
    let mut policies: Vec<TurnPolicy> = Vec::with_capacity(starts.len());
    for from_turn in starts {
        let winner = |has_policy: fn(&Overlay) -> bool| winner(overlays, &ranges, from_turn, has_policy);
        let calls = winner(|overlay| overlay.tool_calls.is_some());
        let summary = winner(|overlay| overlay.summary.is_some());
        // The same summary in the turns directly before: the text, the range, and the time are the same.
        let key = |index: usize| {
            let overlay = &overlays[index];
            (overlay.summary.as_deref(), overlay.range(), overlay.stamp)
        };
        let before = policies.last().and_then(|before| before.summary);
        let summary = summary.map(|index| match before {
            Some((other, first)) if other == index || key(other) == key(index) => (index, first),
            _ => (index, from_turn),
        });
        policies.push(TurnPolicy {
            from_turn,
            summary,
            strips_reasoning: winner(|overlay| overlay.reasoning.is_some()).is_some(),
            calls: calls.map_or(CallPolicy::Keep, |index| call_policy(&overlays[index])),
        });
    }
    policies
}

/// Returns the newest overlay with a policy in a turn. Of two overlays with the same time, the later in the file wins.
fn winner(
    overlays: &[Overlay],
    ranges: &[Option<TurnRange>],
    turn: usize,
    has_policy: fn(&Overlay) -> bool,
) -> Option<usize> {
    let in_turn = |index: &usize| ranges[*index].is_some_and(|range| range.contains(turn));
    (0..overlays.len())
        .filter(in_turn)
        .filter(|index| has_policy(&overlays[*index]))
        .max_by_key(|index| overlays[*index].stamp)
}

fn call_policy(overlay: &Overlay) -> CallPolicy {
    match overlay.tool_calls {
        Some(ToolPolicy::Strip { request, response, .. }) => CallPolicy::Strip { request, response },
        Some(ToolPolicy::Omit) => CallPolicy::Omit,
        Some(ToolPolicy::Selective(_)) | None => CallPolicy::Keep,
    }
}
