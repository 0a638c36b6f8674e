//! Automatic compaction: a profile continues where the last compaction of its kind ended (RFD D17, "Automatic
//! Compaction"). A failed summary leaves the conversation as it was, unless the configuration makes it a failure.

use std::cell::OnceCell;

use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::select::{self, Selection, TypedSelection};
use jp_compact_core::{Bound, Stream, TurnRange};
use jp_compact_schema::{ContentKind, Description};

use super::{Error, Planner};
use crate::compact::{self, OnLowSaving, Opened, Ready, RunReport, RunSettings, StrategyRunError};
use crate::config::{Config, Foreign, OnFailure, Planned};
use jp_compact_llm::ModelName;

/// How a caller requests an automatic compaction.
#[derive(Debug, Clone)]
pub struct AutoRequest<'a> {
    /// The profile, in place of the configured one.
    pub profile: Option<&'a str>,
    /// The context window in tokens, in place of the model's.
    pub context_window: Option<u64>,
    /// The turns and steps, in place of the configured ones.
    pub selection: TypedSelection,
    pub estimator: Estimator,
    /// The configured value that started it, if neither the user nor the user's own configuration did.
    pub foreign_auto: Option<Foreign>,
}

/// The result of a profile.
#[derive(Debug)]
pub enum Applied {
    /// Every turn since the last compaction is kept.
    Nothing,
    /// A summary failed. The conversation continues unchanged (J-CLI's graceful degradation).
    Failed(Box<compact::Error>),
    /// The strategies ran.
    Done(Box<RunSettings>, Box<RunReport>),
}

impl Planner<'_> {
    /// Runs a profile. Each strategy begins after the last compaction of its kinds.
    ///
    /// # Errors
    /// A strategy cannot be used, or failed.
    pub async fn apply(
        &mut self,
        config: &Config,
        planned: &Planned<'_>,
        selection: TypedSelection,
        opened: &Opened,
    ) -> Result<Applied, Error> {
        let strategies = self.prepare_calls(planned).await?;
        let keep = config.keep(planned.profile);
        let kept = selection.with(keep);
        let mut run = self.run(strategies, config, kept, OnLowSaving::Decline);
        let (stream, now) = (opened.stream.stream(), run.io.now);
        let estimate = OnceCell::new();
        let estimator = run.io.estimator;
        let weigh = |element| estimate.get_or_init(|| Estimate::new(stream, estimator)).weight(element);
        run.strategies.retain_mut(|ready| {
            // A call of JP's rules has its own turns.
            let wanted = ready.range.unwrap_or(kept);
            let Ok(range) = select::resolve_in(stream, &weigh, wanted, now) else { return false };
            let range = range_of(&ready.described.description, stream, range);
            ready.range = range.map(|range| {
                let (first, last) = (Bound::At(range.start()), Bound::At(range.end()));
                Selection { from: Some(first), to: Some(last), keep, ..Selection::default() }
            });
            range.is_some()
        });
        if run.strategies.is_empty() {
            return Ok(Applied::Nothing);
        }
        match compact::compact(&run, opened).await {
            Ok(report) => Ok(Applied::Done(Box::new(run), Box::new(report))),
            Err(failure) if is_of_summary(&failure, &run.strategies) => match config.auto.on_failure {
                OnFailure::Fail => Err(Error::Summary(failure)),
                OnFailure::Continue => Ok(Applied::Failed(Box::new(failure))),
            },
            Err(failure) => Err(failure.into()),
        }
    }

    /// Rejects a focus that no strategy of the profile has an option for, whether the profile is due or not.
    ///
    /// # Errors
    /// A strategy cannot be used, or none has the option.
    pub async fn check_focus_of(&mut self, planned: &Planned<'_>) -> Result<(), Error> {
        if self.options.focus.is_none() {
            return Ok(());
        }
        let strategies = self.prepare_calls(planned).await?;
        self.check_focus(&strategies)
    }

    /// Returns the model of the conversation and its context window. The typed model comes first, then the
    /// conversation's own, then the configured one.
    #[must_use]
    pub fn window(&self, request: &AutoRequest<'_>, config: &Config) -> (Option<String>, Option<u64>) {
        let models: Vec<&ModelName> = match self.models.requested_model() {
            Some(wish) => vec![wish],
            None => config.assistant_model.iter().chain(&config.llm.model).collect(),
        };
        let known = models.iter().find_map(|model| self.models.context_window(model));
        (models.first().map(ToString::to_string), request.context_window.or(known))
    }
}

/// Returns the range for a strategy, or `None` if all of it was compacted already. Policies continue after the last
/// compaction of their kinds. A summary replaces the earlier ones, so that a long conversation has one: its range includes
/// theirs, and it is made from their raw events (docs/decisions/0018-one-summary.md).
fn range_of(description: &Description, stream: &Stream, range: TurnRange) -> Option<TurnRange> {
    // Without the feature, a strategy gets whole turns only. A part of a turn is nothing new for it.
    let has_steps = description.features.iter().any(|feature| feature == "steps");
    let range = if has_steps { range } else { range.whole_turns()? };
    let next = stream.after_last_overlay_of(&description.produces);
    // A strategy that chooses its own turns may still find some.
    let chooses = description.wants("previous_summaries");
    if !chooses && TurnRange::between(next, range.end()).is_none() {
        return None;
    }
    let start = if description.produces.contains(&ContentKind::Summary) {
        let starts = stream.summaries().map(TurnRange::start).chain([range.start()]);
        starts.min_by_key(|start| start.start_key())?
    } else {
        [next, range.start()].into_iter().max_by_key(|start| start.start_key())?
    };
    TurnRange::between(start, range.end())
}

/// Returns whether a summary failed that may succeed with another answer of the model.
fn is_of_summary(failure: &compact::Error, strategies: &[Ready]) -> bool {
    let compact::Error::Strategy { name, source } = failure else { return false };
    let descriptions = strategies.iter().map(|ready| &ready.described.description);
    !matches!(**source, StrategyRunError::BadOptions { .. })
        && descriptions
            .filter(|description| description.name == *name)
            .any(|description| description.produces.contains(&ContentKind::Summary))
}
