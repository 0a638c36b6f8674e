//! The selection of steps: bounds inside turns, rules that keep steps or tokens, the open turn, and strategies that
//! compact whole turns only.

use jp_compact_core::Survey;
use jp_compact_core::bound::Bound;
use jp_compact_core::select::{
    Keep, KeepLast, NothingToCompact, RequestedSelection, Selected, StrategyTraits, resolve,
    select_for_strategy,
};
use serde_json::json;

use crate::build::{Build, step_overlay, timestamp};

/// Returns two short turns, and a third turn. Each of its steps has a call and a response of 400 characters.
fn long_turn(steps: usize) -> Build {
    (0..steps).fold(Build::turns(2).turn().ask("go"), |build, step| {
        let id = format!("x{step}");
        build.call(&id, "read").answer(&id, &"y".repeat(400))
    })
}

fn between(from: &str, to: &str) -> RequestedSelection {
    let bound = |text: &str| (!text.is_empty()).then(|| text.parse::<Bound>().unwrap());
    RequestedSelection { from: bound(from), to: bound(to), keep_last: KeepLast::default() }
}

fn keeping(turns: Option<usize>, steps: Option<usize>, tokens: Option<u64>) -> RequestedSelection {
    RequestedSelection { keep_last: KeepLast { turns, steps, tokens }, ..RequestedSelection::default() }
}

const STEPS: StrategyTraits =
    StrategyTraits { accepts_steps: true, strips_reasoning: false, writes_summary: false };

fn describe_result(selected: Result<Selected, NothingToCompact>) -> String {
    match selected {
        Ok(selected) => {
            let notes: Vec<_> = selected.notes.iter().map(ToString::to_string).collect();
            [vec![selected.range.to_string()], notes].concat().join("\n")
        }
        Err(nothing) => nothing.to_string(),
    }
}

fn selected(build: &Build, selection: RequestedSelection, traits: StrategyTraits) -> String {
    let stream = build.stream();
    let survey = Survey::new(&stream);
    let range = resolve(&survey, selection.with(Keep::DEFAULT), timestamp(0));
    describe_result(range.and_then(|range| select_for_strategy(&survey, range, traits)))
}

#[track_caller]
fn check(build: &Build, selection: RequestedSelection, expected: &str) {
    assert_eq!(selected(build, selection, STEPS), expected);
}

#[test]
fn bounds_can_name_steps() {
    check(&long_turn(5).say("end"), between("", "2.3"), "turns 0-2.3");
    check(&long_turn(5).say("end"), between("2.1", "2.3"), "steps 2.1-2.3");
    check(&long_turn(5).say("end"), between("2.1", "2"), "turns 2.1-2");
    check(&long_turn(5).say("end"), between("2.1", "2.99"), "steps 2.1-2.5");
    check(&long_turn(5).say("end"), between("1.9", "2"), "turn 2");
    let error = "nothing to compact: the bounds select no turns; turns are numbered 0 to 2";
    check(&long_turn(5).say("end"), between("2.9", "2"), error);
    check(&long_turn(5).say("end"), between("2.3", "2.1"), error);
    let compacted = long_turn(5).element(step_overlay(60, "0", "2.2", json!({"reasoning": "strip"})));
    check(&compacted.say("end"), between("last", "2"), "turns 2.3-2");
}

#[test]
fn keep_steps_replaces_the_default_of_three_turns() {
    check(&long_turn(5).say("end"), keeping(None, Some(2), None), "turns 0-2.3");
    check(&long_turn(5).say("end"), keeping(None, Some(6), None), "turns 0-1");
    check(&long_turn(5).say("end"), keeping(None, Some(7), None), "turns 0-1.0");
    check(&long_turn(5).say("end"), keeping(None, Some(0), None), "turns 0-2");
    check(
        &long_turn(5).say("end"),
        keeping(None, Some(10), None),
        "nothing to compact: the given rules keep the last 10 steps, and the conversation has 3 turns and 10 steps",
    );
}

