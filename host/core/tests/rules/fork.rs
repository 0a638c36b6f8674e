//! Forks: the copied events, and the effect on each overlay.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::fork::ForkEffect::{self, Clipped, Kept, Removed, SummaryDropped};
use jp_compact_core::fork::fork;
use jp_compact_core::projection::project;
use jp_compact_core::splice::concat;
use jp_compact_core::view::ItemOrigin;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::build::{Build, compaction, format_projection, own_overlay, receipt};
use crate::properties::transcript;

/// Forks a stream. Returns the copy, and the effect on each overlay.
fn forked(bytes: &Bytes, last: usize) -> (Stream, Vec<ForkEffect>) {
    let stream = Stream::parse(bytes.clone()).unwrap();
    let fork = fork(&stream, Some(last));
    (Stream::parse(concat(&fork.pieces, bytes).into()).unwrap(), fork.effects)
}

fn elements(stream: &Stream) -> Vec<Value> {
    serde_json::from_slice(stream.bytes()).unwrap()
}

/// Checks the effect on an overlay in a stream of five turns, of which the first two are removed.
#[track_caller]
fn check(overlay: Value, effect: ForkEffect, expected: Option<Value>) {
    let (stream, effects) = forked(&Build::turns(5).element(overlay).bytes(), 3);
    assert_eq!(effects, [effect]);
    assert_eq!(elements(&stream).get(18).cloned(), expected);
}

fn summary() -> Value {
    json!({"summary": {"summary": "S"}})
}

fn strip() -> Value {
    json!({"reasoning": "strip"})
}

#[test]
fn renumbers_overlay_of_remaining_turns() {
    check(compaction(90, 2, 4, strip()), Kept, Some(compaction(90, 0, 2, strip())));
    check(compaction(90, 3, 3, summary()), Kept, Some(compaction(90, 1, 1, summary())));
    check(compaction(90, 2, 99, summary()), Kept, Some(compaction(90, 0, 97, summary())));
}

#[test]
fn removes_overlay_of_removed_turns() {
    check(compaction(90, 0, 1, strip()), Removed, None);
    check(compaction(90, 1, 1, summary()), Removed, None);
}

#[test]
fn clips_policy_at_the_cut() {
    check(compaction(90, 0, 3, strip()), Clipped, Some(compaction(90, 0, 1, strip())));
    let omit = json!({"tool_calls": {"policy": "omit"}});
    check(compaction(90, 1, 2, omit.clone()), Clipped, Some(compaction(90, 0, 0, omit)));
}

#[test]
fn drops_summary_at_the_cut() {
    check(compaction(90, 0, 2, summary()), SummaryDropped, None);
    check(compaction(90, 1, 4, summary()), SummaryDropped, None);
}

#[test]
fn keeps_other_policies_of_dropped_summary() {
    let both = json!({"summary": {"summary": "S"}, "reasoning": "strip"});
    check(compaction(90, 0, 3, both), SummaryDropped, Some(compaction(90, 0, 1, strip())));
}

#[test]
fn overlay_without_effect_has_no_effect_in_the_fork() {
    check(compaction(90, 4, 3, strip()), Kept, Some(compaction(90, 2, 1, strip())));
    check(compaction(90, 9, 9, summary()), Kept, Some(compaction(90, 7, 7, summary())));
}

#[test]
fn removes_listed_calls_before_the_cut_and_renumbers_the_others() {
    let selective = |calls: Value| json!({"tool_calls": {"policy": "selective", "calls": calls}});
    let calls = json!([
        {"seq": 3, "id": "c0", "request": "strip"},
        {"seq": 15, "id": "c2", "request": "strip"},
        {"seq": 22, "id": "c3", "response": {"replace": "short"}},
    ]);
    let remaining = json!([
        {"seq": 3, "id": "c2", "request": "strip"},
        {"seq": 10, "id": "c3", "response": {"replace": "short"}},
    ]);
    check(
        own_overlay(90, 0, 3, selective(calls)),
        Clipped,
        Some(own_overlay(90, 0, 1, selective(remaining))),
    );
    check(own_overlay(90, 0, 3, selective(json!([{"seq": 3, "id": "c0", "omit": true}]))), Removed, None);
}

#[test]
fn renumbers_positions_of_listed_halves() {
    let selective = |calls: Value| json!({"tool_calls": {"policy": "selective", "calls": calls}});
    let half = |nth: usize, of: usize| json!({"kind": "request", "nth": nth, "of": of, "tool": "read"});
    let calls = |seq: u64, half: Value| json!([{"seq": seq, "id": "c", "half": half, "request": "strip"}]);
    let add_turn = |build: Build| build.turn().ask("a").call("c", "read").answer("c", "x").say("b");
    let build = (0..3).fold(Build::default(), |build, _| add_turn(build));
    // The number has no effect. The entry matches the third call.
    let bytes = build.element(own_overlay(90, 0, 2, selective(calls(99, half(2, 3))))).bytes();
    let (stream, effects) = forked(&bytes, 2);
    assert_eq!(effects, [Clipped]);
    let stored = elements(&stream).pop().unwrap();
    assert_eq!(stored["tool_calls"]["calls"], calls(7, half(1, 2)));
    assert_eq!(format_projection(&stream), "?a >c{c} <c:x =b | ?a >c{} <c:x =b");
}

