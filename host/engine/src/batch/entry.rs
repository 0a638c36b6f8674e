//! Builds the report entry of a transcript from the result of its run.

use std::ops::AddAssign;
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
use crate::compact::{RunSettings, Step, StrategyOutcome, Worked, overlay};

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

/// Returns the entry of a path that cannot be searched.
#[must_use]
pub fn fault(fault: &Fault) -> TranscriptReport {
    let error = ErrorReport::new(ErrorKind::TranscriptInvalid, "failed to look for transcripts");
    let error = ErrorReport { causes: vec![fault.reason.clone()], ..error };
    TranscriptReport { error: Some(error), ..new(&fault.path) }
}

/// Adds the result of a run.
pub(super) fn fill(entry: &mut TranscriptReport, worked: &Worked<'_>, run: &RunSettings, in_lines: bool) {
    let report = &worked.report;
    entry.status = status(&report.steps);
    for (step, ready) in report.steps.iter().zip(&run.strategies) {
        let (strategy, version) = (&step.strategy, &step.version);
        let mut decline = |reason: &str| {
            entry.declines.push(DeclineReport {
                strategy: strategy.clone(),
                version: version.clone(),
                reason: reason.to_owned(),
            });
        };
        match &step.outcome {
            StrategyOutcome::Declined(reason) | StrategyOutcome::Would(reason) => decline(reason),
            StrategyOutcome::Already(number) => decline(&format!("overlay {number} covers the same events")),
            StrategyOutcome::Made(made) => {
                entry.overlays.extend(made.iter().map(|made| overlay(made, step, ready)));
            }
        }
    }
    entry.notes = report.notes.iter().map(ToString::to_string).collect();
    entry.notes.extend(report.nothing.map(|nothing| nothing.to_string()));
    entry.size = size(worked, !run.io.in_memory, in_lines);
    entry.saved = entry.size.tokens.saved_of_view();
}

/// Returns the status that follows from the steps of a run.
fn status(steps: &[Step]) -> Status {
    let any = |is: fn(&StrategyOutcome) -> bool| steps.iter().any(|step| is(&step.outcome));
    if any(|outcome| matches!(outcome, StrategyOutcome::Made(_) | StrategyOutcome::Would(_))) {
        Status::Compacted
    } else if any(|outcome| matches!(outcome, StrategyOutcome::Already(_))) {
        Status::Skipped
    } else {
        Status::Unchanged
    }
}

/// Returns the size, grouped by type and tool if a report was requested.
fn size(worked: &Worked<'_>, in_place: bool, in_lines: bool) -> Size {
    let tokens = worked.report.tokens();
    let tokens = TokenCounts { jp: tokens.jp.filter(|_| in_place), ..tokens };
    if !in_lines {
        return Size { tokens, ..Size::default() };
    }
    let sums = stats(&worked.survey);
    Size {
        tokens,
        bytes: sums.all.bytes.into(),
        by_type: sums.by_type.into_iter().map(|(name, of)| (name.to_owned(), of.into())).collect(),
        by_tool: sums.by_tool.into_iter().map(|(name, of)| (name, of.into())).collect(),
    }
}

pub(super) fn lint(violation: &Violation) -> LintReport {
    LintReport {
        rule: violation.rule.to_string(),
        provider: violation.provider.map(|provider| provider.to_string()),
        message: violation.to_string(),
    }
}

/// Adds the size of one transcript to the total.
pub(super) fn add(all: &mut Size, one: &Size) {
    let add = |sum: &mut RawAndView, more: RawAndView| {
        sum.raw.add_assign(more.raw);
        sum.view_after.add_assign(more.view_after);
    };
    let more = |all: &mut Sizes, one: &Sizes| {
        add(&mut all.tokens, one.tokens);
        add(&mut all.bytes, one.bytes);
    };
    add_tokens(&mut all.tokens, &one.tokens);
    add(&mut all.bytes, one.bytes);
    for (sums, ones) in [(&mut all.by_type, &one.by_type), (&mut all.by_tool, &one.by_tool)] {
        for (name, one) in ones {
            match sums.get_mut(name) {
                Some(sum) => more(sum, one),
                None => drop(sums.insert(name.clone(), *one)),
            }
        }
    }
}

fn add_tokens(all: &mut TokenCounts, one: &TokenCounts) {
    all.raw += one.raw;
    all.view_before += one.view_before;
    all.view_after += one.view_after;
    if let Some(JpTokens { raw, view_before, view_after }) = one.jp {
        let jp = all.jp.get_or_insert_default();
        jp.raw += raw;
        jp.view_before += view_before;
        jp.view_after += view_after;
    }
}