#[test]
fn keep_tokens_keeps_the_newest_steps_that_fit() {
    check(&long_turn(5), keeping(None, None, Some(520)), "turns 0-2.2");
    check(&long_turn(5), keeping(None, None, Some(10)), "turns 0-2");
    check(&long_turn(5), keeping(None, None, Some(0)), "turns 0-2");
    check(
        &long_turn(5),
        keeping(None, None, Some(100_000)),
        "nothing to compact: the given rules keep the last 100000 tokens, and the conversation has 3 turns and 9 steps",
    );
}

#[test]
fn requested_rules_are_combined() {
    check(&long_turn(5), keeping(Some(1), Some(2), None), "turns 0-1");
    check(&long_turn(5), keeping(Some(0), Some(3), Some(520)), "turns 0-2.1");
    let to = RequestedSelection {
        keep_last: KeepLast { steps: Some(4), ..KeepLast::default() },
        ..between("", "2.3")
    };
    check(&long_turn(5), to, "turns 0-2.0");
}

#[test]
fn the_closed_steps_of_an_open_turn_are_selected() {
    let open = long_turn(3).call("w", "read");
    let note = "turn 2 is compacted up to step 2.2: a later tool call has no response yet";
    check(&open, between("", "2"), &format!("turns 0-2.2\n{note}"));
    check(&open, keeping(None, Some(0), None), &format!("turns 0-2.2\n{note}"));
    check(&open, keeping(None, Some(2), None), "turns 0-2.1");
    check(&open, between("2", "2"), &format!("turns 2-2.2\n{note}"));
    check(
        &long_turn(0).call("w", "read"),
        between("2", "2"),
        "nothing to compact: turn 2 is skipped: one of its tool calls has no response yet",
    );
    check(
        &open,
        between("2.3", "2"),
        "nothing to compact: turn 2 is skipped: one of its tool calls has no response yet",
    );
}

#[test]
fn other_strategies_get_whole_turns() {
    let whole_turns = |build: &Build, selection| selected(build, selection, StrategyTraits::default());
    let note = "the strategy compacts whole turns only";
    assert_eq!(
        whole_turns(&long_turn(5).say("end"), keeping(None, Some(2), None)),
        format!("turns 0-1\nreduced turns 0-2.3 to turns 0-1: {note}")
    );
    assert_eq!(
        whole_turns(&long_turn(5).say("end"), between("2.1", "2.3")),
        format!("nothing to compact: {note}, and there are none in steps 2.1-2.3")
    );
    assert_eq!(
        whole_turns(&long_turn(3).call("w", "read"), between("", "2")),
        "turns 0-1\nturn 2 is skipped: one of its tool calls has no response yet"
    );
}

#[test]
fn signed_reasoning_stays_in_an_open_turn() {
    let signed = json!({"timestamp": "2026-04-02 09:10:00", "type": "chat_response", "reasoning": "t",
        "metadata": {"anthropic_thinking_signature": "c2ln"}});
    let strips_reasoning = StrategyTraits { strips_reasoning: true, ..STEPS };
    let open = Build::turns(2)
        .turn()
        .ask("go")
        .element(signed.clone())
        .call("a", "t")
        .answer("a", "x")
        .call("w", "t");
    let note = "turn 2 is skipped: one of its tool calls has no response yet";
    assert_eq!(selected(&open, between("", "2"), strips_reasoning), format!("turns 0-1\n{note}"));
    assert!(selected(&open, between("", "2"), STEPS).starts_with("turns 0-2.0\n"));
    let unsigned = Build::turns(2).turn().ask("go").think("t").call("a", "t").answer("a", "x").call("w", "t");
    assert!(selected(&unsigned, between("", "2"), strips_reasoning).starts_with("turns 0-2.0\n"));
}

#[test]
fn given_rules_replace_the_fallback() {
    let steps = KeepLast { steps: Some(5), ..KeepLast::default() };
    assert_eq!(steps.or(KeepLast::turns(3)), steps);
    assert_eq!(KeepLast::default().or(steps), steps);
    let typed = between("1", "").or(RequestedSelection { keep_last: steps, ..between("0", "9") });
    assert_eq!(typed, RequestedSelection { keep_last: steps, ..between("1", "9") });
    let typed = keeping(None, Some(2), None).or(between("0", "9"));
    assert_eq!(typed, RequestedSelection { ..keeping(None, Some(2), None) }.or(between("0", "")));
}
