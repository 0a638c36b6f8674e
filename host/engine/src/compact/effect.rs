//! The effect of one proposal on the view: whether it makes the view larger, and whether it changes anything. It follows
//! from the real projection. The check must not ask a strategy or a model.

use jiff::Timestamp;
use jp_compact_core::Survey;
use jp_compact_core::append::{self, Entry};
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::{project_with_pairs, shown_in_range};
use jp_compact_core::validate::Compaction;
use jp_compact_schema::ContentKind;

/// A proposal, and the state that it changes.
pub(super) struct Effect<'a> {
    pub(super) survey: &'a Survey<'a>,
    /// The entries that this run already proposes.
    pub(super) earlier: &'a [Entry],
    pub(super) compactions: &'a [Compaction],
}

impl Effect<'_> {
    /// Returns the tokens by which the proposal alone makes the view larger. Without older overlays, it returns 0,
    /// because there is nothing to restore. The growth of the whole run is checked separately.
    pub(super) fn growth(&self) -> u64 {
        let Survey { stream, pairs, view, estimate, .. } = self.survey;
        if stream.overlays().is_empty() {
            return 0;
        }
        let new_view = project_with_pairs(stream, pairs, &self.overlays(&[]));
        estimate.view_tokens(&new_view).saturating_sub(estimate.view_tokens(view))
    }

    /// Returns whether a policy replaces an older policy of the same kind. A compaction with a summary does not count.
    pub(super) fn replaces_policy(&self) -> bool {
        let Survey { stream, pairs, .. } = self.survey;
        self.compactions.iter().any(|compaction| {
            let shown = shown_in_range(stream, pairs, compaction.range()).overlays;
            let replaces = |has_policy: bool, kind| has_policy && shown.iter().any(|older| older.shows(kind));
            compaction.summary().is_none()
                && (replaces(compaction.reasoning().is_some(), ContentKind::Reasoning)
                    || replaces(compaction.tool_calls().is_some(), ContentKind::ToolCalls))
        })
    }

    /// Returns whether the proposal, added to the earlier proposals of the run, changes neither our view nor JP's view.
    /// Without `with_overlays`, returns false for a proposal that cannot repeat one of the earlier proposals.
    pub(super) fn adds_nothing(&self, with_overlays: bool) -> bool {
        if !with_overlays && !self.earlier.iter().any(|entry| self.may_repeat(&entry.compaction)) {
            return false;
        }
        let Survey { stream, pairs, .. } = self.survey;
        let before = Self { compactions: &[], ..*self }.overlays(self.earlier);
        let after = self.overlays(self.earlier);
        let view_before = project_with_pairs(stream, pairs, &before);
        if view_before != project_with_pairs(stream, pairs, &after) {
            return false;
        }
        // Our view stays the same. JP sends this view, or a view of its own, which may change.
        let sent_by_jp = |overlays: &[Overlay]| jp_view_with(stream, pairs, overlays).map(|jp| jp.view);
        !stream.is_jp()
            || sent_by_jp(&before).as_ref().unwrap_or(&view_before)
                == sent_by_jp(&after).as_ref().unwrap_or(&view_before)
    }

    /// Returns whether the proposal could have the same effect as an earlier compaction.
    fn may_repeat(&self, earlier: &Compaction) -> bool {
        let shares_kind = |compaction: &Compaction| {
            let kinds = earlier.kinds();
            earlier.summary().is_some() || compaction.kinds().iter().any(|kind| kinds.contains(kind))
        };
        self.compactions.iter().any(|compaction| {
            compaction.summary().is_none()
                && compaction.range().overlaps(earlier.range())
                && shares_kind(compaction)
        })
    }

    /// Returns the overlays of the stream, of the entries, and of the proposal. A later overlay wins over an earlier one
    /// with the same stamp.
    fn overlays(&self, entries: &[Entry]) -> Vec<Overlay> {
        let stream = self.survey.stream;
        let compactions = entries.iter().map(|entry| &entry.compaction).chain(self.compactions);
        let new_overlays = compactions.flat_map(|compaction| append::unstamped_overlays(stream, compaction));
        let new_overlays = new_overlays.map(|overlay| Overlay { stamp: Timestamp::MAX, ..overlay });
        stream.overlays().iter().cloned().chain(new_overlays).collect()
    }
}
