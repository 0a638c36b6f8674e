//! One transcript of a batch, from its bytes to its line.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Instant;

use futures_util::FutureExt as _;
use jp_compact_core::formats;
use jp_compact_schema::report::{ErrorReport, Status, TranscriptReport};

use super::run::{How, Shared, Thread, Work};
use super::tell;
use crate::compact::{self, Opened, Worked};
use crate::digest;
use crate::failure::Failure;
use crate::store;

/// A transcript that is done, or whose line an earlier run has written.
pub(super) struct Done {
    /// Its number.
    pub(super) place: usize,
    /// What is told of it; nothing where it is no transcript, or another's copy and told of there.
    pub(super) told: Option<TranscriptReport>,
    /// Its line.
    pub(super) line: Vec<u8>,
    /// Whether an earlier run did it.
    pub(super) resumed: bool,
}

/// Does one transcript. Whatever goes wrong is told of it alone.
pub(super) async fn one<W: Work>(
    work: &W,
    how: &How<'_>,
    shared: &Shared,
    thread: &Thread<W>,
    place: usize,
) -> Done {
    let began = Instant::now();
    let path = how.files.path(place);
    let mut told = tell::of(&path);
    let mut line = Vec::new();
    // It is large, and would be moved about with what holds it.
    let done = Box::pin(attempt(work, how, shared, thread, place, &mut told));
    // A bug costs the transcript that it shows in, and no other.
    let done = AssertUnwindSafe(done).catch_unwind().await;
    let ended = match done {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => fail(&mut told, error),
        Err(_) => {
            let message = "failed to finish a transcript: a bug in jp-compact".into();
            fail(&mut told, ErrorReport { code: 1, message, causes: Vec::new(), hint: None })
        }
    };
    match ended {
        Ended::Nothing => Done { place, told: None, line, resumed: false },
        Ended::Before(line, told) => Done { place, told: Some(*told), line, resumed: true },
        Ended::Now => {
            told.elapsed_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
            if how.lines {
                line = serde_json::to_vec(&told).unwrap_or_default();
            }
            Done { place, told: Some(told), line, resumed: false }
        }
    }
}

/// How it ended.
enum Ended {
    /// It was done now.
    Now,
    /// It was done before: its line, and what that says.
    Before(Vec<u8>, Box<TranscriptReport>),
    /// It is no transcript, or the copy of another that was found, too, and that JP would load.
    Nothing,
}

fn fail(told: &mut TranscriptReport, error: ErrorReport) -> Ended {
    *told = TranscriptReport {
        path: std::mem::take(&mut told.path),
        path_base64: told.path_base64.take(),
        conversation_id: told.conversation_id.take(),
        status: Status::Failed,
        error: Some(error),
        ..TranscriptReport::default()
    };
    Ended::Now
}

async fn attempt<W: Work>(
    work: &W,
    how: &How<'_>,
    shared: &Shared,
    thread: &Thread<W>,
    place: usize,
    told: &mut TranscriptReport,
) -> Result<Ended, ErrorReport> {
    let failed = |failure: Failure| work.fault(failure);
    let path = how.files.path(place);
    let perhaps = how.format.is_none() && how.files.is_perhaps(place);
    let opened = match compact::open_as(path.as_os_str(), how.format, how.environment) {
        Err(_) if perhaps && is_none(&how.environment.cwd.join(&path)) => {
            return Ok(Ended::Nothing);
        }
        // Any array is one of JP's, with events that nobody knows.
        Ok(opened) if perhaps && formats::detect(opened.stream.bytes()).is_none() => {
            return Ok(Ended::Nothing);
        }
        opened => opened.map_err(failed)?,
    };
    told.conversation_id = opened.place.id().map(str::to_owned);
    if !opened.place.twins().is_empty() && !shared.is_first(how.files, place, &opened) {
        return Ok(Ended::Nothing);
    }
    let below = how.out.map(|_| how.files.below(place));
    let before = how.known.and_then(|known| known.out(told)).cloned();
    if let Some(known) = how.known {
        let sha256 = digest::of_bytes(opened.stream.bytes());
        let is_there = match (how.out, &below, &before) {
            (Some(out), Some(below), Some(before)) => out.holds(below, before),
            (out, ..) => out.is_none(),
        };
        if is_there && let Some((line, told)) = known.line(told, &sha256) {
            return Ok(Ended::Before(line, Box::new(told)));
        }
    }
    if let (Some(out), Some(below)) = (how.out, &below) {
        if let Some(other) = how.files.clash(place) {
            let (message, hint) = (
                format!("its view would be written where that of {} goes", other.display()),
                "give another --out for one of the two paths".to_owned(),
            );
            return Err(ErrorReport { code: 4, message, causes: Vec::new(), hint: Some(hint) });
        }
        out.check(below, before.as_ref()).map_err(failed)?;
    }
    let run = work.plan(&thread.local, &opened).await?;
    let _turn = if run.is_light() { None } else { thread.heavy.acquire().await.ok() };
    let worked = compact::work(&run, &opened).await.map_err(failed)?;
    tell::fill(told, &worked, &run, how.lines);
    told.warnings = compact::warnings(&opened.stream);
    if how.looks {
        told.lint = worked.violations(how.gates.providers()).iter().map(tell::lint).collect();
    }
    told.gates = how.gates.missed(&worked, told);
    if let (Some(out), Some(below), false) = (how.out, &below, run.dry_run) {
        let written = out.write(below, &worked.survey, opened.place.path(), before.as_ref(), how.lines);
        told.out = written.await.map_err(failed)?;
    }
    told.sha256 = how
        .lines
        .then(|| sha256(&worked, &opened, run.dry_run || run.hands_over || opened.beside.is_some()))
        .flatten();
    Ok(Ended::Now)
}

/// Whether a file that could not be opened as a transcript is none by what it holds.
fn is_none(path: &Path) -> bool {
    store::read_file(path).is_ok_and(|bytes| formats::detect(&bytes).is_none())
}

/// The digest of the file as it is left. What grew meanwhile is not known.
fn sha256(worked: &Worked<'_>, opened: &Opened, stays: bool) -> Option<String> {
    if worked.grown {
        return None;
    }
    let old = opened.stream.bytes();
    Some(match worked.appended().filter(|_| !stays) {
        Some(pieces) => digest::of_pieces(&pieces, old),
        None => digest::of_bytes(old),
    })
}
