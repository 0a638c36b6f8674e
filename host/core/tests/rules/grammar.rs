//! Overlays of our own grammar, beside JP's (JP-STREAM, "Overlays of our own grammar").

use jp_compact_core::Stream;
use serde_json::{Value, json};

use crate::build::{Build, jp, own, receipt, shown};

/// Two calls in turn 0, of which the second fails; one that turn 1 answers. Numbers: `x` 1 and 3, `y` 2 and 4,
/// `z` 5 and 7.
fn calls() -> Build {
    Build::default()
        .turn()
        .call("x", "read")
        .call("y", "grep")
        .answer("x", "X")
        .fail("y", "Y")
        .call("z", "read")
        .turn()
        .answer("z", "Z")
}

#[track_caller]
fn check(overlays: &[Value], expected: &str) {
    assert_eq!(shown(&calls().all(overlays).stream()), expected);
}

fn strip(request: bool, response: bool) -> Value {
    json!({"tool_calls": {"policy": "strip", "request": request, "response": response}})
}

fn omit() -> Value {
    json!({"tool_calls": {"policy": "omit"}})
}

fn selective(calls: Value) -> Value {
    json!({"tool_calls": {"policy": "selective", "calls": calls}})
}

/// A strip with hints.
fn hinted(request: bool, response: bool, overrides: Value) -> Value {
    let mut policy = strip(request, response);
    policy["tool_overrides"] = overrides;
    policy
}

const WHOLE: &str = ">x{x} >y{y} <x:X <y!:Y >z{z} | <z:Z";

#[test]
fn nothing_changes_without_overlays() {
    check(&[], WHOLE);
}

#[test]
fn a_listed_half_is_stripped_and_no_other() {
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "request": "strip"}])))],
        ">x{} >y{y} <x:X <y!:Y >z{z} | <z:Z",
    );
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 4, "id": "y", "response": "strip"}])))],
        ">x{x} >y{y} <x:X <y!:[compacted] grep: error >z{z} | <z:Z",
    );
}

#[test]
fn a_listed_answer_is_replaced() {
    let text = "[Previous: used grep]";
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 4, "id": "y", "response": {"replace": text}}])))],
        ">x{x} >y{y} <x:X <y!:[Previous: used grep] >z{z} | <z:Z",
    );
}

#[test]
fn omitting_either_half_omits_both() {
    let without_x = ">y{y} <y!:Y >z{z} | <z:Z";
    check(&[own(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "omit": true}])))], without_x);
    check(&[own(60, 0, 0, selective(json!([{"seq": 3, "id": "x", "omit": true}])))], without_x);
}

#[test]
fn an_entry_whose_number_and_id_disagree_does_nothing() {
    for call in [
        json!({"seq": 1, "id": "y", "request": "strip"}),
        json!({"seq": 1, "id": "", "omit": true}),
        json!({"seq": 99, "id": "x", "omit": true}),
        json!({"seq": 0, "id": "x", "omit": true}),
        json!({"seq": 7, "id": "z", "omit": true}), // outside the overlay's range
        json!({"seq": 1, "id": "x", "response": "strip"}),
        json!({"seq": 3, "id": "x", "request": "strip"}),
        json!({"seq": 1, "id": "x"}),
    ] {
        check(&[own(60, 0, 0, selective(json!([call])))], WHOLE);
    }
}

#[test]
fn an_entry_that_says_nothing_of_its_half_shadows_nothing() {
    let stripped = ">x{} >y{} <x:[compacted] read: success <y!:[compacted] grep: error >z{} | <z:Z";
    for call in [
        json!({"seq": 1, "id": "x", "response": "strip"}),
        json!({"seq": 3, "id": "x", "request": "strip"}),
        json!({"seq": 1, "id": "x"}),
    ] {
        check(&[jp(60, 0, 0, strip(true, true)), own(61, 0, 0, selective(json!([call])))], stripped);
    }
}

#[test]
fn a_hint_replaces_the_half_that_it_names_and_inherits_the_other() {
    check(
        &[own(60, 0, 0, hinted(true, true, json!({"read": {"response": "keep"}})))],
        ">x{} >y{} <x:X <y!:[compacted] grep: error >z{} | <z:Z",
    );
    check(
        &[own(60, 0, 0, hinted(false, false, json!({"grep": {"request": "strip"}})))],
        ">x{x} >y{} <x:X <y!:Y >z{z} | <z:Z",
    );
    check(&[own(60, 0, 1, hinted(true, true, json!({"read": {}, "other": {"request": "keep"}})))], {
        ">x{} >y{} <x:[compacted] read: success <y!:[compacted] grep: error >z{} | <z:[compacted] read: success"
    });
}

