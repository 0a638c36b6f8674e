//! Checks of one JSON text with both the Rust types and the published schema of the same name. The two must
//! agree.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use jp_compact_schema::catalog;
use jp_compact_schema::record::BatchAnswer;
use jp_compact_schema::report::BatchReport;
use jp_compact_schema::{
    CompactRequest, DescribeRequest, Description, EventLine, EventsEnd, Manifest, Payload, Reply, from_line,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses a text with the type `name`. Returns the value serialized again, or the parse error.
pub(crate) fn through_types(name: &str, text: &str) -> Result<Value, String> {
    match name {
        "describe-request" => round_trip::<DescribeRequest>(text),
        "description" => round_trip::<Description>(text),
        "compact" => round_trip::<CompactRequest>(text),
        "event" => round_trip::<EventLine>(text),
        "events-end" => round_trip::<EventsEnd>(text),
        "reply" => round_trip::<Reply>(text),
        "compaction" => round_trip::<Payload>(text),
        "manifest" => round_trip::<Manifest>(text),
        "batch-answer" => round_trip::<BatchAnswer>(text),
        "batch-report" => round_trip::<BatchReport>(text),
        other => panic!("the schema {other} has no type"),
    }
}

fn round_trip<T: DeserializeOwned + Serialize>(text: &str) -> Result<Value, String> {
    let value: T = from_line(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(value).unwrap())
}

/// Validates a value against the schema `name`.
pub(crate) fn through_schema(name: &str, value: &Value) -> Result<(), String> {
    let schema = catalog::get(name).unwrap().json();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.validate(value).map_err(|error| error.to_string())
}

/// Checks that the types and the schema accept the text, and that both accept the serialized value unchanged.
#[track_caller]
pub(crate) fn accepts(name: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    let written = through_types(name, text).unwrap_or_else(|error| panic!("types: {error}\n{text}"));
    through_schema(name, &value).unwrap_or_else(|error| panic!("schema: {error}\n{text}"));
    through_schema(name, &written).unwrap_or_else(|error| panic!("schema, serialized: {error}\n{written}"));
    assert_eq!(through_types(name, &written.to_string()).as_ref(), Ok(&written), "second round trip differs");
    written
}
