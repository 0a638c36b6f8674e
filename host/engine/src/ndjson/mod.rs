//! The compaction of a stream of records, one in each line. The answer is one line. It depends only on the record, the
//! settings of the run, and the file that the record names, with its sidecar. This module must never write to disk.

mod lines;

use std::path::Path;

use bytes::Bytes;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::projection::project;
use jp_compact_core::{Stream, splice};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{DeclineReport, ErrorReport, TokenCounts};
use jp_compact_schema::record::RecordReport;
use jp_compact_transcripts::record::{self, Record, RecordForm, RecordInput};
use jp_compact_transcripts::{self as transcripts, Format, Transcript};
use serde_json::{Value, json};

use crate::compact::Error;
use crate::compact::{self, Opened, RunReport, RunSettings, StrategyOutcome};
use jp_compact_config::JpSettings;
use jp_compact_store::Place;

pub use lines::{InputLine, LINE_BYTES_MAX, for_each_line};

/// The path of a transcript without a file, for messages.
const NAME: &str = "the record's transcript";

/// The options for every record.
#[derive(Debug, Clone, Copy)]
pub struct RecordOptions {
    /// Answer with the view instead of the transcript.
    pub view: bool,
    /// A strategy needs a model, so the model of each conversation is read.
    pub needs_model: bool,
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
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Returns the line that answers a record.
///
/// # Errors
/// The record is invalid, or its transcript could not be compacted. [`error_answer`] makes the answer.
pub async fn answer(
    mut run: RunSettings,
    record: Record,
    options: RecordOptions,
    environment: &Environment,
) -> Result<Vec<u8>, RecordFailure> {
    let (opened, form) = open(&record, environment)?;
    if options.needs_model && opened.stream.format() == Format::Jp {
        let jp = JpSettings::read(environment, None, Some(&opened.stream));
        run.policy.conversation_model = jp.conversation_model().or(run.policy.conversation_model);
    }
    let (report, new_bytes) = compact::compact_in_memory(&run, &opened).await?;
    let warnings = compact::warnings(&opened.stream);
    let Opened { place, stream, .. } = opened;
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"id\":");
    record::write_on_one_line(&record.id, &mut line);
    line.extend_from_slice(format!(",\"ok\":true,\"format\":\"{}\"", stream.format()).as_bytes());
    match (run.io.dry_run, options.view) {
        (true, _) => {}
        (false, true) => write_view(stream, new_bytes, form, &mut line, place.path())?,
        (false, false) => {
            write_transcript(&record, &stream, new_bytes.as_deref(), form, &mut line, place.path())?;
        }
    }
    let report = record_report(&report, run.io.estimator, options.view, warnings);
    let report = serde_json::to_vec(&report).unwrap_or_default();
    // The line already has an open object. The members of the report are added to this object.
    line.push(b',');
    line.extend_from_slice(report.strip_prefix(b"{").unwrap_or(&report));
    line.push(b'\n');
    Ok(line)
}

/// Returns the line that answers a record with an error.
#[must_use]
pub fn error_answer(id: &[u8], error: &ErrorReport) -> Vec<u8> {
    let mut line = b"{\"id\":".to_vec();
    record::write_on_one_line(id, &mut line);
    line.extend_from_slice(b",\"ok\":false,\"error\":");
    line.extend_from_slice(&serde_json::to_vec(error).unwrap_or_default());
    line.extend_from_slice(b"}\n");
    line
}

/// Opens the transcript of a record. A `path` includes the sidecar of its file.
///
/// # Errors
/// The record is invalid, or its transcript cannot be read.
pub fn open(record: &Record, environment: &Environment) -> Result<(Opened, RecordForm), RecordFailure> {
    match &record.input {
        RecordInput::Path(path) => {
            Ok((compact::open_as(path.as_ref(), record.format, environment)?, RecordForm::Text))
        }
        RecordInput::Given(raw) => {
            let (file, form, format) = record::file(raw, record.format).map_err(RecordFailure::Record)?;
            let stream = compact::read_bytes(file, format, Path::new(NAME))?;
            Ok((Opened::new(Place::nowhere(NAME), None, stream), form))
        }
    }
}

