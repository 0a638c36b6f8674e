//! The report of a run: the outcome of each strategy, and the sizes of our view and of JP's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jp_compact_core::append::{Entry, NewOverlay};
use jp_compact_core::jp_view::{Difference, JpView, jp_view_with};
use jp_compact_core::lint::Violation;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::select::{Note, NothingToCompact};
use jp_compact_core::{Survey, View};
use jp_compact_schema::document::{AutoWait, CacheCost, JpTokens, LostPaths, OverlayReport, TokenCounts};
use jp_compact_schema::{Diagnostic, Level, Log, Payload};
use jp_compact_transcripts::Format;

use super::receipt::summary_texts;
use super::wait::WaitRule;
use super::{Opened, PreparedStrategy, guard};
use jp_compact_store::SidecarFile;

/// The result of a run on one transcript. The estimator of the run counts the tokens.
#[derive(Debug)]
pub struct RunReport {
    pub path: PathBuf,
    pub format: Format,
    /// The file with the overlays: the transcript or its sidecar.
    pub written_to: PathBuf,
    /// The conversation's id, if it has one.
    pub id: Option<String>,
    /// The reason why no strategy was asked.
    pub nothing_to_compact: Option<NothingToCompact>,
    /// Remarks about the ranges.
    pub notes: Vec<Note>,
    /// One step per strategy, in order.
    pub steps: Vec<Step>,
    /// The tokens of the raw events.
    pub tokens_raw: u64,
    /// The tokens of the view before the run.
    pub tokens_before: u64,
    /// The tokens of the view after the run.
    pub tokens_after: u64,
    /// The size of JP's own view, if the conversation is JP's.
    pub sent_by_jp: Option<SentByJp>,
    /// The cost in the provider's cache, if it was requested and there is a result.
    pub cache_cost: Option<CacheCost>,
    /// The paths that stripped calls lose, if that was requested.
    pub lost_paths: Option<LostPaths>,
    /// The reason why the run waits, if a rule makes it wait.
    pub wait: Option<AutoWait>,
    /// The turns whose number of tokens in the view changes, in order.
    pub changed_turns: Vec<TurnChange>,
    /// The saved part of the view, if it is below the minimum.
    pub low_saving: Option<f64>,
    /// The violations that the run introduced, if the user allowed them.
    pub introduced_violations: Vec<Violation>,
    /// The violations that the view before the run, or the raw events, already have.
    pub existing_violations: Vec<Violation>,
}

/// The estimated tokens that JP itself sends. Overlays that only `jp-compact` applies do not change them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentByJp {
    pub before: u64,
    pub after: u64,
    /// The reason why JP's view differs from ours.
    pub difference: Option<Difference>,
}

impl SentByJp {
    /// Estimates the tokens that JP sends for a stream with these overlays. If JP's view equals ours, these are
    /// `view_tokens`.
    fn estimate(survey: &Survey<'_>, overlays: &[Overlay], view_tokens: u64) -> (u64, Option<Difference>) {
        match jp_view_with(survey.stream, &survey.pairs, overlays) {
            Some(JpView { view, difference }) => (survey.estimate.view_tokens(&view), Some(difference)),
            None => (view_tokens, None),
        }
    }
}

/// The tokens of one turn in the view, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnChange {
    /// The number of the turn.
    pub turn: usize,
    pub before: u64,
    /// A summary counts for its first turn. Its other turns have 0.
    pub after: u64,
}

