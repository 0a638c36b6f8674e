//! Asking the strategies of a run, one after the other, and keeping what they proposed until all have ended.

use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::receipts::receipts;
use jp_compact_core::reply::{Answer, Terminal};
use jp_compact_core::request::{self, Ask};
use jp_compact_core::select::{self, Nothing, Selected};
use jp_compact_core::validate::{self, Asked, Compaction, Refusal};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{ContentKind, Input, Limits, Llm, Payload};
use serde_json::{Map, Value};

use super::events::Spooling;
use super::paid::{self, InVain};
use super::{Outcome, Ready, Report, Run, Step, unasked};
use crate::consent::Allowed;
use crate::digest;
use crate::failure::{Failure, StrategyFailure};
use crate::session::Body;
use crate::store::Place;

/// What the strategies of a run have proposed so far.
pub(super) struct Asking<'a> {
    pub(super) run: &'a Run,
    place: &'a Place,
    survey: &'a Survey<'a>,
    /// The turns that the user wants compacted.
    selected: &'a Result<Selected, Nothing>,
    /// The digest of the raw input, once somebody needed it.
    input_sha256: Option<String>,
    spooled: Spooling,
    proposals: Vec<Proposed<'a>>,
    /// What the receipts of the stream say, once somebody needed it.
    receipts: Option<Vec<Option<Map<String, Value>>>>,
    /// What a model answered to, by the step of the report.
    paid_for: Vec<(usize, String)>,
    /// What is going to be appended.
    pub(super) entries: Vec<Entry>,
    /// The step of the report that each entry belongs to.
    pub(super) owners: Vec<usize>,
}