/// Returns the transcript with its new overlays. `new_bytes` is its new file for JP, and its new sidecar for any other
/// format.
fn with_new_overlays(
    stream: Transcript,
    new_bytes: Option<Vec<u8>>,
    path: &Path,
) -> Result<Transcript, Error> {
    let Some(new_bytes) = new_bytes else { return Ok(stream) };
    let result = match stream.format() {
        Format::Jp => Stream::parse(new_bytes.into()).map(Transcript::from),
        _ => compact::with_sidecar(stream, new_bytes.into()),
    };
    result.map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// Writes the view as a member of an answer.
fn write_view(
    stream: Transcript,
    new_bytes: Option<Vec<u8>>,
    form: RecordForm,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<(), Error> {
    let stream = with_new_overlays(stream, new_bytes, path)?;
    let pieces = transcripts::render(&stream, &project(&stream));
    write_member("view", &splice::concat(&pieces, stream.bytes()), form, line, path)
}

/// Writes the transcript as a member of an answer, and for a format other than JP's also the overlays of its sidecar.
fn write_transcript(
    record: &Record,
    stream: &Transcript,
    new_bytes: Option<&[u8]>,
    form: RecordForm,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<(), Error> {
    let is_jp = stream.format() == Format::Jp;
    match (new_bytes, &record.input) {
        (Some(new_bytes), _) if is_jp => write_member("transcript", new_bytes, form, line, path)?,
        // An unchanged transcript is copied.
        (_, RecordInput::Given(raw)) => {
            line.extend_from_slice(b",\"transcript\":");
            line.extend_from_slice(raw);
        }
        (_, RecordInput::Path(_)) => write_member("transcript", stream.bytes(), form, line, path)?,
    }
    if !is_jp {
        let old_bytes = stream.sidecar().map(|sidecar| sidecar.file().as_ref());
        let overlays = new_bytes.or(old_bytes).map_or_else(|| json!([]), overlays_of_sidecar);
        line.extend_from_slice(format!(",\"overlays\":{overlays}").as_bytes());
    }
    Ok(())
}

fn overlays_of_sidecar(file: &[u8]) -> Value {
    // The sidecar is valid, because it was made or read here.
    serde_json::from_slice(file).map(|mut sidecar: Value| sidecar["overlays"].take()).unwrap_or_default()
}

fn write_member(
    name: &str,
    file: &[u8],
    form: RecordForm,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<(), Error> {
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
    let mut declines = Vec::new();
    for step in &report.steps {
        match &step.outcome {
            // Only a batch of files skips existing overlays.
            StrategyOutcome::NewOverlays(_) | StrategyOutcome::AlreadyExists(_) => {}
            StrategyOutcome::Declined(reason) | StrategyOutcome::WouldAsk(reason) => {
                declines.push(DeclineReport {
                    strategy: step.strategy.to_string(),
                    version: step.version.clone(),
                    reason: reason.clone(),
                });
            }
        }
    }
    let tokens = report.tokens();
    RecordReport {
        estimator: estimator.name().to_owned(),
        tokens: TokenCounts { jp: tokens.jp.filter(|_| !is_view), ..tokens },
        saved: tokens.saved_of_view(),
        restored_tokens: report.restored_tokens(),
        new_overlays: report.count_new_overlays(),
        declines,
        nothing: report.nothing_to_compact.map(|nothing| nothing.to_string()),
        warnings,
    }
}

/// Returns the id of a record from the beginning of its line. The line is too long to be read completely.
#[must_use]
pub fn find_id(beginning: &[u8]) -> Bytes {
    record::find_id(beginning)
}
