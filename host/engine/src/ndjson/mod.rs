//! Compacts a stream of records. Each line is compacted in memory and answered with one line. The answer depends only
//! on the line, the run, and the file of a `path`. This module must never write to disk.

mod lines;

use std::path::Path;

use bytes::Bytes;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::projection::project;
use jp_compact_core::{Stream, splice};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ErrorReport, TokenCounts};
use jp_compact_schema::record::{RecordDecline, RecordReport};
use jp_compact_transcripts::record::{self, Record, RecordForm, RecordInput};
use jp_compact_transcripts::{self as transcripts, Format, Transcript};
use serde_json::{Value, json};

use crate::compact::Error;
use crate::compact::{self, Opened, RunReport, RunSettings, StrategyOutcome};
use crate::config::JpOwn;
use jp_compact_store::Place;

pub use lines::{InputLine, LINE_BYTES_MAX, each};

/// The name of a transcript without a file.
const NAME: &str = "the record's transcript";

/// The options for every record.
#[derive(Debug, Clone, Copy)]
pub struct RecordOptions {
    /// Answer with the view instead of the overlays.
    pub view: bool,
    /// A strategy needs a model, so the conversation's own model is looked up.
    pub by_model: bool,
}

/// A record failed.
#[derive(Debug)]
pub enum RecordFailure {
    /// The record is invalid.
    Record(String),
    /// The transcript could not be compacted.
    Failed(Error),
}

impl From<Error> for RecordFailure {
    fn from(failure: Error) -> Self {
        Self::Failed(failure)
    }
}

/// Returns the line that answers a record.
///
/// # Errors
/// The record is invalid, or its transcript could not be compacted. [`refusal`] makes the answer.
pub async fn answer(
    mut run: RunSettings,
    record: Record,
    options: RecordOptions,
    environment: &Environment,
) -> Result<Vec<u8>, RecordFailure> {
    let (opened, form) = open(&record, environment)?;
    if options.by_model && opened.stream.format() == Format::Jp {
        let own = JpOwn::read(environment, None, Some(&opened.stream));
        run.policy.conversation_model = own.conversation_model().or(run.policy.conversation_model);
    }
    let (report, made) = compact::compact_in_memory(&run, &opened).await?;
    let warnings = compact::warnings(&opened.stream);
    let Opened { place, stream, .. } = opened;
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"id\":");
    record::write_on_one_line(&record.id, &mut line);
    line.extend_from_slice(format!(",\"ok\":true,\"format\":\"{}\"", stream.format()).as_bytes());
    if options.view {
        if !run.io.dry_run {
            let stream = after(stream, made, place.path())?;
            let pieces = transcripts::render(&stream, &project(&stream));
            member("view", &splice::concat(&pieces, stream.bytes()), form, &mut line, place.path())?;
        }
    } else if !run.io.dry_run {
        whole(&record, &stream, made.as_deref(), form, &mut line, place.path())?;
    }
    // The members of the report follow those that are already written.
    let members = serde_json::to_vec(&record_report(&report, run.io.estimator, options.view, warnings))
        .unwrap_or_default();
    line.push(b',');
    line.extend_from_slice(members.strip_prefix(b"{").unwrap_or(&members));
    line.push(b'\n');
    Ok(line)
}

/// Returns the line that answers a record with an error.
#[must_use]
pub fn refusal(id: &[u8], error: &ErrorReport) -> Vec<u8> {
    let mut line = b"{\"id\":".to_vec();
    record::write_on_one_line(id, &mut line);
    line.extend_from_slice(b",\"ok\":false,\"error\":");
    line.extend_from_slice(&serde_json::to_vec(error).unwrap_or_default());
    line.extend_from_slice(b"}\n");
    line
}

/// Opens the transcript of a record. A `path` includes the sidecar of its file.
fn open(record: &Record, environment: &Environment) -> Result<(Opened, RecordForm), RecordFailure> {
    match &record.input {
        RecordInput::Path(path) => {
            Ok((compact::open_as(path.as_ref(), record.format, environment)?, RecordForm::Text))
        }
        RecordInput::Given(raw) => {
            let (file, form, format) = record::file(raw, record.format).map_err(RecordFailure::Record)?;
            let stream = compact::of_bytes(file, format, Path::new(NAME))?;
            Ok((Opened { place: Place::nowhere(NAME), sidecar_file: None, stream }, form))
        }
    }
}

/// Returns the transcript with its new overlays.
fn after(stream: Transcript, made: Option<Vec<u8>>, path: &Path) -> Result<Transcript, Error> {
    let Some(made) = made else { return Ok(stream) };
    match stream.format() {
        Format::Jp => Stream::parse(made.into()).map(Transcript::from),
        _ => compact::with_sidecar(stream, made.into()),
    }
    .map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// Writes the transcript, and for a format other than JP's also the overlays of its sidecar.
fn whole(
    record: &Record,
    stream: &Transcript,
    made: Option<&[u8]>,
    form: RecordForm,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<(), Error> {
    let is_jp = stream.format() == Format::Jp;
    match (made.filter(|_| is_jp), &record.input) {
        (Some(made), _) => member("transcript", made, form, line, path)?,
        // An unchanged transcript is copied.
        (None, RecordInput::Given(raw)) => {
            line.extend_from_slice(b",\"transcript\":");
            line.extend_from_slice(raw);
        }
        (None, RecordInput::Path(_)) => member("transcript", stream.bytes(), form, line, path)?,
    }
    if !is_jp {
        let before = stream.sidecar().map(|sidecar| sidecar.file().as_ref());
        let overlays: Value = made.or(before).map_or_else(
            || json!([]),
            // The sidecar is valid, because it was made or read here.
            |file| {
                serde_json::from_slice(file)
                    .map(|mut file: Value| file["overlays"].take())
                    .unwrap_or_default()
            },
        );
        line.extend_from_slice(format!(",\"overlays\":{overlays}").as_bytes());
    }
    Ok(())
}

fn member(name: &str, file: &[u8], form: RecordForm, line: &mut Vec<u8>, path: &Path) -> Result<(), Error> {
    line.extend_from_slice(format!(",\"{name}\":").as_bytes());
    record::embed(file, form, line).map_err(|_| Error::NoFormat {
        path: path.to_owned(),
        source: None,
        program: None,
    })
}

/// Returns the report members of an answer.
fn record_report(
    report: &RunReport,
    estimator: Estimator,
    is_view: bool,
    warnings: Vec<String>,
) -> RecordReport {
    let (mut new_overlays, mut declines) = (0, Vec::new());
    for step in &report.steps {
        match &step.outcome {
            StrategyOutcome::Made(made) => new_overlays += made.len(),
            // Only a batch over a folder skips existing overlays.
            StrategyOutcome::Already(_) => {}
            StrategyOutcome::Declined(reason) | StrategyOutcome::Would(reason) => {
                declines
                    .push(RecordDecline { strategy: Some(step.strategy.clone()), reason: reason.clone() });
            }
        }
    }
    if let Some(nothing) = report.nothing {
        declines.push(RecordDecline { strategy: None, reason: nothing.to_string() });
    }
    let tokens = report.tokens();
    RecordReport {
        estimator: estimator.name().to_owned(),
        tokens: TokenCounts { jp: tokens.jp.filter(|_| !is_view), ..tokens },
        saved: tokens.saved_of_view(),
        new_overlays,
        declines,
        warnings,
    }
}

/// Finds the id in the beginning of a line that is too long.
#[must_use]
pub fn id_of(beginning: &[u8]) -> Bytes {
    record::find_id(beginning)
}
