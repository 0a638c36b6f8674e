//! Overlays in our own grammar, in addition to JP's (docs/reference/store.md#our-extensions).

use jp_compact_core::Stream;
use serde_json::{Value, json};

use crate::build::{Build, jp, own, receipt, shown};

/// Two calls in turn 0, of which the second fails, and a call that turn 1 answers. Numbers: `x` 1 and 3, `y` 2 and 4,
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
fn without_overlays_nothing_changes() {
    check(&[], WHOLE);
}

#[test]
fn strips_only_listed_halves() {
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
fn replaces_listed_response() {
    let text = "[Previous: used grep]";
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 4, "id": "y", "response": {"replace": text}}])))],
        ">x{x} >y{y} <x:X <y!:[Previous: used grep] >z{z} | <z:Z",
    );
}

#[test]
fn omitting_either_half_omits_the_pair() {
    let without_x = ">y{y} <y!:Y >z{z} | <z:Z";
    check(&[own(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "omit": true}])))], without_x);
    check(&[own(60, 0, 0, selective(json!([{"seq": 3, "id": "x", "omit": true}])))], without_x);
}

#[test]
fn ignores_entry_whose_number_and_id_disagree() {
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
fn entry_without_policy_for_its_half_shadows_nothing() {
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
fn hint_overrides_its_half_and_inherits_the_other() {
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
fn hint_in_jp_compaction_is_kept_but_not_applied() {
    let stream =
        calls().raw(jp(60, 0, 1, hinted(true, false, json!({"read": {"request": "keep"}})))).stream();
    assert_eq!(shown(&stream), ">x{} >y{} <x:X <y!:Y >z{} | <z:Z");
    assert_eq!(stream.overlays()[0].not_applied, ["tool_overrides"]);
    assert!(stream.overlays()[0].applied_by_jp);
}

#[test]
fn newest_policy_wins_per_half() {
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
fn newer_list_restores_omitted_call_only_with_both_halves() {
    let one = json!({"seq": 1, "id": "x", "request": "strip"});
    let both = json!([one, {"seq": 3, "id": "x", "response": "strip"}]);
    check(&[jp(60, 0, 0, omit()), own(61, 0, 0, selective(json!([one])))], "");
    check(&[jp(60, 0, 0, omit()), own(61, 0, 0, selective(both))], ">x{} <x:[compacted] read: success");
}

#[test]
fn newer_jp_omit_wins_over_list() {
    check(
        &[own(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "request": "strip"}]))), jp(61, 0, 1, omit())],
        "",
    );
}

#[test]
fn newer_list_wins_and_later_list_wins_ties() {
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
fn older_omission_of_one_half_applies_to_the_pair() {
    let gone = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    let answer = selective(json!([{"seq": 3, "id": "x", "response": "strip"}]));
    check(&[own(60, 0, 0, gone), own(61, 0, 0, answer)], ">y{y} <y!:Y >z{z} | <z:Z");
}

#[test]
fn jp_policies_may_split_pairs_but_ours_may_not() {
    check(&[jp(60, 0, 0, omit())], "| <z:Z");
    let answer = selective(json!([{"seq": 7, "id": "z", "response": "strip"}]));
    check(&[jp(60, 0, 0, omit()), own(61, 1, 1, answer)], "");
}

#[test]
fn own_overlay_without_effect_keeps_jp_rule() {
    let list = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    check(&[jp(60, 0, 0, omit()), own(61, 1, 0, list.clone())], "| <z:Z");
    check(&[jp(60, 0, 0, omit()), own(61, 7, 9, list.clone())], "| <z:Z");
    check(&[own(61, 1, 0, list)], WHOLE);
}

#[test]
fn hint_uses_tool_of_its_call_despite_reused_id() {
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
fn summary_wins_over_both_grammars() {
    let list = selective(json!([{"seq": 5, "id": "z", "request": "strip"}]));
    check(
        &[jp(60, 0, 0, json!({"summary": {"summary": "S"}})), own(61, 0, 0, list)],
        "?[Summary of previous conversation] =S | <z:Z",
    );
}

#[test]
fn receipt_is_neither_overlay_nor_event() {
    let stream = calls().raw(receipt(60, 0, 9)).stream();
    assert_eq!(shown(&stream), WHOLE);
    assert!(stream.overlays().is_empty());
    assert_eq!(stream.after_last_overlay(), 0.into());
    assert_eq!(stream.numbered().count(), 8);
}

#[test]
fn bound_last_counts_both_grammars() {
    let stream = calls().raw(jp(60, 0, 0, omit())).raw(own(61, 0, 1, selective(json!([])))).stream();
    assert_eq!(stream.after_last_overlay(), 2.into());
    assert_eq!(
        stream.overlays().iter().map(|overlay| overlay.applied_by_jp).collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn lists_members_of_later_drafts_once() {
    let policies = json!({
        "over": 5, "source": "auto", "summary": {"summary": "s", "source": {}},
        "reasoning": {"policy": "strip", "over": 1}, "tool_calls": {"policy": "omit", "over": 1, "tool_overrides": {}},
    });
    let stream = calls().raw(jp(60, 1, 1, policies)).stream();
    assert_eq!(stream.overlays()[0].not_applied, ["over", "source", "tool_overrides"]);
    assert_eq!(stream.overlays()[0].kinds(), ["summary", "reasoning", "tool_calls"]);
}

/// Checks the error, which must name the overlay's element and its first byte.
#[track_caller]
fn malformed(overlay: Value, expected: &str) {
    let build = calls().raw(overlay);
    let bytes = build.bytes();
    let error = Stream::parse(bytes.clone()).unwrap_err();
    assert_eq!(error.element, Some(8));
    assert_eq!(bytes[error.at], b'{', "{error}");
    assert!(error.what.starts_with(expected), "{error}");
    // A reset needs only an index.
    let index = jp_compact_core::index::index(bytes).unwrap();
    assert_eq!(index.overlays(), 1);
    let made = jp_compact_core::source::reset(&index, jp_compact_core::source::Reset::One(1)).unwrap();
    assert_eq!(made.overlays, 1);
    assert_eq!(jp_compact_core::splice::concat(&made.pieces, &build.bytes()), calls().bytes());
}

#[test]
fn malformed_overlay_is_an_error_and_can_be_reset() {
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
        "a malformed `compaction`: `tool_calls`: a `compaction` does not support the policy `selective`",
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
