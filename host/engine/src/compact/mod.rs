//! The pipeline: one transcript, some strategies, one write. All strategies of a run see the same snapshot. Their
//! overlays are appended together after the last strategy, or not at all (docs/reference/store.md#ranges).

mod ask;
mod error;
mod events;
mod guard;
mod llm_failure_cache;
mod lock;
mod open;
mod preflight;
mod prepare;
mod report;
mod reset;
mod sidecar_file;
mod strategy_error;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::append::{self, Entry, Made, NotAppendable};
use jp_compact_core::estimate::Estimator;
use jp_compact_core::lint::Violation;
use jp_compact_core::projection::project;
use jp_compact_core::render::Provider;
use jp_compact_core::select::{self, Nothing, Selection};
use jp_compact_core::{Overlap, Pairs, Stream, Survey, TurnRange, View, splice};
use jp_compact_schema::ToolHint;
use jp_compact_transcripts::Format;

pub use error::{Error, StaleSnapshot};
pub use guard::{LintFailed, MIN_SAVING, OnLowSaving};
pub use llm_failure_cache::LlmFailureCache;
pub(crate) use open::only_jp;
pub use open::{Opened, of_bytes, open, open_as, warnings, with_sidecar};
pub use prepare::{Preparation, Ready, Sandbox, allow, prepare};
pub use report::{Changed, RunReport, SentByJp, Step, StrategyOutcome, overlay};
pub use reset::{ResetReport, reset};
pub use strategy_error::StrategyRunError;

use crate::config::ConfiguredModel;
use crate::consent::{self, Allowed, Consent, Wants};
use ask::Asking;
use jp_compact_llm::Models;
use jp_compact_runtime::session::Sessions;
use jp_compact_store::{self as store, Current, Piece, Place};
use lock::under_lock;

/// The settings of a run, the same for every transcript.
#[derive(Debug)]
pub struct RunSettings {
    /// The strategies, in the order of their overlays.
    pub strategies: Vec<Ready>,
    pub policy: RunPolicy,
    pub io: RunIo,
    pub limits: RunLimits,
}

/// The decisions of the user and of the configuration about a run.
#[derive(Debug)]
pub struct RunPolicy {
    /// Decides whether a model may be asked.
    pub consent: Consent,
    /// The configured model.
    pub model: Option<ConfiguredModel>,
    /// The conversation's own model.
    pub conversation_model: Option<ConfiguredModel>,
    /// The turns for strategies without a range of their own.
    pub wanted: Selection,
    /// The overlaps that extend a summary.
    pub overlap: Overlap,
    /// How to compact each tool, by name. Takes precedence over a strategy's rule for all tools.
    pub hints: BTreeMap<String, ToolHint>,
    /// Skip a strategy if the transcript already has its overlay for the same events, turns and options.
    pub skip_existing: bool,
    /// Append even if the view violates a lint rule.
    pub allow_invalid: bool,
    /// The view must also be valid for these providers.
    pub providers: Vec<Provider>,
    pub on_low_saving: OnLowSaving,
}

/// The inputs and outputs of a run besides the transcript.
#[derive(Debug)]
pub struct RunIo {
    pub sessions: Arc<Sessions>,
    pub models: Arc<Models>,
    /// The time of the run. It stamps overlays and resolves durations.
    pub now: Timestamp,
    /// Append nothing, and ask no model.
    pub dry_run: bool,
    /// Append nothing, because the caller only wants the view.
    pub in_memory: bool,
    pub estimator: Estimator,
    /// Earlier requests without a usable answer. Only automatic runs have it.
    pub llm_failures: Option<LlmFailureCache>,
}

/// The bounds of a run.
#[derive(Debug)]
pub struct RunLimits {
    /// The maximum wait for the lock of a transcript.
    pub lock_wait: Duration,
    /// The minimum saving, as a part of the view.
    pub min_saving: f64,
}

/// The result of a run on one transcript.
#[derive(Debug)]
pub struct Worked<'a> {
    pub report: RunReport,
    /// The survey of the transcript, with the view after the run.
    pub survey: Survey<'a>,
    /// The transcript grew during the run, so the written file contains more than the snapshot and the overlays.
    pub grown: bool,
    entries: Vec<Entry>,
    made: Vec<Made>,
}

impl RunSettings {
    /// Returns whether workers serve every strategy and none needs a model. A request then starts no process.
    #[must_use]
    pub fn is_light(&self) -> bool {
        let is_light = |ready: &Ready| self.io.sessions.has_workers(&ready.described) && !ready.needs_model();
        self.strategies.iter().all(is_light)
    }

    /// Decides whether the strategies may ask a model. Every run begins with this check. A caller with expensive
    /// preparations can do it earlier.
    ///
    /// # Errors
    /// A strategy needs a model, but may not ask one.
    pub fn allow(&self) -> Result<Vec<Option<Allowed>>, Error> {
        let allow = |ready: &Ready| {
            let wants = Wants {
                strategy: Some((&ready.described.description.name, &ready.options)),
                provenance: &ready.provenance,
                named: [self.policy.model.as_ref(), self.policy.conversation_model.as_ref()],
            };
            ready
                .needs_model()
                .then(|| consent::allow(&self.io.models, &self.policy.consent, &wants))
                .transpose()
                .map_err(Error::from)
        };
        self.strategies.iter().map(allow).collect()
    }
}

