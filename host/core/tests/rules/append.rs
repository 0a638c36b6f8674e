//! Compactions as appended elements: their timestamps, their positions, and the surrounding bytes.

use bytes::Bytes;
use jp_compact_core::append::{self, Entry, NotAppendable, Receipt};
use jp_compact_core::source::{Reset, reset};
use jp_compact_core::splice::concat;
use jp_compact_core::validate::{Compaction, ValidationContext, validate};
use jp_compact_core::{Pairs, Stream, TurnRange, time};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::{Map, Value, json};

use crate::build::{Build, compaction, own_overlay, receipt, timestamp, timestamp_text};

/// Returns the entries of one strategy's proposal for the whole stream.
pub(crate) fn entries(stream: &Stream, proposal: Value) -> Vec<Entry> {
    let all_turns = TurnRange::new(0, stream.turns() - 1).unwrap();
    let pairs = Pairs::new(stream);
    let context = ValidationContext {
        allows_steps: true,
        ..ValidationContext::new(stream, &pairs, all_turns, &[Summary, Reasoning, ToolCalls])
    };
    entries_of(validate(&context, serde_json::from_value(proposal).unwrap()).unwrap())
}

/// Returns the entries of validated compactions.
pub(crate) fn entries_of(compactions: Vec<Compaction>) -> Vec<Entry> {
    let receipt = Receipt {
        strategy: "a-strategy".to_owned().try_into().unwrap(),
        version: "1.2.3".into(),
        executable_sha256: "e".repeat(64),
        options: Map::from_iter([("mode".to_owned(), json!("omit"))]),
        input_sha256: "i".repeat(64),
        tier: "contained".into(),
        merges: None,
    };
    compactions.into_iter().map(|compaction| Entry { compaction, receipt: receipt.clone() }).collect()
}

fn strip() -> Value {
    json!([{"from_turn": 0, "to_turn": 0, "reasoning": "strip"}])
}

/// Appends a proposal at second 100, and returns the file.
#[track_caller]
fn append_proposal(source: &Bytes, proposal: Value) -> Bytes {
    let stream = Stream::parse(source.clone()).unwrap();
    let entries = entries(&stream, proposal);
    let stamped = append::stamped_overlays(&stream, &entries, timestamp(100)).unwrap();
    concat(&append::append(&stream, &entries, &stamped), source).into()
}

