//! One transcript of a batch, processed from its bytes to its report line.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::FutureExt as _;
use jp_compact_runtime::digest::of_bytes;
use jp_compact_schema::document::{ErrorKind, ErrorReport};
use jp_compact_schema::report::{OutReport, Status, TranscriptReport};
use jp_compact_transcripts as transcripts;

use super::context::{BatchConfig, Describe, Shared};
use super::walk::is_other_file;
use super::{PreviousReport, ViewFolder, entry};
use crate::compact::{self, Opened, RunOutcome};
use crate::digest;
use crate::plan::{BatchPlanner, ThreadPlans};
use jp_compact_store::StoreError;

/// A transcript that this run or an earlier run finished.
pub(super) struct FinishedTranscript {
    pub(super) index: usize,
    /// The report entry. `None` for a file that is ignored: see [`Completion::Ignored`].
    pub(super) entry: Option<TranscriptReport>,
    /// The report line. Empty without a report.
    pub(super) line: Vec<u8>,
    /// Whether an earlier run finished it.
    pub(super) resumed: bool,
}

/// Processes one transcript. Every error is reported for this transcript only.
pub(super) async fn run_transcript(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    shared: &Shared,
    plans: &ThreadPlans,
    index: usize,
) -> FinishedTranscript {
    let start = Instant::now();
    let path = config.files.path(index);
    let mut entry = entry::new(&path);
    let job = Job { planner, config, describe, shared, plans, index, path: &path, start };
    // Boxed, because the future is large and would be moved.
    let result = Box::pin(job.process(&mut entry));
    // A panic fails only this transcript.
    let completion = match AssertUnwindSafe(result).catch_unwind().await {
        Ok(Ok(completion)) => completion,
        Ok(Err(error)) => fail(&mut entry, error, config.previous),
        Err(_) => {
            let message = "failed to finish a transcript: a bug in jp-compact";
            fail(&mut entry, ErrorReport::new(ErrorKind::Bug, message), config.previous)
        }
    };
    match completion {
        Completion::Ignored => FinishedTranscript { index, entry: None, line: Vec::new(), resumed: false },
        Completion::Earlier(line, entry) => {
            FinishedTranscript { index, entry: Some(*entry), line, resumed: true }
        }
        Completion::Now => {
            entry.elapsed_ms = elapsed_ms(start);
            let line = match config.report_lines {
                Some(_) => serde_json::to_vec(&entry).unwrap_or_default(),
                None => Vec::new(),
            };
            FinishedTranscript { index, entry: Some(entry), line, resumed: false }
        }
    }
}

/// How a transcript was finished.
enum Completion {
    /// This run processed or failed it.
    Now,
    /// An earlier run processed it. Contains the raw and the parsed line.
    Earlier(Vec<u8>, Box<TranscriptReport>),
    /// The file is not a transcript, it is a copy of another file that JP would load instead, or an interrupt stopped
    /// its run. The file is unchanged.
    Ignored,
}

/// Fails a transcript. Keeps the view of an earlier run, because otherwise the next run could not replace it.
fn fail(entry: &mut TranscriptReport, error: ErrorReport, previous: Option<&PreviousReport>) -> Completion {
    *entry = TranscriptReport {
        out: previous.and_then(|previous| previous.out(entry)).cloned(),
        path: std::mem::take(&mut entry.path),
        path_base64: entry.path_base64.take(),
        conversation_id: entry.conversation_id.take(),
        status: Status::Failed,
        error: Some(error),
        ..TranscriptReport::default()
    };
    Completion::Now
}

/// The hint if a file exists at the path of the view. Usually an earlier run wrote it.
const EXISTING_VIEW_HINT: &str = "`--report FILE --resume` skips the views that FILE lists; without that report, give `--out` another folder";

/// The processing of one transcript.
struct Job<'a, 'p> {
    planner: &'a BatchPlanner<'p>,
    config: &'a BatchConfig<'a>,
    describe: &'a Describe,
    shared: &'a Shared,
    plans: &'a ThreadPlans,
    index: usize,
    path: &'a Path,
    start: Instant,
}

/// The path of a view.
struct ViewTarget<'a> {
    out: &'a ViewFolder,
    relative_path: PathBuf,
    /// The report entry of the view that an earlier run wrote.
    previous: Option<OutReport>,
}

impl Job<'_, '_> {
    async fn process(&self, entry: &mut TranscriptReport) -> Result<Completion, ErrorReport> {
        let config = self.config;
        let Some(opened) = self.open()? else { return Ok(Completion::Ignored) };
        entry.conversation_id = opened.place.id().map(str::to_owned);
        if !opened.place.twins().is_empty() && !self.shared.claim(config.files, self.index, &opened) {
            return Ok(Completion::Ignored);
        }
        let target = config.out.map(|out| ViewTarget {
            out,
            relative_path: config.files.relative_path(self.index),
            previous: config.previous.and_then(|previous| previous.out(entry)).cloned(),
        });
        if let Some(completion) = self.resume(&opened, entry, target.as_ref()).await? {
            return Ok(completion);
        }
        if let Some(target) = &target {
            self.check_target(target)?;
        }
        let run = self.planner.plan(self.plans, &opened).await.map_err(self.describe)?;
        if self.shared.stop.load(Ordering::Relaxed) {
            return Ok(Completion::Ignored);
        }
        let outcome = match compact::compact_with_view(&run, &opened).await {
            // An interrupt stopped it before it asked a model, or before it appended.
            Err(error) if error.is_stopped() => return Ok(Completion::Ignored),
            result => result.map_err(|error| self.run_error(error))?,
        };
        entry::add_outcome(entry, &outcome, &run, config.report_lines.is_some());
        entry.warnings = compact::warnings(&opened.stream);
        if config.checks_lint {
            entry.lint =
                outcome.violations(config.gates.providers()).iter().map(entry::lint_report).collect();
        }
        entry.checks = config.gates.checks();
        entry.gates = config.gates.missed(entry);
        if config.report_lines.is_some() {
            let is_unchanged = run.io.dry_run || run.io.in_memory || opened.sidecar_file.is_some();
            entry.sha256 = sha256_after(&outcome, &opened, is_unchanged);
        }
        if let Some(target) = &target
            && !run.io.dry_run
        {
            self.write_view(target, &opened, &outcome, entry).await?;
        }
        Ok(Completion::Now)
    }