/// The result of one strategy.
#[derive(Debug)]
pub struct Step {
    pub strategy: String,
    pub version: String,
    pub outcome: StrategyOutcome,
    /// The tokens that the view shows again, because a policy of this strategy replaces an older policy.
    pub restored_tokens: u64,
    pub logs: Vec<(Level, String)>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Step {
    pub(super) fn add_logs(&mut self, logs: Vec<Log>) {
        self.logs.extend(logs.into_iter().map(|log| (log.level, log.message)));
    }

    /// Adds the texts of declined summaries that a model wrote. The user has paid for them.
    pub(super) fn add_declined_summaries(&mut self, strategy: &PreparedStrategy, payloads: &[Payload]) {
        if strategy.needs_model() {
            let texts = summary_texts(payloads);
            self.logs.extend(
                texts.map(|text| (Level::Info, format!("the text of the declined summary:\n{text}"))),
            );
        }
    }
}

/// The outcome of asking one strategy.
#[derive(Debug)]
pub enum StrategyOutcome {
    /// The overlays that it made, each with the policies of this strategy only.
    NewOverlays(Vec<NewOverlay>),
    /// The reason why it made none.
    Declined(String),
    /// The request to a model that a dry run did not send.
    WouldAsk(String),
    /// The number of the existing overlay that it would repeat.
    AlreadyExists(usize),
}

/// Returns the entry of a new overlay in a document.
#[must_use]
pub fn overlay_report(new_overlay: &NewOverlay, step: &Step, strategy: &PreparedStrategy) -> OverlayReport {
    let confined = &strategy.described.confined;
    OverlayReport {
        number: new_overlay.number,
        from_turn: new_overlay.overlay.from_turn,
        to_turn: new_overlay.overlay.to_turn,
        from_step: new_overlay.overlay.from_step,
        to_step: new_overlay.overlay.to_step,
        kinds: new_overlay.overlay.policy_names().into_iter().map(str::to_owned).collect(),
        strategy: step.strategy.clone(),
        version: step.version.clone(),
        executable_sha256: confined.cleared.sha256.clone(),
        tier: confined.tier().to_string(),
        applied_by_jp: new_overlay.overlay.applied_by_jp,
    }
}

impl RunReport {
    /// Returns the report before any strategy has run.
    pub(super) fn new(opened: &Opened, survey: &Survey<'_>) -> Self {
        let Opened { place, sidecar_file, stream, .. } = opened;
        let tokens = survey.estimate.view_tokens(&survey.view);
        let sent_by_jp = (stream.format() == Format::Jp).then(|| {
            let (sent, difference) = SentByJp::estimate(survey, survey.stream.overlays(), tokens);
            SentByJp { before: sent, after: sent, difference }
        });
        Self {
            path: place.path().to_owned(),
            format: stream.format(),
            written_to: sidecar_file.as_ref().map_or(place.path(), SidecarFile::path).to_owned(),
            id: place.id().map(str::to_owned),
            nothing_to_compact: None,
            notes: Vec::new(),
            steps: Vec::new(),
            tokens_raw: survey.estimate.stream_tokens(),
            tokens_before: tokens,
            tokens_after: tokens,
            sent_by_jp,
            cache_cost: None,
            lost_paths: None,
            wait: None,
            changed_turns: Vec::new(),
            low_saving: None,
            introduced_violations: Vec::new(),
            existing_violations: Vec::new(),
        }
    }

    /// Begins the report again, with the sizes of the current view. The results of the strategies stay.
    pub(super) fn restart(&mut self, opened: &Opened, survey: &Survey<'_>) {
        let fresh = Self::new(opened, survey);
        let earlier = std::mem::replace(self, fresh);
        (self.notes, self.steps, self.wait) = (earlier.notes, earlier.steps, earlier.wait);
    }

    /// Returns the sizes for a document.
    #[must_use]
    pub fn tokens(&self) -> TokenCounts {
        let raw = self.tokens_raw;
        let jp =
            self.sent_by_jp.as_ref().map(|jp| JpTokens { raw, view_before: jp.before, view_after: jp.after });
        TokenCounts { raw, view_before: self.tokens_before, view_after: self.tokens_after, jp }
    }

    /// Iterates over the new overlays in the order of their numbers, each with the step of its strategy.
    pub fn new_overlays(&self) -> impl Iterator<Item = (&Step, &NewOverlay)> {
        let mut overlays = Vec::new();
        for step in &self.steps {
            if let StrategyOutcome::NewOverlays(new) = &step.outcome {
                overlays.extend(new.iter().map(|overlay| (step, overlay)));
            }
        }
        overlays.sort_by_key(|(_, new)| new.number);
        overlays.into_iter()
    }

