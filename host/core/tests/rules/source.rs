//! Writes views in the transcript's own form, and resets. Unchanged elements keep their bytes.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::index;
use jp_compact_core::projection::project;
use jp_compact_core::source::{Reset, render, reset};
use jp_compact_core::splice::{Piece, concat};
use serde_json::{Value, json};

use crate::build::{self, Build, base64, own, receipt};

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

const ASK: &str =
    r#"{ "type":"chat_request" , "timestamp":"2026-01-01 00:00:00","content":"\u00e9",  "x":1e0 }"#;
const THINK: &str = r#"{"type":"chat_response","timestamp":"2026-01-01 00:00:00","reasoning":"r"}"#;
const STRIP: &str = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00","from_turn":0,"to_turn":9,"reasoning":"strip"}"#;

#[test]
fn without_overlays_keeps_bytes_in_any_layout() {
    for source in ["[]", " [\t]\r\n", "[]\n\n", &format!("[{ASK}]"), &format!("\n[ {ASK}\t,{THINK}\n\n] ")] {
        check(source, source);
    }
}

#[test]
fn unchanged_neighbors_share_one_slice() {
    let build = Build::turns(40).raw(build::jp(900, 39, 39, json!({"reasoning": "strip"})));
    let (pieces, _) = rendered(&build.bytes());
    let old = |piece: &Piece| matches!(piece, Piece::Old(_));
    assert_eq!(pieces.iter().filter(|piece| old(piece)).count(), 3, "{pieces:?}");
}

#[test]
fn removed_elements_leave_no_gap() {
    check(&format!("[{ASK},{THINK},{STRIP}]"), &format!("[{ASK}]"));
    check(&format!("[{THINK},{ASK},{STRIP}]"), &format!("[{ASK}]"));
    check(&format!("[{STRIP},{THINK}]\n"), "[]\n");
    check(&format!("[\n{ASK},{THINK},{STRIP} , {ASK} \n]\n"), &format!("[\n{ASK},\n  {ASK} \n]\n"));
    check(&format!("[{ASK} ,\t{ASK},{STRIP}]"), &format!("[{ASK} ,\t{ASK}]"));
}

