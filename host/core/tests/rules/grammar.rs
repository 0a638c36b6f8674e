//! Overlays in our own grammar, in addition to JP's (docs/reference/store.md#our-extensions).

use jp_compact_core::Stream;
use serde_json::{Value, json};

use crate::build::{Build, compaction, format_projection, own_overlay, receipt};

/// Returns three calls in turn 0. The second fails, and the third is answered in turn 1. The events have these numbers:
/// `x` 1 and 3, `y` 2 and 4, `z` 5 and 7.
fn calls() -> Build {
    Build::default()
        .turn()
        .call("x", "read")
        .call("y", "grep")
        .answer("x", "X")
        .answer_error("y", "Y")
        .call("z", "read")
        .turn()
        .answer("z", "Z")
}

#[track_caller]
fn check(overlays: &[Value], expected: &str) {
    assert_eq!(format_projection(&calls().elements(overlays).stream()), expected);
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

/// Returns a strip with hints.
fn hinted(request: bool, response: bool, overrides: Value) -> Value {
    let mut policy = strip(request, response);
    policy["tool_overrides"] = overrides;
    policy
}

const UNCHANGED: &str = ">x{x} >y{y} <x:X <y!:Y >z{z} | <z:Z";

#[test]
fn without_overlays_nothing_changes() {
    check(&[], UNCHANGED);
}

#[test]
fn strips_only_listed_halves() {
    check(
        &[own_overlay(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "request": "strip"}])))],
        ">x{} >y{y} <x:X <y!:Y >z{z} | <z:Z",
    );
    check(
        &[own_overlay(60, 0, 0, selective(json!([{"seq": 4, "id": "y", "response": "strip"}])))],
        ">x{x} >y{y} <x:X <y!:[compacted] grep: error >z{z} | <z:Z",
    );
}

#[test]
fn replaces_listed_response() {
    let text = "[Previous: used grep]";
    check(
        &[own_overlay(60, 0, 0, selective(json!([{"seq": 4, "id": "y", "response": {"replace": text}}])))],
        ">x{x} >y{y} <x:X <y!:[Previous: used grep] >z{z} | <z:Z",
    );
}

#[test]
fn omitting_either_half_omits_the_pair() {
    let without_x = ">y{y} <y!:Y >z{z} | <z:Z";
    check(&[own_overlay(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "omit": true}])))], without_x);
    check(&[own_overlay(60, 0, 0, selective(json!([{"seq": 3, "id": "x", "omit": true}])))], without_x);
}

#[test]
fn ignores_entry_that_matches_no_half_with_a_policy() {
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
        check(&[own_overlay(60, 0, 0, selective(json!([call])))], UNCHANGED);
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
        check(
            &[compaction(60, 0, 0, strip(true, true)), own_overlay(61, 0, 0, selective(json!([call])))],
            stripped,
        );
    }
}

#[test]
fn hint_overrides_its_half_and_inherits_the_other() {
    check(
        &[own_overlay(60, 0, 0, hinted(true, true, json!({"read": {"response": "keep"}})))],
        ">x{} >y{} <x:X <y!:[compacted] grep: error >z{} | <z:Z",
    );
    check(
        &[own_overlay(60, 0, 0, hinted(false, false, json!({"grep": {"request": "strip"}})))],
        ">x{x} >y{} <x:X <y!:Y >z{z} | <z:Z",
    );
    check(&[own_overlay(60, 0, 1, hinted(true, true, json!({"read": {}, "other": {"request": "keep"}})))], {
        ">x{} >y{} <x:[compacted] read: success <y!:[compacted] grep: error >z{} | <z:[compacted] read: success"
    });
}

#[test]
fn hint_in_jp_compaction_is_kept_but_not_applied() {
    let stream = calls()
        .element(compaction(60, 0, 1, hinted(true, false, json!({"read": {"request": "keep"}}))))
        .stream();
    assert_eq!(format_projection(&stream), ">x{} >y{} <x:X <y!:Y >z{} | <z:Z");
    assert_eq!(stream.overlays()[0].not_applied, ["tool_overrides"]);
    assert!(stream.overlays()[0].applied_by_jp);
}