    /// Returns the saved part of the view, negative if the view grew.
    #[must_use]
    pub fn saved(&self) -> f64 {
        guard::saved_part(self.tokens_before, self.tokens_after)
    }

    /// Returns the reason to decline overlays that save too little.
    pub(super) fn low_saving_reason(&self, min_saving: f64) -> String {
        let (saved, minimum) = (self.saved() * 100.0, guard::percent_of(min_saving));
        format!("it would save {saved:.1} % of the view; the minimum is {minimum} % (min_saving)")
    }

    /// Returns the reason to wait, by a rule and the cost of the run.
    pub(super) fn reason_to_wait(&self, rule: Option<WaitRule>, survey: &Survey<'_>) -> Option<AutoWait> {
        rule?.reason(self.cache_cost.as_ref()?, survey, self.tokens_before)
    }

    /// Replaces the overlays of every strategy with a decline with this reason.
    pub(super) fn decline_all(&mut self, reason: &str) {
        for step in &mut self.steps {
            if let StrategyOutcome::NewOverlays(_) = step.outcome {
                step.outcome = StrategyOutcome::Declined(reason.to_owned());
                step.restored_tokens = 0;
            }
        }
        self.tokens_after = self.tokens_before;
    }

    /// Returns the number of new overlays. Several strategies can share an overlay.
    #[must_use]
    pub fn count_new_overlays(&self) -> usize {
        self.new_overlays().map(|(_, new)| new.number).collect::<BTreeSet<_>>().len()
    }

    /// Returns whether a dry run did not ask a model that the real run would ask.
    #[must_use]
    pub fn would_ask(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.outcome, StrategyOutcome::WouldAsk(_)))
    }

    /// Returns the tokens that the view shows again, because new policies replace older ones.
    #[must_use]
    pub fn restored_tokens(&self) -> u64 {
        self.steps.iter().map(|step| step.restored_tokens).sum()
    }

    /// Returns a remark for each strategy that restores events.
    #[must_use]
    pub fn restore_notes(&self, dry_run: bool) -> Vec<String> {
        let verb = if dry_run { "would restore" } else { "restores" };
        let restoring = self.steps.iter().filter(|step| step.restored_tokens > 0);
        let note = |step: &Step| {
            let (strategy, tokens) = (&step.strategy, step.restored_tokens);
            format!("{strategy} {verb} {tokens} tokens, because it replaces an older policy")
        };
        restoring.map(note).collect()
    }

    /// Updates the token counts after the run, for our view and for JP's view.
    pub(super) fn set_sizes_after(&mut self, survey: &Survey<'_>, new_overlays: &[NewOverlay], view: &View) {
        self.tokens_after = survey.estimate.view_tokens(view);
        if let Some(jp) = &mut self.sent_by_jp {
            let overlays = guard::all_overlays(survey.stream, new_overlays);
            (jp.after, jp.difference) = SentByJp::estimate(survey, &overlays, self.tokens_after);
        }
    }

    /// Adds the overlays to the steps that made them. `entry_steps` has the index of the step of each entry.
    pub(super) fn add_overlays(
        &mut self,
        entries: &[Entry],
        entry_steps: &[usize],
        new_overlays: &[NewOverlay],
    ) {
        for new_overlay in new_overlays {
            let mut kinds_by_step: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
            for entry in &new_overlay.entries {
                let kinds = entries[*entry].compaction.kinds();
                kinds_by_step.entry(entry_steps[*entry]).or_default().extend(kinds);
            }
            for (step, kinds) in kinds_by_step {
                if let StrategyOutcome::NewOverlays(overlays) = &mut self.steps[step].outcome {
                    let overlay = new_overlay.overlay.with_kinds(&kinds);
                    overlays.push(NewOverlay { overlay, ..new_overlay.clone() });
                }
            }
        }
    }

    /// Adds the notes that the report does not have yet.
    pub(super) fn add_notes(&mut self, notes: &[Note]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(*note);
            }
        }
    }
}