#[test]
fn listed_response_without_its_request_keeps_its_policy() {
    let build = Build::default().turn().ask("a").call("c", "read").turn().answer("c", "long").say("b");
    let check = |seq: u64, kind: &str, policy: (&str, Value), view: &str| {
        let stored = |to: usize, seq: u64, half: Value| {
            let mut call = json!({"seq": seq, "id": "c", "half": half});
            call[policy.0] = policy.1.clone();
            own_overlay(90, 0, to, json!({"tool_calls": {"policy": "selective", "calls": [call]}}))
        };
        let with_tool = json!({"kind": kind, "nth": 0, "of": 1, "tool": "read"});
        let (stream, effects) = forked(&build.clone().element(stored(1, seq, with_tool)).bytes(), 1);
        assert_eq!(effects, [Clipped]);
        let without_tool = json!({"kind": "response", "nth": 0, "of": 1});
        assert_eq!(elements(&stream).pop(), Some(stored(0, 1, without_tool)));
        assert_eq!(format_projection(&stream), view);
    };
    check(4, "response", ("response", json!({"replace": "short"})), "<c:short =b");
    check(4, "response", ("omit", json!(true)), "=b");
    check(2, "request", ("omit", json!(true)), "=b");
}

#[test]
fn omitted_call_is_removed_if_its_response_is_outside_of_the_range() {
    let build = Build::default().turn().ask("a").call("c", "read").turn().ask("b").turn().answer("c", "x");
    let half = json!({"kind": "request", "nth": 0, "of": 1, "tool": "read"});
    let with_half = json!({"seq": 2, "id": "c", "half": half, "omit": true});
    for call in [with_half, json!({"seq": 2, "id": "c", "omit": true})] {
        let policy = json!({"tool_calls": {"policy": "selective", "calls": [call]}});
        let (stream, effects) = forked(&build.clone().element(own_overlay(90, 0, 1, policy)).bytes(), 2);
        assert_eq!(effects, [Removed]);
        assert_eq!(stream.overlays().len(), 0);
    }
}

#[test]
fn keeps_listed_calls_of_overlay_without_effect() {
    let half = json!({"kind": "request", "nth": 0, "of": 1, "tool": "read"});
    let stored = |turn: usize, seq: u64, half: Option<&Value>| {
        let mut call = json!({"seq": seq, "id": "c3", "request": "strip"});
        call.as_object_mut().unwrap().extend(half.map(|half| ("half".to_owned(), half.clone())));
        let policy = json!({"policy": "selective", "calls": [call]});
        own_overlay(90, turn, turn, json!({"over": 5, "tool_calls": policy}))
    };
    // An entry of version 0.1.0 has no `half`.
    for half in [Some(&half), None] {
        check(stored(3, 21, half), Kept, Some(stored(1, 9, half)));
    }
}

#[test]
fn unknown_events_are_removed_and_numbered_like_others() {
    let omit = |seq: u64| json!({"tool_calls": {"policy": "selective", "calls": [{"seq": seq, "id": "c", "omit": true}]}});
    let build = Build::default().unknown().turn().ask("a").unknown().turn().ask("b").unknown();
    let bytes = build
        .call("c", "read")
        .answer("c", "body")
        .say("done")
        .element(own_overlay(90, 1, 1, omit(7)))
        .bytes();
    let (stream, effects) = forked(&bytes, 1);
    assert_eq!(effects, [Kept]);
    assert_eq!(format_projection(&stream), "?b =done", "the call is omitted");
    let bookmarks = elements(&stream).iter().filter(|element| element["type"] == "bookmark").count();
    assert_eq!(bookmarks, 1);
}

#[test]
fn keeps_config_deltas_before_the_cut() {
    let bytes = Build::default()
        .config_delta()
        .turn()
        .ask("a")
        .config_delta()
        .say("b")
        .turn()
        .ask("c")
        .config_delta()
        .bytes();
    let (stream, _) = forked(&bytes, 1);
    let kinds: Vec<_> = elements(&stream).iter().map(|element| element["type"].clone()).collect();
    assert_eq!(kinds, ["config_delta", "config_delta", "turn_start", "chat_request", "config_delta"]);
    assert_eq!(stream.turns(), 1);
}