impl Worked<'_> {
    /// Returns the new file of a JP conversation, if the run made overlays.
    pub(crate) fn appended(&self) -> Option<Vec<Piece>> {
        let Self { survey, entries, made, .. } = self;
        (!made.is_empty()).then(|| append::append(survey.stream, entries, made))
    }

    /// Returns the violations of the view and of its renderings for these providers.
    #[must_use]
    pub fn violations(&self, providers: &[Provider]) -> Vec<Violation> {
        let stream = self.survey.stream;
        let made = self.made.iter().map(|made| made.overlay.clone());
        let overlays: Vec<_> = stream.overlays().iter().cloned().chain(made).collect();
        guard::broken(stream, &self.survey.pairs, &overlays, &self.survey.view, providers)
    }
}

/// Runs the strategies on a transcript, and appends their overlays.
///
/// # Errors
/// Nothing was appended.
pub async fn compact(run: &RunSettings, opened: &Opened) -> Result<RunReport, Error> {
    work(run, opened).await.map(|worked| worked.report)
}

/// Like [`compact`], but also returns the survey and the new view.
///
/// # Errors
/// Nothing was appended.
pub async fn work<'a>(run: &RunSettings, opened: &'a Opened) -> Result<Worked<'a>, Error> {
    // A dry run fails where the real run would fail.
    let appends = !run.io.in_memory;
    if appends {
        match &opened.sidecar_file {
            Some(sidecar_file) => sidecar_file.check_writable()?,
            None => store::check_writable(&opened.place)?,
        }
        append::check(&opened.stream).map_err(not_appendable(opened))?;
    }
    let mut survey = Survey::with(&opened.stream, run.io.estimator);
    let range = select::resolve(&survey, run.policy.wanted, run.io.now);
    let (mut report, proposed) = propose(run, opened, &survey, &range).await?;
    let Some(Proposed { mut asking, made, view }) = proposed else {
        let would = |step: &Step| matches!(step.outcome, StrategyOutcome::Would(_));
        if appends && run.io.dry_run && report.steps.iter().any(would) {
            rehearse(run, opened, &[], &[]).await?;
        }
        return Ok(Worked { report, survey, grown: false, entries: Vec::new(), made: Vec::new() });
    };
    let (made, grown) = match appends {
        true if run.io.dry_run => {
            rehearse(run, opened, &asking.entries, &made).await?;
            (made, false)
        }
        true => write(opened, &asking, made).await?,
        false => (made, false),
    };
    report.add_overlays(&asking.owners, made.clone());
    let entries = std::mem::take(&mut asking.entries);
    drop(asking);
    survey.view = view;
    Ok(Worked { report, survey, grown, entries, made })
}

/// Runs the strategies on a transcript without a file. Returns the new bytes: the conversation with its overlays for
/// JP, the sidecar for any other format.
///
/// # Errors
/// A strategy failed, or its result is invalid.
pub async fn compact_in_memory(
    run: &RunSettings,
    opened: &Opened,
) -> Result<(RunReport, Option<Vec<u8>>), Error> {
    append::check(&opened.stream).map_err(not_appendable(opened))?;
    let survey = Survey::with(&opened.stream, run.io.estimator);
    let range = select::resolve(&survey, run.policy.wanted, run.io.now);
    let (mut report, proposed) = propose(run, opened, &survey, &range).await?;
    let bytes = proposed.map(|Proposed { asking, made, .. }| {
        let bytes = match opened.stream.format() {
            Format::Jp => {
                splice::concat(&append::append(&opened.stream, &asking.entries, &made), opened.stream.bytes())
            }
            _ => sidecar_file::file(&opened.stream, &asking.entries, &made),
        };
        report.add_overlays(&asking.owners, made);
        bytes
    });
    Ok((report, bytes))
}

fn not_appendable(opened: &Opened) -> impl Fn(NotAppendable) -> Error {
    |source| Error::NotAppendable { path: opened.place.path().to_owned(), source }
}

/// Overlays that may be appended.
struct Proposed<'a> {
    asking: Asking<'a>,
    made: Vec<Made>,
    /// The view with these overlays.
    view: View,
}

