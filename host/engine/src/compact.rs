//! The pipeline: one transcript, some strategies, one write. All strategies of a run see one snapshot; their
//! overlays are appended together once all have ended, or none is (JP-STREAM, "Ranges" and "Two copies").

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::append::{self, Entry, Made, Receipt};
use jp_compact_core::projection::project_through;
use jp_compact_core::reply::Terminal;
use jp_compact_core::request::{self, Ask};
use jp_compact_core::select::{self, Note, Nothing, Selected, Wanted};
use jp_compact_core::source::{self, Reset};
use jp_compact_core::spec::Spec;
use jp_compact_core::validate::{self, Asked, Compaction};
use jp_compact_core::{Overlap, Pairs, Stream, Survey, TurnRange};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{ContentKind, Limits, Payload};
use serde_json::{Map, Value};

use crate::environment::Environment;
use crate::failure::{Failure, Overtaken, StrategyFailure};
use crate::registry::Registry;
use crate::session::{Described, Starter};
use crate::store::{self, Current, LOCK_WAIT, Place, ReplaceError};
use crate::{digest, options};

/// How far strategies are confined in this version: deadline, caps, environment, descriptors, process group.
pub const TIER: &str = "contained";

/// What the user says about jails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// Nothing: bundled strategies run contained where there is no jail, others do not run.
    #[default]
    Unsaid,
    /// `require`: nothing runs without a jail.
    Require,
    /// `contained`: everything may run without one.
    Contained,
}

/// What a run does to every transcript.
#[derive(Debug)]
pub struct Run {
    /// The strategies, in the order of their overlays.
    pub strategies: Vec<Ready>,
    /// How processes are started.
    pub starter: Starter,
    /// The turns wanted.
    pub wanted: Wanted,
    /// Which overlaps extend a summary.
    pub overlap: Overlap,
    /// How long a strategy may take for one request.
    pub deadline: Duration,
    /// The time of the run: it stamps overlays and resolves durations.
    pub now: Timestamp,
    /// Whether nothing is appended.
    pub dry_run: bool,
}

/// A strategy that may run: found, described, allowed, its options checked.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The plugin and its description.
    pub described: Described,
    /// Its options.
    pub options: Map<String, Value>,
}

/// What a run did to one transcript.
#[derive(Debug)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// The conversation's id, where it has one.
    pub id: Option<String>,
    /// Why no strategy was asked.
    pub nothing: Option<Nothing>,
    /// What has to be said of the ranges.
    pub notes: Vec<Note>,
    /// What each strategy did, in order.
    pub steps: Vec<Step>,
    /// Tokens of the view before, estimated.
    pub tokens_before: u64,
    /// Tokens of the view after, estimated.
    pub tokens_after: u64,
}

/// What one strategy did.
#[derive(Debug)]
pub struct Step {
    /// Its name.
    pub strategy: String,
    /// Its version.
    pub version: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Log lines that it wrote, level and text.
    pub logs: Vec<(jp_compact_schema::Level, String)>,
    /// What it noticed.
    pub diagnostics: Vec<jp_compact_schema::Diagnostic>,
}

/// What came of asking one strategy.
#[derive(Debug)]
pub enum Outcome {
    /// Overlays.
    Made(Vec<Made>),
    /// Nothing, and why.
    Declined(String),
}

/// Finds, describes and checks the strategies of a run.
///
/// # Errors
/// The first that is not found, not allowed, not valid, or whose options are wrong.
pub async fn prepare(
    specs: &[Spec],
    registry: &Registry,
    starter: &Starter,
    sandbox: Sandbox,
    environment: &Environment,
) -> Result<Vec<Ready>, Failure> {
    let mut ready: Vec<Ready> = Vec::with_capacity(specs.len());
    for spec in specs {
        let failed = |source| Failure::of_strategy(&spec.name, source);
        let plugin = registry.find(&spec.name)?;
        allow(plugin.bundled, sandbox, &plugin.path).map_err(failed)?;
        // One that is asked twice describes itself once.
        let known = ready.iter().map(|other| &other.described).find(|other| other.plugin == *plugin).cloned();
        let described = match known {
            Some(described) => described,
            None => starter.describe(plugin).await.map_err(failed)?,
        };
        if let Some(need) = described.description.needs.first() {
            return Err(failed(StrategyFailure::NotGranted { need: need.clone() }));
        }
        let options = options::resolve(&spec.options, &described.description, environment)
            .map_err(|what| failed(StrategyFailure::BadOptions { what }))?;
        ready.push(Ready { described, options });
    }
    Ok(ready)
}

/// Whether a plugin may run at all where there is no jail.
///
/// # Errors
/// It may not.
pub fn allow(bundled: bool, sandbox: Sandbox, path: &std::path::Path) -> Result<(), StrategyFailure> {
    match sandbox {
        Sandbox::Require => Err(StrategyFailure::NoJail),
        Sandbox::Contained => Ok(()),
        Sandbox::Unsaid if bundled => Ok(()),
        Sandbox::Unsaid => Err(StrategyFailure::NotContained { path: path.to_owned() }),
    }
}

