//! Processes one transcript of a batch, from its bytes to its report line.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Instant;

use futures_util::FutureExt as _;
use jp_compact_runtime::digest::of_bytes;
use jp_compact_schema::document::{ErrorKind, ErrorReport};
use jp_compact_schema::report::{OutReport, Status, TranscriptReport};
use jp_compact_transcripts as transcripts;

use super::context::{BatchConfig, Describe, Shared, Thread};
use super::entry;
use crate::compact::{self, Opened, Worked};
use crate::digest;
use crate::plan::BatchPlanner;
use jp_compact_store as store;

/// A transcript that was processed now or in an earlier run.
pub(super) struct Done {
    /// Its number.
    pub(super) place: usize,
    /// The report entry. `None` if the file is not a transcript, or if it is a copy that is reported elsewhere.
    pub(super) entry: Option<TranscriptReport>,
    /// Its report line.
    pub(super) line: Vec<u8>,
    /// Whether an earlier run processed it.
    pub(super) resumed: bool,
}

/// Processes one transcript. Every error is reported for this transcript only.
pub(super) async fn run_transcript(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    shared: &Shared,
    thread: &Thread,
    place: usize,
) -> Done {
    let began = Instant::now();
    let path = config.files.path(place);
    let mut entry = entry::new(&path);
    let mut line = Vec::new();
    // Boxed, because the future is large and would be moved.
    let done = Box::pin(attempt(planner, config, describe, shared, thread, (place, began), &mut entry));
    // A panic fails only this transcript.
    let done = AssertUnwindSafe(done).catch_unwind().await;
    let ended = match done {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => fail(&mut entry, error),
        Err(_) => {
            let message = "failed to finish a transcript: a bug in jp-compact";
            fail(&mut entry, ErrorReport::new(ErrorKind::Bug, message))
        }
    };
    match ended {
        Ended::Nothing => Done { place, entry: None, line, resumed: false },
        Ended::Before(line, entry) => Done { place, entry: Some(*entry), line, resumed: true },
        Ended::Now => {
            entry.elapsed_ms = elapsed_ms(began);
            if config.lines.is_some() {
                line = serde_json::to_vec(&entry).unwrap_or_default();
            }
            Done { place, entry: Some(entry), line, resumed: false }
        }
    }
}

/// The way in which processing ended.
enum Ended {
    /// It was processed now.
    Now,
    /// An earlier run processed it. Contains the raw and the parsed line.
    Before(Vec<u8>, Box<TranscriptReport>),
    /// The file is not a transcript, or it is a copy of another one that JP would load instead.
    Nothing,
}

fn fail(entry: &mut TranscriptReport, error: ErrorReport) -> Ended {
    *entry = TranscriptReport {
        path: std::mem::take(&mut entry.path),
        path_base64: entry.path_base64.take(),
        conversation_id: entry.conversation_id.take(),
        status: Status::Failed,
        error: Some(error),
        ..TranscriptReport::default()
    };
    Ended::Now
}

async fn attempt(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    shared: &Shared,
    thread: &Thread,
    (place, began): (usize, Instant),
    entry: &mut TranscriptReport,
) -> Result<Ended, ErrorReport> {
    let failed = |failure: compact::Error| describe(failure.into());
    let path = config.files.path(place);
    let needs_detection = config.format.is_none() && config.files.needs_detection(place);
    let opened = match compact::open_as(path.as_os_str(), config.format, config.environment) {
        Err(_) if needs_detection && is_none(&config.environment.cwd.join(&path)) => {
            return Ok(Ended::Nothing);
        }
        // Every JSON array parses as a JP stream with unknown events.
        Ok(opened) if needs_detection && transcripts::detect(opened.stream.bytes()).is_none() => {
            return Ok(Ended::Nothing);
        }
        opened => opened.map_err(failed)?,
    };
    entry.conversation_id = opened.place.id().map(str::to_owned);
    if !opened.place.twins().is_empty() && !shared.is_first(config.files, place, &opened) {
        return Ok(Ended::Nothing);
    }
    let below = config.out.map(|_| config.files.below(place));
    let before = config.previous.and_then(|known| known.out(entry)).cloned();
    if let Some(known) = config.previous {
        let sha256 = of_bytes(opened.stream.bytes());
        let is_there = match (config.out, &below, &before) {
            (Some(out), Some(below), Some(before)) => out.holds(below, before),
            (out, ..) => out.is_none(),
        };
        if is_there && let Some((line, entry)) = known.line(entry, &sha256) {
            if let (Some(out), Some(below), false) = (config.out, &below, known.is_final(&entry)) {
                out.keep(below).await.map_err(failed)?;
            }
            return Ok(Ended::Before(line, Box::new(entry)));
        }
    }
    if let (Some(out), Some(below)) = (config.out, &below) {
        if let Some(other) = config.files.clash(place) {
            let (message, hint) = (
                format!("its view would have the same path as the view of {}", other.display()),
                "pass a different --out for one of the two paths".to_owned(),
            );
            let error = ErrorReport::new(ErrorKind::TranscriptInvalid, message);
            return Err(ErrorReport { hint: Some(hint), ..error });
        }
        out.check(below, before.as_ref()).map_err(failed)?;
    }
    let run = planner.plan(&thread.plans, &opened).await.map_err(describe)?;
    let _turn = if run.is_light() { None } else { thread.heavy.acquire().await.ok() };
    let worked = compact::work(&run, &opened).await.map_err(failed)?;
    entry::fill(entry, &worked, &run, config.lines.is_some());
    entry.warnings = compact::warnings(&opened.stream);
    if config.looks {
        entry.lint = worked.violations(config.gates.providers()).iter().map(entry::lint).collect();
    }
    entry.gates = config.gates.missed(&worked, entry);
    entry.sha256 = config.lines.and_then(|_| {
        sha256(&worked, &opened, run.io.dry_run || run.io.in_memory || opened.sidecar_file.is_some())
    });
    if let (Some(out), Some(below), false) = (config.out, &below, run.io.dry_run) {
        // The line is written before the view gets its name. The next run therefore knows every view that a
        // killed run left.
        let announce = |written: Option<&OutReport>| {
            let Some(lines) = config.lines else { return Ok(()) };
            entry.out = written.cloned();
            entry.elapsed_ms = elapsed_ms(began);
            lines.announce(&serde_json::to_vec(&entry)?)
        };
        let (view, in_lines) = (&worked.survey.view, config.lines.is_some());
        let written = out.write(below, &opened, view, before.as_ref(), in_lines, announce);
        written.await.map_err(failed)?;
    }
    Ok(Ended::Now)
}

fn elapsed_ms(began: Instant) -> f64 {
    (began.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

/// Returns whether the content shows that the file is not a transcript.
fn is_none(path: &Path) -> bool {
    store::read_file(path).is_ok_and(|bytes| transcripts::detect(&bytes).is_none())
}

/// Returns the digest of the file after the run. `None` if the file grew in the meantime.
fn sha256(worked: &Worked<'_>, opened: &Opened, stays: bool) -> Option<String> {
    if worked.grown {
        return None;
    }
    let old = opened.stream.bytes();
    Some(match worked.appended().filter(|_| !stays) {
        Some(pieces) => digest::of_pieces(&pieces, old),
        None => of_bytes(old),
    })
}
