//! The requests of a run to its strategies, one after the other. The proposals are kept until all strategies have
//! ended.

use jp_compact_core::append::{self, Entry};
use jp_compact_core::reply::{CompleteReply, Terminal};
use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::select::{self, NothingToCompact, Selected};
use jp_compact_core::validate::Refusal;
use jp_compact_core::{Survey, TurnRange};
use jp_compact_runtime::session::{Body, OnStop};
use jp_compact_schema::document::{AutoWait, CacheCost};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{Input, Limits, Llm};
use serde_json::{Map, Value};

use super::cache_cost::{self, SummaryTokens};
use super::dry_run;
use super::error::Error;
use super::events::EventLinesCache;
use super::large::InputDigest;
use super::llm_failure_cache::{self, LlmFailure, RequestContext};
use super::proposal::{Proposal, Verdict, refused};
use super::receipt::summary_texts;
use super::strategy_error::StrategyRunError;
use super::wait::wait_text;
use super::{OnGrowth, PreparedStrategy, RunReport, RunSettings, Step, StrategyOutcome, preflight, window};
use crate::consent::Allowed;
use jp_compact_llm::ModelName;
use jp_compact_store::Place;

/// Asks strategies, and collects their proposals.
pub(super) struct ProposalCollector<'a> {
    pub(super) run: &'a RunSettings,
    pub(super) place: &'a Place,
    pub(super) survey: &'a Survey<'a>,
    /// The turns and steps that the user wants compacted.
    range: &'a Result<TurnRange, NothingToCompact>,
    /// The model of the conversation.
    conversation_model: Option<ModelName>,
    pub(super) input_digest: InputDigest,
    event_lines: EventLinesCache,
    pub(super) proposals: Vec<Proposal<'a>>,
    /// Whether a strategy of this run may have asked a model. If so, the run is finished also after an interrupt.
    may_have_asked_model: bool,
    /// The receipts in the stream, parsed on first use.
    pub(super) receipts: Option<Vec<Vec<Map<String, Value>>>>,
    /// The keys of the requests whose answers this run proposes.
    answered_requests: Vec<String>,
    /// The entries to append.
    pub(super) entries: Vec<Entry>,
    /// For each entry, the index of its step in the report.
    pub(super) entry_steps: Vec<usize>,
    /// Whether another run has changed the overlays since the strategies were asked.
    pub(super) is_changed: bool,
    /// The reason why a strategy that asks a model waits.
    pub(super) wait: Option<AutoWait>,
    /// The reason why an earlier run with the same requests declined the overlays of all strategies.
    pub(super) earlier_decline: Option<String>,
}

impl<'a> ProposalCollector<'a> {
    pub(super) fn new(
        run: &'a RunSettings,
        place: &'a Place,
        survey: &'a Survey<'a>,
        range: &'a Result<TurnRange, NothingToCompact>,
        conversation_model: Option<ModelName>,
    ) -> Self {
        Self {
            run,
            place,
            survey,
            range,
            conversation_model,
            input_digest: InputDigest::default(),
            event_lines: EventLinesCache::default(),
            proposals: Vec::new(),
            may_have_asked_model: false,
            receipts: None,
            answered_requests: Vec::new(),
            entries: Vec::new(),
            entry_steps: Vec::new(),
            is_changed: false,
            wait: None,
            earlier_decline: None,
        }
    }

    /// Returns a collector without proposals, for the overlays that the transcript has now. The digest in the receipts
    /// stays that of the events that the strategies got.
    pub(super) fn for_changed<'b>(&mut self, survey: &'b Survey<'b>) -> ProposalCollector<'b>
    where
        'a: 'b,
    {
        ProposalCollector {
            input_digest: InputDigest::from_known(self.input_sha256().to_owned()),
            answered_requests: self.answered_requests.clone(),
            is_changed: true,
            ..ProposalCollector::new(
                self.run,
                self.place,
                survey,
                self.range,
                self.conversation_model.clone(),
            )
        }
    }

    /// Returns the model of the conversation.
    pub(super) fn conversation_model(&self) -> Option<&ModelName> {
        self.conversation_model.as_ref()
    }

    /// Returns the tokens that models read and wrote for the proposed summaries. A model reads the raw events.
    pub(super) fn summary_tokens(&self) -> SummaryTokens {
        let mut sum = SummaryTokens::default();
        for proposal in self.proposals.iter().filter(|proposal| proposal.strategy.needs_model()) {
            for text in summary_texts(&proposal.payloads) {
                sum.output += self.run.io.estimator.tokens(&text);
            }
            sum.input += self.survey.raw_tokens_in(proposal.selected.range);
        }
        sum
    }

