//! Automatic compaction (RFD D17, "Automatic Compaction"). Policies continue after the last compaction of the same
//! content. A new summary replaces all earlier summaries. A failed summary leaves the conversation unchanged.
//! `auto.on_failure` decides whether the failure is also an error.

use std::cell::OnceCell;
use std::mem;

use jp_compact_core::auto::AutoVerdict;
use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::select::{self, RequestedSelection, Selection};
use jp_compact_core::{Bound, Stream, TurnRange};
use jp_compact_schema::document::{TriggerReport, TriggerResult, WindowOrigin};
use jp_compact_schema::{ContentKind, Description, STEPS};

use super::{Error, Planner};
use crate::compact::{
    self, OnGrowth, OnLowSaving, Opened, PreparedStrategy, RunReport, RunSettings, StrategyRunError, WaitRule,
};
use jp_compact_config::{Config, CostPolicy, ForeignValue, OnFailure, PlannedCalls};
use jp_compact_llm::{ContextWindow, ModelName, WindowSource};

/// A request for an automatic compaction.
#[derive(Debug, Clone)]
pub struct AutoRequest<'a> {
    /// The profile, in place of the configured profile.
    pub profile: Option<&'a str>,
    /// The context window in tokens, in place of the model's.
    pub context_window: Option<u64>,
    /// The turns and steps, in place of the configured selection.
    pub selection: RequestedSelection,
    pub estimator: Estimator,
    /// The configured value that requested the compaction, if that value is not the user's own.
    pub foreign_auto: Option<ForeignValue>,
}

/// The window that an automatic compaction compares a conversation with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoWindow {
    /// The model of the conversation.
    pub model: Option<String>,
    pub window: Option<ContextWindow>,
    /// The warning about a window that is assumed.
    pub warning: Option<String>,
}

impl AutoWindow {
    /// Returns the rule that decides whether a compaction waits. `None` if `auto.cost` is not `prefer-cold`, or if the
    /// window is unknown.
    #[must_use]
    pub fn wait_rule(&self, config: &Config) -> Option<WaitRule> {
        let window = self.window.filter(|_| config.auto.cost == CostPolicy::PreferCold)?;
        Some(WaitRule::for_window(window.tokens))
    }

    /// Returns a verdict in numbers.
    #[must_use]
    pub fn trigger_report(&self, verdict: &AutoVerdict) -> TriggerReport {
        let unknown = TriggerReport {
            result: TriggerResult::UnknownWindow,
            view_tokens: None,
            threshold: None,
            turns: None,
            min_turns: None,
            model: self.model.clone(),
            context_window: self.window.map(|window| window.tokens),
            window_origin: self.window.map(|window| origin_report(window.source)),
        };
        let compared = |result, view, threshold| TriggerReport {
            result,
            view_tokens: Some(view),
            threshold: Some(threshold),
            ..unknown.clone()
        };
        match *verdict {
            AutoVerdict::Due { view, threshold } => compared(TriggerResult::Due, view, threshold),
            AutoVerdict::Small { view, threshold } => {
                compared(TriggerResult::BelowThreshold, view, threshold)
            }
            AutoVerdict::Short { turns, min_turns } => TriggerReport {
                result: TriggerResult::TooFewTurns,
                turns: Some(turns),
                min_turns: Some(min_turns),
                ..unknown
            },
            AutoVerdict::UnknownWindow => unknown,
        }
    }
}

/// Returns the origin of a context window for a document.
fn origin_report(origin: WindowSource) -> WindowOrigin {
    match origin {
        WindowSource::Typed => WindowOrigin::CommandLine,
        WindowSource::Configured => WindowOrigin::Configured,
        WindowSource::BuiltIn => WindowOrigin::BuiltIn,
        WindowSource::Provider => WindowOrigin::Provider,
        WindowSource::Family => WindowOrigin::Family,
    }
}

/// The result of a profile.
#[derive(Debug)]
pub enum ProfileOutcome {
    /// No strategy has turns to compact.
    Nothing,
    /// A summary failed, and the conversation is unchanged (J-CLI's graceful degradation).
    Failed(Box<compact::Error>),
    /// The strategies ran.
    Done(Box<RunSettings>, Box<RunReport>),
}