#[track_caller]
fn check_stamps(build: &Build, now: i64, expected: &[&str]) {
    let stream = build.stream();
    let proposals = json!([
        {"from_turn": 0, "to_turn": 0, "reasoning": "strip"}, {"from_turn": 0, "to_turn": 0, "reasoning": "strip"},
    ]);
    let stamped = append::stamped_overlays(&stream, &entries(&stream, proposals), timestamp(now)).unwrap();
    assert_eq!(
        stamped.iter().map(|stamped| time::format(stamped.overlay.stamp)).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn timestamps_increase_even_if_the_clock_goes_back() {
    let old = compaction(60, 0, 0, json!({"reasoning": "strip"}));
    check_stamps(&Build::turns(1), 100, &["2026-04-02 09:01:40.0", "2026-04-02 09:01:40.000000001"]);
    check_stamps(
        &Build::turns(1).element(old.clone()),
        100,
        &["2026-04-02 09:01:40.0", "2026-04-02 09:01:40.000000001"],
    );
    check_stamps(
        &Build::turns(1).element(old.clone()),
        60,
        &["2026-04-02 09:01:00.000000001", "2026-04-02 09:01:00.000000002"],
    );
    // The clock ran backwards. The newest overlay wins, regardless of its position.
    let older = compaction(5, 0, 0, json!({}));
    check_stamps(
        &Build::turns(1).element(old.clone()).element(older),
        -1000,
        &["2026-04-02 09:01:00.000000001", "2026-04-02 09:01:00.000000002"],
    );
    check_stamps(
        &Build::turns(1).element(own_overlay(70, 0, 0, json!({}))).element(old).element(receipt(80, 0, 0)),
        0,
        &["2026-04-02 09:01:10.000000001", "2026-04-02 09:01:10.000000002"],
    );
}

#[test]
fn rejects_append_after_latest_possible_time() {
    let mut last = compaction(0, 0, 0, json!({"reasoning": "strip"}));
    last["timestamp"] = time::format(jiff::Timestamp::MAX).into();
    let stream = Build::turns(1).element(last).stream();
    let error = append::stamped_overlays(&stream, &entries(&stream, strip()), timestamp(0)).unwrap_err();
    assert_eq!(error, NotAppendable::EndOfTime);
    assert_eq!(
        error.to_string(),
        "no overlay can follow the newest one: its timestamp is the latest possible"
    );
}

#[test]
fn receipt_follows_its_overlay() {
    let source = Build::turns(2).element(compaction(60, 0, 0, json!({"reasoning": "strip"}))).bytes();
    let file = append_proposal(
        &source,
        json!([
            {"from_turn": 0, "to_turn": 1, "summary": {"summary": "S"}, "reasoning": "strip"},
            {"from_turn": 1, "to_turn": 1, "tool_calls": {"policy": "strip", "request": false, "response": true}},
        ]),
    );
    let elements: Vec<Value> = serde_json::from_slice(&file).unwrap();
    let receipt = |time: &str, from: usize, to: usize| {
        json!({
            "timestamp": time, "type": "jp_compact_receipt", "from_turn": from, "to_turn": to,
            "strategy": "a-strategy", "version": "1.2.3", "executable_sha256": "e".repeat(64),
            "options": {"mode": "omit"}, "input_sha256": "i".repeat(64), "tier": "contained",
        })
    };
    let (first, second) = ("2026-04-02 09:01:40.0", "2026-04-02 09:01:40.000000001");
    let expected = [
        json!({"timestamp": first, "type": "compaction", "from_turn": 0, "to_turn": 1, "summary": {"summary": "S"}, "reasoning": "strip"}),
        receipt(first, 0, 1),
        json!({"timestamp": second, "type": "compaction", "from_turn": 1, "to_turn": 1, "tool_calls": {"policy": "strip", "request": false, "response": true}}),
        receipt(second, 1, 1),
    ];
    assert_eq!(elements[13..], expected);
}

#[test]
fn splits_compaction_into_jp_part_and_own_part() {
    let source = Build::turns(1).bytes();
    let stream = Stream::parse(source.clone()).unwrap();
    let entries = entries(
        &stream,
        json!([{"from_turn": 0, "to_turn": 0, "reasoning": "strip",
                "tool_calls": {"policy": "selective", "calls": [{"seq": 3, "request": "strip"}]}}]),
    );
    let stamped = append::stamped_overlays(&stream, &entries, timestamp(100)).unwrap();
    assert_eq!(
        stamped.iter().map(|stamped| (stamped.number, stamped.entries.clone())).collect::<Vec<_>>(),
        [(1, vec![0]), (2, vec![0])]
    );
    assert!(stamped[0].overlay.applied_by_jp && !stamped[1].overlay.applied_by_jp);
    let file: Vec<Value> =
        serde_json::from_slice(&concat(&append::append(&stream, &entries, &stamped), &source)).unwrap();
    let kinds: Vec<_> = file[6..].iter().map(|element| element["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["compaction", "jp_compact_receipt", "jp_compact_overlay", "jp_compact_receipt"]);
    assert_eq!((file[6].get("tool_calls"), file[8].get("reasoning")), (None, None));
    assert_eq!(
        file[8]["tool_calls"],
        json!({"policy": "selective", "calls": [{
            "seq": 3, "id": "c0", "half": {"kind": "request", "nth": 0, "of": 1, "tool": "read"}, "request": "strip",
        }]})
    );
}

#[test]
fn selective_policy_alone_makes_no_jp_compaction() {
    let proposal = json!([{"from_turn": 0, "to_turn": 0,
        "tool_calls": {"policy": "selective", "calls": [{"seq": 4, "response": {"replace": "r"}}, {"seq": 3, "request": "strip"}]}}]);
    let file = append_proposal(&Build::turns(1).bytes(), proposal);
    let stream = Stream::parse(file).unwrap();
    assert_eq!(stream.overlays().len(), 1);
    assert_eq!(crate::build::format_projection(&stream), "?ask0 ~think0 >c0{} <c0:r =say0");
}

/// Checks that an append keeps every byte before the closing bracket and its white space, and that a reset restores the
/// original bytes.
#[track_caller]
fn check_append(source: &str) {
    let source = Bytes::from(source.to_owned());
    let file = append_proposal(&source, strip());
    let body_end = Stream::parse(source.clone()).unwrap().body_end();
    assert_eq!(file[..body_end], source[..body_end]);
    assert!(file.ends_with(&source[body_end..]));
    let stream = Stream::parse(file.clone()).unwrap();
    assert_eq!(stream.overlays().len(), 1);
    let removal = reset(stream.index(), Reset::All).unwrap();
    assert_eq!((concat(&removal.pieces, &file), removal.overlays), (source.to_vec(), 1));
}

const EVENT: &str = r#"{"type":"chat_request","timestamp":"2026-01-01 00:00:00","content":"]"}"#;

#[test]
fn append_keeps_history_bytes_in_any_layout() {
    check_append(&format!("[{EVENT}]"));
    check_append(&format!("[{EVENT}]\n"));
    check_append(&format!("[\n  {EVENT},\n  {EVENT}\n]\n"));
    check_append(&format!(" \t[ {EVENT}\r\n,{EVENT} \t ]\r\n\r\n"));
}

#[test]
fn append_keeps_jp_layout() {
    let source = Build::turns(1).bytes();
    let file = String::from_utf8(append_proposal(&source, strip()).to_vec()).unwrap();
    let value: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file, format!("{value:#}\n"));
}

#[test]
fn append_to_empty_array_can_be_reset() {
    for source in ["[]", "[]\n", "[\n]\n", " [ ] "] {
        let stream = Stream::parse(source.as_bytes().into()).unwrap();
        let one_turn = Build::turns(1).stream();
        let entries = entries(&one_turn, strip());
        let stamped = append::stamped_overlays(&stream, &entries, timestamp(0)).unwrap();
        let file = Bytes::from(concat(&append::append(&stream, &entries, &stamped), source.as_bytes()));
        let appended = Stream::parse(file.clone()).unwrap();
        assert_eq!(appended.overlays().len(), 1);
        assert_eq!(concat(&reset(appended.index(), Reset::All).unwrap().pieces, &file), source.as_bytes());
    }
}

#[test]
fn rejects_append_to_stream_that_jp_would_trash() {
    for (element, is_rejected) in [
        (json!({"timestamp": timestamp_text(0), "note": "no type"}), true),
        (json!({"type": 5, "timestamp": timestamp_text(0)}), true),
        (json!({"type": "bookmark"}), true),
        (json!({"type": "bookmark", "timestamp": null}), true),
        (json!({"type": "chat_request", "content": "no time"}), true),
        (json!("text"), true),
        (json!(null), true),
        (json!({"type": "bookmark", "timestamp": timestamp_text(0)}), false),
    ] {
        let build = Build::turns(1).element(element.clone());
        let stream = build.stream();
        let expected = is_rejected.then(|| {
            let offset = stream.events()[6].span.start;
            NotAppendable::Unloadable { element: 6, offset }
        });
        assert_eq!(append::check_loadable(&stream).err(), expected, "{element}");
    }
}

#[test]
fn append_error_reports_element_and_byte() {
    let stream = Stream::parse(br#"[{"a":1}]"#.as_slice().into()).unwrap();
    assert_eq!(
        append::check_loadable(&stream).unwrap_err().to_string(),
        "element 0 (byte 1): `type` or `timestamp` is missing, so JP would move the conversation to \
         its trash"
    );
}