#[test]
fn newest_policy_wins_per_half() {
    let request = selective(json!([{"seq": 1, "id": "x", "request": "strip"}]));
    let response = selective(json!([{"seq": 3, "id": "x", "response": {"replace": "new"}}]));
    check(
        &[compaction(60, 0, 0, strip(false, true)), own_overlay(61, 0, 0, request.clone())],
        ">x{} >y{y} <x:[compacted] read: success <y!:[compacted] grep: error >z{z} | <z:Z",
    );
    check(&[compaction(61, 0, 0, strip(false, false)), own_overlay(60, 0, 0, request.clone())], UNCHANGED);
    check(
        &[own_overlay(60, 0, 0, request), own_overlay(61, 0, 0, response)],
        ">x{} >y{y} <x:new <y!:Y >z{z} | <z:Z",
    );
}

#[test]
fn newer_list_restores_omitted_call_only_with_both_halves() {
    let request = json!({"seq": 1, "id": "x", "request": "strip"});
    let both_halves = json!([request, {"seq": 3, "id": "x", "response": "strip"}]);
    check(&[compaction(60, 0, 0, omit()), own_overlay(61, 0, 0, selective(json!([request])))], "");
    check(
        &[compaction(60, 0, 0, omit()), own_overlay(61, 0, 0, selective(both_halves))],
        ">x{} <x:[compacted] read: success",
    );
}

#[test]
fn newer_jp_omit_wins_over_list() {
    check(
        &[
            own_overlay(60, 0, 0, selective(json!([{"seq": 1, "id": "x", "request": "strip"}]))),
            compaction(61, 0, 1, omit()),
        ],
        "",
    );
}

#[test]
fn newer_list_wins_and_later_list_wins_ties() {
    let replace_with = |text: &str| selective(json!([{"seq": 3, "id": "x", "response": {"replace": text}}]));
    let view_with = |text: &str| format!(">x{{x}} >y{{y}} <x:{text} <y!:Y >z{{z}} | <z:Z");
    check(
        &[own_overlay(61, 0, 0, replace_with("a")), own_overlay(60, 0, 0, replace_with("b"))],
        &view_with("a"),
    );
    check(
        &[own_overlay(60, 0, 0, replace_with("a")), own_overlay(60, 0, 0, replace_with("b"))],
        &view_with("b"),
    );
    let status = "[compacted] read: success <y!:[compacted] grep: error";
    check(
        &[own_overlay(60, 0, 0, replace_with("a")), compaction(60, 0, 0, strip(false, true))],
        &format!(">x{{x}} >y{{y}} <x:{status} >z{{z}} | <z:Z"),
    );
    check(
        &[compaction(60, 0, 0, strip(false, true)), own_overlay(60, 0, 0, replace_with("a"))],
        ">x{x} >y{y} <x:a <y!:[compacted] grep: error >z{z} | <z:Z",
    );
}

#[test]
fn older_omission_of_one_half_applies_to_the_pair() {
    let omit_request = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    let strip_response = selective(json!([{"seq": 3, "id": "x", "response": "strip"}]));
    check(
        &[own_overlay(60, 0, 0, omit_request), own_overlay(61, 0, 0, strip_response)],
        ">y{y} <y!:Y >z{z} | <z:Z",
    );
}

#[test]
fn jp_policies_may_split_pairs_but_ours_may_not() {
    check(&[compaction(60, 0, 0, omit())], "| <z:Z");
    let strip_response = selective(json!([{"seq": 7, "id": "z", "response": "strip"}]));
    check(&[compaction(60, 0, 0, omit()), own_overlay(61, 1, 1, strip_response)], "");
}

#[test]
fn own_overlay_without_effect_keeps_jp_rule() {
    let policy = selective(json!([{"seq": 1, "id": "x", "omit": true}]));
    check(&[compaction(60, 0, 0, omit()), own_overlay(61, 1, 0, policy.clone())], "| <z:Z");
    check(&[compaction(60, 0, 0, omit()), own_overlay(61, 7, 9, policy.clone())], "| <z:Z");
    check(&[own_overlay(61, 1, 0, policy)], UNCHANGED);
}

#[test]
fn hint_uses_tool_of_its_call_despite_reused_id() {
    let stream = Build::default()
        .turn()
        .call("x", "read")
        .answer("x", "1")
        .call("x", "grep")
        .answer("x", "2")
        .element(own_overlay(60, 0, 0, hinted(false, false, json!({"read": {"response": "strip"}}))))
        .stream();
    assert_eq!(format_projection(&stream), ">x{x} <x:[compacted] grep: success >x{x} <x:2");
}