/// A transcript that was read.
#[derive(Debug)]
pub struct Opened {
    /// Where it is.
    pub place: Place,
    /// What it holds.
    pub stream: Stream,
}

/// Finds and reads a transcript.
///
/// # Errors
/// There is none, or it is no stream.
pub fn open(transcript: &OsStr, environment: &Environment) -> Result<Opened, Failure> {
    let place = store::locate(transcript, environment)?;
    let bytes = store::read(&place)?;
    let stream = Stream::parse(bytes)
        .map_err(|source| Failure::Unreadable { path: place.path().to_owned(), source })?;
    Ok(Opened { place, stream })
}

/// What a strategy proposed, kept so that it can be checked again against a transcript that grew.
struct Proposed<'a> {
    ready: &'a Ready,
    selected: Selected,
    payloads: Vec<Payload>,
}

/// Runs the strategies on one transcript and appends what they made.
///
/// # Errors
/// Nothing was appended, and why.
pub async fn compact(run: &Run, transcript: &OsStr, environment: &Environment) -> Result<Report, Failure> {
    let Opened { place, stream } = open(transcript, environment)?;
    if !run.dry_run {
        store::check_writable(&place)?;
        check_appendable(&place, &stream)?;
    }
    let survey = Survey::of(&stream);
    let mut report = Report {
        path: place.path().to_owned(),
        id: place.id().map(str::to_owned),
        nothing: None,
        notes: Vec::new(),
        steps: Vec::new(),
        tokens_before: survey.estimate.view_tokens(&survey.view),
        tokens_after: survey.estimate.view_tokens(&survey.view),
    };
    let selected = match select::select(&survey, run.wanted, run.now) {
        Ok(selected) => selected,
        Err(nothing) => {
            report.nothing = Some(nothing);
            return Ok(report);
        }
    };
    note(&mut report.notes, &selected.notes);

    let mut proposals: Vec<Proposed<'_>> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut entries_of: Vec<usize> = Vec::new();
    let mut input_sha256 = None;
    for (place_in_run, ready) in run.strategies.iter().enumerate() {
        let description = &ready.described.description;
        let failed = |source| Failure::of_strategy(&description.name, source);
        let mut step = Step {
            strategy: description.name.clone(),
            version: description.version.clone(),
            outcome: Outcome::Declined(String::new()),
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        let accepted = append::summarised(&entries);
        let selected = if description.produces.contains(&ContentKind::Summary) {
            match select::select_for_summary(&survey, &selected, &accepted, run.overlap) {
                Ok(selected) => selected,
                Err(nothing) => {
                    step.outcome = Outcome::Declined(nothing.to_string());
                    report.steps.push(step);
                    continue;
                }
            }
        } else {
            selected.clone()
        };
        note(&mut report.notes, &selected.notes);
        if description.wants("digest") && input_sha256.is_none() {
            input_sha256 = Some(digest::of_raw_input(&stream));
        }
        let id = format!("c{}", place_in_run + 1);
        let ask = Ask {
            id: &id,
            description,
            conversation: place.id(),
            digest: input_sha256.as_deref(),
            range: selected.range,
            requested: selected.requested,
            options: &ready.options,
            now: run.now,
            limits: Limits {
                deadline_ms: u64::try_from(run.deadline.as_millis()).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
            },
            dry_run: run.dry_run,
        };
        let request = request::lines(&survey, &ask);
        let answer = run
            .starter
            .compact(&ready.described.plugin.path, &id, request, run.deadline)
            .await
            .map_err(failed)?;
        step.logs = answer.logs.into_iter().map(|log| (log.level, log.message)).collect();
        match answer.terminal {
            Terminal::Decline(decline) => step.outcome = Outcome::Declined(decline.reason),
            Terminal::Result(result) => {
                step.diagnostics = result.diagnostics;
                let payloads = result.compactions;
                let asked = asked(&stream, &survey.pairs, run, ready, &selected, &accepted);
                let valid = validate::validate(&asked, payloads.clone())
                    .map_err(|refusal| failed(StrategyFailure::Refused(refusal)))?;
                let input_sha256 = input_sha256.get_or_insert_with(|| digest::of_raw_input(&stream));
                entries.extend(valid.into_iter().map(|compaction| entry(ready, compaction, input_sha256)));
                entries_of.resize(entries.len(), report.steps.len());
                proposals.push(Proposed { ready, selected, payloads });
                step.outcome = Outcome::Made(Vec::new());
            }
            Terminal::Needs(needs) => {
                let need = needs.requests.keys().next().cloned().unwrap_or_default();
                return Err(failed(StrategyFailure::NotGranted { need }));
            }
            // A session never hands an error on; were it one, nothing is taken from it.
            Terminal::Error(error) => step.outcome = Outcome::Declined(error.message),
        }
        report.steps.push(step);
    }
    if entries.is_empty() {
        return Ok(report);
    }
    let not_appendable = |source| Failure::NotAppendable { path: place.path().to_owned(), source };
    let mut made = append::stamp(&stream, &entries, run.now).map_err(not_appendable)?;
    let overlays: Vec<_> =
        stream.overlays().iter().cloned().chain(made.iter().map(|made| made.overlay.clone())).collect();
    report.tokens_after = survey.estimate.view_tokens(&project_through(&stream, &overlays));
    if !run.dry_run {
        let kept = stream.body_end();
        let written = store::replace(&place, stream.bytes(), kept, LOCK_WAIT, |current| match current {
            Current::Same => Ok(append::append(&stream, &entries, &made)),
            Current::Grown(bytes) => {
                let grown = Stream::parse(bytes).map_err(Overtaken::Unreadable)?;
                append::check(&grown).map_err(Overtaken::NotAppendable)?;
                recheck(run, &grown, &proposals).map_err(Overtaken::Refused)?;
                made = append::stamp(&grown, &entries, run.now).map_err(Overtaken::NotAppendable)?;
                Ok(append::append(&grown, &entries, &made))
            }
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) => Failure::Store(error),
            ReplaceError::Build(source) => Failure::Overtaken { path: place.path().to_owned(), source },
        })?;
    }
    for made in made {
        let step = &mut report.steps[entries_of[made.entry]];
        if let Outcome::Made(overlays) = &mut step.outcome {
            overlays.push(made);
        }
    }
    Ok(report)
}

