//! The existing overlays of a strategy. A batch does not repeat finished work. An overlay counts only if the strategy
//! would make the same overlay again and the view still shows it.

use jp_compact_core::append;
use jp_compact_core::hints;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::shown_in_range;
use jp_compact_core::receipts::receipts;
use jp_compact_core::validate::Compaction;
use jp_compact_core::{Pairs, Stream, Survey, TurnRange};

use super::ask::ProposalCollector;
use super::{PreparedStrategy, receipt};

impl ProposalCollector<'_> {
    /// Returns the number of the first existing overlay, if this strategy made overlays for the complete range. In JP's
    /// conversations, a range with steps can have one overlay for each piece.
    pub(super) fn find_overlay_of_range(
        &mut self,
        strategy: &PreparedStrategy,
        range: TurnRange,
    ) -> Option<usize> {
        let number = self.find_overlay(strategy, |overlay| overlay.has_range(range));
        if number.is_some() {
            return number;
        }
        let mut first = None;
        for piece in range.pieces() {
            let number = self.find_overlay(strategy, |overlay| overlay.has_range(piece))?;
            first = first.or(Some(number));
        }
        first
    }

    /// Returns the number of the first existing overlay, if the transcript already has all overlays of these
    /// compactions.
    pub(super) fn find_equal_overlays(
        &mut self,
        strategy: &PreparedStrategy,
        compactions: &[Compaction],
    ) -> Option<usize> {
        let mut first = None;
        for compaction in compactions {
            for new in append::unstamped_overlays(self.survey.stream, compaction) {
                let number = self.find_overlay(strategy, |existing| new.has_same_effect(existing))?;
                first = first.or(Some(number));
            }
        }
        first
    }

    /// Returns the number of the first overlay that meets three conditions: `matches` accepts it, this strategy made it
    /// from the same raw events with the same hints, and the view still shows its policies. `matches` gets the overlay
    /// with the policies of this strategy only.
    fn find_overlay(
        &mut self,
        strategy: &PreparedStrategy,
        matches: impl Fn(&Overlay) -> bool,
    ) -> Option<usize> {
        let Survey { stream, pairs, .. } = self.survey;
        if !self.run.policy.skip_existing || stream.overlays().is_empty() {
            return None;
        }
        let receipts = self.receipts.get_or_insert_with(|| receipts(stream));
        let own: Vec<Option<Overlay>> = (stream.overlays().iter().zip(receipts.iter()))
            .map(|(overlay, receipts)| receipt::overlay_of(strategy, overlay, receipts))
            .collect();
        for (number, overlay) in (1..).zip(&own) {
            let Some(overlay) = overlay.as_ref().filter(|overlay| matches(overlay)) else { continue };
            let input_sha256 = self.input_digest.get(stream);
            if receipt::has_input(&receipts[number - 1], input_sha256)
                && !is_replaced(stream, pairs, overlay, &own)
                && !overlay.range().is_some_and(|range| {
                    hints::have_changed(stream, pairs, &self.run.policy.hints, overlay, range)
                })
            {
                return Some(number);
            }
        }
        None
    }
}

/// Returns whether the view shows a newer policy of another strategy in place of a policy of this overlay. `own` has
/// the overlays of the same strategy.
fn is_replaced(stream: &Stream, pairs: &Pairs, overlay: &Overlay, own: &[Option<Overlay>]) -> bool {
    let Some(range) = overlay.effective_range(stream.turns()) else { return false };
    let shown = shown_in_range(stream, pairs, range).overlays;
    let mut others = shown.iter().zip(own).filter(|(_, own)| own.is_none());
    others.any(|(shown, _)| {
        (overlay.reasoning.is_some() && shown.reasoning)
            || (matches!(overlay.tool_calls, Some(ToolPolicy::Strip { .. } | ToolPolicy::Omit))
                && shown.tool_calls)
    })
}
