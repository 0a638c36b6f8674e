//! The pipeline: one transcript, some strategies, one write. All strategies of a run see the same snapshot. Their
//! overlays are appended together after the last strategy, or not at all (docs/reference/store.md#ranges).

mod accept;
mod ask;
mod cache_cost;
mod dry_run;
mod effect;
mod error;
mod events;
mod existing;
mod guard;
mod judge;
mod large;
mod llm_failure_cache;
mod lock;
mod losses;
mod open;
mod preflight;
mod prepare;
mod proposal;
mod receipt;
mod recheck;
mod report;
mod reset;
mod settings;
mod sidecar_file;
mod strategy_error;
mod wait;
mod window;
mod windowed;

use std::time::Duration;

use jp_compact_core::append::{self, Entry, NewOverlay, NotAppendable};
use jp_compact_core::lint::Violation;
use jp_compact_core::render::Provider;
use jp_compact_core::select::{self, NothingToCompact};
use jp_compact_core::{Stream, Survey, TurnRange, View, splice};
use jp_compact_transcripts::Format;

pub use error::{Error, StaleSnapshot};
pub use guard::{ConstraintsLost, LintFailed, MIN_SAVING, OnGrowth, OnLowSaving, percent_of};
pub use llm_failure_cache::LlmFailureCache;
pub use losses::lost_paths;
pub(crate) use open::require_jp;
pub use open::{Opened, open, open_as, open_to_append, read_bytes, warnings, with_sidecar};
pub use prepare::{Preparation, PreparedStrategy, Sandbox, allow, needs_consent, prepare};
pub use report::{RunReport, SentByJp, Step, StrategyOutcome, TurnChange, overlay_report};
pub use reset::{ResetReport, reset};
pub use settings::{RunIo, RunLimits, RunPolicy, RunSettings};
pub use strategy_error::StrategyRunError;
pub use wait::{WaitRule, wait_text};
pub(crate) use window::look_up;
pub use window::model_of;
pub use windowed::{LargePrint, open_large};

use crate::disk_queue::ThreadDiskQueue;
use ask::ProposalCollector;
use jp_compact_store::{self as store, Current, Piece, Place};
use judge::judge;
use large::InputDigest;
use lock::under_lock;
use recheck::recheck;

/// The result of a run on one transcript, with its view.
#[derive(Debug)]
pub struct RunOutcome<'a> {
    pub report: RunReport,
    /// The survey of the transcript, with the view after the run.
    pub survey: Survey<'a>,
    /// Whether the transcript grew during the run. If so, the written file contains more than the snapshot and the
    /// overlays.
    pub transcript_grew: bool,
    entries: Vec<Entry>,
    new_overlays: Vec<NewOverlay>,
}

impl RunOutcome<'_> {
    /// Returns the pieces of the new file of a JP conversation, if the run made overlays.
    pub(crate) fn new_file_pieces(&self) -> Option<Vec<Piece>> {
        let Self { survey, entries, new_overlays, .. } = self;
        (!new_overlays.is_empty()).then(|| append::append(survey.stream, entries, new_overlays))
    }

    /// Returns the new overlays in their stored form, as the array of a stream. `None` if the run made none.
    #[must_use]
    pub fn stored_overlays(&self) -> Option<Vec<u8>> {
        let new_overlays = self.new_overlays.iter();
        let elements: Vec<_> = new_overlays.flat_map(|new| append::elements(&self.entries, new)).collect();
        (!elements.is_empty()).then(|| serde_json::to_vec(&elements).unwrap_or_default())
    }

    /// Returns the violations of the view and of its renderings for these providers.
    #[must_use]
    pub fn violations(&self, providers: &[Provider]) -> Vec<Violation> {
        let stream = self.survey.stream;
        let overlays = guard::all_overlays(stream, &self.new_overlays);
        guard::violations(stream, &self.survey.pairs, &overlays, &self.survey.view, providers)
    }
}

/// Runs the strategies on a transcript, and appends their overlays.
///
/// # Errors
/// A strategy, a check, or the write failed. Nothing was appended then.
pub async fn compact(run: &RunSettings, opened: &Opened) -> Result<RunReport, Error> {
    compact_with_view(run, opened).await.map(|outcome| outcome.report)
}

