//! The overlays whose policies the view shows in a range.

use jp_compact_core::projection::shown_in_range;
use jp_compact_core::{Pairs, Position, Stream, TurnRange};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::json;

use crate::build::{Build, compaction, own_overlay, step_overlay};

/// Checks the kinds that each overlay shows in a range: `s`, `r`, `t`, and the listed events.
#[track_caller]
fn check(stream: &Stream, range: (&str, &str), expected: &[&str]) {
    let [from, to] = [range.0, range.1].map(|position| position.parse::<Position>().unwrap());
    let shown = shown_in_range(stream, &Pairs::new(stream), TurnRange::between(from, to).unwrap());
    let kinds = [(Summary, "s"), (Reasoning, "r"), (ToolCalls, "t")];
    let found: Vec<String> = (shown.overlays.iter())
        .map(|overlay| {
            let names = kinds.iter().filter(|(kind, _)| overlay.shows(*kind)).map(|(_, name)| *name);
            names.collect::<String>() + &overlay.seqs.iter().map(|seq| format!(" {seq}")).collect::<String>()
        })
        .collect();
    assert_eq!(found, expected, "{range:?}");
}

#[test]
fn newest_overlay_of_each_kind_is_shown() {
    let stream = Build::turns(3)
        .element(compaction(60, 0, 2, json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}})))
        .element(compaction(
            61,
            0,
            1,
            json!({"tool_calls": {"policy": "strip", "request": true, "response": true}}),
        ))
        .stream();
    check(&stream, ("0", "2"), &["rt", "t"]);
    check(&stream, ("0", "1"), &["r", "t"]);
    check(&stream, ("2", "2"), &["rt", ""]);
}

#[test]
fn newest_time_wins_regardless_of_position() {
    let strip = json!({"reasoning": "strip"});
    let stream = Build::turns(1)
        .element(compaction(70, 0, 0, strip.clone()))
        .element(compaction(61, 0, 0, strip.clone()))
        .element(compaction(61, 0, 0, strip))
        .stream();
    check(&stream, ("0", "0"), &["r", "", ""]);
}

#[test]
fn kinds_without_an_event_are_not_shown() {
    let policies = json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}});
    let stream = Build::default().turn().ask("a").say("b").element(compaction(60, 0, 0, policies)).stream();
    check(&stream, ("0", "0"), &[""]);
}

#[test]
fn under_a_summary_only_the_summary_is_shown() {
    let stream = Build::turns(2)
        .element(compaction(60, 0, 0, json!({"summary": {"summary": "S"}})))
        .element(compaction(61, 0, 1, json!({"reasoning": "strip"})))
        .stream();
    check(&stream, ("0", "0"), &["s", ""]);
    check(&stream, ("0", "1"), &["s", "r"]);
    let is_summarized = |from, to| {
        shown_in_range(&stream, &Pairs::new(&stream), TurnRange::new(from, to).unwrap()).is_summarized
    };
    assert!(is_summarized(0, 0) && !is_summarized(0, 1) && !is_summarized(1, 1));
}

#[test]
fn a_list_of_calls_is_shown_with_its_events() {
    let calls =
        json!([{"seq": 3, "id": "c0", "request": "strip"}, {"seq": 10, "id": "c1", "response": "strip"}]);
    let list = own_overlay(60, 0, 1, json!({"tool_calls": {"policy": "selective", "calls": calls}}));
    let omit = compaction(61, 1, 1, json!({"tool_calls": {"policy": "omit"}}));
    let stream = Build::turns(2).element(list.clone()).stream();
    check(&stream, ("0", "1"), &["t 3 10"]);
    check(&stream, ("1", "1"), &["t 10"]);
    check(&Build::turns(2).element(list).element(omit).stream(), ("0", "1"), &["t 3", "t"]);
}

#[test]
fn steps_are_distinguished() {
    let stream = Build::default()
        .turn()
        .ask("a")
        .call("x", "t")
        .answer("x", "1")
        .call("y", "t")
        .answer("y", "2")
        .say("b")
        .element(step_overlay(60, "0.0", "0.0", json!({"tool_calls": {"policy": "omit"}})))
        .stream();
    check(&stream, ("0.0", "0.0"), &["t"]);
    check(&stream, ("0.1", "0.1"), &[""]);
}
