//! Asks the strategies of a run, one after the other, and keeps their proposals until all have ended.

use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::receipts::receipts;
use jp_compact_core::reply::{CompleteReply, Terminal};
use jp_compact_core::request::{self, Ask};
use jp_compact_core::select::{self, Nothing, Selected};
use jp_compact_core::validate::{self, Asked, Compaction, Refusal};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange};
use jp_compact_runtime::session::{self, Body};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{ANSWER_REFUSED, ContentKind, Input, Limits, Llm, Payload};
use serde_json::{Map, Value};

use super::error::Error;
use super::events::Spooling;
use super::llm_failure_cache::{self, LlmFailure};
use super::strategy_error::StrategyRunError;
use super::{Ready, RunReport, RunSettings, Step, StrategyOutcome, preflight};
use crate::consent::Allowed;
use crate::digest;
use jp_compact_llm as llm;
use jp_compact_store::Place;

/// The proposals of a run so far.
pub(super) struct Asking<'a> {
    pub(super) run: &'a RunSettings,
    place: &'a Place,
    survey: &'a Survey<'a>,
    /// The turns and steps that the user wants compacted.
    range: &'a Result<TurnRange, Nothing>,
    /// The digest of the raw input, computed on first use.
    input_sha256: Option<String>,
    spooled: Spooling,
    proposals: Vec<Proposed<'a>>,
    /// The receipts in the stream, parsed on first use.
    receipts: Option<Vec<Option<Map<String, Value>>>>,
    /// The requests that a model answered: the step of the report, and the cache key.
    asked_keys: Vec<(usize, String)>,
    /// The entries to append.
    pub(super) entries: Vec<Entry>,
    /// The step of the report that each entry belongs to.
    pub(super) owners: Vec<usize>,
}

