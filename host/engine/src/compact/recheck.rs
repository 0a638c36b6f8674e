//! The second check of the proposals, if the transcript or its overlays changed while the strategies ran. It happens
//! under the lock, just before the write, so it must not ask a strategy or a model.

use jp_compact_core::append::{self, NewOverlay};
use jp_compact_core::projection::project;
use jp_compact_core::validate::{self, Compaction, Refusal};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange};

use super::ask::ProposalCollector;
use super::error::StaleSnapshot;
use super::guard::{self, LintFailed};
use super::judge::judge;
use super::proposal::{Proposal, validation_context};
use super::{Opened, RunReport, large};

/// Checks and stamps the proposals again. `current` is the transcript with its overlays now. If another run has changed
/// the overlays, the proposals are judged as if these overlays had existed before, and the report gets the new sizes.
///
/// # Errors
/// The proposals do not fit any more, or all of them are declined ([`StaleSnapshot::Declined`]).
pub(super) fn recheck(
    opened: &Opened,
    current: &Stream,
    collector: &mut ProposalCollector<'_>,
    report: &mut RunReport,
) -> Result<Vec<NewOverlay>, StaleSnapshot> {
    append::check_loadable(current).map_err(StaleSnapshot::NotAppendable)?;
    if current.overlays() == opened.stream.overlays() {
        return recheck_grown(current, collector);
    }
    let estimate = large::measure(current, collector.run.io.estimator, None).0;
    let survey = Survey::with_estimate(current, estimate);
    let proposals = collector.proposals.clone();
    let mut changed = collector.for_changed(&survey);
    report.restart(opened, &survey);
    for proposal in proposals {
        let Proposal { strategy, selected, payloads, step_index, .. } = &proposal;
        let compactions = changed.validate(strategy, selected, payloads.clone()).map_err(refused)?;
        let step = &mut report.steps[*step_index];
        changed.accept(proposal, compactions, step);
    }
    if changed.entries.is_empty() {
        return Err(StaleSnapshot::Declined);
    }
    let judged = judge(&mut changed, report).map_err(|error| StaleSnapshot::Rejected(Box::new(error)))?;
    let (entries, entry_steps) = (changed.entries, changed.entry_steps);
    (collector.entries, collector.entry_steps) = (entries, entry_steps);
    judged.map(|(new_overlays, _)| new_overlays).ok_or(StaleSnapshot::Declined)
}

/// Validates and stamps the proposals again after only events were added.
fn recheck_grown(
    grown: &Stream,
    collector: &ProposalCollector<'_>,
) -> Result<Vec<NewOverlay>, StaleSnapshot> {
    let (run, pairs) = (collector.run, Pairs::new(grown));
    let mut accepted: Vec<TurnRange> = Vec::new();
    for Proposal { strategy, selected, payloads, .. } in &collector.proposals {
        let context = validation_context(run, grown, &pairs, strategy, selected, &accepted);
        let compactions = validate::validate(&context, payloads.clone()).map_err(refused)?;
        let summaries = compactions.iter().filter(|compaction| compaction.summary().is_some());
        accepted.extend(summaries.map(Compaction::range));
    }
    let new_overlays = append::stamped_overlays(grown, &collector.entries, run.io.now)
        .map_err(StaleSnapshot::NotAppendable)?;
    let forecast = guard::forecast(grown, &pairs, &project(grown), &new_overlays, &run.policy.providers);
    if !forecast.introduced.is_empty() && !run.policy.allow_invalid {
        return Err(StaleSnapshot::LintFailed(LintFailed(forecast.introduced)));
    }
    Ok(new_overlays)
}

fn refused(refusal: Refusal) -> StaleSnapshot {
    StaleSnapshot::Refused(Box::new(refusal))
}
