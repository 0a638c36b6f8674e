//! Asking the strategies of a run, one after the other, and keeping what they proposed until all have ended.

use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::reply::{Answer, Terminal};
use jp_compact_core::request::{self, Ask};
use jp_compact_core::select::{self, Nothing, Selected};
use jp_compact_core::validate::{self, Asked, Compaction, Refusal};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{ContentKind, Limits, Payload};

use super::{Outcome, Ready, Report, Run, Step};
use crate::digest;
use crate::failure::{Failure, StrategyFailure};
use crate::store::Place;

/// What the strategies of a run have proposed so far.
pub(super) struct Asking<'a> {
    pub(super) run: &'a Run,
    place: &'a Place,
    survey: &'a Survey<'a>,
    /// The turns that the user wants compacted.
    selected: &'a Selected,
    /// The digest of the raw input, once somebody needed it.
    input_sha256: Option<String>,
    proposals: Vec<Proposed<'a>>,
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
        selected: &'a Selected,
    ) -> Self {
        Self {
            run,
            place,
            survey,
            selected,
            input_sha256: None,
            proposals: Vec::new(),
            entries: Vec::new(),
            owners: Vec::new(),
        }
    }

    /// Asks one strategy, and adds its step to the report.
    pub(super) async fn ask(&mut self, ready: &'a Ready, report: &mut Report) -> Result<(), Failure> {
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
                let asked = async {
                    let answer = self.exchange(ready, &selected, report.steps.len() + 1).await?;
                    self.take(ready, selected, answer, report.steps.len(), &mut step)
                };
                asked.await.map_err(|source| Failure::of_strategy(&description.name, source))?;
            }
        }
        report.steps.push(step);
        Ok(())
    }

    /// The turns that a strategy is asked for.
    fn select(&self, ready: &Ready) -> Result<Selected, Nothing> {
        if !ready.described.description.produces.contains(&ContentKind::Summary) {
            return Ok(self.selected.clone());
        }
        let accepted = append::summarised(&self.entries);
        select::select_for_summary(self.survey, self.selected, &accepted, self.run.overlap)
    }

    async fn exchange(
        &mut self,
        ready: &Ready,
        selected: &Selected,
        number: usize,
    ) -> Result<Answer, StrategyFailure> {
        let description = &ready.described.description;
        if description.wants("digest") {
            self.digest();
        }
        let id = format!("c{number}");
        let ask = Ask {
            id: &id,
            description,
            conversation: self.place.id(),
            digest: self.input_sha256.as_deref(),
            range: selected.range,
            requested: selected.requested,
            options: &ready.options,
            now: self.run.now,
            limits: Limits {
                deadline_ms: u64::try_from(self.run.deadline.as_millis()).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
            },
            dry_run: self.run.dry_run,
        };
        let request = request::lines(self.survey, &ask);
        let cleared = &ready.described.cleared;
        let answer = self.run.starter.compact(cleared, &id, request, self.run.deadline).await;
        answer.map_err(|error| error.of_run(cleared))
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
        step.logs = answer.logs.into_iter().map(|log| (log.level, log.message)).collect();
        match answer.terminal {
            Terminal::Decline(decline) => step.outcome = Outcome::Declined(decline.reason),
            Terminal::Result(result) => {
                step.diagnostics = result.diagnostics;
                let accepted = append::summarised(&self.entries);
                let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
                let asked = asked(self.run, stream, pairs, ready, &selected, &accepted);
                let valid = validate::validate(&asked, result.compactions.clone())
                    .map_err(StrategyFailure::Refused)?;
                let input_sha256 = self.digest();
                self.entries
                    .extend(valid.into_iter().map(|compaction| entry(ready, compaction, &input_sha256)));
                self.owners.resize(self.entries.len(), owner);
                self.proposals.push(Proposed { ready, selected, payloads: result.compactions });
            }
            Terminal::Needs(needs) => {
                let need = needs.requests.keys().next().cloned().unwrap_or_default();
                return Err(StrategyFailure::NotGranted { need, command: None });
            }
            // A session hands no error on; were it one, nothing would be taken from it.
            Terminal::Error(error) => step.outcome = Outcome::Declined(error.message),
        }
        Ok(())
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

fn asked<'a>(
    run: &Run,
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
    }
}

fn entry(ready: &Ready, compaction: Compaction, input_sha256: &str) -> Entry {
    let described = &ready.described;
    let receipt = Receipt {
        strategy: described.cleared.plugin.name.clone(),
        version: described.description.version.clone(),
        executable_sha256: described.cleared.sha256.clone(),
        options: ready.options.clone(),
        input_sha256: input_sha256.to_owned(),
        tier: ready.tier.word().to_owned(),
    };
    Entry { compaction, receipt }
}