/// The proposal of a strategy. It is checked again if the transcript grows.
struct Proposed<'a> {
    ready: &'a Ready,
    selected: Selected,
    payloads: Vec<Payload>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        run: &'a RunSettings,
        place: &'a Place,
        survey: &'a Survey<'a>,
        range: &'a Result<TurnRange, Nothing>,
    ) -> Self {
        Self {
            run,
            place,
            survey,
            range,
            input_sha256: None,
            spooled: Spooling::default(),
            proposals: Vec::new(),
            receipts: None,
            asked_keys: Vec::new(),
            entries: Vec::new(),
            owners: Vec::new(),
        }
    }

    /// Asks one strategy, and adds its step to the report.
    pub(super) async fn ask(
        &mut self,
        ready: &'a Ready,
        allowed: Option<&Allowed>,
        report: &mut RunReport,
    ) -> Result<(), Error> {
        let description = &ready.described.description;
        let mut step = Step {
            strategy: description.name.clone(),
            version: description.version.clone(),
            outcome: StrategyOutcome::Made(Vec::new()),
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        match self.select(ready) {
            Err(nothing) => step.outcome = StrategyOutcome::Declined(nothing.to_string()),
            Ok(selected) => {
                report.note(&selected.notes);
                if let Some(number) = self.carries_range(ready, selected.range) {
                    step.outcome = StrategyOutcome::Already(number);
                    report.steps.push(step);
                    return Ok(());
                }
                let exchange = self.exchange(ready, allowed, selected, report.steps.len(), &mut step);
                exchange.await.map_err(|source| Error::strategy(&description.name, source))?;
            }
        }
        report.steps.push(step);
        Ok(())
    }

    /// Selects the turns for a strategy.
    fn select(&self, ready: &Ready) -> Result<Selected, Nothing> {
        let range = match ready.range {
            Some(own) => select::resolve(self.survey, own, self.run.io.now)?,
            None => (*self.range)?,
        };
        let traits = ready.traits();
        let selected = select::select_for(self.survey, range, traits)?;
        if !traits.summary {
            return Ok(selected);
        }
        let accepted = append::summarized(&self.entries);
        select::select_for_summary(self.survey, &selected, &accepted, self.run.policy.overlap)
    }

    /// Asks for a range. Declines without a request if the result could not be used.
    async fn exchange(
        &mut self,
        ready: &'a Ready,
        allowed: Option<&Allowed>,
        selected: Selected,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyRunError> {
        let llm = || self.model(allowed);
        if ready.needs_model()
            && let Some(reason) = preflight::not_worth_it(self.survey, &selected, self.run.limits.min_saving)
        {
            step.outcome = StrategyOutcome::Declined(reason);
            return Ok(());
        }
        if self.run.io.dry_run && ready.needs_model() {
            let would = would_ask(ready, &selected, llm()?);
            step.outcome = StrategyOutcome::Would(would);
            return Ok(());
        }
        let Some(failures) = self.run.io.llm_failures.as_ref().filter(|_| ready.needs_model()) else {
            let llm = llm()?;
            return self.converse(ready, llm, selected, owner, step).await;
        };
        let llm = llm()?;
        let input = self.digest();
        let model = llm.map(|llm| &*llm.model);
        let key = llm_failure_cache::key(ready, &selected, model, &input, self.run.limits.min_saving);
        match failures.get(&key) {
            Some(LlmFailure::Low(reason)) => {
                step.outcome = StrategyOutcome::Declined(format!("no model was asked again: {reason}"));
                return Ok(());
            }
            Some(LlmFailure::Refused(reason)) => return Err(StrategyRunError::RefusedBefore { reason }),
            None => {}
        }
        let done = self.converse(ready, llm, selected, owner, step).await;
        match &done {
            Err(failure) if is_refusal(failure) => {
                failures.put(&key, &LlmFailure::Refused(failure.to_string()));
            }
            Err(_) => {}
            Ok(()) => self.asked_keys.push((owner, key)),
        }
        done
    }

    /// Records the paid answers of this run that saved too little.
    pub(super) fn keep_low_savings(&self, report: &RunReport) {
        for (owner, key) in &self.asked_keys {
            if let (Some(failures), Some(Step { outcome: StrategyOutcome::Declined(reason), .. })) =
                (&self.run.io.llm_failures, report.steps.get(*owner))
            {
                failures.put(key, &LlmFailure::Low(reason.clone()));
            }
        }
    }

    /// Asks for a range. If the strategy chose a part that cuts through older summaries, asks once more for a wider
    /// range.
    async fn converse(
        &mut self,
        ready: &'a Ready,
        llm: Option<&Llm>,
        mut selected: Selected,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyRunError> {
        let id = self.run.io.sessions.id();
        let answer = self.once(ready, llm, &selected, &id, false).await?;
        if let Some(closed) = self.not_closed(ready, &selected, &answer) {
            step.logs.extend(answer.logs.into_iter().map(|log| (log.level, log.message)));
            selected.range = closed;
            let answer = self.once(ready, llm, &selected, &id, true).await?;
            return self.take(ready, selected, answer, owner, step);
        }
        self.take(ready, selected, answer, owner, step)
    }

    async fn once(
        &mut self,
        ready: &Ready,
        llm: Option<&Llm>,
        selected: &Selected,
        id: &str,
        range_exact: bool,
    ) -> Result<CompleteReply, StrategyRunError> {
        let (run, description) = (self.run, &ready.described.description);
        if description.wants("digest") {
            self.digest();
        }
        let own = run.policy.conversation_model.as_ref().filter(|_| llm.is_some());
        let deadline_ms = run.io.sessions.deadline(&ready.described).as_millis();
        let ask = Ask {
            conversation: self.place.id(),
            digest: self.input_sha256.as_deref(),
            requested: selected.requested,
            hints: &run.policy.hints,
            range_exact,
            limits: Limits {
                deadline_ms: u64::try_from(deadline_ms).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
                needs_many: description.has_feature("needs.many"),
            },
            dry_run: run.io.dry_run,
            llm,
            context_window: own.and_then(|named| run.io.models.context_window(&named.model)),
            ..Ask::new(id, description, selected.range, &ready.options, run.io.now)
        };
        let full = description.input == Input::Full;
        let events = if full { Some(self.spooled.events(self.survey, &ask, run)?) } else { None };
        let (body, events) = match &events {
            Some((lines, count)) => {
                let (body, events) = Body::from_lines(lines, *count);
                (body, Some(events))
            }
            None => (Body::Nothing, None),
        };
        let header = request::header(self.survey, &ask, events);
        let answer = run.io.sessions.ask(&ready.described, header, &body).await;
        Ok(answer.map_err(|error| error.of_run(&ready.described.confined))?)
    }

    /// Returns the model of a strategy that needs one. A replay needs no model.
    fn model<'m>(&self, allowed: Option<&'m Allowed>) -> Result<Option<&'m Llm>, StrategyRunError> {
        match allowed.map(Allowed::model) {
            Some(None) if !self.run.io.models.replays() => Err(StrategyRunError::NoModel),
            llm => Ok(llm.flatten()),
        }
    }

    /// Returns the closed range to ask for, if an open range is the only error in the answer.
    fn not_closed(&self, ready: &Ready, selected: &Selected, answer: &CompleteReply) -> Option<TurnRange> {
        let Terminal::Result(result) = &answer.terminal else { return None };
        if result.compactions.iter().all(|payload| payload.summary.is_none()) {
            return None;
        }
        let accepted = append::summarized(&self.entries);
        let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
        let asked = asked(self.run, stream, pairs, ready, selected, &accepted);
        match validate::validate(&asked, result.compactions.clone()) {
            Err(Refusal::NotClosed { closed, .. }) if pairs.split_by(stream, closed).is_none() => {
                Some(closed)
            }
            _ => None,
        }
    }

    /// Takes the answer of a strategy completely, or not at all.
    fn take(
        &mut self,
        ready: &'a Ready,
        selected: Selected,
        answer: CompleteReply,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyRunError> {
        step.logs.extend(answer.logs.into_iter().map(|log| (log.level, log.message)));
        match answer.terminal {
            Terminal::Decline(decline) => step.outcome = StrategyOutcome::Declined(decline.reason),
            Terminal::Result(result) => {
                step.diagnostics = result.diagnostics;
                let accepted = append::summarized(&self.entries);
                let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
                let asked = asked(self.run, stream, pairs, ready, &selected, &accepted);
                let valid = validate::validate(&asked, result.compactions.clone())
                    .map_err(StrategyRunError::Refused)?;
                let overlays = valid.iter().flat_map(|made| append::overlays(stream, made));
                let there: Option<Vec<usize>> =
                    overlays.map(|made| self.carries(ready, |overlay| made.says_the_same(overlay))).collect();
                if let Some(&[number, ..]) = there.as_deref() {
                    step.outcome = StrategyOutcome::Already(number);
                    return Ok(());
                }
                // A digest costs as much as all the rest. Only stored overlays need it.
                let stores = !self.run.io.dry_run && !self.run.io.in_memory;
                let input_sha256 = if stores { self.digest() } else { String::new() };
                self.entries.extend(
                    valid
                        .into_iter()
                        .map(|compaction| entry(ready, compaction, &input_sha256, result.merges)),
                );
                self.owners.resize(self.entries.len(), owner);
                self.proposals.push(Proposed { ready, selected, payloads: result.compactions });
            }
            // A session does not return these two. If it did, the answer would be ignored.
            Terminal::Needs(_) => {
                step.outcome = StrategyOutcome::Declined("it sent an unexpected request".into());
            }
            Terminal::Error(error) => step.outcome = StrategyOutcome::Declined(error.message),
        }
        Ok(())
    }

    /// Returns the number of the first overlay of a range that this strategy made completely. In JP's conversations, a range
    /// with steps can have one overlay for each piece.
    fn carries_range(&mut self, ready: &Ready, range: TurnRange) -> Option<usize> {
        let whole = self.carries(ready, |overlay| overlay.covers_just(range));
        let pieces = || {
            let pieces = range.pieces().into_iter();
            let numbers = pieces.map(|piece| self.carries(ready, |overlay| overlay.covers_just(piece)));
            numbers.collect::<Option<Vec<usize>>>()?.first().copied()
        };
        whole.or_else(pieces)
    }

    /// Returns the number of an overlay that meets `is_such`, and that this strategy made from the same raw events.
    fn carries(&mut self, ready: &Ready, is_such: impl Fn(&Overlay) -> bool) -> Option<usize> {
        let stream = self.survey.stream;
        if !self.run.policy.skip_existing || stream.overlays().is_empty() {
            return None;
        }
        let receipts = self.receipts.get_or_insert_with(|| receipts(stream));
        let overlays = (1..).zip(stream.overlays()).zip(receipts.iter());
        let such: Vec<(usize, &Map<String, Value>)> = overlays
            .filter_map(|((number, overlay), receipt)| Some((number, overlay, receipt.as_ref()?)))
            .filter(|(_, overlay, receipt)| is_such(overlay) && is_of(receipt, ready))
            .map(|(number, _, receipt)| (number, receipt))
            .collect();
        if such.is_empty() {
            return None;
        }
        let input = &**self.input_sha256.get_or_insert_with(|| digest::of_raw_input(stream));
        let is_same =
            |receipt: &Map<String, Value>| receipt.get("input_sha256").and_then(Value::as_str) == Some(input);
        such.iter().find(|(_, receipt)| is_same(receipt)).map(|(number, _)| *number)
    }

    fn digest(&mut self) -> String {
        self.input_sha256.get_or_insert_with(|| digest::of_raw_input(self.survey.stream)).clone()
    }

    /// Validates the proposals for the snapshot against the stream that it grew to.
    pub(super) fn recheck(&self, grown: &Stream) -> Result<(), Refusal> {
        let pairs = Pairs::new(grown);
        let mut accepted: Vec<TurnRange> = Vec::new();
        for proposed in &self.proposals {
            let asked = asked(self.run, grown, &pairs, proposed.ready, &proposed.selected, &accepted);
            let valid = validate::validate(&asked, proposed.payloads.clone())?;
            accepted.extend(valid.iter().filter(|made| made.summary().is_some()).map(Compaction::range));
        }
        Ok(())
    }
}

/// Describes what a strategy with a model would do. A dry run reports this instead of asking, and costs nothing.
fn would_ask(ready: &Ready, selected: &Selected, llm: Option<&Llm>) -> String {
    let model = llm.map_or("recorded answers", |llm| &llm.model);
    let summarizes = ready.described.description.produces.contains(&ContentKind::Summary);
    let does = if summarizes { "summarize" } else { "compact" };
    format!("would {does} {} using {model}", selected.range)
}

/// Returns whether the receipt names this strategy, with the same executable and options.
fn is_of(receipt: &Map<String, Value>, ready: &Ready) -> bool {
    let described = &ready.described;
    let says = |key: &str, what: &str| receipt.get(key).and_then(Value::as_str) == Some(what);
    says("strategy", described.confined.cleared.plugin.name.as_str())
        && says("version", &described.description.version)
        && says("executable_sha256", &described.confined.cleared.sha256)
        && receipt.get("options").and_then(Value::as_object) == Some(&ready.options)
}

fn asked<'a>(
    run: &'a RunSettings,
    stream: &'a Stream,
    pairs: &'a Pairs,
    ready: &'a Ready,
    selected: &Selected,
    accepted: &'a [TurnRange],
) -> Asked<'a> {
    Asked {
        requested: selected.requested,
        by_step: ready.traits().steps,
        accepted,
        overlap: run.policy.overlap,
        hints: &run.policy.hints,
        by_model: ready.needs_model(),
        ..Asked::new(stream, pairs, selected.range, &ready.described.description.produces)
    }
}

fn entry(ready: &Ready, compaction: Compaction, input_sha256: &str, merges: Option<u32>) -> Entry {
    let described = &ready.described;
    let receipt = Receipt {
        strategy: described.confined.cleared.plugin.name.clone(),
        version: described.description.version.clone(),
        executable_sha256: described.confined.cleared.sha256.clone(),
        options: ready.options.clone(),
        input_sha256: input_sha256.to_owned(),
        tier: described.confined.tier().to_string(),
        merges,
    };
    Entry { compaction, receipt }
}

/// Returns whether a model answered, and the answer was rejected.
fn is_refusal(error: &StrategyRunError) -> bool {
    match error {
        StrategyRunError::Refused(_) => true,
        StrategyRunError::Session(error) => match error.plain() {
            session::Error::Model { answer, .. } => llm::is_of_model(&answer.code),
            session::Error::Reported { error, .. } => error.code == ANSWER_REFUSED,
            _ => false,
        },
        _ => false,
    }
}