/// Like [`compact`], but also returns the survey and the new view.
///
/// # Errors
/// A strategy, a check, or the write failed. Nothing was appended then.
pub async fn compact_with_view<'a>(run: &RunSettings, opened: &'a Opened) -> Result<RunOutcome<'a>, Error> {
    let in_memory = run.io.in_memory || opened.in_memory;
    // A dry run fails where the real run would fail. A transcript without turns, such as `[]`, has nothing to compact.
    if !in_memory && opened.stream.turns() > 0 {
        check_appendable(opened)?;
    }
    let is_stored = !run.io.dry_run && !in_memory;
    let (estimate, input_digest) = match &run.io.estimate {
        Some(estimate) => (estimate.for_part(&opened.stream), InputDigest::default()),
        None => {
            let begun_digest = is_stored.then(|| opened.begun_digest.clone().unwrap_or_default());
            large::measure(&opened.stream, run.io.estimator, begun_digest)
        }
    };
    let mut survey = Survey::with_estimate(&opened.stream, estimate);
    let range = select::resolve(&survey, run.policy.selection, run.io.now);
    let (mut report, proposal) = propose(run, opened, &survey, &range, input_digest).await?;
    let Some(CheckedProposal { mut collector, new_overlays, view }) = proposal else {
        if report.would_ask() && run.io.dry_run && !in_memory {
            // The real run would ask the model and then append, so the lock and the file are checked.
            rehearse(run, opened, &[], &[]).await?;
        }
        let (entries, new_overlays) = (Vec::new(), Vec::new());
        return Ok(RunOutcome { report, survey, transcript_grew: false, entries, new_overlays });
    };
    let written = if in_memory {
        Ok((new_overlays, false))
    } else if run.io.dry_run {
        rehearse(run, opened, &collector.entries, &new_overlays).await.map(|()| (new_overlays, false))
    } else {
        write(opened, &mut collector, &mut report, new_overlays).await
    };
    let (new_overlays, transcript_grew) = written.map_err(|error| collector.with_summaries(error))?;
    report.add_overlays(&collector.entries, &collector.entry_steps, &new_overlays);
    let entries = std::mem::take(&mut collector.entries);
    drop(collector);
    if !new_overlays.is_empty() {
        survey.view = view;
    }
    Ok(RunOutcome { report, survey, transcript_grew, entries, new_overlays })
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
    append::check_loadable(&opened.stream).map_err(|source| not_appendable(opened, source))?;
    let survey = Survey::with_estimator(&opened.stream, run.io.estimator);
    let range = select::resolve(&survey, run.policy.selection, run.io.now);
    let (mut report, proposal) = propose(run, opened, &survey, &range, InputDigest::default()).await?;
    let Some(CheckedProposal { collector, new_overlays, .. }) = proposal else { return Ok((report, None)) };
    let stream = &opened.stream;
    let bytes = match stream.format() {
        Format::Jp => {
            splice::concat(&append::append(stream, &collector.entries, &new_overlays), stream.bytes())
        }
        _ => sidecar_file::to_bytes(stream, &collector.entries, &new_overlays),
    };
    report.add_overlays(&collector.entries, &collector.entry_steps, &new_overlays);
    Ok((report, Some(bytes)))
}

/// Returns the transcript with the overlays that `run` proposes. A later dry run on the result reports the same effect
/// as if `run` had appended these overlays.
///
/// # Errors
/// A strategy failed, or its result is invalid.
pub async fn with_proposed_overlays(run: &RunSettings, opened: &Opened) -> Result<Opened, Error> {
    let (_, bytes) = compact_in_memory(run, opened).await?;
    let Opened { place, sidecar_file, stream, .. } = opened;
    let stream = match bytes {
        None => stream.clone(),
        Some(bytes) if stream.format() == Format::Jp => {
            open::read_bytes(bytes.into(), Some(Format::Jp), place.path())?
        }
        Some(bytes) => open::with_current_sidecar(stream, Some(bytes.into()))
            .map_err(|source| Error::Unreadable { path: place.path().to_owned(), source })?,
    };
    Ok(Opened { in_memory: true, ..Opened::new(place.clone(), sidecar_file.clone(), stream) })
}

/// Checks that overlays can be appended to a transcript, before any strategy is asked.
fn check_appendable(opened: &Opened) -> Result<(), Error> {
    match &opened.sidecar_file {
        Some(sidecar_file) => sidecar_file.check_writable()?,
        None => store::check_writable(&opened.place)?,
    }
    append::check_loadable(&opened.stream).map_err(|source| not_appendable(opened, source))
}

fn not_appendable(opened: &Opened, source: NotAppendable) -> Error {
    Error::NotAppendable { path: opened.place.path().to_owned(), source }
}

/// Overlays that may be appended.
struct CheckedProposal<'a> {
    collector: ProposalCollector<'a>,
    new_overlays: Vec<NewOverlay>,
    /// The view with these overlays.
    view: View,
}

