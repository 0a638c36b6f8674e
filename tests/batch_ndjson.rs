//! `jp-compact batch --ndjson`, end to end: records as input and answers as output, with the real executable
//! and real strategies.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts the executable"
)]

#[path = "records/forms.rs"]
mod forms;
#[path = "records/invalid.rs"]
mod invalid;
#[path = "processes/mod.rs"]
mod processes;
#[path = "records/stream.rs"]
mod stream;
#[path = "cli/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "other test crates use the rest")]
mod support;

use std::sync::LazyLock;

use jp_compact_schema::catalog;
use jp_compact_schema::document::ErrorKind;
use jp_compact_schema::record::BatchAnswer;
use jsonschema::Validator;
use serde_json::{Value, json};
use support::{CommandOutput, World};

/// A batch with two strategies, which both find something to compact in a conversation of two turns.
const STRIP: [&str; 9] = [
    "batch",
    "--ndjson",
    "--strategy",
    "strip-tools",
    "--strategy",
    "strip-reasoning",
    "--keep-last=1",
    "--now",
    "2026-03-20T00:00:00Z",
];

/// Serializes records, one per line.
fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(|record| format!("{record}\n").into_bytes()).collect()
}

/// Sends records and returns the run. Validates each record and answer against the published schemas.
#[track_caller]
fn run_records(world: &World, arguments: &[&str], input: &[u8]) -> CommandOutput {
    let output = world.run_with_stdin(arguments, input);
    let records = input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for (record, answer) in records.zip(output.text().lines()) {
        let is_record = match parse_answer(answer) {
            BatchAnswer::Good(_) => true,
            BatchAnswer::Bad(bad) => {
                !matches!(bad.error.kind, ErrorKind::BadRecord | ErrorKind::RecordTooLarge)
            }
        };
        // A deeply nested record is valid, but too deep for `serde_json::from_slice`.
        if is_record && let Ok(record) = serde_json::from_slice(record) {
            assert_eq!(RECORD.validate(&record).map_err(|error| error.to_string()), Ok(()), "{record}");
        }
    }
    output
}

static RECORD: LazyLock<Validator> = LazyLock::new(|| schema_validator("batch-record"));
static ANSWER: LazyLock<Validator> = LazyLock::new(|| schema_validator("batch-answer"));

fn schema_validator(name: &str) -> Validator {
    jsonschema::draft202012::new(&catalog::get(name).unwrap().json()).unwrap()
}

/// Parses an answer. Fails if it violates its schema or has a member that its type lacks.
#[track_caller]
fn parse_answer(line: &str) -> BatchAnswer {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not an answer: {line:?}"));
    assert_eq!(ANSWER.validate(&value).map_err(|error| error.to_string()), Ok(()), "{line}");
    let answer: BatchAnswer = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_value(&answer).unwrap(), value);
    answer
}

/// Returns a record with a conversation of `turns` turns.
fn record(id: &Value, turns: usize) -> Value {
    json!({ "id": id, "transcript": support::Conversation::with_turns(turns).elements() })
}

/// Returns the member `name` of a JSON object as it is written in the line.
fn raw_member<'a>(line: &'a str, name: &str) -> &'a str {
    #[derive(serde::Deserialize)]
    struct Members<'a>(#[serde(borrow)] std::collections::HashMap<String, &'a serde_json::value::RawValue>);
    let members: Members<'a> = serde_json::from_str(line).unwrap();
    members.0[name].get()
}
