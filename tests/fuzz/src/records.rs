//! Records of `batch --ndjson`: each line has one answer, which is a line; what nothing is done to comes back to the byte.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_core::Overlap;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::formats::{self, Format};
use jp_compact_core::record::{self, Form, Input, Record};
use jp_compact_core::select::Wanted;
use jp_compact_engine::compact::{OnLowSaving, Run};
use jp_compact_engine::config::Scope;
use jp_compact_engine::consent::{Asker, Consent};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::llm::{Models, Settings, Wishes};
use jp_compact_engine::ndjson::{self, How, Line, Wrong};
use jp_compact_engine::session::{Sessions, Starter};
use jp_compact_schema::catalog;
use jp_compact_schema::record::{Code, RecordError};
use jsonschema::Validator;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Choices;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = catalog::get("batch-answer").expect("it is published").json();
    jsonschema::draft202012::new(&schema).expect("it is a schema")
});
static SESSIONS: LazyLock<Arc<Sessions>> = LazyLock::new(|| {
    let starter = Starter {
        runner: "/nonexistent".into(),
        temp_dir: "/nonexistent".into(),
        spool: None,
        private_bytes_max: 0,
    };
    Arc::new(Sessions::new(starter, None))
});
static MODELS: LazyLock<Arc<Models>> = LazyLock::new(|| {
    let models = Models::open(Settings::default(), &Wishes::default(), &Environment::bare("/nonexistent"));
    Arc::new(models.expect("no file is opened"))
});

/// Looks at a stream of records.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let mut lines = Vec::new();
    ndjson::each(text, |line| {
        lines.push(line);
        true
    })
    .expect("memory can be read");
    let expected = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert!(expected.eq(lines.iter().map(whole)), "lines are parted by line breaks and nothing else");
    for line in &lines {
        of_line(&Bytes::copy_from_slice(whole(line)), &mut choices);
    }
}

fn whole(line: &Line) -> &[u8] {
    match line {
        Line::Whole(line) => line,
        Line::TooLong(_) => panic!("no input is so long"),
    }
}

/// One line has one answer, with its id.
fn of_line(line: &Bytes, choices: &mut Choices<'_>) {
    let record = match record::read(line) {
        Ok(record) => record,
        Err(wrong) => {
            answered(&wrong.id, &ndjson::refusal(&wrong.id, &RecordError::new(Code::BadRecord, wrong.what)));
            return;
        }
    };
    assert!(
        record.id == "null" || line.windows(record.id.len()).any(|part| part == record.id),
        "an id is echoed"
    );
    let id = record.id.clone();
    // Paths lead into the world.
    let Input::Given(raw) = record.input.clone() else { return };
    embedded(&raw, record.format);
    let how = How { view: choices.flag(), by_model: false };
    match answer(record, how) {
        Ok(line) => {
            let answer = answered(&id, &line);
            assert_eq!(answer["ok"], true);
            if !how.view {
                let echoed: Echoed<'_> = serde_json::from_slice(&line).expect("it was read");
                assert_eq!(
                    echoed.transcript.get().as_bytes(),
                    raw,
                    "what nothing is done to comes back to the byte"
                );
            }
        }
        Err(Wrong::Record(what)) => {
            answered(&id, &ndjson::refusal(&id, &RecordError::new(Code::BadRecord, what)));
        }
        Err(Wrong::Failed(failure)) => {
            let error = RecordError::new(Code::TranscriptInvalid, failure.to_string());
            answered(&id, &ndjson::refusal(&id, &error));
        }
    }
}

#[derive(serde::Deserialize)]
struct Echoed<'a> {
    #[serde(borrow)]
    transcript: &'a RawValue,
}

/// An answer is one line, as the schema says, with the id of its record.
fn answered(id: &[u8], line: &[u8]) -> Value {
    let without = line.strip_suffix(b"\n").expect("an answer ends its line");
    assert!(!without.contains(&b'\n'), "an answer is one line");
    let answer: Value = serde_json::from_slice(line).expect("an answer is JSON");
    assert!(SCHEMA.is_valid(&answer), "the schema has no such answer: {answer}");
    assert_eq!(answer["id"], serde_json::from_slice::<Value>(id).expect("an id is JSON"));
    answer
}

/// The answer to a record, by a run without strategies: there is nothing to wait for.
fn answer(record: Record, how: How) -> Result<Vec<u8>, Wrong> {
    let run = Run {
        strategies: Vec::new(),
        sessions: Arc::clone(&SESSIONS),
        models: Arc::clone(&MODELS),
        consent: Consent::new(Scope::default(), Asker::User, &Environment::bare("/nonexistent")),
        model: None,
        conversation_model: None,
        wanted: Wanted::default(),
        overlap: Overlap::Partial,
        hints: BTreeMap::new(),
        lock_wait: Duration::ZERO,
        now: Timestamp::UNIX_EPOCH,
        dry_run: false,
        hands_over: false,
        skips: false,
        estimator: Estimator::Characters,
        allow_invalid: false,
        providers: Vec::new(),
        min_saving: 0.0,
        on_low_saving: OnLowSaving::Warn,
        paid: None,
    };
    let environment = Environment::bare("/nonexistent");
    let answer = pin!(ndjson::answer(run, record, how, &environment));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nobody is asked, and something is waited for"),
    }
}

/// A transcript is taken out of its record and put into another without loss.
fn embedded(raw: &Bytes, named: Option<Format>) {
    let Ok((file, form, format)) = record::file(raw, named) else { return };
    if let Some(named) = named {
        assert_eq!(format, Some(named), "a format that is named is believed");
    }
    let Some(format) = format.or_else(|| formats::detect(&file)) else { return };
    if formats::read(format, file.clone()).is_err() {
        return;
    }
    let mut out = Vec::new();
    if record::embed(&file, form, &mut out).is_err() {
        assert_ne!(form, Form::Text, "a text is UTF-8");
        return;
    }
    assert!(!out.contains(&b'\n'), "what is embedded is one line");
    let again = record::file(&Bytes::from(out), named).expect("what is embedded is taken out again");
    assert_eq!(again.1, form);
    match form {
        Form::Text | Form::Lines => assert_eq!(again.0, file),
        Form::Value => {
            let value = |file: &[u8]| serde_json::from_slice::<Value>(file).ok();
            assert_eq!(value(&again.0), value(&file));
        }
    }
}