#[test]
fn receipt_is_copied_with_its_overlay() {
    let build = Build::turns(4).element(compaction(90, 0, 3, strip())).element(receipt(90, 0, 3));
    let build =
        build.element(compaction(91, 0, 0, summary())).element(receipt(91, 0, 0)).element(receipt(92, 0, 3));
    let (stream, effects) = forked(&build.bytes(), 2);
    assert_eq!(effects, [Clipped, Removed]);
    assert_eq!(elements(&stream)[12..], [compaction(90, 0, 1, strip()), receipt(90, 0, 1)]);
}

#[test]
fn receipt_loses_merges_with_the_summary() {
    let with = |mut receipt: Value, members: &[(&str, Value)]| {
        members.iter().for_each(|(name, value)| receipt[*name] = value.clone());
        receipt
    };
    let both = json!({"summary": {"summary": "S"}, "reasoning": "strip"});
    for kinds in [vec![], vec![("kinds", json!(["reasoning"]))]] {
        let stored = [vec![("merges", json!(2))], kinds.clone()].concat();
        let build = Build::turns(4).element(compaction(90, 0, 3, both.clone()));
        let (stream, effects) = forked(&build.element(with(receipt(90, 0, 3), &stored)).bytes(), 2);
        assert_eq!(effects, [SummaryDropped]);
        assert_eq!(elements(&stream).last(), Some(&with(receipt(90, 0, 1), &kinds)));
    }
}

#[test]
fn changes_only_numbers_in_overlays() {
    let turn = r#"{"type":"turn_start","timestamp":"2026-01-01 00:00:00"}"#;
    let before = r#"{ "summary" : {"summary":"S"},"to_turn":1 ,"type":"compaction","x" : 1e0,"timestamp":"2027-01-01 00:00:00","reasoning":"strip", "from_turn":0}"#;
    let after = r#"{ "to_turn":0 ,"type":"compaction","x" : 1e0,"timestamp":"2027-01-01 00:00:00","reasoning":"strip", "from_turn":0}"#;
    let (stream, effects) = forked(&format!("[{turn},{turn},{before}]\n").into(), 1);
    assert_eq!(effects, [SummaryDropped]);
    assert_eq!(stream.bytes(), &format!("[{turn},{after}]\n"));
}

#[test]
fn keeping_all_turns_keeps_all_bytes() {
    let bytes = Build::turns(3).element(compaction(90, 0, 1, summary())).element(receipt(80, 0, 3)).bytes();
    for last in [3, 4, usize::MAX] {
        let (stream, effects) = forked(&bytes, last);
        assert_eq!((stream.bytes(), &effects[..]), (&bytes, &[Kept][..]));
    }
}

/// Returns the events that providers receive for the turns from `first` on, with or without tool events. Each has the
/// range of its turns, counted from `first`.
fn provider_events(
    stream: &Stream,
    first: usize,
    with_tools: bool,
) -> Vec<(usize, usize, Map<String, Value>)> {
    let view = project(stream);
    let events = view.events(stream).filter(|event| event.origin.turn() >= first);
    let events = events.filter(|event| {
        with_tools || !event.event["type"].as_str().is_some_and(|kind| kind.starts_with("tool_call"))
    });
    events
        .map(|event| {
            let (from, to) = match event.origin {
                ItemOrigin::Kept(turn) => (turn, turn),
                ItemOrigin::Summary { from, to, .. } => (from, to),
            };
            (from - first, to - first, event.event)
        })
        .collect()
}

/// Returns the ids of the tool calls in some turns.
fn ids(stream: &Stream, turns: std::ops::Range<usize>) -> Vec<String> {
    let events = stream.events().iter().filter(|event| event.kind.is_tool() && turns.contains(&event.turn));
    events.map(|event| stream.text(event.id).into_owned()).collect()
}

proptest! {
    #[test]
    fn remaining_turns_project_as_before_except_cut_summaries(bytes in transcript(), last in 1..8usize) {
        let stream = Stream::parse(bytes.clone()).unwrap();
        let (forked, effects) = forked(&bytes, last);
        let first = stream.turns().saturating_sub(last);
        prop_assert_eq!(forked.turns(), stream.turns().min(last));
        prop_assert_eq!(effects.len(), stream.overlays().len());
        // JP finds a tool name by the last call with an id, and a fork may separate a call from its response.
        let removed_ids = ids(&stream, 0..first);
        let with_tools = !ids(&stream, first..stream.turns()).iter().any(|id| removed_ids.contains(id));
        if !effects.contains(&SummaryDropped) {
            prop_assert_eq!(provider_events(&forked, 0, with_tools), provider_events(&stream, first, with_tools));
        }
    }

    #[test]
    fn remaining_events_keep_their_bytes(bytes in transcript(), last in 1..8usize) {
        let stream = Stream::parse(bytes.clone()).unwrap();
        let (forked, _) = forked(&bytes, last);
        let raw_events = |stream: &Stream| -> Vec<Vec<u8>> { stream.raw_input().map(<[u8]>::to_vec).collect() };
        prop_assert!(raw_events(&stream).ends_with(&raw_events(&forked)));
    }
}