#[test]
fn summary_wins_over_both_grammars() {
    let policy = selective(json!([{"seq": 5, "id": "z", "request": "strip"}]));
    check(
        &[compaction(60, 0, 0, json!({"summary": {"summary": "S"}})), own_overlay(61, 0, 0, policy)],
        "?[Summary of previous conversation] =S | <z:Z",
    );
}

#[test]
fn receipt_is_neither_overlay_nor_event() {
    let stream = calls().element(receipt(60, 0, 9)).stream();
    assert_eq!(format_projection(&stream), UNCHANGED);
    assert!(stream.overlays().is_empty());
    assert_eq!(stream.after_last_overlay(), 0.into());
    assert_eq!(stream.numbered().count(), 8);
}

#[test]
fn bound_last_counts_both_grammars() {
    let stream = calls()
        .element(compaction(60, 0, 0, omit()))
        .element(own_overlay(61, 0, 1, selective(json!([]))))
        .stream();
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
    let stream = calls().element(compaction(60, 1, 1, policies)).stream();
    assert_eq!(stream.overlays()[0].not_applied, ["over", "source", "tool_overrides"]);
    assert_eq!(stream.overlays()[0].policy_names(), ["summary", "reasoning", "tool_calls"]);
}

/// Checks the error, which must name the overlay's element and its first byte.
#[track_caller]
fn check_malformed(overlay: Value, expected: &str) {
    let build = calls().element(overlay);
    let bytes = build.bytes();
    let error = Stream::parse(bytes.clone()).unwrap_err();
    assert_eq!(error.element, Some(8));
    assert_eq!(bytes[error.offset], b'{', "{error}");
    assert!(error.reason.starts_with(expected), "{error}");
    // A reset needs only an index.
    let index = jp_compact_core::index::index(bytes).unwrap();
    assert_eq!(index.overlays(), 1);
    let removal = jp_compact_core::source::reset(&index, jp_compact_core::source::Reset::One(1)).unwrap();
    assert_eq!(removal.overlays, 1);
    assert_eq!(jp_compact_core::splice::concat(&removal.pieces, &build.bytes()), calls().bytes());
}

#[test]
fn malformed_overlay_is_an_error_and_can_be_reset() {
    let jp_overlay = |policies| compaction(60, 0, 0, policies);
    let own_overlay_with = |policies| own_overlay(60, 0, 0, policies);
    let error = "a malformed `compaction`: ";
    check_malformed(jp_overlay(json!({"from_turn": null})), error);
    check_malformed(jp_overlay(json!({"from_turn": -1})), error);
    check_malformed(jp_overlay(json!({"to_turn": 1.0})), error);
    check_malformed(jp_overlay(json!({"to_turn": "1"})), error);
    check_malformed(jp_overlay(json!({"summary": "text"})), error);
    check_malformed(jp_overlay(json!({"summary": {}})), error);
    check_malformed(jp_overlay(json!({"reasoning": "keep"})), "a malformed `compaction`: `reasoning`: ");
    check_malformed(jp_overlay(json!({"tool_calls": "strip"})), "a malformed `compaction`: `tool_calls`: ");
    check_malformed(
        jp_overlay(json!({"tool_calls": {"policy": "strip"}})),
        "a malformed `compaction`: `tool_calls`: ",
    );
    check_malformed(
        jp_overlay(json!({"tool_calls": {"policy": "drop"}})),
        "a malformed `compaction`: `tool_calls`: ",
    );
    check_malformed(
        jp_overlay(selective(json!([]))),
        "a malformed `compaction`: `tool_calls`: a `compaction` does not support the policy `selective`",
    );
    let error = "a malformed `jp_compact_overlay`: `tool_calls`: ";
    check_malformed(own_overlay_with(selective(json!(null))), error);
    check_malformed(own_overlay_with(selective(json!([{"seq": 1}]))), error);
    check_malformed(own_overlay_with(selective(json!([{"id": "x"}]))), error);
    check_malformed(own_overlay_with(selective(json!([{"seq": 1, "id": "x", "drop": true}]))), error);
    check_malformed(own_overlay_with(selective(json!([{"seq": 1, "id": "x", "request": "omit"}]))), error);
    check_malformed(
        own_overlay_with(hinted(true, true, json!({"read": {"request": "drop"}}))),
        "a malformed `jp_compact_overlay`: `tool_overrides`: ",
    );
}
