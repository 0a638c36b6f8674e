//! Transcripts that come as a stream of records, and go as one: each line is compacted in memory, and nothing is written
//! anywhere. What a line becomes is a function of the line, the run and, for a `path`, of the file.

mod lines;

use std::path::Path;

use bytes::Bytes;
use jp_compact_core::formats::Format;
use jp_compact_core::projection::project;
use jp_compact_core::record::{self, Form, Input, Record};
use jp_compact_core::{Stream, source, splice};
use jp_compact_schema::record::{JpTokens, RecordDecline, RecordError, RecordReport, Saved, SentTokens};
use serde_json::{Value, json};

use crate::compact::{self, Opened, Outcome, Report, Run};
use crate::config::JpOwn;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::Place;

pub use lines::{LINE_BYTES_MAX, Line, each};

/// What a transcript is called that has no file.
const NAME: &str = "the record's transcript";

/// What is done to every record.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Whether the answer holds the view, and no overlays.
    pub view: bool,
    /// Whether the models that conversations are held with have to be known.
    pub by_model: bool,
}

/// Why a record has no answer but this.
#[derive(Debug)]
pub enum Wrong {
    /// It is no record.
    Record(String),
    /// It could not be compacted.
    Failed(Failure),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The answer to a record: one line.
///
/// # Errors
/// There is none but an error.
pub async fn answer(
    mut run: Run,
    record: Record,
    how: How,
    environment: &Environment,
) -> Result<Vec<u8>, Wrong> {
    let (opened, form) = open(&record, environment)?;
    if how.by_model && opened.stream.format() == Format::Jp {
        let own = JpOwn::read(environment, None, Some(&opened.stream));
        run.conversation_model = own.named().or(run.conversation_model);
    }
    let (report, made) = compact::compact_in_memory(&run, &opened).await?;
    let warnings = compact::warnings(&opened.stream);
    let Opened { place, stream, .. } = opened;
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"{\"id\":");
    record::unbroken(&record.id, &mut line);
    line.extend_from_slice(format!(",\"ok\":true,\"format\":\"{}\"", stream.format()).as_bytes());
    if how.view {
        if !run.dry_run {
            let stream = after(stream, made, place.path())?;
            let pieces = source::render(&stream, &project(&stream));
            member("view", &splice::concat(&pieces, stream.bytes()), form, &mut line, place.path())?;
        }
    } else if !run.dry_run {
        whole(&record, &stream, made.as_deref(), form, &mut line, place.path())?;
    }
    // Its members go behind those that are there.
    let told = serde_json::to_vec(&told(&report, how.view, warnings)).unwrap_or_default();
    line.push(b',');
    line.extend_from_slice(told.strip_prefix(b"{").unwrap_or(&told));
    line.push(b'\n');
    Ok(line)
}

/// The error that answers a record, as a line.
#[must_use]
pub fn refusal(id: &[u8], error: &RecordError) -> Vec<u8> {
    let mut line = b"{\"id\":".to_vec();
    record::unbroken(id, &mut line);
    line.extend_from_slice(b",\"ok\":false,\"error\":");
    line.extend_from_slice(&serde_json::to_vec(error).unwrap_or_default());
    line.extend_from_slice(b"}\n");
    line
}

/// The transcript of a record. That of a file comes with the overlays that lie beside it.
fn open(record: &Record, environment: &Environment) -> Result<(Opened, Form), Wrong> {
    match &record.input {
        Input::Path(path) => Ok((compact::open_as(path.as_ref(), record.format, environment)?, Form::Text)),
        Input::Given(raw) => {
            let (file, form, format) = record::file(raw, record.format).map_err(Wrong::Record)?;
            let stream = compact::of_bytes(file, format, Path::new(NAME))?;
            Ok((Opened { place: Place::nowhere(NAME), beside: None, stream }, form))
        }
    }
}

/// The transcript with what was made of it.
fn after(stream: Stream, made: Option<Vec<u8>>, path: &Path) -> Result<Stream, Failure> {
    let Some(made) = made else { return Ok(stream) };
    match stream.format() {
        Format::Jp => Stream::parse(made.into()),
        _ => compact::with_beside(stream, made.into()),
    }
    .map_err(|source| Failure::Unreadable { path: path.to_owned(), source })
}

/// The transcript, and where it is not JP's the overlays that would lie beside it.
fn whole(
    record: &Record,
    stream: &Stream,
    made: Option<&[u8]>,
    form: Form,
    line: &mut Vec<u8>,
    path: &Path,
) -> Result<(), Failure> {
    let is_jp = stream.format() == Format::Jp;
    match (made.filter(|_| is_jp), &record.input) {
        (Some(made), _) => member("transcript", made, form, line, path)?,
        // What did not change goes as it came.
        (None, Input::Given(raw)) => {
            line.extend_from_slice(b",\"transcript\":");
            line.extend_from_slice(raw);
        }
        (None, Input::Path(_)) => member("transcript", stream.bytes(), form, line, path)?,
    }
    if !is_jp {
        let before = stream.sidecar().map(|sidecar| sidecar.file().as_ref());
        let overlays: Value = made.or(before).map_or_else(
            || json!([]),
            // It was made here, or read here.
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

fn member(name: &str, file: &[u8], form: Form, line: &mut Vec<u8>, path: &Path) -> Result<(), Failure> {
    line.extend_from_slice(format!(",\"{name}\":").as_bytes());
    record::embed(file, form, line).map_err(|_| Failure::NoFormat {
        path: path.to_owned(),
        source: None,
        program: None,
    })
}

/// What is told of a run.
fn told(report: &Report, is_view: bool, warnings: Vec<String>) -> RecordReport {
    let (mut overlays, mut declines) = (0, Vec::new());
    for step in &report.steps {
        match &step.outcome {
            Outcome::Made(made) => overlays += made.len(),
            // Only a folder's run skips what is there.
            Outcome::Already(_) => {}
            Outcome::Declined(reason) | Outcome::Would(reason) => {
                declines
                    .push(RecordDecline { strategy: Some(step.strategy.clone()), reason: reason.clone() });
            }
        }
    }
    if let Some(nothing) = report.nothing {
        declines.push(RecordDecline { strategy: None, reason: nothing.to_string() });
    }
    let jp = report.jp.as_ref().filter(|_| !is_view);
    let jp = jp.map(|jp| JpTokens { before: jp.before, after: jp.after });
    let tokens = SentTokens { before: report.tokens_before, after: report.tokens_after, jp };
    let percent = (report.saved() * 1000.0).round() / 10.0;
    RecordReport { saved: Saved { tokens, percent, overlays }, declines, warnings }
}

/// The beginning of a line that is too long, as an error's id.
#[must_use]
pub fn id_of(beginning: &[u8]) -> Bytes {
    record::find_id(beginning)
}
