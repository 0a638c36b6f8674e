//! The evaluation of one row of the report at the cuts of one transcript. Each prefix is compacted, and its view is
//! compared with the rest of the session.

use std::time::Instant;

use jp_compact_core::View;
use jp_compact_core::view::Part;
use jp_compact_engine::compact::{self, Error, RunSettings, StrategyOutcome};
use jp_compact_evidence::cache::{CompactionCost, CompactionSizes};
use jp_compact_evidence::control;
use jp_compact_evidence::prices::PriceFamily;
use jp_compact_evidence::recall::{RecallCounts, recall};
use jp_compact_evidence::session::SeenView;

use crate::options::{EvalOptions, RowKind};
use crate::outcome::{ControlOutcome, RowOutcome};
use crate::page_data;
use crate::subject::{StoredOverlays, Subject, SubjectCut};

struct PrefixView {
    seen: SeenView,
    tokens: u64,
    /// The number of leading events that are unchanged.
    unchanged: usize,
    /// The tokens that a model read and wrote.
    summary: (u64, u64),
}

/// Evaluates a row at every cut. `run` is the strategy of the row.
pub(crate) async fn evaluate_cuts(
    subject: &Subject<'_>,
    options: &EvalOptions,
    kind: RowKind,
    run: Option<&RunSettings>,
) -> Result<RowOutcome, Error> {
    let mut outcome = RowOutcome {
        costs: vec![CompactionCost::default(); options.prices.families.len()],
        ..RowOutcome::default()
    };
    for cut in &subject.cuts {
        outcome.cuts += 1;
        match run {
            Some(run) => compact_prefix(subject, cut, options, run, &mut outcome).await?,
            None => {
                let shown = if kind == RowKind::Whole { cut.cut.events } else { 0 };
                let view = PrefixView {
                    seen: subject.session.read_events(0..shown),
                    tokens: subject.tokens_between(0, shown),
                    unchanged: shown,
                    summary: (0, 0),
                };
                add_view(subject, cut, options, &view, &mut outcome);
                if options.page {
                    outcome.page.push(page_data::control_row(subject, cut, shown, &view.seen));
                }
            }
        }
    }
    Ok(outcome)
}

async fn compact_prefix(
    subject: &Subject<'_>,
    cut: &SubjectCut,
    options: &EvalOptions,
    run: &RunSettings,
    outcome: &mut RowOutcome,
) -> Result<(), Error> {
    let opened = subject.prefix(cut.cut.events, true, &StoredOverlays::default())?;
    let started = Instant::now();
    let compacted = compact::compact_with_view(run, &opened).await?;
    outcome.time += started.elapsed();
    let report = &compacted.report;
    if report.introduced_violations.is_empty() && report.tokens_after == report.tokens_before {
        outcome.declines += usize::from(compacted.stored_overlays().is_none());
    }
    for step in &report.steps {
        if let StrategyOutcome::Declined(reason) | StrategyOutcome::WouldAsk(reason) = &step.outcome {
            outcome.decline_reasons.insert(reason.clone());
        }
    }
    outcome.decline_reasons.extend(report.nothing_to_compact.map(|nothing| nothing.to_string()));
    outcome.rules_broken += report.introduced_violations.len();
    let view = &compacted.survey.view;
    let prefix_view = PrefixView {
        seen: subject.session.read_view(view),
        tokens: report.tokens_after,
        unchanged: leading_unchanged(subject, view),
        summary: summary_tokens(subject, view, run, report.tokens_before),
    };
    add_view(subject, cut, options, &prefix_view, outcome);
    if options.page {
        outcome.page.push(page_data::strategy_row(
            subject,
            cut,
            view,
            &prefix_view.seen,
            report.tokens_after,
        ));
    }
    Ok(())
}

fn add_view(
    subject: &Subject<'_>,
    cut: &SubjectCut,
    options: &EvalOptions,
    view: &PrefixView,
    outcome: &mut RowOutcome,
) {
    let events = cut.cut.events;
    let before = subject.tokens_between(0, events);
    outcome.raw += before;
    outcome.view_before += before;
    outcome.view_after += view.tokens;
    let count = |seen: &SeenView| recall(&subject.session, events, &cut.at_risk, seen);
    outcome.recall += count(&view.seen);
    let tokens = &subject.event_tokens[..events];
    add_control(subject, &control::newest(tokens, view.tokens), &count, &mut outcome.newest);
    let random = control::random(&subject.random_order, tokens, view.tokens);
    add_control(subject, &random, &count, &mut outcome.random);
    for (sum, family) in outcome.costs.iter_mut().zip(&options.prices.families) {
        let sizes = CompactionSizes {
            before,
            after: view.tokens,
            unchanged: cached_tokens(subject, events, view.unchanged, family),
            summary_input: view.summary.0,
            summary_output: view.summary.1,
        };
        *sum += CompactionCost::new(&sizes, family);
    }
}

fn add_control(
    subject: &Subject<'_>,
    events: &[usize],
    count: &dyn Fn(&SeenView) -> RecallCounts,
    outcome: &mut ControlOutcome,
) {
    outcome.tokens += events.iter().map(|event| subject.event_tokens[*event]).sum::<u64>();
    outcome.recall += count(&subject.session.read_events(events.iter().copied()));
}

/// Returns the number of leading events of a prefix that its view shows unchanged.
pub(crate) fn leading_unchanged(subject: &Subject<'_>, view: &View) -> usize {
    let mut unchanged = 0;
    for item in view.items() {
        let event = item.part.element().map(|element| subject.session.event_of(element));
        match (&item.part, event) {
            // The start of a turn has no text.
            (_, Some(None)) => {}
            (Part::Kept(_) | Part::Short(_), Some(Some(event))) if event == unchanged => unchanged += 1,
            _ => break,
        }
    }
    unchanged
}

/// Returns the tokens of the leading unchanged events, up to the last cache breakpoint. The end of the prefix is a
/// breakpoint, because the next request begins there.
pub(crate) fn cached_tokens(
    subject: &Subject<'_>,
    prefix: usize,
    unchanged: usize,
    family: &PriceFamily,
) -> u64 {
    if unchanged >= prefix {
        return subject.tokens_between(0, prefix);
    }
    if family.block > 0 {
        let tokens = subject.tokens_between(0, unchanged);
        return tokens - tokens % family.block;
    }
    let later = subject.requests.partition_point(|request| *request <= unchanged);
    let boundary = later.checked_sub(1).map_or(0, |last| subject.requests[last]);
    subject.tokens_between(0, boundary)
}

/// Returns the tokens that a model read and wrote for the summaries of a view. The model reads the whole prefix, which
/// has `raw_tokens`.
pub(crate) fn summary_tokens(
    subject: &Subject<'_>,
    view: &View,
    run: &RunSettings,
    raw_tokens: u64,
) -> (u64, u64) {
    let needs_model = run.strategies.iter().any(compact::PreparedStrategy::needs_model);
    let written: u64 = view
        .items()
        .iter()
        .map(|item| match &item.part {
            Part::SummaryResponse { text, .. } | Part::SummaryNote { text, .. } => {
                subject.estimator.tokens(text)
            }
            _ => 0,
        })
        .sum();
    if needs_model && written > 0 { (raw_tokens, written) } else { (0, 0) }
}
