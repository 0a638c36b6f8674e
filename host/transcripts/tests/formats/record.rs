//! Records of a batch: the parser and the schema accept the same records, and the content of an array determines its
//! format.

use bytes::Bytes;
use jp_compact_schema::catalog;
use jp_compact_schema::record::FORMATS;
use jp_compact_transcripts::Format;
use jp_compact_transcripts::record::{self, RecordForm};
use serde_json::Value;

#[track_caller]
fn check(line: &str, is_valid: bool) {
    let result = record::read(&Bytes::copy_from_slice(line.as_bytes()));
    assert_eq!(result.is_ok(), is_valid, "{result:?}");
    let value: Value = serde_json::from_str(line).unwrap();
    let schema = catalog::get("batch-record").unwrap().json();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    assert_eq!(validator.is_valid(&value), is_valid, "the schema: {line}");
}

#[test]
fn parser_accepts_records_that_the_schema_accepts() {
    check(r#"{"id":1,"transcript":[]}"#, true);
    check(r#"{"transcript":"","path":null,"format":null}"#, true);
    check(r#"{"id":{"a":[null]},"transcript":{},"format":"pi","more":7}"#, true);
    check(r#"{"path":"x","transcript":null,"id":null}"#, true);
}

#[test]
fn parser_rejects_records_that_the_schema_rejects() {
    check("{}", false);
    check("[]", false);
    check("7", false);
    check(r#"{"id":1,"transcript":null}"#, false);
    check(r#"{"id":1,"path":null}"#, false);
    check(r#"{"transcript":7}"#, false);
    check(r#"{"transcript":true}"#, false);
    check(r#"{"path":7}"#, false);
    check(r#"{"path":["x"]}"#, false);
    check(r#"{"path":"x","transcript":[]}"#, false);
    check(r#"{"path":"x","format":"wat"}"#, false);
    check(r#"{"path":"x","format":7}"#, false);
}

#[test]
fn schema_lists_all_formats() {
    let mut published = FORMATS;
    let mut all = Format::ALL.map(Format::as_str);
    published.sort_unstable();
    all.sort_unstable();
    assert_eq!(published, all);
}

#[track_caller]
fn check_array(array: &str, expected: (RecordForm, Option<Format>)) {
    let (_, form, format) = record::file(&Bytes::copy_from_slice(array.as_bytes()), None).unwrap();
    assert_eq!((form, format), expected, "{array}");
}

#[test]
fn array_is_j_cli_lines_if_a_line_identifies_j_cli() {
    let lines = (RecordForm::Lines, Some(Format::JCli));
    check_array(r#"[{"type":"msg","role":"user","content":"hi"}]"#, lines);
    check_array(
        r#"[{"type":"clear"},{"type":"restore","messages":[{"role":"user","content":"hi"}]}]"#,
        lines,
    );
    let hi = r#"{"role":"user","content":"hi"}"#;
    let calls = |call: &str| format!(r#"[{hi},{{"role":"assistant","content":"","tool_calls":[{call}]}}]"#);
    check_array(&calls(r#"{"id":"c","name":"n","arguments":"{}"}"#), lines);
    // An ambiguous array is OpenAI's.
    let chat = (RecordForm::Value, Some(Format::OpenaiChat));
    check_array(&format!("[{hi}]"), chat);
    check_array(&calls(r#"{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}"#), chat);
    check_array(&calls(r#"{"id":"c","type":"custom","custom":{"name":"n","input":"x"}}"#), chat);
}
