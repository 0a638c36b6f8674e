//! The report: sums over all cuts of all transcripts. Every number is rounded here, so that the same input gives the same
//! bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use jp_compact_evidence::Class;
use jp_compact_evidence::cache::CompactionCost;
use jp_compact_evidence::interval::{self, AT_RISK_MIN};
use jp_compact_evidence::prices::Prices;
use jp_compact_evidence::recall::RecallCounts;
use jp_compact_schema::document::{
    EvalCache, EvalControl, EvalControls, EvalCost, EvalPriceFamily, EvalPrices, EvalRecall, EvalRecallCount,
    EvalReplay, EvalReport, EvalRound, EvalRow, EvalStatus, Saved, SavedOf, TokenCounts,
};

use crate::options::{EvalOptions, ROUNDS, RowKind, RowSpec};
use crate::outcome::{ReplayOutcome, RowError, RowOutcome};
use crate::page::Evaluation;
use crate::transcript::TranscriptOutcome;

/// Makes the report of an evaluation.
pub(crate) fn evaluation(
    rows: &[RowSpec],
    options: &EvalOptions,
    outcomes: Vec<TranscriptOutcome>,
) -> Evaluation {
    let strategies =
        rows.iter().enumerate().map(|(index, spec)| row_document(spec, index, &outcomes, options)).collect();
    let mut transcripts = Vec::with_capacity(outcomes.len());
    let mut cuts = Vec::new();
    for (index, outcome) in outcomes.into_iter().enumerate() {
        transcripts.push(outcome.document);
        cuts.extend(outcome.pages.into_iter().map(|mut page| {
            page.transcript = index;
            page
        }));
    }
    let report = EvalReport {
        transcripts,
        strategies,
        estimator: options.estimator.name().to_owned(),
        prices: prices_document(&options.prices),
        window: options.window,
        threshold_percent: options.threshold_percent,
        at_risk_min: AT_RISK_MIN,
        gates: Vec::new(),
    };
    Evaluation { report, cuts }
}

fn prices_document(prices: &Prices) -> EvalPrices {
    let families = prices.families.iter().map(|family| EvalPriceFamily {
        name: family.name.clone(),
        models: family.models.clone(),
        read: family.read,
        write: family.write,
        output: family.output,
        block: family.block,
        ttl_minutes: family.ttl_minutes,
    });
    EvalPrices {
        source: prices.source.clone(),
        date: prices.date.clone(),
        verified: prices.verified,
        families: families.collect(),
    }
}

fn row_document(
    spec: &RowSpec,
    index: usize,
    outcomes: &[TranscriptOutcome],
    options: &EvalOptions,
) -> EvalRow {
    let results = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.rows.get(index)?)));
    let failed = results.clone().find_map(|(outcome, result)| Some((outcome, result.as_ref().err()?)));
    if let Some((outcome, RowError { error })) = failed {
        return EvalRow {
            status: EvalStatus::Failed,
            error: Some(error.clone()),
            failed_on: Some(outcome.document.path.clone()),
            ..finished_row(spec, &[], options)
        };
    }
    let results: Vec<&RowOutcome> = results.filter_map(|(_, result)| result.as_ref().ok()).collect();
    finished_row(spec, &results, options)
}

fn finished_row(spec: &RowSpec, results: &[&RowOutcome], options: &EvalOptions) -> EvalRow {
    let sum = |number: fn(&RowOutcome) -> u64| results.iter().map(|result| number(result)).sum::<u64>();
    let count = |number: fn(&RowOutcome) -> usize| results.iter().map(|result| number(result)).sum::<usize>();
    let tokens = TokenCounts {
        raw: sum(|result| result.raw),
        view_before: sum(|result| result.view_before),
        view_after: sum(|result| result.view_after),
        jp: None,
    };
    let reasons: BTreeSet<&String> = results.iter().flat_map(|result| &result.decline_reasons).collect();
    let control = |tokens: fn(&RowOutcome) -> u64, counts: fn(&RowOutcome) -> RecallCounts| EvalControl {
        tokens: sum(tokens),
        recall: recall_document(&results.iter().map(|result| counts(result)).collect::<Vec<_>>()),
    };
    let recalls: Vec<RecallCounts> = results.iter().map(|result| result.recall).collect();
    let time: Duration = results.iter().map(|result| result.time).sum();
    EvalRow {
        name: spec.name.clone(),
        label: spec.label.clone(),
        options: spec.options.clone(),
        answers: spec.answers.clone(),
        status: if results.is_empty() { EvalStatus::NotEnoughData } else { EvalStatus::Ok },
        error: None,
        failed_on: None,
        cuts: count(|result| result.cuts),
        declines: count(|result| result.declines),
        decline_reasons: reasons.into_iter().cloned().collect(),
        tokens,
        saved: Saved::new(SavedOf::ViewBefore, tokens.view_before, tokens.view_after),
        recall: recall_document(&recalls),
        cache: cache_document(results, options, tokens.view_before),
        replay: replay_document(results),
        controls: EvalControls {
            newest: control(|result| result.newest.tokens, |result| result.newest.recall),
            random: control(|result| result.random.tokens, |result| result.random.recall),
        },
        rounds: if spec.kind == RowKind::Strategy { round_documents(results) } else { Vec::new() },
        rules_broken: count(|result| result.rules_broken),
        milliseconds: options.timings.then(|| rounded(time.as_secs_f64() * 1e3, 10.0)),
    }
}

