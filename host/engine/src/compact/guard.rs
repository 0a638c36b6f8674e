//! The guard before an append. It finds the lint rules that overlays would violate (docs/reference/lint-rules.md), lost
//! constraints, growth, and savings that are too small. It checks the result of the real projection.

use crate::constraints::{CompactedRange, LostConstraint, lost_constraints};
use jp_compact_core::append::{Entry, NewOverlay};
use jp_compact_core::lint::{self, Violation};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::{project_with_overlays, project_with_pairs};
use jp_compact_core::render::{Provider, render_unrepaired};
use jp_compact_core::{Pairs, Stream, Survey, View};

/// The default minimum saving of a compaction, as a part of the view.
pub const MIN_SAVING: f64 = 0.01;

/// An error lists at most this many constraints.
const CONSTRAINTS_SHOWN: usize = 10;

/// The handling of a compaction that saves too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLowSaving {
    /// Append it, and print a warning.
    Warn,
    /// Append nothing.
    Decline,
}

/// The handling of a proposal that makes the view larger. Such a proposal may restore events that the user hid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnGrowth {
    /// Append it, because the user named the strategy or the profile in the command, or gave `--restore` to a batch.
    Append,
    /// Decline it, because the configuration named the strategy or the profile.
    DeclineConfigured,
    /// Decline it, because an automatic compaction must save tokens, even if the user named its profile.
    DeclineInAuto,
    /// Decline it, because in a batch only an option allows growth.
    DeclineInBatch,
}

impl OnGrowth {
    /// Returns the handling in a batch.
    #[must_use]
    pub fn in_batch(restore: bool) -> Self {
        if restore { Self::Append } else { Self::DeclineInBatch }
    }

    /// Returns the reason to decline a proposal that adds these tokens to the view.
    pub(super) fn reason_to_decline(self, tokens: u64) -> Option<String> {
        let remedy = match self {
            Self::Append => return None,
            Self::DeclineConfigured => {
                "only a strategy or a profile that is named in the command may do that (`--profile NAME`)"
            }
            Self::DeclineInAuto => {
                "only a command without `auto` may do that (`jp-compact TRANSCRIPT --profile NAME`)"
            }
            Self::DeclineInBatch => "`--restore` allows that",
        };
        Some(format!("it would make the view larger by {tokens} tokens; {remedy}"))
    }
}

/// The violations that a result would introduce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintFailed(pub Vec<Violation>);

impl std::fmt::Display for LintFailed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for LintFailed {}

/// The constraints of the user that a result would lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstraintsLost(pub Vec<LostConstraint>);

impl std::fmt::Display for ConstraintsLost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.0.iter().take(CONSTRAINTS_SHOWN);
        let mut lines: Vec<_> = shown.map(|lost| format!("turn {}: {}", lost.turn, lost.sentence)).collect();
        if self.0.len() > CONSTRAINTS_SHOWN {
            lines.push(format!("and {} more", self.0.len() - CONSTRAINTS_SHOWN));
        }
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConstraintsLost {}

/// Checks that the view of a result loses no constraint that the user stated in the compacted ranges.
pub(super) fn check_constraints(
    survey: &Survey<'_>,
    entries: &[Entry],
    new_view: &View,
) -> Result<(), ConstraintsLost> {
    let range = |entry: &Entry| CompactedRange {
        range: entry.compaction.range(),
        is_summarized: entry.compaction.summary().is_some(),
    };
    let ranges: Vec<CompactedRange> = entries.iter().map(range).collect();
    let lost = lost_constraints(survey.stream, &ranges, (&survey.view, new_view));
    if lost.is_empty() { Ok(()) } else { Err(ConstraintsLost(lost)) }
}

/// The view of a stream with proposed overlays, and its violations.
#[derive(Debug)]
pub(super) struct Forecast {
    pub(super) view: View,
    /// The violations that the overlays introduce.
    pub(super) introduced: Vec<Violation>,
    /// The violations that the old view or the raw events already have.
    pub(super) existing: Vec<Violation>,
}

