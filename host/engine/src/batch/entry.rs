//! Builds the report entry of a transcript from the result of its run.

use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jp_compact_core::lint::Violation;
use jp_compact_core::stats::{self, stats};
use jp_compact_schema::report::{
    AllSizes, AllTokens, BeforeAfter, DeclineReport, ErrorReport, LintReport, OverlayReport, Size, Sizes,
    Status, TranscriptReport,
};

use super::Fault;
use crate::compact::{RunSettings, Step, StrategyOutcome, Worked};

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
    let message = "failed to look for transcripts".into();
    let error = ErrorReport { code: 4, message, causes: vec![fault.reason.clone()], hint: None };
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
            StrategyOutcome::Made(made) => entry.overlays.extend(made.iter().map(|made| OverlayReport {
                number: made.number,
                strategy: strategy.clone(),
                version: version.clone(),
                executable_sha256: ready.described.confined.cleared.sha256.clone(),
                tier: ready.described.confined.tier().to_string(),
                from_turn: made.overlay.from_turn,
                to_turn: made.overlay.to_turn,
                kinds: made.overlay.kinds().into_iter().map(str::to_owned).collect(),
            })),
        }
    }
    entry.notes = report.notes.iter().map(ToString::to_string).collect();
    entry.notes.extend(report.nothing.map(|nothing| nothing.to_string()));
    entry.size = size(worked, !run.io.in_memory, in_lines);
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
    let sent = worked.report.jp.as_ref().filter(|_| in_place);
    let jp = |before| sent.map(|jp| BeforeAfter { before, after: jp.after });
    if !in_lines {
        let (before, after) = (worked.survey.estimate.stream_tokens(), worked.report.tokens_after);
        let tokens = AllTokens { before, after, jp: jp(before) };
        let all = AllSizes { tokens, ..AllSizes::default() };
        return Size { view_tokens_before: worked.report.tokens_before, all, ..Size::default() };
    }
    let sums = stats(&worked.survey);
    let Sizes { tokens: BeforeAfter { before, after }, bytes } = sizes(sums.all);
    Size {
        view_tokens_before: worked.report.tokens_before,
        all: AllSizes { tokens: AllTokens { before, after, jp: jp(before) }, bytes },
        by_type: sums.by_type.into_iter().map(|(name, of)| (name.to_owned(), sizes(of))).collect(),
        by_tool: sums.by_tool.into_iter().map(|(name, of)| (name, sizes(of))).collect(),
    }
}

fn sizes(of: stats::SizeChange) -> Sizes {
    let amount = |amount: stats::Amount| BeforeAfter { before: amount.before, after: amount.after };
    Sizes { tokens: amount(of.tokens), bytes: amount(of.bytes) }
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
    let add = |sum: &mut BeforeAfter, more: BeforeAfter| {
        sum.before.add_assign(more.before);
        sum.after.add_assign(more.after);
    };
    let more = |all: &mut Sizes, one: &Sizes| {
        add(&mut all.tokens, one.tokens);
        add(&mut all.bytes, one.bytes);
    };
    all.view_tokens_before += one.view_tokens_before;
    let (AllSizes { tokens, bytes }, of_one) = (&mut all.all, one.all);
    tokens.before += of_one.tokens.before;
    tokens.after += of_one.tokens.after;
    if let Some(jp) = of_one.tokens.jp {
        add(tokens.jp.get_or_insert_default(), jp);
    }
    add(bytes, of_one.bytes);
    for (sums, ones) in [(&mut all.by_type, &one.by_type), (&mut all.by_tool, &one.by_tool)] {
        for (name, one) in ones {
            match sums.get_mut(name) {
                Some(sum) => more(sum, one),
                None => drop(sums.insert(name.clone(), *one)),
            }
        }
    }
}