/// Asks the strategies, and checks their results. Returns no overlays if there is nothing to append.
async fn propose<'a>(
    run: &'a RunSettings,
    opened: &'a Opened,
    survey: &'a Survey<'a>,
    range: &'a Result<TurnRange, Nothing>,
) -> Result<(RunReport, Option<Proposed<'a>>), Error> {
    let Opened { place, stream, .. } = opened;
    let allowed = run.allow()?;
    let mut report = RunReport::new(opened, survey);
    let selects =
        |ready: &Ready| range.and_then(|range| select::select_for(survey, range, ready.traits())).err();
    let nothing: Option<Vec<Nothing>> = run.strategies.iter().map(selects).collect();
    if let Some(&[nothing, ..]) = nothing.as_deref()
        && run.strategies.iter().all(|ready| ready.range.is_none())
    {
        report.nothing = Some(nothing);
        return Ok((report, None));
    }
    let mut asking = Asking::new(run, place, survey, range);
    for (ready, allowed) in run.strategies.iter().zip(&allowed) {
        asking.ask(ready, allowed.as_ref(), &mut report).await?;
    }
    if asking.entries.is_empty() {
        return Ok((report, None));
    }
    let made = append::stamp(stream, &asking.entries, run.io.now).map_err(not_appendable(opened))?;
    let foreseen = guard::foresee(stream, &survey.pairs, &survey.view, &made, &run.policy.providers);
    let before = report.jp.clone();
    report.foresee(survey, &made, &foreseen.view);
    report.low_saving = Some(report.saved()).filter(|saved| *saved < run.limits.min_saving);
    if report.low_saving.is_some() && run.policy.on_low_saving == OnLowSaving::Decline {
        report.decline(run.limits.min_saving);
        report.jp = before;
        asking.keep_low_savings(&report);
        return Ok((report, None));
    }
    report.changed = changed(survey, &foreseen.view);
    if !foreseen.new.is_empty() && !run.policy.allow_invalid {
        return Err(Error::LintFailed { path: place.path().to_owned(), source: LintFailed(foreseen.new) });
    }
    report.broken = foreseen.new;
    report.broken_before = foreseen.older;
    Ok((report, Some(Proposed { asking, made, view: foreseen.view })))
}

/// Returns the turns whose view changes.
fn changed(survey: &Survey<'_>, view: &View) -> Vec<Changed> {
    let (before, after) =
        (survey.turns.iter().map(|turn| turn.view_tokens), survey.view_tokens_by_turn(view));
    let turns = before.zip(after).enumerate();
    turns
        .filter(|(_, (before, after))| before != after)
        .map(|(turn, (before, after))| Changed { turn, before, after })
        .collect()
}

/// Appends in one write. If the transcript grew since it was read, the overlays are checked and stamped again. Returns
/// the overlays, and whether it grew.
async fn write(
    opened: &Opened,
    asking: &Asking<'_>,
    mut made: Vec<Made>,
) -> Result<(Vec<Made>, bool), Error> {
    let mut has_grown = false;
    let Opened { place, stream, .. } = opened;
    if let Some(sidecar_file) = &opened.sidecar_file {
        return Ok((sidecar_file::write(sidecar_file, stream, asking, made).await?, false));
    }
    let build = |current| match current {
        Current::Same => Ok(append::append(stream, &asking.entries, &made)),
        Current::Grown(bytes) => {
            let grown = Stream::parse(bytes).map_err(StaleSnapshot::Unreadable)?;
            (made, has_grown) = (anew(&grown, asking)?, true);
            Ok(append::append(&grown, &asking.entries, &made))
        }
    };
    replace(place, stream, asking.run.limits.lock_wait, build).await?;
    Ok((made, has_grown))
}

/// Checks that the overlays could be written, without writing them.
async fn rehearse(run: &RunSettings, opened: &Opened, entries: &[Entry], made: &[Made]) -> Result<(), Error> {
    let Opened { place, stream, sidecar_file } = opened;
    match sidecar_file {
        Some(sidecar_file) => {
            let bytes = || sidecar_file::file(stream, entries, made);
            let attempt = || Ok(sidecar_file.rehearse(Duration::ZERO, bytes)?);
            under_lock(sidecar_file.path(), run.limits.lock_wait, attempt).await
        }
        None => {
            let pieces = || append::append(stream, entries, made);
            let attempt = || Ok(store::rehearse(place, stream.bytes(), Duration::ZERO, pieces)?);
            under_lock(place.path(), run.limits.lock_wait, attempt).await
        }
    }
}

/// Checks and stamps the proposals again after the stream has grown.
fn anew(grown: &Stream, asking: &Asking<'_>) -> Result<Vec<Made>, StaleSnapshot> {
    append::check(grown).map_err(StaleSnapshot::NotAppendable)?;
    asking.recheck(grown).map_err(|refusal| StaleSnapshot::Refused(Box::new(refusal)))?;
    let made =
        append::stamp(grown, &asking.entries, asking.run.io.now).map_err(StaleSnapshot::NotAppendable)?;
    let foreseen =
        guard::foresee(grown, &Pairs::new(grown), &project(grown), &made, &asking.run.policy.providers);
    if !foreseen.new.is_empty() && !asking.run.policy.allow_invalid {
        return Err(StaleSnapshot::LintFailed(LintFailed(foreseen.new)));
    }
    Ok(made)
}

/// Replaces a transcript with the result of `build`. The wait for the lock is asynchronous: other transcripts
/// continue, and an interrupt works.
pub(crate) async fn replace(
    place: &Place,
    stream: &Stream,
    lock_wait: Duration,
    mut build: impl FnMut(Current) -> Result<Vec<Piece>, StaleSnapshot>,
) -> Result<(), Error> {
    let attempt = || store::replace(place, stream.bytes(), stream.body_end(), Duration::ZERO, &mut build);
    under_lock(place.path(), lock_wait, attempt).await
}