impl Planner<'_> {
    /// Runs a profile. A typed bound overrides the bound of a rule of JP. Each strategy compacts the range that
    /// [`range_to_compact`] returns. With `wait`, the compaction waits if it would not pay back in time.
    ///
    /// # Errors
    /// A strategy cannot be used or fails.
    pub async fn run_profile(
        &mut self,
        config: &Config,
        planned: &PlannedCalls<'_>,
        selection: RequestedSelection,
        opened: &Opened,
        wait: Option<WaitRule>,
    ) -> Result<ProfileOutcome, Error> {
        let strategies = self.prepare_calls(&planned.clone().with_bounds(selection)).await?;
        let keep = config.keep(planned.profile);
        let selection = selection.with(keep);
        let mut run = self.run_settings(strategies, config, selection, OnLowSaving::Decline);
        run.policy.wait = wait;
        run.policy.on_growth = OnGrowth::DeclineInAuto;
        let (stream, now, estimator) = (opened.stream.stream(), run.io.now, run.io.estimator);
        let estimate = OnceCell::new();
        let weight_of = |element| estimate.get_or_init(|| Estimate::new(stream, estimator)).weight(element);
        for mut strategy in mem::take(&mut run.strategies) {
            // A call from JP's rules has its own turns.
            let bounds = strategy.range.unwrap_or(selection);
            let Ok(selected) = select::resolve_without_survey(stream, &weight_of, bounds, now) else {
                continue;
            };
            let description = &strategy.described.description;
            let Some(range) = range_to_compact(description, stream, selected) else { continue };
            let (from, to) = (Some(Bound::At(range.start())), Some(Bound::At(range.end())));
            strategy.range = Some(Selection { from, to, keep, ..Selection::default() });
            run.strategies.push(strategy);
        }
        if run.strategies.is_empty() {
            return Ok(ProfileOutcome::Nothing);
        }
        match compact::compact(&run, opened).await {
            Ok(report) => Ok(ProfileOutcome::Done(Box::new(run), Box::new(report))),
            Err(error) if is_summary_failure(&error, &run.strategies) => match config.auto.on_failure {
                OnFailure::Fail => Err(Error::Summary(error)),
                OnFailure::Continue => Ok(ProfileOutcome::Failed(Box::new(error))),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether a strategy of the profile writes summaries.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub async fn writes_summary(&mut self, planned: &PlannedCalls<'_>) -> Result<bool, Error> {
        let strategies = self.prepare_calls(planned).await?;
        Ok(strategies
            .iter()
            .any(|strategy| strategy.described.description.produces.contains(&ContentKind::Summary)))
    }

    /// Returns the model of the conversation, and the context window. A typed model is the only one. Otherwise, the
    /// order is: the model in the transcript of another program, the model of JP's own files, the configured model. If
    /// no window is typed, the window of the first of these models that has one counts, known or assumed.
    pub async fn model_and_window(
        &self,
        request: &AutoRequest<'_>,
        config: &Config,
        opened: &Opened,
    ) -> AutoWindow {
        let models: Vec<ModelName> = match self.models.requested_model() {
            Some(requested) => vec![requested.clone()],
            None => {
                let transcript_model = compact::model_of(&opened.stream);
                let configured = config.assistant_model.iter().chain(&config.llm.model).cloned();
                transcript_model.into_iter().chain(configured).collect()
            }
        };
        let mut found =
            AutoWindow { model: models.first().map(ToString::to_string), window: None, warning: None };
        if let Some(tokens) = request.context_window {
            found.window = Some(WindowSource::Typed.window(tokens));
            return found;
        }
        let is_needed = config.auto.token_threshold.is_none();
        for model in &models {
            found.window = compact::look_up(&self.models, model, is_needed && !self.options.dry_run).await;
            if let Some(window) = &found.window {
                found.warning = window.warning(&model.to_string());
                break;
            }
        }
        found
    }
}

/// Returns the range that a strategy compacts, or `None` if all of the selected range was compacted before.
/// Policies continue after the last compaction of the same content. A new summary replaces all earlier summaries. Its
/// range includes their ranges, and the strategy reads the raw events of all of them
/// (docs/decisions/0018-one-summary.md).
#[must_use]
pub fn range_to_compact(
    description: &Description,
    stream: &Stream,
    selected: TurnRange,
) -> Option<TurnRange> {
    // Without this feature, a strategy accepts whole turns only.
    let range = if description.has_feature(STEPS) { selected } else { selected.whole_turns()? };
    let next = stream.after_last_overlay_of(&description.produces);
    // A strategy that reads earlier summaries may compact turns that were compacted before.
    let reads_summaries = description.wants("previous_summaries");
    if !reads_summaries && TurnRange::between(next, range.end()).is_none() {
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

/// Returns whether the error is a failed summary. Invalid options do not count, because another answer of the model
/// would not help.
fn is_summary_failure(error: &compact::Error, strategies: &[PreparedStrategy]) -> bool {
    let compact::Error::Strategy { name, source } = error.plain() else { return false };
    if matches!(**source, StrategyRunError::BadOptions { .. }) {
        return false;
    }
    let mut descriptions = strategies.iter().map(|strategy| &strategy.described.description);
    descriptions
        .any(|description| description.name == *name && description.produces.contains(&ContentKind::Summary))
}