fn recall_document(sessions: &[RecallCounts]) -> EvalRecall {
    let mut pooled = RecallCounts::default();
    sessions.iter().for_each(|counts| pooled += *counts);
    let count = |class: Class| {
        let percent = interval::percent(sessions, class);
        EvalRecallCount {
            kept: pooled.counts(class).kept,
            at_risk: pooled.counts(class).at_risk,
            percent: percent.map(|percent| rounded(percent.percent, 10.0)),
            interval: percent.map(|percent| [rounded(percent.low, 10.0), rounded(percent.high, 10.0)]),
        }
    };
    EvalRecall {
        path: count(Class::Path),
        number: count(Class::Number),
        identifier: count(Class::Identifier),
        word: count(Class::Word),
        command: count(Class::Command),
        error: count(Class::Error),
        quote: count(Class::Quote),
        constraint: count(Class::Constraint),
    }
}

fn cache_document(results: &[&RowOutcome], options: &EvalOptions, before: u64) -> EvalCache {
    let families: Vec<EvalCost> = options
        .prices
        .families
        .iter()
        .enumerate()
        .map(|(index, family)| {
            let mut cost = CompactionCost::default();
            for result in results {
                cost += result.costs.get(index).copied().unwrap_or_default();
            }
            EvalCost {
                family: family.name.clone(),
                prefix_tokens: cost.unchanged,
                summary: rounded(cost.summary, 10.0),
                one_time_warm: rounded(cost.one_time_warm, 10.0),
                one_time_cold: rounded(cost.one_time_cold, 10.0),
                per_request_before: rounded(cost.per_request_before, 10.0),
                per_request_after: rounded(cost.per_request_after, 10.0),
                break_even_requests: cost.break_even().map(|requests| rounded(requests, 10.0)),
            }
        })
        .collect();
    let first = families.first();
    let kept = first.map_or(0, |cost| cost.prefix_tokens);
    EvalCache {
        prefix_kept_percent: if before == 0 {
            0.0
        } else {
            rounded(kept as f64 * 100.0 / before as f64, 10.0)
        },
        break_even_requests: first.and_then(|cost| cost.break_even_requests),
        families,
    }
}

fn replay_document(results: &[&RowOutcome]) -> Option<EvalReplay> {
    let mut sum: Option<ReplayOutcome> = None;
    for replay in results.iter().filter_map(|result| result.replay.as_ref()) {
        sum.get_or_insert_default().add(replay);
    }
    sum.map(|sum| EvalReplay {
        cost: rounded(sum.cost, 10.0),
        requests: sum.requests,
        largest_context: sum.largest_context,
        compactions: sum.compactions,
        above_window: sum.above_window,
    })
}

/// Sums the rounds over the transcripts that have enough steps for all rounds, so that the rounds are comparable.
fn round_documents(results: &[&RowOutcome]) -> Vec<EvalRound> {
    let complete: Vec<_> = results.iter().filter(|result| result.rounds.len() == ROUNDS.len()).collect();
    if complete.is_empty() {
        return Vec::new();
    }
    let mut documents = Vec::new();
    for (index, n) in ROUNDS.into_iter().enumerate() {
        let rounds = || complete.iter().map(|result| &result.rounds[index]);
        debug_assert!(rounds().all(|round| round.n == n));
        let recalls: Vec<RecallCounts> = rounds().map(|round| round.recall).collect();
        documents.push(EvalRound {
            n,
            view_before: rounds().map(|round| round.view_before).sum(),
            view_after: rounds().map(|round| round.view_after).sum(),
            recall: recall_document(&recalls),
        });
    }
    documents
}

/// Rounds to a multiple of 1 / `parts`. Adding 0 turns a negative zero into zero.
fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts + 0.0
}