#[test]
fn in_a_compaction_of_jps_a_hint_is_kept_and_not_applied() {
    let stream =
        calls().raw(jp(60, 0, 1, hinted(true, false, json!({"read": {"request": "keep"}})))).stream();
    assert_eq!(shown(&stream), ">x{} >y{} <x:X <y!:Y >z{} | <z:Z");
    assert_eq!(stream.overlays()[0].not_applied, ["tool_overrides"]);
    assert!(stream.overlays()[0].applied_by_jp);
}

#[test]
fn each_half_takes_the_newest_opinion_on_it() {
    let request = selective(json!([{"seq": 1, "id": "x", "request": "strip"}]));
    let answer = selective(json!([{"seq": 3, "id": "x", "response": {"replace": "new"}}]));
    check(
        &[jp(60, 0, 0, strip(false, true)), own(61, 0, 0, request.clone())],
        ">x{} >y{y} <x:[compacted] read: success <y!:[compacted] grep: error >z{z} | <z:Z",
    );
    check(&[jp(61, 0, 0, strip(false, false)), own(60, 0, 0, request.clone())], WHOLE);
    check(&[own(60, 0, 0, request), own(61, 0, 0, answer)], ">x{} >y{y} <x:new <y!:Y >z{z} | <z:Z");
}

#[test]
fn a_newer_list_brings_a_call_back_only_with_both_halves() {
    let one = json!({"seq": 1, "id": "x", "request": "strip"});
    let both = json!([one, {"seq": 3, "id": "x", "response": "strip"}]);
    check(&[jp(60, 0, 0, omit()), own(61, 0, 0, selective(json!([one])))], "");
    check(&[jp(60, 0, 0, omit()), own(61, 0, 0, selective(both))], ">x{} <x:[compacted] read: success");
}

#[test]
fn a_newer_omit_of_jps_beats_a_list() {
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "request": "strip"}]))), jp(61, 0, 1, omit())],
        "",
    );
}

#[test]
fn of_two_lists_the_newer_wins_and_of_two_of_one_time_the_later() {
    let replaced = |with: &str| selective(json!([{"seq": 3, "id": "x", "response": {"replace": with}}]));
    let view = |with: &str| format!(">x{{x}} >y{{y}} <x:{with} <y!:Y >z{{z}} | <z:Z");
    check(&[own(61, 0, 0, replaced("a")), own(60, 0, 0, replaced("b"))], &view("a"));
    check(&[own(60, 0, 0, replaced("a")), own(60, 0, 0, replaced("b"))], &view("b"));
    let status = "[compacted] read: success <y!:[compacted] grep: error";
    check(
        &[own(60, 0, 0, replaced("a")), jp(60, 0, 0, strip(false, true))],
        &format!(">x{{x}} >y{{y}} <x:{status} >z{{z}} | <z:Z"),
    );
    check(
        &[jp(60, 0, 0, strip(false, true)), own(60, 0, 0, replaced("a"))],
        ">x{x} >y{y} <x:a <y!:[compacted] grep: error >z{z} | <z:Z",
    );
}

#[test]
fn an_older_omission_of_one_half_holds_for_the_pair() {
    let gone = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    let answer = selective(json!([{"seq": 3, "id": "x", "response": "strip"}]));
    check(&[own(60, 0, 0, gone), own(61, 0, 0, answer)], ">y{y} <y!:Y >z{z} | <z:Z");
}

#[test]
fn jps_rule_splits_a_pair_and_ours_does_not() {
    check(&[jp(60, 0, 0, omit())], "| <z:Z");
    let answer = selective(json!([{"seq": 7, "id": "z", "response": "strip"}]));
    check(&[jp(60, 0, 0, omit()), own(61, 1, 1, answer)], "");
}

#[test]
fn an_overlay_of_ours_without_effect_changes_nothing_of_jps_rule() {
    let list = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    check(&[jp(60, 0, 0, omit()), own(61, 1, 0, list.clone())], "| <z:Z");
    check(&[jp(60, 0, 0, omit()), own(61, 7, 9, list.clone())], "| <z:Z");
    check(&[own(61, 1, 0, list)], WHOLE);
}

#[test]
fn a_hint_goes_by_the_calls_own_tool_though_its_id_was_used_again() {
    let stream = Build::default()
        .turn()
        .call("x", "read")
        .answer("x", "1")
        .call("x", "grep")
        .answer("x", "2")
        .raw(own(60, 0, 0, hinted(false, false, json!({"read": {"response": "strip"}}))))
        .stream();
    assert_eq!(shown(&stream), ">x{x} <x:[compacted] grep: success >x{x} <x:2");
}