#[test]
fn stripping_changes_a_single_value() {
    let call = r#"{"id":"a","type" : "tool_call_request","timestamp":"2026-01-01 00:00:00","arguments" : {"x":"AA=="} ,"name":"t","extra":{}}"#;
    let bare = r#"{"id":"b","type":"tool_call_request","timestamp":"2026-01-01 00:00:00","name":"t"}"#;
    let answer = r#"{"is_error":true,"content":"eA==","type":"tool_call_response","timestamp":"2026-01-01 00:00:00","id":"a"}"#;
    let strip = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00","from_turn":0,"to_turn":0,"tool_calls":{"policy":"strip","request":true,"response":true}}"#;
    let status = base64("[compacted] t: error");
    let (call_, answer_) = (call.replace(r#"{"x":"AA=="}"#, "{}"), answer.replace("eA==", &status));
    check(&format!("[{call}, {bare},{answer},{strip}]"), &format!("[{call_}, {bare},{answer_}]"));
}

#[test]
fn replacement_is_stored_in_base64() {
    let list = json!({"tool_calls": {"policy": "selective", "calls": [{"seq": 2, "id": "a", "response": {"replace": "\"\u{e9}\n"}}]}});
    let build = Build::default().turn().call("a", "t").answer("a", "x").raw(own(60, 0, 0, list));
    let view: Value = serde_json::from_str(&rendered(&build.bytes()).1).unwrap();
    assert_eq!(view[2]["content"], base64("\"\u{e9}\n"));
}

#[test]
fn summary_becomes_a_separate_turn() {
    let build =
        Build::turns(2).raw(build::jp(60, 0, 0, json!({"summary": {"summary": "S"}}))).raw(receipt(60, 0, 0));
    let view: Value = serde_json::from_str(&rendered(&build.bytes()).1).unwrap();
    let start = "2026-04-02 09:00:00.0";
    assert_eq!(view[0], json!({"timestamp": start, "type": "turn_start"}));
    let request = "[Summary of previous conversation]";
    assert_eq!(view[1], json!({"timestamp": start, "type": "chat_request", "content": request}));
    assert_eq!(view[2], json!({"timestamp": start, "type": "chat_response", "message": "S"}));
    assert_eq!(view.as_array().unwrap().len(), 3 + 6);
}

#[track_caller]
fn resets(source: &str, which: Reset, expected: Option<(&str, usize)>) {
    let bytes = Bytes::from(source.to_owned());
    let made = reset(&index::index(bytes.clone()).unwrap(), which);
    let made = made.map(|made| (String::from_utf8(concat(&made.pieces, &bytes)).unwrap(), made.overlays));
    assert_eq!(made.as_ref().map(|(text, removed)| (text.as_str(), *removed)), expected);
}

/// Returns an overlay or a receipt for turn 0.
fn mark(kind: &str, second: i64) -> String {
    let at = build::at(second);
    format!(r#"{{"type":"{kind}","timestamp":"{at}","from_turn":0,"to_turn":0}}"#)
}

#[test]
fn reset_of_all_removes_only_overlays_and_receipts() {
    let (jp, own) = (mark("compaction", 1), mark("jp_compact_overlay", 2));
    let (receipt, orphan) = (mark("jp_compact_receipt", 2), mark("jp_compact_receipt", 9));
    resets(&format!("[ {ASK},{jp} ]"), Reset::All, Some((&format!("[ {ASK} ]"), 1)));
    resets(
        &format!("[{ASK}, {THINK},{jp},{own},{receipt},{orphan}\n]"),
        Reset::All,
        Some((&format!("[{ASK}, {THINK}\n]"), 2)),
    );
    resets(&format!("[{jp},{ASK}]"), Reset::All, Some((&format!("[{ASK}]"), 1)));
    resets(&format!("[{ASK}]\n"), Reset::All, Some((&format!("[{ASK}]\n"), 0)));
    resets(&format!("[{jp}]\n"), Reset::All, Some(("[]\n", 1)));
    resets("[ ]", Reset::All, Some(("[ ]", 0)));
}

#[test]
fn reset_of_one_removes_its_receipt_only() {
    let (one, two) = (mark("compaction", 1), mark("jp_compact_overlay", 2));
    let (of_one, of_two) = (mark("jp_compact_receipt", 1), mark("jp_compact_receipt", 2));
    let source = format!("[{ASK},{one},{of_one},{two},{of_two}]");
    resets(&source, Reset::One(1), Some((&format!("[{ASK},\n  {two},{of_two}]"), 1)));
    resets(&source, Reset::One(2), Some((&format!("[{ASK},{one},{of_one}]"), 1)));
    resets(&source, Reset::One(0), None);
    resets(&source, Reset::One(3), None);
}

#[test]
fn reset_removes_orphaned_receipts() {
    let (one, two) = (mark("compaction", 1), mark("jp_compact_overlay", 2));
    let (of_one, of_two) = (mark("jp_compact_receipt", 1), mark("jp_compact_receipt", 2));
    let other_range = of_one.replace(r#""to_turn":0"#, r#""to_turn":1"#);
    resets(&format!("[{ASK},{one},{other_range}]"), Reset::One(1), Some((&format!("[{ASK}]"), 1)));
    resets(&format!("[{ASK},{of_one},{other_range}]"), Reset::All, Some((&format!("[{ASK}]"), 0)));
    resets(
        &format!("[{ASK},{one},{two},{of_two},{other_range}]"),
        Reset::One(1),
        Some((&format!("[{ASK},\n  {two},{of_two}]"), 1)),
    );
    // Two overlays with the same time and range share a receipt.
    resets(
        &format!("[{ASK},{one},{one},{of_one}]"),
        Reset::One(1),
        Some((&format!("[{ASK},\n  {one},{of_one}]"), 1)),
    );
}
