//! Tests of views in the transcript's own form, and of resets. Unchanged elements keep their bytes.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::index;
use jp_compact_core::projection::project;
use jp_compact_core::source::{Reset, render, reset};
use jp_compact_core::splice::{Piece, concat};
use serde_json::{Value, json};

use crate::build::{self, Build, base64, own_overlay, receipt};

fn rendered(bytes: &Bytes) -> (Vec<Piece>, String) {
    let stream = Stream::parse(bytes.clone()).unwrap();
    let pieces = render(&stream, &project(&stream));
    let text = String::from_utf8(concat(&pieces, bytes)).unwrap();
    (pieces, text)
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(rendered(&Bytes::from(source.to_owned())).1, expected);
}

const REQUEST: &str =
    r#"{ "type":"chat_request" , "timestamp":"2026-01-01 00:00:00","content":"\u00e9",  "x":1e0 }"#;
const REASONING: &str = r#"{"type":"chat_response","timestamp":"2026-01-01 00:00:00","reasoning":"r"}"#;
const OVERLAY: &str = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00","from_turn":0,"to_turn":9,"reasoning":"strip"}"#;

#[test]
fn view_without_overlays_keeps_bytes_in_any_layout() {
    for source in
        ["[]", " [\t]\r\n", "[]\n\n", &format!("[{REQUEST}]"), &format!("\n[ {REQUEST}\t,{REASONING}\n\n] ")]
    {
        check(source, source);
    }
}

#[test]
fn unchanged_neighbors_share_one_slice() {
    let build = Build::turns(40).element(build::compaction(900, 39, 39, json!({"reasoning": "strip"})));
    let (pieces, _) = rendered(&build.bytes());
    let is_old = |piece: &&Piece| matches!(piece, Piece::Old(_));
    assert_eq!(pieces.iter().filter(is_old).count(), 3, "{pieces:?}");
}

#[test]
fn removed_elements_leave_no_gap() {
    check(&format!("[{REQUEST},{REASONING},{OVERLAY}]"), &format!("[{REQUEST}]"));
    check(&format!("[{REASONING},{REQUEST},{OVERLAY}]"), &format!("[{REQUEST}]"));
    check(&format!("[{OVERLAY},{REASONING}]\n"), "[]\n");
    check(
        &format!("[\n{REQUEST},{REASONING},{OVERLAY} , {REQUEST} \n]\n"),
        &format!("[\n{REQUEST},\n  {REQUEST} \n]\n"),
    );
    check(&format!("[{REQUEST} ,\t{REQUEST},{OVERLAY}]"), &format!("[{REQUEST} ,\t{REQUEST}]"));
}

