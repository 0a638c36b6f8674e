//! The report entry of a transcript, built from the outcome of its run.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jp_compact_core::lint::Violation;
use jp_compact_core::stats::stats;
use jp_compact_schema::document::{
    DeclineReport, ErrorKind, ErrorReport, JpTokens, RawAndView, Sizes, TokenCounts,
};
use jp_compact_schema::report::{LintReport, Size, Status, TranscriptReport};

use super::Fault;
use crate::compact::{RunOutcome, RunSettings, Step, StrategyOutcome, overlay_report};

/// Returns an entry that contains only the path.
pub(super) fn new(path: &Path) -> TranscriptReport {
    let path_base64 = match path.to_str() {
        Some(_) => None,
        None => Some(STANDARD.encode(path.as_os_str().as_bytes())),
    };
    TranscriptReport {
        path: path.to_string_lossy().into_owned(),
        path_base64,
        status: Status::Failed,
        ..TranscriptReport::default()
    }
}

/// Returns the report entry of a path that cannot be searched.
#[must_use]
pub fn failed_search_entry(fault: &Fault) -> TranscriptReport {
    let error = ErrorReport::new(ErrorKind::TranscriptInvalid, "failed to look for transcripts");
    let error = ErrorReport { causes: vec![fault.reason.clone()], hint: fault.hint.clone(), ..error };
    TranscriptReport { error: Some(error), ..new(&fault.path) }
}

/// Adds the result of a run.
pub(super) fn add_outcome(
    entry: &mut TranscriptReport,
    outcome: &RunOutcome<'_>,
    run: &RunSettings,
    has_report: bool,
) {
    let report = &outcome.report;
    entry.status = status(&report.steps);
    for (step, strategy) in report.steps.iter().zip(&run.strategies) {
        let reason = match &step.outcome {
            StrategyOutcome::NewOverlays(new_overlays) => {
                entry.overlays.extend(new_overlays.iter().map(|new| overlay_report(new, step, strategy)));
                continue;
            }
            StrategyOutcome::Declined(reason) | StrategyOutcome::WouldAsk(reason) => reason.clone(),
            StrategyOutcome::AlreadyExists(number) => format!("overlay {number} covers the same events"),
        };
        let (strategy, version) = (step.strategy.clone(), step.version.clone());
        entry.declines.push(DeclineReport { strategy, version, reason });
    }
    entry.restored_tokens = report.restored_tokens();
    entry.notes = report.notes.iter().map(ToString::to_string).collect();
    entry.notes.extend(report.restore_notes(run.io.dry_run));
    entry.notes.extend(report.nothing_to_compact.map(|nothing| nothing.to_string()));
    entry.size = size(outcome, !run.io.in_memory, has_report);
    entry.saved = entry.size.tokens.saved_of_view();
}

/// Returns the status that follows from the steps of a run.
fn status(steps: &[Step]) -> Status {
    let mut status = Status::Unchanged;
    for step in steps {
        match &step.outcome {
            StrategyOutcome::NewOverlays(_) | StrategyOutcome::WouldAsk(_) => return Status::Compacted,
            StrategyOutcome::AlreadyExists(_) => status = Status::Skipped,
            StrategyOutcome::Declined(_) => {}
        }
    }
    status
}

/// Returns the size, grouped by type and tool if a report was requested.
fn size(outcome: &RunOutcome<'_>, in_place: bool, has_report: bool) -> Size {
    let tokens = outcome.report.tokens();
    let tokens = TokenCounts { jp: tokens.jp.filter(|_| in_place), ..tokens };
    if !has_report {
        return Size { tokens, ..Size::default() };
    }
    let stats = stats(&outcome.survey);
    Size {
        tokens,
        bytes: stats.all.bytes.into(),
        by_type: stats.by_type.into_iter().map(|(name, sizes)| (name.to_owned(), sizes.into())).collect(),
        by_tool: stats.by_tool.into_iter().map(|(name, sizes)| (name, sizes.into())).collect(),
    }
}

pub(super) fn lint_report(violation: &Violation) -> LintReport {
    LintReport {
        rule: violation.rule.to_string(),
        provider: violation.provider.map(|provider| provider.to_string()),
        message: violation.to_string(),
    }
}

/// Adds the size of one transcript to the total.
pub(super) fn add_size(total: &mut Size, size: &Size) {
    add_tokens(&mut total.tokens, &size.tokens);
    add_raw_and_view(&mut total.bytes, size.bytes);
    add_groups(&mut total.by_type, &size.by_type);
    add_groups(&mut total.by_tool, &size.by_tool);
}

fn add_groups(total: &mut BTreeMap<String, Sizes>, groups: &BTreeMap<String, Sizes>) {
    for (name, sizes) in groups {
        match total.get_mut(name) {
            Some(sum) => {
                add_raw_and_view(&mut sum.tokens, sizes.tokens);
                add_raw_and_view(&mut sum.bytes, sizes.bytes);
            }
            None => drop(total.insert(name.clone(), *sizes)),
        }
    }
}

fn add_raw_and_view(total: &mut RawAndView, size: RawAndView) {
    total.raw += size.raw;
    total.view_after += size.view_after;
}

fn add_tokens(total: &mut TokenCounts, tokens: &TokenCounts) {
    total.raw += tokens.raw;
    total.view_before += tokens.view_before;
    total.view_after += tokens.view_after;
    if let Some(JpTokens { raw, view_before, view_after }) = tokens.jp {
        let jp = total.jp.get_or_insert_default();
        jp.raw += raw;
        jp.view_before += view_before;
        jp.view_after += view_after;
    }
}
