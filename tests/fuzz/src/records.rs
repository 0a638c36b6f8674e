//! Fuzz target for records of `batch --ndjson`. Each line gets one answer, on one line. An unchanged transcript
//! is returned byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_core::Overlap;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::select::Selection;
use jp_compact_engine::compact::{OnGrowth, OnLowSaving, RunIo, RunLimits, RunPolicy, RunSettings};
use jp_compact_config::ConfigScope;
use jp_compact_engine::consent::{Asker, ConsentContext};
use jp_compact_engine::ndjson::{self, InputLine, RecordFailure, RecordOptions};
use jp_compact_llm::{LlmOptions, Models, Settings};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::session::{Sessions, Starter};
use jp_compact_schema::catalog;
use jp_compact_schema::document::{ErrorKind, ErrorReport};
use jp_compact_transcripts::record::{self, Record, RecordForm, RecordInput};
use jp_compact_transcripts::{self as transcripts, Format};
use jsonschema::Validator;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Choices;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = catalog::get("batch-answer").expect("the schema exists").json();
    jsonschema::draft202012::new(&schema).expect("the schema is valid")
});
static SESSIONS: LazyLock<Arc<Sessions>> = LazyLock::new(|| {
    let nowhere = Path::new("/nonexistent");
    let starter = Starter { private_bytes_max: 0, ..Starter::new(nowhere, nowhere) };
    Arc::new(Sessions::new(starter, None))
});
static MODELS: LazyLock<Arc<Models>> = LazyLock::new(|| {
    let models =
        Models::open(Settings::default(), &LlmOptions::default(), &Environment::bare("/nonexistent"));
    Arc::new(models.expect("opening without files cannot fail"))
});

/// Checks a stream of records.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let mut lines = Vec::new();
    ndjson::for_each_line(text, |line| {
        lines.push(line);
        true
    })
    .expect("reading from memory cannot fail");
    let expected = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert!(expected.eq(lines.iter().map(line_bytes)), "only line breaks may separate lines");
    for line in &lines {
        check_line(&Bytes::copy_from_slice(line_bytes(line)), &mut choices);
    }
}

fn line_bytes(line: &InputLine) -> &[u8] {
    match line {
        InputLine::Whole(line) => line,
        InputLine::TooLong(_) => panic!("inputs are shorter than the limit"),
    }
}

/// Checks that a line has one answer with its id.
fn check_line(line: &Bytes, choices: &mut Choices<'_>) {
    let record = match record::read(line) {
        Ok(record) => record,
        Err(error) => {
            check_answer(
                &error.id,
                &ndjson::error_answer(&error.id, &ErrorReport::new(ErrorKind::BadRecord, error.what)),
            );
            return;
        }
    };
    assert!(
        record.id == "null" || line.windows(record.id.len()).any(|part| part == record.id),
        "the id must be copied from the record"
    );
    let id = record.id.clone();
    // Skip paths, because they refer to files.
    let RecordInput::Given(raw) = record.input.clone() else { return };
    check_embedding(&raw, record.format);
    let options = RecordOptions { view: choices.flag(), needs_model: false };
    match answer(record, options) {
        Ok(line) => {
            let answer = check_answer(&id, &line);
            assert_eq!(answer["ok"], true);
            if !options.view {
                let echoed: Echoed<'_> = serde_json::from_slice(&line).expect("the answer is JSON");
                assert_eq!(
                    echoed.transcript.get().as_bytes(),
                    raw,
                    "an unchanged transcript must be returned byte for byte"
                );
            }
        }
        Err(RecordFailure::Record(reason)) => {
            check_answer(&id, &ndjson::error_answer(&id, &ErrorReport::new(ErrorKind::BadRecord, reason)));
        }
        Err(RecordFailure::Failed(failure)) => {
            let error = ErrorReport::new(ErrorKind::TranscriptInvalid, failure.to_string());
            check_answer(&id, &ndjson::error_answer(&id, &error));
        }
    }
}

#[derive(serde::Deserialize)]
struct Echoed<'a> {
    #[serde(borrow)]
    transcript: &'a RawValue,
}

/// Checks that an answer is one line, is valid by the schema, and has the id of its record.
fn check_answer(id: &[u8], line: &[u8]) -> Value {
    let body = line.strip_suffix(b"\n").expect("an answer ends its line");
    assert!(!body.contains(&b'\n'), "an answer is one line");
    let answer: Value = serde_json::from_slice(line).expect("an answer is JSON");
    assert!(SCHEMA.is_valid(&answer), "the schema rejects the answer: {answer}");
    assert_eq!(answer["id"], serde_json::from_slice::<Value>(id).expect("an id is JSON"));
    answer
}

/// Returns the answer to a record from a run without strategies. Such a run never waits.
fn answer(record: Record, options: RecordOptions) -> Result<Vec<u8>, RecordFailure> {
    let run = RunSettings {
        strategies: Vec::new(),
        policy: RunPolicy {
            consent: ConsentContext::new(
                ConfigScope::default(),
                Asker::User,
                &Environment::bare("/nonexistent"),
            ),
            model: None,
            conversation_model: None,
            selection: Selection::default(),
            overlap: Overlap::Partial,
            hints: BTreeMap::new(),
            skip_existing: false,
            allow_invalid: false,
            require_constraints: false,
            providers: Vec::new(),
            on_low_saving: OnLowSaving::Warn,
            wait: None,
            on_growth: OnGrowth::Append,
        },
        io: RunIo {
            disk: None,
            sessions: Arc::clone(&SESSIONS),
            models: Arc::clone(&MODELS),
            now: Timestamp::UNIX_EPOCH,
            dry_run: false,
            in_memory: false,
            estimator: Estimator::Pieces,
            estimate: None,
            prices: None,
            reports_losses: false,
            llm_failures: None,
        },
        limits: RunLimits { lock_wait: Duration::ZERO, min_saving: 0.0 },
    };
    let environment = Environment::bare("/nonexistent");
    let answer = pin!(ndjson::answer(run, record, options, &environment));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a run without strategies must not wait"),
    }
}

/// Checks that a transcript is extracted from its record and embedded in another without loss.
fn check_embedding(raw: &Bytes, given_format: Option<Format>) {
    let Ok((file, form, format)) = record::file(raw, given_format) else { return };
    if let Some(given_format) = given_format {
        assert_eq!(format, Some(given_format), "a given format must be used");
    }
    let Some(format) = format.or_else(|| transcripts::detect(&file)) else { return };
    if transcripts::read(format, file.clone()).is_err() {
        return;
    }
    let mut embedded = Vec::new();
    if record::embed(&file, form, &mut embedded).is_err() {
        assert_ne!(form, RecordForm::Text, "embedding a text cannot fail");
        return;
    }
    assert!(!embedded.contains(&b'\n'), "an embedded transcript must be one line");
    let extracted =
        record::file(&Bytes::from(embedded), given_format).expect("an embedded transcript is readable");
    assert_eq!(extracted.1, form);
    match form {
        RecordForm::Text | RecordForm::Lines => assert_eq!(extracted.0, file),
        RecordForm::Value => {
            let value = |file: &[u8]| serde_json::from_slice::<Value>(file).ok();
            assert_eq!(value(&extracted.0), value(&file));
        }
    }
}