    /// Asks one strategy, and adds its step to the report.
    pub(super) async fn ask(
        &mut self,
        strategy: &'a PreparedStrategy,
        allowed: Option<&Allowed>,
        report: &mut RunReport,
    ) -> Result<(), Error> {
        let description = &strategy.described.description;
        let mut step = Step {
            strategy: description.name.clone(),
            version: description.version.clone(),
            outcome: StrategyOutcome::NewOverlays(Vec::new()),
            restored_tokens: 0,
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        match self.select_turns(strategy) {
            Err(nothing) => step.outcome = StrategyOutcome::Declined(nothing.to_string()),
            Ok(selected) => {
                report.add_notes(&selected.notes);
                if let Some(number) = self.find_overlay_of_range(strategy, selected.range) {
                    step.outcome = StrategyOutcome::AlreadyExists(number);
                } else if let Some(reason) =
                    preflight::summarized_reason(self.survey, strategy, selected.requested)
                {
                    step.outcome = StrategyOutcome::Declined(reason);
                } else {
                    self.ask_if_useful(strategy, allowed, selected, report.steps.len(), &mut step)
                        .await
                        .map_err(|source| Error::strategy(&description.name, source))?;
                }
            }
        }
        report.steps.push(step);
        Ok(())
    }

    fn select_turns(&self, strategy: &PreparedStrategy) -> Result<Selected, NothingToCompact> {
        let range = match strategy.range {
            Some(selection) => select::resolve(self.survey, selection, self.run.io.now)?,
            None => (*self.range)?,
        };
        let traits = strategy.traits();
        let selected = select::select_for_strategy(self.survey, range, traits)?;
        if !traits.writes_summary {
            return Ok(selected);
        }
        let accepted = append::summary_ranges(&self.entries);
        select::select_for_summary(self.survey, &selected, traits, &accepted, self.run.policy.overlap)
    }

    /// Asks for a proposal. Declines without a request if the proposal could not be used.
    async fn ask_if_useful(
        &mut self,
        strategy: &'a PreparedStrategy,
        allowed: Option<&Allowed>,
        selected: Selected,
        step_index: usize,
        step: &mut Step,
    ) -> Result<(), StrategyRunError> {
        let min_saving = self.run.limits.min_saving;
        if !strategy.needs_model() {
            return self.request_proposal(strategy, None, selected, step_index, step).await.map(drop);
        }
        if let Some(reason) = preflight::reason_to_decline(self.survey, &selected, min_saving) {
            step.outcome = StrategyOutcome::Declined(reason);
            return Ok(());
        }
        if let Some(wait) = self.reason_to_wait(selected.range, |_| {}) {
            step.outcome = StrategyOutcome::Declined(wait_text(&wait));
            self.wait = Some(wait);
            return Ok(());
        }
        let llm = match self.model(allowed)? {
            Some(llm) => Some(self.with_window(llm, step).await),
            None => None,
        };
        let llm = llm.as_ref();
        if self.run.io.dry_run {
            return self.request_needs(strategy, llm, &selected, step).await;
        }
        let Some(failures) = &self.run.io.llm_failures else {
            return self.request_proposal(strategy, llm, selected, step_index, step).await.map(drop);
        };
        let input_sha256 = self.input_sha256().to_owned();
        let context = RequestContext {
            strategies: &self.run.strategies,
            hints: &self.run.policy.hints,
            allows_growth: self.run.policy.on_growth == OnGrowth::Append,
            min_saving,
            input_sha256: &input_sha256,
            view_tokens: self.survey.estimate.view_tokens(&self.survey.view),
            llm,
            conversation_window: self.conversation_window(llm).await,
        };
        let cache_key = llm_failure_cache::key(strategy, &selected, context);
        match failures.get(&cache_key) {
            Some(LlmFailure::LowSaving(reason)) => {
                step.outcome = StrategyOutcome::Declined(format!("no model was asked again: {reason}"));
                self.earlier_decline = Some(reason);
                return Ok(());
            }
            Some(LlmFailure::Unused(reason)) => {
                step.outcome = StrategyOutcome::Declined(format!("no model was asked again: {reason}"));
                return Ok(());
            }
            Some(LlmFailure::Refused(reason)) => return Err(StrategyRunError::RefusedBefore { reason }),
            Some(LlmFailure::Waiting { break_even_requests }) => {
                let with_answer = |cost: &mut CacheCost| cost.break_even_requests = break_even_requests;
                if let Some(wait) = self.reason_to_wait(selected.range, with_answer) {
                    let reason = wait_text(&wait);
                    step.outcome = StrategyOutcome::Declined(reason.clone());
                    (self.wait, self.earlier_decline) = (Some(wait), Some(reason));
                    return Ok(());
                }
            }
            None => {}
        }
        let spent_before = self.run.io.models.spent_tokens();
        let result = self.request_proposal(strategy, llm, selected, step_index, step).await;
        match &result {
            Ok(Verdict::Accepted) => self.answered_requests.push(cache_key),
            Ok(Verdict::Unused(reason)) if self.run.io.models.spent_tokens() > spent_before => {
                failures.put(&cache_key, &LlmFailure::Unused(reason.clone()));
            }
            Err(error) if error.is_rejected_answer() => {
                failures.put(&cache_key, &LlmFailure::Refused(error.to_string()));
            }
            Ok(Verdict::Unused(_)) | Err(_) => {}
        }
        result.map(drop)
    }

    /// Returns the reason to wait before a model is asked, if even a summary without text would not pay back.
    /// `with_answer` corrects the cost if an earlier answer is known.
    fn reason_to_wait(&self, range: TurnRange, with_answer: impl FnOnce(&mut CacheCost)) -> Option<AutoWait> {
        let rule = self.run.policy.wait?;
        let model = self.conversation_model.as_ref();
        let mut cost = cache_cost::least_cost_of_summary(self.run, self.survey, model, range)?;
        with_answer(&mut cost);
        rule.reason(&cost, self.survey, self.survey.estimate.view_tokens(&self.survey.view))
    }

    /// Records why the run does not append the answers that it proposed.
    pub(super) fn record_failures(&self, failure: &LlmFailure) {
        let Some(failures) = &self.run.io.llm_failures else { return };
        for cache_key in &self.answered_requests {
            failures.put(cache_key, failure);
        }
    }

    /// Adds the summaries that models wrote in this run to an error.
    pub(super) fn with_summaries(&self, error: Error) -> Error {
        let proposals = self.proposals.iter().filter(|proposal| proposal.strategy.needs_model());
        let summaries: Vec<String> =
            proposals.flat_map(|proposal| summary_texts(&proposal.payloads)).collect();
        if summaries.is_empty() { error } else { Error::WithSummaries { error: Box::new(error), summaries } }
    }

    /// Adds the summaries that models wrote in this run to the logs of their steps.
    pub(super) fn log_declined_summaries(&self, report: &mut RunReport) {
        for Proposal { strategy, payloads, step_index, .. } in &self.proposals {
            report.steps[*step_index].add_declined_summaries(strategy, payloads);
        }
    }

    /// Asks for a proposal. If a proposed summary includes an older summary only partially, asks again for a wider
    /// range.
    async fn request_proposal(
        &mut self,
        strategy: &'a PreparedStrategy,
        llm: Option<&Llm>,
        mut selected: Selected,
        step_index: usize,
        step: &mut Step,
    ) -> Result<Verdict, StrategyRunError> {
        let id = self.run.io.sessions.id();
        let mut reply = self.send_request(strategy, llm, &selected, &id, false).await?;
        if let Some(wider_range) = self.wider_range(strategy, &selected, &reply) {
            step.add_logs(reply.logs);
            selected.range = wider_range;
            reply = self.send_request(strategy, llm, &selected, &id, true).await?;
        }
        step.add_logs(reply.logs);
        let reason = match reply.terminal {
            Terminal::Result(result) => {
                step.diagnostics.extend(result.diagnostics);
                let (payloads, merges) = (result.compactions, result.merges);
                let compactions = self
                    .validate(strategy, &selected, payloads.clone())
                    .map_err(|refusal| refused(refusal, strategy, &payloads))?;
                let proposal = Proposal { strategy, selected, payloads, merges, step_index };
                return Ok(self.accept(proposal, compactions, step));
            }
            Terminal::Decline(decline) => decline.reason,
            // A session never returns these two.
            Terminal::Needs(_) => "it sent an unexpected request".into(),
            Terminal::Error(error) => error.message,
        };
        step.outcome = StrategyOutcome::Declined(reason.clone());
        Ok(Verdict::Unused(reason))
    }

    /// Reports the requests to a model that a dry run does not send.
    async fn request_needs(
        &mut self,
        strategy: &PreparedStrategy,
        llm: Option<&Llm>,
        selected: &Selected,
        step: &mut Step,
    ) -> Result<(), StrategyRunError> {
        let id = self.run.io.sessions.id();
        let reply = self.send_request(strategy, llm, selected, &id, false).await?;
        step.add_logs(reply.logs);
        let needs = match &reply.terminal {
            Terminal::Decline(decline) => {
                step.outcome = StrategyOutcome::Declined(decline.reason.clone());
                return Ok(());
            }
            Terminal::Needs(needs) => Some(needs),
            _ => None,
        };
        let text = dry_run::describe_requests(strategy, self.survey.stream, selected.range, llm, needs);
        step.outcome = StrategyOutcome::WouldAsk(text);
        Ok(())
    }

    async fn send_request(
        &mut self,
        strategy: &PreparedStrategy,
        llm: Option<&Llm>,
        selected: &Selected,
        id: &str,
        range_exact: bool,
    ) -> Result<CompleteReply, StrategyRunError> {
        let (run, description) = (self.run, &strategy.described.description);
        if description.wants("digest") {
            self.input_sha256();
        }
        let conversation_window = self.conversation_window(llm).await;
        let deadline_ms = run.io.sessions.deadline(&strategy.described).as_millis();
        let parameters = RequestParameters {
            conversation: self.place.id(),
            digest: self.input_digest.known(),
            requested_range: selected.requested,
            hints: &run.policy.hints,
            range_exact,
            limits: Limits {
                deadline_ms: u64::try_from(deadline_ms).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
                needs_many: description.has_feature("needs.many"),
            },
            dry_run: run.io.dry_run,
            llm,
            context_window: conversation_window,
            ..RequestParameters::new(id, description, selected.range, &strategy.options, run.io.now)
        };
        let event_lines = match description.input {
            Input::Full => Some(self.event_lines.get_or_write(self.survey, &parameters, run)?),
            _ => None,
        };
        let (body, events) = match &event_lines {
            Some((lines, count)) => {
                let (body, events) = Body::from_lines(lines, *count);
                (body, Some(events))
            }
            None => (Body::Nothing, None),
        };
        // The other strategies will probably be asked, too.
        let without_model = run.strategies.iter().filter(|strategy| !strategy.needs_model());
        run.io.sessions.start_workers(without_model.map(|strategy| &strategy.described));
        let header = request::header(self.survey, &parameters, events);
        let on_stop = if self.may_have_asked_model { OnStop::Send } else { OnStop::Refuse };
        let reply = run.io.sessions.ask(&strategy.described, header, &body, on_stop).await;
        self.may_have_asked_model |= strategy.needs_model() && !run.io.dry_run;
        Ok(reply.map_err(|error| error.of_run(&strategy.described.confined))?)
    }

    /// Returns the model of a strategy that needs one. A replay needs no model.
    fn model<'m>(&self, allowed: Option<&'m Allowed>) -> Result<Option<&'m Llm>, StrategyRunError> {
        match allowed.map(Allowed::model) {
            Some(None) if !self.run.io.models.replays() => Err(StrategyRunError::NoModel),
            llm => Ok(llm.flatten()),
        }
    }

    /// Returns the model with its context window. A dry run does not ask the provider for it.
    async fn with_window(&self, llm: &Llm, step: &mut Step) -> Llm {
        let Ok(model) = llm.model.parse() else { return llm.clone() };
        let window = window::look_up(&self.run.io.models, &model, !self.run.io.dry_run).await;
        step.diagnostics.extend(window.and_then(|window| window::assumed(&window, &model)));
        Llm { context_window: window.map(|window| window.tokens), ..llm.clone() }
    }

    /// Returns the window of the conversation's model. Its provider is asked only for a strategy that asks a model.
    async fn conversation_window(&self, llm: Option<&Llm>) -> Option<u64> {
        let models = &self.run.io.models;
        let Some(model) = &self.conversation_model else { return models.typed_window() };
        let window = window::look_up(models, model, llm.is_some() && !self.run.io.dry_run).await;
        window.map(|window| window.tokens)
    }

    /// Returns the range that includes older summaries completely, if the only error in the reply is that a summary
    /// includes an older summary partially.
    fn wider_range(
        &self,
        strategy: &PreparedStrategy,
        selected: &Selected,
        reply: &CompleteReply,
    ) -> Option<TurnRange> {
        let Terminal::Result(result) = &reply.terminal else { return None };
        if result.compactions.iter().all(|payload| payload.summary.is_none()) {
            return None;
        }
        let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
        match self.validate(strategy, selected, result.compactions.clone()) {
            Err(Refusal::NotClosed { closed, .. }) if pairs.split_by(stream, closed).is_none() => {
                Some(closed)
            }
            _ => None,
        }
    }

    pub(super) fn input_sha256(&mut self) -> &str {
        self.input_digest.get(self.survey.stream)
    }
}