#[test]
fn a_summary_beats_both_grammars() {
    let list = selective(json!([{"seq": 5, "id": "z", "request": "strip"}]));
    check(
        &[jp(60, 0, 0, json!({"summary": {"summary": "S"}})), own(61, 0, 0, list)],
        "?[Summary of previous conversation] =S | <z:Z",
    );
}

#[test]
fn a_receipt_is_no_overlay_and_no_event() {
    let stream = calls().raw(receipt(60, 0, 9)).stream();
    assert_eq!(shown(&stream), WHOLE);
    assert!(stream.overlays().is_empty());
    assert_eq!(stream.after_last_overlay(), 0);
    assert_eq!(stream.numbered().count(), 8);
}

#[test]
fn both_grammars_count_for_the_bound_last() {
    let stream = calls().raw(jp(60, 0, 0, omit())).raw(own(61, 0, 1, selective(json!([])))).stream();
    assert_eq!(stream.after_last_overlay(), 2);
    assert_eq!(
        stream.overlays().iter().map(|overlay| overlay.applied_by_jp).collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn what_later_drafts_add_is_named_once() {
    let policies = json!({
        "over": 5, "source": "auto", "summary": {"summary": "s", "source": {}},
        "reasoning": {"policy": "strip", "over": 1}, "tool_calls": {"policy": "omit", "over": 1, "tool_overrides": {}},
    });
    let stream = calls().raw(jp(60, 1, 1, policies)).stream();
    assert_eq!(stream.overlays()[0].not_applied, ["over", "source", "tool_overrides"]);
    assert_eq!(stream.overlays()[0].kinds(), ["summary", "reasoning", "tool_calls"]);
}

/// The error, which must name the overlay's element and its first byte.
#[track_caller]
fn malformed(overlay: Value, expected: &str) {
    let build = calls().raw(overlay);
    let bytes = build.bytes();
    let error = Stream::parse(bytes.clone()).unwrap_err();
    assert_eq!(error.element, Some(8));
    assert_eq!(bytes[error.at], b'{', "{error}");
    assert!(error.what.starts_with(expected), "{error}");
    // An index is all that a reset needs.
    let index = jp_compact_core::formats::jp::index(bytes).unwrap();
    assert_eq!(index.overlays(), 1);
    let made = jp_compact_core::source::reset(&index, jp_compact_core::source::Reset::One(1)).unwrap();
    assert_eq!(made.overlays, 1);
    assert_eq!(jp_compact_core::splice::concat(&made.pieces, &build.bytes()), calls().bytes());
}

#[test]
fn a_malformed_overlay_makes_the_stream_unreadable_and_can_be_reset() {
    let jps = |policies| jp(60, 0, 0, policies);
    let ours = |policies| own(60, 0, 0, policies);
    let at = "a malformed `compaction`: ";
    malformed(jps(json!({"from_turn": null})), at);
    malformed(jps(json!({"from_turn": -1})), at);
    malformed(jps(json!({"to_turn": 1.0})), at);
    malformed(jps(json!({"to_turn": "1"})), at);
    malformed(jps(json!({"summary": "text"})), at);
    malformed(jps(json!({"summary": {}})), at);
    malformed(jps(json!({"reasoning": "keep"})), "a malformed `compaction`: `reasoning`: ");
    malformed(jps(json!({"tool_calls": "strip"})), "a malformed `compaction`: `tool_calls`: ");
    malformed(jps(json!({"tool_calls": {"policy": "strip"}})), "a malformed `compaction`: `tool_calls`: ");
    malformed(jps(json!({"tool_calls": {"policy": "drop"}})), "a malformed `compaction`: `tool_calls`: ");
    malformed(
        jps(selective(json!([]))),
        "a malformed `compaction`: `tool_calls`: a `compaction` knows no policy `selective`",
    );
    let at = "a malformed `jp_compact_overlay`: `tool_calls`: ";
    malformed(ours(selective(json!(null))), at);
    malformed(ours(selective(json!([{"seq": 1}]))), at);
    malformed(ours(selective(json!([{"id": "x"}]))), at);
    malformed(ours(selective(json!([{"seq": 1, "id": "x", "drop": true}]))), at);
    malformed(ours(selective(json!([{"seq": 1, "id": "x", "request": "omit"}]))), at);
    malformed(
        ours(hinted(true, true, json!({"read": {"request": "drop"}}))),
        "a malformed `jp_compact_overlay`: `tool_overrides`: ",
    );
}