/// Asks the strategies, and checks their results. Returns no overlays if there is nothing to append.
async fn propose<'a>(
    run: &'a RunSettings,
    opened: &'a Opened,
    survey: &'a Survey<'a>,
    range: &'a Result<TurnRange, NothingToCompact>,
    input_digest: InputDigest,
) -> Result<(RunReport, Option<CheckedProposal<'a>>), Error> {
    let Opened { place, stream, .. } = opened;
    let allowed = run.allow()?;
    let mut report = RunReport::new(opened, survey);
    report.nothing_to_compact = nothing_to_compact(run, survey, *range);
    if report.nothing_to_compact.is_some() {
        return Ok((report, None));
    }
    let jp_model = run.policy.conversation_model.as_ref().map(|configured| configured.model.clone());
    let model = window::model_of(stream).or(jp_model);
    let mut collector = ProposalCollector::new(run, place, survey, range, model);
    collector.input_digest = input_digest;
    for (strategy, allowed) in run.strategies.iter().zip(&allowed) {
        let asked = collector.ask(strategy, allowed.as_ref(), &mut report).await;
        asked.map_err(|error| collector.with_summaries(error))?;
    }
    report.wait = collector.wait.take();
    if let Some(reason) = &collector.earlier_decline {
        report.decline_all(reason);
        return Ok((report, None));
    }
    if collector.entries.is_empty() {
        return Ok((report, None));
    }
    let judged = judge(&mut collector, &mut report).map_err(|error| collector.with_summaries(error))?;
    let checked = judged.map(|(new_overlays, view)| CheckedProposal { collector, new_overlays, view });
    Ok((report, checked))
}

/// Returns the first strategy's reason, if no strategy has turns to compact. A strategy with its own range always gets
/// the chance to run.
fn nothing_to_compact(
    run: &RunSettings,
    survey: &Survey<'_>,
    range: Result<TurnRange, NothingToCompact>,
) -> Option<NothingToCompact> {
    let mut first_reason = None;
    for strategy in &run.strategies {
        if strategy.range.is_some() {
            return None;
        }
        let selected = range.and_then(|range| select::select_for_strategy(survey, range, strategy.traits()));
        first_reason = first_reason.or(Some(selected.err()?));
    }
    first_reason
}

/// Appends in one write. If the transcript or its overlays changed since it was read, the new overlays are checked and
/// stamped again. Returns the new overlays, and whether the transcript grew.
async fn write(
    opened: &Opened,
    collector: &mut ProposalCollector<'_>,
    report: &mut RunReport,
    mut new_overlays: Vec<NewOverlay>,
) -> Result<(Vec<NewOverlay>, bool), Error> {
    let mut transcript_grew = false;
    let (Opened { place, stream, sidecar_file, .. }, RunSettings { limits, io, .. }) =
        (opened, collector.run);
    let written = match sidecar_file {
        Some(file) => sidecar_file::write(file, opened, collector, report, &mut new_overlays).await,
        None => {
            let build = |current| match current {
                Current::Same => Ok(append::append(stream, &collector.entries, &new_overlays)),
                Current::Grown(bytes) => {
                    let grown = Stream::parse(bytes).map_err(StaleSnapshot::Unreadable)?;
                    transcript_grew = true;
                    new_overlays = recheck(opened, &grown, collector, report)?;
                    Ok(append::append(&grown, &collector.entries, &new_overlays))
                }
            };
            replace(place, stream, limits.lock_wait, io.disk.as_ref(), build).await
        }
    };
    match written {
        Err(Error::Stale { source: StaleSnapshot::Declined, .. }) => Ok((Vec::new(), transcript_grew)),
        written => written.map(|()| (new_overlays, transcript_grew)),
    }
}

/// Checks that the overlays could be written, without writing them.
async fn rehearse(
    run: &RunSettings,
    opened: &Opened,
    entries: &[Entry],
    new_overlays: &[NewOverlay],
) -> Result<(), Error> {
    let Opened { place, stream, sidecar_file, .. } = opened;
    match sidecar_file {
        Some(sidecar_file) => {
            let bytes = || sidecar_file::to_bytes(stream, entries, new_overlays);
            let attempt = || Ok(sidecar_file.rehearse(Duration::ZERO, bytes)?);
            under_lock(sidecar_file.path(), run.limits.lock_wait, attempt).await
        }
        None => {
            let pieces = || append::append(stream, entries, new_overlays);
            let attempt = || Ok(store::rehearse(place, stream.bytes(), Duration::ZERO, pieces)?);
            under_lock(place.path(), run.limits.lock_wait, attempt).await
        }
    }
}

/// Replaces a transcript with the result of `build`. The wait for the lock is asynchronous: other transcripts
/// continue, and an interrupt works. With `disk`, so is the wait for the disk.
pub(crate) async fn replace(
    place: &Place,
    stream: &Stream,
    lock_wait: Duration,
    disk: Option<&ThreadDiskQueue>,
    mut build: impl FnMut(Current) -> Result<Vec<Piece>, StaleSnapshot>,
) -> Result<(), Error> {
    let attempt = || store::prepare(place, stream.bytes(), stream.body_end(), Duration::ZERO, &mut build);
    let replacement = under_lock(place.path(), lock_wait, attempt).await?;
    match disk {
        Some(disk) => disk.finish(replacement).await?,
        None => replacement.finish()?,
    }
    Ok(())
}