fn note(notes: &mut Vec<Note>, more: &[Note]) {
    for note in more {
        if !notes.contains(note) {
            notes.push(*note);
        }
    }
}

fn check_appendable(place: &Place, stream: &Stream) -> Result<(), Failure> {
    append::check(stream).map_err(|source| Failure::NotAppendable { path: place.path().to_owned(), source })
}

fn asked<'a>(
    stream: &'a Stream,
    pairs: &'a Pairs,
    run: &Run,
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
        strategy: described.plugin.name.clone(),
        version: described.description.version.clone(),
        executable_sha256: described.executable_sha256.clone(),
        options: ready.options.clone(),
        input_sha256: input_sha256.to_owned(),
        tier: TIER.to_owned(),
    };
    Entry { compaction, receipt }
}

/// Whether what was proposed for the snapshot still holds for the stream that it has grown to.
fn recheck(run: &Run, grown: &Stream, proposals: &[Proposed<'_>]) -> Result<(), validate::Refusal> {
    let pairs = Pairs::of(grown);
    let mut accepted: Vec<TurnRange> = Vec::new();
    for proposed in proposals {
        let asked = asked(grown, &pairs, run, proposed.ready, &proposed.selected, &accepted);
        let valid = validate::validate(&asked, proposed.payloads.clone())?;
        accepted.extend(valid.iter().filter(|made| made.summary().is_some()).map(Compaction::range));
    }
    Ok(())
}

/// What a reset did.
#[derive(Debug)]
pub struct ResetReport {
    /// The file.
    pub path: PathBuf,
    /// The conversation's id, where it has one.
    pub id: Option<String>,
    /// How many overlays were removed.
    pub removed: usize,
}

/// Removes overlays and their receipts. Works on a stream whose overlays are malformed, too.
///
/// # Errors
/// Nothing was removed, and why.
pub fn reset(
    transcript: &OsStr,
    which: Reset,
    dry_run: bool,
    environment: &Environment,
) -> Result<ResetReport, Failure> {
    let place = store::locate(transcript, environment)?;
    if !dry_run {
        store::check_writable(&place)?;
    }
    let bytes = store::read(&place)?;
    let index = jp_compact_core::formats::jp::index(bytes.clone())
        .map_err(|source| Failure::Unreadable { path: place.path().to_owned(), source })?;
    let report =
        |removed| ResetReport { path: place.path().to_owned(), id: place.id().map(str::to_owned), removed };
    let Some((pieces, removed)) = source::reset(&index, which) else {
        let Reset::One(number) = which else { return Ok(report(0)) };
        let overlays = index.overlays();
        return Err(Failure::NoSuchOverlay { path: place.path().to_owned(), number, overlays });
    };
    if removed > 0 && !dry_run {
        // A number means the overlay that was read: growth behind it is a conflict like any other change.
        let written = store::replace(&place, &bytes, bytes.len(), LOCK_WAIT, |current| match current {
            Current::Same => Ok(pieces),
            Current::Grown(_) => {
                Err(store::StoreError::Changed { path: place.path().to_owned(), how: "grew" })
            }
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Failure::Store(error),
        })?;
    }
    Ok(report(removed))
}