#[test]
fn stripping_changes_a_single_value() {
    let call = r#"{"id":"a","type" : "tool_call_request","timestamp":"2026-01-01 00:00:00","arguments" : {"x":"AA=="} ,"name":"t","extra":{}}"#;
    let call_without_arguments =
        r#"{"id":"b","type":"tool_call_request","timestamp":"2026-01-01 00:00:00","name":"t"}"#;
    let response = r#"{"is_error":true,"content":"eA==","type":"tool_call_response","timestamp":"2026-01-01 00:00:00","id":"a"}"#;
    let strip = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00","from_turn":0,"to_turn":0,"tool_calls":{"policy":"strip","request":true,"response":true}}"#;
    let status = base64("[compacted] t: error");
    let (stripped_call, stripped_response) =
        (call.replace(r#"{"x":"AA=="}"#, "{}"), response.replace("eA==", &status));
    check(
        &format!("[{call}, {call_without_arguments},{response},{strip}]"),
        &format!("[{stripped_call}, {call_without_arguments},{stripped_response}]"),
    );
}

#[test]
fn replacement_is_stored_in_base64() {
    let policy = json!({"tool_calls": {"policy": "selective", "calls": [{"seq": 2, "id": "a", "response": {"replace": "\"\u{e9}\n"}}]}});
    let build =
        Build::default().turn().call("a", "t").answer("a", "x").element(own_overlay(60, 0, 0, policy));
    let view: Value = serde_json::from_str(&rendered(&build.bytes()).1).unwrap();
    assert_eq!(view[2]["content"], base64("\"\u{e9}\n"));
}

#[test]
fn summary_becomes_a_separate_turn() {
    let build = Build::turns(2)
        .element(build::compaction(60, 0, 0, json!({"summary": {"summary": "S"}})))
        .element(receipt(60, 0, 0));
    let view: Value = serde_json::from_str(&rendered(&build.bytes()).1).unwrap();
    let start = "2026-04-02 09:00:00.0";
    assert_eq!(view[0], json!({"timestamp": start, "type": "turn_start"}));
    let request = "[Summary of previous conversation]";
    assert_eq!(view[1], json!({"timestamp": start, "type": "chat_request", "content": request}));
    assert_eq!(view[2], json!({"timestamp": start, "type": "chat_response", "message": "S"}));
    assert_eq!(view.as_array().unwrap().len(), 3 + 6);
}

#[track_caller]
fn check_reset(source: &str, reset_kind: Reset, expected: Option<(&str, usize)>) {
    let bytes = Bytes::from(source.to_owned());
    let removal = reset(&index::index(bytes.clone()).unwrap(), reset_kind);
    let result = removal
        .map(|removal| (String::from_utf8(concat(&removal.pieces, &bytes)).unwrap(), removal.overlays));
    assert_eq!(result.as_ref().map(|(text, removed)| (text.as_str(), *removed)), expected);
}

/// Returns an overlay or a receipt for turn 0.
fn element(kind: &str, second: i64) -> String {
    let timestamp = build::timestamp_text(second);
    format!(r#"{{"type":"{kind}","timestamp":"{timestamp}","from_turn":0,"to_turn":0}}"#)
}

#[test]
fn reset_of_all_removes_only_overlays_and_receipts() {
    let (compaction, own_overlay) = (element("compaction", 1), element("jp_compact_overlay", 2));
    let (receipt, orphan) = (element("jp_compact_receipt", 2), element("jp_compact_receipt", 9));
    check_reset(&format!("[ {REQUEST},{compaction} ]"), Reset::All, Some((&format!("[ {REQUEST} ]"), 1)));
    check_reset(
        &format!("[{REQUEST}, {REASONING},{compaction},{own_overlay},{receipt},{orphan}\n]"),
        Reset::All,
        Some((&format!("[{REQUEST}, {REASONING}\n]"), 2)),
    );
    check_reset(&format!("[{compaction},{REQUEST}]"), Reset::All, Some((&format!("[{REQUEST}]"), 1)));
    check_reset(&format!("[{REQUEST}]\n"), Reset::All, Some((&format!("[{REQUEST}]\n"), 0)));
    check_reset(&format!("[{compaction}]\n"), Reset::All, Some(("[]\n", 1)));
    check_reset("[ ]", Reset::All, Some(("[ ]", 0)));
}

#[test]
fn reset_of_one_removes_its_receipt_only() {
    let (first, second) = (element("compaction", 1), element("jp_compact_overlay", 2));
    let (first_receipt, second_receipt) =
        (element("jp_compact_receipt", 1), element("jp_compact_receipt", 2));
    let source = format!("[{REQUEST},{first},{first_receipt},{second},{second_receipt}]");
    check_reset(&source, Reset::One(1), Some((&format!("[{REQUEST},\n  {second},{second_receipt}]"), 1)));
    check_reset(&source, Reset::One(2), Some((&format!("[{REQUEST},{first},{first_receipt}]"), 1)));
    check_reset(&source, Reset::One(0), None);
    check_reset(&source, Reset::One(3), None);
}

#[test]
fn reset_removes_orphaned_receipts() {
    let (first, second) = (element("compaction", 1), element("jp_compact_overlay", 2));
    let (first_receipt, second_receipt) =
        (element("jp_compact_receipt", 1), element("jp_compact_receipt", 2));
    let other_range = first_receipt.replace(r#""to_turn":0"#, r#""to_turn":1"#);
    check_reset(
        &format!("[{REQUEST},{first},{other_range}]"),
        Reset::One(1),
        Some((&format!("[{REQUEST}]"), 1)),
    );
    check_reset(
        &format!("[{REQUEST},{first_receipt},{other_range}]"),
        Reset::All,
        Some((&format!("[{REQUEST}]"), 0)),
    );
    check_reset(
        &format!("[{REQUEST},{first},{second},{second_receipt},{other_range}]"),
        Reset::One(1),
        Some((&format!("[{REQUEST},\n  {second},{second_receipt}]"), 1)),
    );
    // Two overlays with the same time and range share a receipt.
    check_reset(
        &format!("[{REQUEST},{first},{first},{first_receipt}]"),
        Reset::One(1),
        Some((&format!("[{REQUEST},\n  {first},{first_receipt}]"), 1)),
    );
}
