//! The verdict on all accepted proposals of a run together: the saving, the cost, the lost constraints, and the lint
//! rules of the new view.

use jp_compact_core::append::{self, NewOverlay};
use jp_compact_core::{Survey, View};

use super::ask::ProposalCollector;
use super::cache_cost;
use super::error::Error;
use super::guard::{self, LintFailed, OnLowSaving};
use super::llm_failure_cache::LlmFailure;
use super::losses::lost_paths;
use super::report::{RunReport, TurnChange};
use super::wait;

/// Stamps the proposed overlays, and checks them. Returns them with the new view, or nothing if all are declined. The
/// report gets the sizes and the reasons.
///
/// # Errors
/// The view would violate a lint rule, or lose a constraint that the user requires.
pub(super) fn judge(
    collector: &mut ProposalCollector<'_>,
    report: &mut RunReport,
) -> Result<Option<(Vec<NewOverlay>, View)>, Error> {
    let (run, survey, place) = (collector.run, collector.survey, collector.place);
    let stream = survey.stream;
    let path = || place.path().to_owned();
    let new_overlays = append::stamped_overlays(stream, &collector.entries, run.io.now)
        .map_err(|source| Error::NotAppendable { path: path(), source })?;
    let forecast = guard::forecast(stream, &survey.pairs, &survey.view, &new_overlays, &run.policy.providers);
    let jp_before = report.sent_by_jp.clone();
    report.set_sizes_after(survey, &new_overlays, &forecast.view);
    let summary = collector.summary_tokens();
    report.cache_cost = cache_cost::cost_of(
        run,
        survey,
        collector.conversation_model(),
        (&new_overlays, &forecast.view),
        summary,
    );
    report.low_saving = Some(report.saved()).filter(|saved| *saved < run.limits.min_saving);
    let growth = report.tokens_after.saturating_sub(report.tokens_before);
    let reason = match report.low_saving {
        Some(_) if run.policy.on_low_saving == OnLowSaving::Decline => {
            Some(report.low_saving_reason(run.limits.min_saving))
        }
        _ => run.policy.on_growth.reason_to_decline(growth).filter(|_| growth > 0),
    };
    let wait = report.reason_to_wait(run.policy.wait.filter(|_| reason.is_none()), survey);
    if let Some(reason) = wait.as_ref().map(wait::wait_text).or(reason) {
        report.decline_all(&reason);
        report.sent_by_jp = jp_before;
        let failure = match &wait {
            Some(wait) => LlmFailure::Waiting { break_even_requests: wait.break_even_requests },
            None => LlmFailure::LowSaving(reason),
        };
        if wait.is_some() {
            report.wait = wait;
        } else {
            report.cache_cost = None;
        }
        collector.log_declined_summaries(report);
        collector.record_failures(&failure);
        return Ok(None);
    }
    if run.policy.require_constraints {
        guard::check_constraints(survey, &collector.entries, &forecast.view)
            .map_err(|source| Error::ConstraintsLost { path: path(), source })?;
    }
    report.changed_turns = changed_turns(survey, &forecast.view);
    if run.io.reports_losses {
        report.lost_paths = lost_paths(stream, new_overlays.iter().map(|new| &new.overlay), &forecast.view);
    }
    if !forecast.introduced.is_empty() && !run.policy.allow_invalid {
        return Err(Error::LintFailed { path: path(), source: LintFailed(forecast.introduced) });
    }
    report.introduced_violations = forecast.introduced;
    report.existing_violations = forecast.existing;
    Ok(Some((new_overlays, forecast.view)))
}

/// Returns the turns whose number of tokens in the view changes.
fn changed_turns(survey: &Survey<'_>, view: &View) -> Vec<TurnChange> {
    let tokens_before = survey.turns.iter().map(|turn| turn.view_tokens);
    let tokens_after = survey.view_tokens_by_turn(view);
    let mut changed = Vec::new();
    for (turn, (before, after)) in tokens_before.zip(tokens_after).enumerate() {
        if before != after {
            changed.push(TurnChange { turn, before, after });
        }
    }
    changed
}
