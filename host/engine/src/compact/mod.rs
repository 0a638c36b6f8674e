//! The pipeline: one transcript, some strategies, one write. All strategies of a run see one snapshot; their
//! overlays are appended together once all have ended, or none is (JP-STREAM, "Ranges" and "Two copies").

mod ask;
mod events;
mod prepare;
mod reset;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::append::{self, Made};
use jp_compact_core::estimate::Estimator;
use jp_compact_core::formats::jp::Indexer;
use jp_compact_core::projection::project_through;
use jp_compact_core::select::{self, Note, Nothing, Wanted};
use jp_compact_core::{Overlap, Stream, Survey, View};
use jp_compact_schema::{Diagnostic, Level, ToolHint};

pub use prepare::{Preparation, Ready, Sandbox, allow, prepare};
pub use reset::{ResetReport, reset};

use crate::environment::Environment;
use crate::failure::{Failure, Overtaken};
use crate::session::Sessions;
use crate::store::{self, Current, Place, ReplaceError, StoreError};
use ask::Asking;

/// How long a lock is waited for at a time: an interrupt is heard in between.
const LOCK_STEP: Duration = Duration::from_millis(100);

/// What a run does to every transcript.
#[derive(Debug)]
pub struct Run {
    /// The strategies, in the order of their overlays.
    pub strategies: Vec<Ready>,
    /// How they are asked.
    pub sessions: Sessions,
    /// The turns wanted.
    pub wanted: Wanted,
    /// Which overlaps extend a summary.
    pub overlap: Overlap,
    /// How tools are to be compacted, by name: they beat what a strategy says of all tools.
    pub hints: BTreeMap<String, ToolHint>,
    /// How long somebody else may hold the lock of a transcript.
    pub lock_wait: Duration,
    /// The time of the run: it stamps overlays and resolves durations.
    pub now: Timestamp,
    /// Whether nothing is appended.
    pub dry_run: bool,
    /// How tokens are counted.
    pub estimator: Estimator,
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
    /// The turns of which a model is sent something else than before, in order.
    pub changed: Vec<Changed>,
}

/// What becomes of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Its number.
    pub turn: usize,
    /// Tokens of the view before.
    pub before: u64,
    /// Tokens of the view after; of a run of summarised turns, all stand at the first.
    pub after: u64,
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
    pub logs: Vec<(Level, String)>,
    /// What it noticed.
    pub diagnostics: Vec<Diagnostic>,
}

/// What came of asking one strategy.
#[derive(Debug)]
pub enum Outcome {
    /// Overlays.
    Made(Vec<Made>),
    /// Nothing, and why.
    Declined(String),
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
    let mut indexer = Indexer::default();
    let bytes = store::read_seen(&place, |bytes| indexer.advance(bytes))?;
    let stream = indexer
        .finish(bytes)
        .and_then(Stream::from_index)
        .map_err(|source| Failure::Unreadable { path: place.path().to_owned(), source })?;
    Ok(Opened { place, stream })
}

impl Report {
    /// The report of a transcript that nothing was done to yet.
    fn of(place: &Place, survey: &Survey<'_>) -> Self {
        let tokens = survey.estimate.view_tokens(&survey.view);
        Self {
            path: place.path().to_owned(),
            id: place.id().map(str::to_owned),
            nothing: None,
            notes: Vec::new(),
            steps: Vec::new(),
            tokens_before: tokens,
            tokens_after: tokens,
            changed: Vec::new(),
        }
    }

    fn note(&mut self, notes: &[Note]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(*note);
            }
        }
    }
}

/// Runs the strategies on one transcript and appends what they made.
///
/// # Errors
/// Nothing was appended, and why.
pub async fn compact(run: &Run, transcript: &OsStr, environment: &Environment) -> Result<Report, Failure> {
    let Opened { place, stream } = open(transcript, environment)?;
    let not_appendable = |source| Failure::NotAppendable { path: place.path().to_owned(), source };
    if !run.dry_run {
        store::check_writable(&place)?;
        append::check(&stream).map_err(not_appendable)?;
    }
    let survey = Survey::with(&stream, run.estimator);
    let mut report = Report::of(&place, &survey);
    let selected = match select::select(&survey, run.wanted, run.now) {
        Ok(selected) => selected,
        Err(nothing) => {
            report.nothing = Some(nothing);
            return Ok(report);
        }
    };
    report.note(&selected.notes);
    let mut asking = Asking::new(run, &place, &survey, &selected);
    for ready in &run.strategies {
        asking.ask(ready, &mut report).await?;
    }
    if asking.entries.is_empty() {
        return Ok(report);
    }
    let made = append::stamp(&stream, &asking.entries, run.now).map_err(not_appendable)?;
    let new = made.iter().map(|made| made.overlay.clone());
    let overlays: Vec<_> = stream.overlays().iter().cloned().chain(new).collect();
    let view = project_through(&stream, &overlays);
    report.tokens_after = survey.estimate.view_tokens(&view);
    report.changed = changed(&survey, &view);
    let made = if run.dry_run { made } else { write(&place, &stream, &asking, made).await? };
    for made in made {
        let step = &mut report.steps[asking.owners[made.entry]];
        if let Outcome::Made(overlays) = &mut step.outcome {
            overlays.push(made);
        }
    }
    Ok(report)
}

/// The turns of which the view changes.
fn changed(survey: &Survey<'_>, view: &View) -> Vec<Changed> {
    let (before, after) =
        (survey.turns.iter().map(|turn| turn.view_tokens), survey.view_tokens_by_turn(view));
    let turns = before.zip(after).enumerate();
    turns
        .filter(|(_, (before, after))| before != after)
        .map(|(turn, (before, after))| Changed { turn, before, after })
        .collect()
}

/// Appends in one write. A transcript that has grown meanwhile is checked and stamped anew.
async fn write(
    place: &Place,
    stream: &Stream,
    asking: &Asking<'_>,
    mut made: Vec<Made>,
) -> Result<Vec<Made>, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let build = |current| match current {
            Current::Same => Ok(append::append(stream, &asking.entries, &made)),
            Current::Grown(bytes) => {
                let grown = Stream::parse(bytes).map_err(Overtaken::Unreadable)?;
                append::check(&grown).map_err(Overtaken::NotAppendable)?;
                asking.recheck(&grown).map_err(Overtaken::Refused)?;
                made = append::stamp(&grown, &asking.entries, asking.run.now)
                    .map_err(Overtaken::NotAppendable)?;
                Ok(append::append(&grown, &asking.entries, &made))
            }
        };
        let step = LOCK_STEP.min(asking.run.lock_wait.saturating_sub(waited));
        match store::replace(place, stream.bytes(), stream.body_end(), step, build) {
            Ok(()) => return Ok(made),
            Err(ReplaceError::Build(source)) => {
                return Err(Failure::Overtaken { path: place.path().to_owned(), source });
            }
            Err(ReplaceError::Store(StoreError::Locked { path, lock, .. })) => {
                waited += step;
                if waited >= asking.run.lock_wait {
                    return Err(StoreError::Locked { path, lock, waited }.into());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(ReplaceError::Store(error)) => return Err(error.into()),
        }
    }
}