/// What a strategy proposed, kept so that it can be checked again against a transcript that grew.
struct Proposed<'a> {
    ready: &'a Ready,
    selected: Selected,
    payloads: Vec<Payload>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        run: &'a Run,
        place: &'a Place,
        survey: &'a Survey<'a>,
        selected: &'a Result<Selected, Nothing>,
    ) -> Self {
        Self {
            run,
            place,
            survey,
            selected,
            input_sha256: None,
            spooled: Spooling::default(),
            proposals: Vec::new(),
            receipts: None,
            paid_for: Vec::new(),
            entries: Vec::new(),
            owners: Vec::new(),
        }
    }

    /// Asks one strategy, and adds its step to the report.
    pub(super) async fn ask(
        &mut self,
        ready: &'a Ready,
        allowed: Option<&Allowed>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let description = &ready.described.description;
        let mut step = Step {
            strategy: description.name.clone(),
            version: description.version.clone(),
            outcome: Outcome::Made(Vec::new()),
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        match self.select(ready) {
            Err(nothing) => step.outcome = Outcome::Declined(nothing.to_string()),
            Ok(selected) => {
                report.note(&selected.notes);
                if let Some(number) = self.carries(ready, |overlay| overlay.covers_just(selected.range)) {
                    step.outcome = Outcome::Already(number);
                    report.steps.push(step);
                    return Ok(());
                }
                let exchange = self.exchange(ready, allowed, selected, report.steps.len(), &mut step);
                exchange.await.map_err(|source| Failure::of_strategy(&description.name, source))?;
            }
        }
        report.steps.push(step);
        Ok(())
    }

    /// The turns that a strategy is asked for.
    fn select(&self, ready: &Ready) -> Result<Selected, Nothing> {
        let selected = match ready.range {
            Some(own) => select::select(self.survey, own, self.run.now)?,
            None => self.selected.clone()?,
        };
        if !ready.described.description.produces.contains(&ContentKind::Summary) {
            return Ok(selected);
        }
        let accepted = append::summarised(&self.entries);
        select::select_for_summary(self.survey, &selected, &accepted, self.run.overlap)
    }

    /// Asks for a range, unless that is known to be in vain.
    async fn exchange(
        &mut self,
        ready: &'a Ready,
        allowed: Option<&Allowed>,
        selected: Selected,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyFailure> {
        let llm = || self.model(allowed);
        if ready.needs_model()
            && let Some(reason) = unasked::not_worth_it(self.survey, &selected, self.run.min_saving)
        {
            step.outcome = Outcome::Declined(reason);
            return Ok(());
        }
        if self.run.dry_run && ready.needs_model() {
            let would = would_ask(ready, &selected, llm()?);
            step.outcome = Outcome::Would(would);
            return Ok(());
        }
        let Some(paid) = self.run.paid.as_ref().filter(|_| ready.needs_model()) else {
            let llm = llm()?;
            return self.converse(ready, llm, selected, owner, step).await;
        };
        let llm = llm()?;
        let input = self.digest();
        let model = llm.map(|llm| &*llm.model);
        let key = paid::key(ready, &selected, model, &input, self.run.min_saving);
        match paid.before(&key) {
            Some(InVain::Low(reason)) => {
                step.outcome = Outcome::Declined(format!("no model was asked again: {reason}"));
                return Ok(());
            }
            Some(InVain::Refused(reason)) => return Err(StrategyFailure::RefusedBefore { reason }),
            None => {}
        }
        let done = self.converse(ready, llm, selected, owner, step).await;
        match &done {
            Err(failure) if failure.is_refusal() => {
                paid.keep(&key, &InVain::Refused(failure.to_string()));
            }
            Err(_) => {}
            Ok(()) => self.paid_for.push((owner, key)),
        }
        done
    }

    /// Keeps that what was paid for saves too little.
    pub(super) fn keep_in_vain(&self, report: &Report) {
        for (owner, key) in &self.paid_for {
            if let (Some(paid), Some(Step { outcome: Outcome::Declined(reason), .. })) =
                (&self.run.paid, report.steps.get(*owner))
            {
                paid.keep(key, &InVain::Low(reason.clone()));
            }
        }
    }

    /// Asks for a range, and once more for a wider one when the strategy chose a part of it that older
    /// summaries do not let stand.
    async fn converse(
        &mut self,
        ready: &'a Ready,
        llm: Option<&Llm>,
        mut selected: Selected,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyFailure> {
        let id = self.run.sessions.id();
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
    ) -> Result<Answer, StrategyFailure> {
        let (run, description) = (self.run, &ready.described.description);
        if description.wants("digest") {
            self.digest();
        }
        let own = run.conversation_model.as_ref().filter(|_| llm.is_some());
        let ask = Ask {
            id,
            description,
            conversation: self.place.id(),
            digest: self.input_sha256.as_deref(),
            range: selected.range,
            requested: selected.requested,
            options: &ready.options,
            hints: &run.hints,
            now: run.now,
            range_exact,
            limits: Limits {
                deadline_ms: u64::try_from(run.sessions.deadline(&ready.described).as_millis())
                    .unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
            },
            dry_run: run.dry_run,
            llm,
            context_window: own.and_then(|named| run.models.context_window(&named.model)),
        };
        let full = description.input == Input::Full;
        let events = if full { Some(self.spooled.events(self.survey, &ask, run)?) } else { None };
        let (body, events) = match &events {
            Some((lines, count)) => {
                let (body, events) = Body::of(lines, *count);
                (body, Some(events))
            }
            None => (Body::Nothing, None),
        };
        let header = request::header(self.survey, &ask, events);
        let answer = run.sessions.ask(&ready.described, header, &body).await;
        answer.map_err(|error| error.of_run(&ready.described.confined))
    }

    /// The model of a strategy that needs one. A replay can do without.
    fn model<'m>(&self, allowed: Option<&'m Allowed>) -> Result<Option<&'m Llm>, StrategyFailure> {
        match allowed.map(Allowed::model) {
            Some(None) if !self.run.models.replays() => Err(StrategyFailure::NoModel),
            llm => Ok(llm.flatten()),
        }
    }

    /// The range that would be closed, if that is all that is wrong with an answer and it can be asked for.
    fn not_closed(&self, ready: &Ready, selected: &Selected, answer: &Answer) -> Option<TurnRange> {
        let Terminal::Result(result) = &answer.terminal else { return None };
        if result.compactions.iter().all(|payload| payload.summary.is_none()) {
            return None;
        }
        let accepted = append::summarised(&self.entries);
        let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
        let asked = asked(self.run, stream, pairs, ready, selected, &accepted);
        match validate::validate(&asked, result.compactions.clone()) {
            Err(Refusal::NotClosed { closed, .. }) if pairs.split_by(closed).is_none() => Some(closed),
            _ => None,
        }
    }

    /// Takes what a strategy answered: all of it, or nothing.
    fn take(
        &mut self,
        ready: &'a Ready,
        selected: Selected,
        answer: Answer,
        owner: usize,
        step: &mut Step,
    ) -> Result<(), StrategyFailure> {
        step.logs.extend(answer.logs.into_iter().map(|log| (log.level, log.message)));
        match answer.terminal {
            Terminal::Decline(decline) => step.outcome = Outcome::Declined(decline.reason),
            Terminal::Result(result) => {
                step.diagnostics = result.diagnostics;
                let accepted = append::summarised(&self.entries);
                let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
                let asked = asked(self.run, stream, pairs, ready, &selected, &accepted);
                let valid = validate::validate(&asked, result.compactions.clone())
                    .map_err(StrategyFailure::Refused)?;
                let there: Option<Vec<usize>> = valid
                    .iter()
                    .map(|made| self.carries(ready, |overlay| overlay.says_the_same(made)))
                    .collect();
                if let Some(&[number, ..]) = there.as_deref() {
                    step.outcome = Outcome::Already(number);
                    return Ok(());
                }
                // A digest costs as much as all the rest, and is for what is stored.
                let stores = !self.run.dry_run && !self.run.hands_over;
                let input_sha256 = if stores { self.digest() } else { String::new() };
                self.entries
                    .extend(valid.into_iter().map(|compaction| entry(ready, compaction, &input_sha256)));
                self.owners.resize(self.entries.len(), owner);
                self.proposals.push(Proposed { ready, selected, payloads: result.compactions });
            }
            // A session hands neither on; were it to, nothing would be taken from them.
            Terminal::Needs(_) => step.outcome = Outcome::Declined("it needs more than it was given".into()),
            Terminal::Error(error) => step.outcome = Outcome::Declined(error.message),
        }
        Ok(())
    }

    /// The number of an overlay that is such, and that this very strategy made of the same raw events.
    fn carries(&mut self, ready: &Ready, is_such: impl Fn(&Overlay) -> bool) -> Option<usize> {
        let stream = self.survey.stream;
        if !self.run.skips || stream.overlays().is_empty() {
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
            // Not worth a digest.
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

    /// Whether what was proposed for the snapshot still holds for the stream that it has grown to.
    pub(super) fn recheck(&self, grown: &Stream) -> Result<(), Refusal> {
        let pairs = Pairs::of(grown);
        let mut accepted: Vec<TurnRange> = Vec::new();
        for proposed in &self.proposals {
            let asked = asked(self.run, grown, &pairs, proposed.ready, &proposed.selected, &accepted);
            let valid = validate::validate(&asked, proposed.payloads.clone())?;
            accepted.extend(valid.iter().filter(|made| made.summary().is_some()).map(Compaction::range));
        }
        Ok(())
    }
}

/// What a dry run reports in place of asking a strategy that would ask a model: nothing is spent by it.
fn would_ask(ready: &Ready, selected: &Selected, llm: Option<&Llm>) -> String {
    let model = llm.map_or("recorded answers", |llm| &llm.model);
    let summarizes = ready.described.description.produces.contains(&ContentKind::Summary);
    let does = if summarizes { "summarize" } else { "compact" };
    let (from, to) = (selected.range.from(), selected.range.to());
    let turns = if from == to { format!("turn {from}") } else { format!("turns {from}-{to}") };
    format!("would {does} {turns} using {model}")
}

/// Whether a receipt is that of this strategy, the same bytes with the same options.
fn is_of(receipt: &Map<String, Value>, ready: &Ready) -> bool {
    let described = &ready.described;
    let says = |key: &str, what: &str| receipt.get(key).and_then(Value::as_str) == Some(what);
    says("strategy", described.confined.cleared.plugin.name.as_str())
        && says("version", &described.description.version)
        && says("executable_sha256", &described.confined.cleared.sha256)
        && receipt.get("options").and_then(Value::as_object) == Some(&ready.options)
}

fn asked<'a>(
    run: &'a Run,
    stream: &'a Stream,
    pairs: &'a Pairs,
    ready: &'a Ready,
    selected: &Selected,
    accepted: &'a [TurnRange],
) -> Asked<'a> {
    Asked {
        stream,
        pairs,
        range: selected.range,
        requested: selected.requested,
        produces: &ready.described.description.produces,
        accepted,
        overlap: run.overlap,
        hints: &run.hints,
        by_model: ready.needs_model(),
    }
}

fn entry(ready: &Ready, compaction: Compaction, input_sha256: &str) -> Entry {
    let described = &ready.described;
    let receipt = Receipt {
        strategy: described.confined.cleared.plugin.name.clone(),
        version: described.description.version.clone(),
        executable_sha256: described.confined.cleared.sha256.clone(),
        options: ready.options.clone(),
        input_sha256: input_sha256.to_owned(),
        tier: described.confined.tier().to_string(),
    };
    Entry { compaction, receipt }
}