    fn run_error(&self, error: compact::Error) -> ErrorReport {
        (self.describe)(error.into())
    }

    /// Reads the transcript. Returns `None` if the content shows that the file is not a transcript.
    fn open(&self) -> Result<Option<Opened>, ErrorReport> {
        let Self { config, path, .. } = self;
        let needs_detection = config.format.is_none() && config.files.needs_detection(self.index);
        match compact::open_as(path.as_os_str(), config.format, config.environment) {
            Err(_) if needs_detection && is_other_file(&config.environment.cwd.join(path)) => Ok(None),
            // Every JSON array parses as a JP stream with unknown events.
            Ok(opened) if needs_detection && transcripts::detect(opened.stream.bytes()).is_none() => Ok(None),
            result => result.map(Some).map_err(|error| self.run_error(error)),
        }
    }

    /// Returns the result of an earlier run, if the transcript and its view are unchanged since, and if that run made
    /// the checks of this run. The gates of this run replace those of the earlier run.
    async fn resume(
        &self,
        opened: &Opened,
        entry: &TranscriptReport,
        target: Option<&ViewTarget<'_>>,
    ) -> Result<Option<Completion>, ErrorReport> {
        let Some(previous_report) = self.config.previous else { return Ok(None) };
        // A dry run writes no view.
        let target = target.filter(|_| !previous_report.is_of_dry_run());
        let has_view = match target {
            // If the earlier run wrote a view, it did not append the overlays.
            None => previous_report.out(entry).is_none(),
            Some(ViewTarget { out, relative_path, previous: Some(previous) }) => {
                out.has_unchanged_view(relative_path, previous)
            }
            Some(ViewTarget { previous: None, .. }) => false,
        };
        if !has_view {
            return Ok(None);
        }
        let sha256 = of_bytes(opened.stream.bytes());
        let Some((mut line, mut previous_entry)) = previous_report.line(entry, &sha256) else {
            return Ok(None);
        };
        let gates = self.config.gates;
        if !gates.checks().iter().all(|check| previous_entry.checks.contains(check)) {
            return Ok(None);
        }
        let missed = gates.missed(&previous_entry);
        if previous_entry.gates != missed {
            previous_entry.gates = missed;
            line = serde_json::to_vec(&previous_entry).unwrap_or(line);
        }
        if let Some(ViewTarget { out, relative_path, .. }) = target
            && !previous_report.is_in_final_report(&previous_entry)
        {
            out.keep(relative_path).await.map_err(|error| self.run_error(error))?;
        }
        Ok(Some(Completion::Earlier(line, Box::new(previous_entry))))
    }

    /// Checks that the view can be written, before any model is asked.
    fn check_target(&self, target: &ViewTarget<'_>) -> Result<(), ErrorReport> {
        if let Some(other) = self.config.files.same_view_path(self.index) {
            let message = format!("its view would have the same path as the view of {}", other.display());
            let hint = "compact one of the two in a separate run, with a different --out".to_owned();
            let error = ErrorReport::new(ErrorKind::TranscriptInvalid, message);
            return Err(ErrorReport { hint: Some(hint), ..error });
        }
        target.out.check(&target.relative_path, target.previous.as_ref()).map_err(|error| {
            let exists = matches!(&error, compact::Error::Store(StoreError::Exists { .. }));
            let mut report = self.run_error(error);
            if exists {
                report.hint = Some(EXISTING_VIEW_HINT.to_owned());
            }
            report
        })
    }

    async fn write_view(
        &self,
        target: &ViewTarget<'_>,
        opened: &Opened,
        outcome: &RunOutcome<'_>,
        entry: &mut TranscriptReport,
    ) -> Result<(), ErrorReport> {
        // The line is written before the view gets its name. If this run is killed, the next run therefore knows every
        // view that exists.
        let announce = |view: Option<&OutReport>| {
            let Some(lines) = self.config.report_lines else { return Ok(()) };
            entry.out = view.cloned();
            entry.elapsed_ms = elapsed_ms(self.start);
            lines.announce(&serde_json::to_vec(&entry)?)
        };
        let ViewTarget { out, relative_path, previous } = target;
        let (view, has_report) = (&outcome.survey.view, self.config.report_lines.is_some());
        out.write(relative_path, opened, view, previous.as_ref(), has_report, announce)
            .await
            .map_err(|error| self.run_error(error))
    }
}

fn elapsed_ms(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

/// Returns the digest of the transcript after the run. `None` if it grew during the run.
fn sha256_after(outcome: &RunOutcome<'_>, opened: &Opened, is_unchanged: bool) -> Option<String> {
    if outcome.transcript_grew {
        return None;
    }
    let bytes = opened.stream.bytes();
    let pieces = if is_unchanged { None } else { outcome.new_file_pieces() };
    Some(match pieces {
        Some(pieces) => digest::of_pieces(&pieces, bytes),
        None => of_bytes(bytes),
    })
}