/// Projects the stream with the new overlays, and compares the violations of the new view with the violations of the
/// old view.
pub(super) fn forecast(
    stream: &Stream,
    pairs: &Pairs,
    old_view: &View,
    new_overlays: &[NewOverlay],
    providers: &[Provider],
) -> Forecast {
    let overlays = all_overlays(stream, new_overlays);
    let view = project_with_pairs(stream, pairs, &overlays);
    let violations_after = violations(stream, pairs, &overlays, &view, providers);
    if violations_after.is_empty() {
        return Forecast { view, introduced: Vec::new(), existing: Vec::new() };
    }
    let violations_before = violations(stream, pairs, stream.overlays(), old_view, providers);
    let (introduced, mut existing) = lint::split_introduced(&violations_before, violations_after);
    if introduced.is_empty() {
        return Forecast { view, introduced, existing };
    }
    // An older overlay may have hidden a violation of the raw events, which a newer overlay shows again.
    let raw_violations = violations(stream, pairs, &[], &project_with_overlays(stream, &[]), providers);
    let (introduced, shown_again) = lint::split_introduced(&raw_violations, introduced);
    existing.extend(shown_again);
    Forecast { view, introduced, existing }
}

/// Returns the overlays of a stream, followed by the new overlays.
pub(super) fn all_overlays(stream: &Stream, new_overlays: &[NewOverlay]) -> Vec<Overlay> {
    let new_overlays = new_overlays.iter().map(|new| new.overlay.clone());
    stream.overlays().iter().cloned().chain(new_overlays).collect()
}

/// Returns the violations of a view and of its renderings for these providers.
pub(super) fn violations(
    stream: &Stream,
    pairs: &Pairs,
    overlays: &[Overlay],
    view: &View,
    providers: &[Provider],
) -> Vec<Violation> {
    let mut violations = lint::check_view_with_pairs(stream, pairs, overlays, view);
    for provider in providers {
        violations.extend(lint::check_body(*provider, &render_unrepaired(stream, view, *provider)));
    }
    violations
}

/// Returns the saved part of the view: 0 for an empty view, negative if the view grew.
pub(super) fn saved_part(before: u64, after: u64) -> f64 {
    if before == 0 {
        return 0.0;
    }
    1.0 - after as f64 / before as f64
}

/// Returns a part in percent, without the rounding error of the multiplication: 0.57 is 57, not 56.99999999999999.
#[must_use]
pub fn percent_of(part: f64) -> f64 {
    (part * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests {
    use jp_compact_transcripts::Format;
    use std::path::PathBuf;

    use super::*;
    use crate::compact::{RunReport, Step, StrategyOutcome};

    #[track_caller]
    fn check(before: u64, after: u64, expected: f64) {
        let saved = saved_part(before, after);
        assert!((saved - expected).abs() < 1e-9, "{saved}");
    }

    #[test]
    fn saving_is_a_part_of_the_view() {
        check(200, 150, 0.25);
        check(200, 200, 0.0);
        check(200, 250, -0.25);
        check(0, 10, 0.0);
    }

    #[test]
    fn percentage_has_no_rounding_error() {
        let texts = [0.01, 0.07, 0.29, 0.57, 0.125, 0.00001].map(|part| percent_of(part).to_string());
        assert_eq!(texts, ["1", "7", "29", "57", "12.5", "0.001"]);
    }

    #[test]
    fn low_saving_is_reported_as_decline() {
        let step = |outcome| Step {
            strategy: "s".into(),
            version: "1".into(),
            outcome,
            restored_tokens: 0,
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        let mut report = RunReport {
            format: Format::Jp,
            written_to: PathBuf::new(),
            path: PathBuf::new(),
            id: None,
            nothing_to_compact: None,
            notes: Vec::new(),
            steps: vec![
                step(StrategyOutcome::Declined("no".into())),
                step(StrategyOutcome::NewOverlays(Vec::new())),
            ],
            tokens_raw: 0,
            tokens_before: 1000,
            tokens_after: 995,
            sent_by_jp: None,
            cache_cost: None,
            lost_paths: None,
            wait: None,
            changed_turns: Vec::new(),
            low_saving: None,
            introduced_violations: Vec::new(),
            existing_violations: Vec::new(),
        };
        report.decline_all(&report.low_saving_reason(MIN_SAVING));
        let reasons = report.steps.iter().map(|step| match &step.outcome {
            StrategyOutcome::Declined(reason) | StrategyOutcome::WouldAsk(reason) => reason.as_str(),
            StrategyOutcome::NewOverlays(_) | StrategyOutcome::AlreadyExists(_) => "made",
        });
        let low_saving = "it would save 0.5 % of the view; the minimum is 1 % (min_saving)";
        assert_eq!(reasons.collect::<Vec<_>>(), ["no", low_saving]);
        assert_eq!(report.tokens_after, 1000, "the view is unchanged");
    }
}
