//! From what a user wants to the turns that are compacted, and what is said of it.

use jp_compact_core::bound::Bound;
use jp_compact_core::overlap::Overlap;
use jp_compact_core::select::{Selected, Wanted, select, select_for_summary};
use jp_compact_core::{Survey, TurnRange};
use serde_json::json;

use crate::build::{Build, jp, when};

fn wanted(from: &str, to: &str) -> Wanted {
    let bound = |text: &str| (!text.is_empty()).then(|| text.parse::<Bound>().unwrap());
    Wanted { from: bound(from), to: bound(to), ..Wanted::default() }
}

/// A range and its notes, or why there is nothing.
fn told(selected: Result<Selected, jp_compact_core::select::Nothing>) -> String {
    match selected {
        Ok(selected) => {
            let notes: Vec<_> = selected.notes.iter().map(ToString::to_string).collect();
            [vec![selected.range.to_string()], notes].concat().join("\n")
        }
        Err(nothing) => nothing.to_string(),
    }
}

#[track_caller]
fn check(build: &Build, from: &str, to: &str, expected: &str) {
    let stream = build.stream();
    assert_eq!(told(select(&Survey::of(&stream), wanted(from, to), when(0))), expected);
}

#[test]
fn the_last_three_turns_are_kept_unless_a_bound_says_otherwise() {
    check(&Build::turns(10), "", "", "turns 0-6");
    check(&Build::turns(10), "4", "", "turns 4-6");
    check(&Build::turns(10), "", "9", "turns 0-9");
    check(&Build::turns(10), "", "-0", "turns 0-9");
    check(&Build::turns(10), "-4", "-1", "turns 5-8");
    check(&Build::turns(4), "", "", "turn 0");
}

#[test]
fn nothing_to_compact_says_why() {
    check(&Build::default(), "", "", "nothing to compact: the conversation has no turn");
    check(
        &Build::turns(3),
        "",
        "",
        "nothing to compact: the last 3 turns are kept unless a bound says otherwise, and there are 3; `--keep-last \
         0` compacts them too",
    );
    check(
        &Build::turns(1),
        "",
        "",
        "nothing to compact: the last 3 turns are kept unless a bound says otherwise, and there is 1 turn; \
         `--keep-last 0` compacts them too",
    );
    // What the user gave would leave a turn; it is the default that leaves none.
    check(
        &Build::turns(4),
        "2",
        "",
        "nothing to compact: the last 3 turns are kept unless a bound says otherwise, and there are 4; `--keep-last \
         0` compacts them too",
    );
    check(
        &Build::turns(4),
        "3",
        "2",
        "nothing to compact: no turn lies between the bounds, turns are numbered 0 to 3",
    );
    check(
        &Build::turns(4),
        "9",
        "",
        "nothing to compact: no turn lies between the bounds, turns are numbered 0 to 3",
    );
}

#[test]
fn an_open_turn_is_left_out_whatever_the_range_says() {
    let open = Build::turns(2).turn().ask("").call("w", "t");
    check(&open, "", "-0", "turns 0-1\nturn 2 is left out: a tool call in it waits for its answer");
    check(&open, "", "-1", "turns 0-1");
    check(&open, "2", "2", "nothing to compact: turn 2 is left out: a tool call in it waits for its answer");
    check(
        &Build::default().call("w", "t"),
        "",
        "-0",
        "nothing to compact: turn 0 is left out: a tool call in it waits for its answer",
    );
    // Without a waiting call, only a summary leaves it out.
    check(&Build::turns(2).turn().ask(""), "", "-0", "turns 0-2");
}

#[test]
fn a_range_that_would_split_a_call_shrinks() {
    let build = Build::turns(2).turn().call("w", "t").turn().answer("w", "").say("");
    check(&build, "", "2", "turns 0-1\nturns 0-2 would split a tool call, and became turns 0-1");
    check(&build, "1", "2", "turn 1\nturns 1-2 would split a tool call, and became turn 1");
    check(&build, "2", "2", "nothing to compact: every part of turn 2 would split a tool call");
    check(&build, "", "3", "turns 0-3");
}

#[track_caller]
fn check_summary(build: &Build, from: &str, to: &str, accepted: &[(usize, usize)], expected: [&str; 2]) {
    let stream = build.stream();
    let survey = Survey::of(&stream);
    let accepted: Vec<_> = accepted.iter().map(|(from, to)| TurnRange::new(*from, *to).unwrap()).collect();
    let selected = select(&survey, wanted(from, to), when(0)).unwrap();
    for (overlap, expected) in [Overlap::Partial, Overlap::Union].into_iter().zip(expected) {
        assert_eq!(told(select_for_summary(&survey, &selected, &accepted, overlap)), expected, "{overlap:?}");
    }
}

fn summary(from: usize, to: usize) -> serde_json::Value {
    jp(60, from, to, json!({"summary": {"summary": "S"}}))
}

#[test]
fn a_summary_is_closed_over_older_ones() {
    let build = Build::turns(10).raw(summary(0, 4));
    check_summary(&build, "5", "6", &[], ["turns 5-6"; 2]);
    let closed = "turns 0-6\nturns 3-6 became turns 0-6, to be closed over older summaries";
    check_summary(&build, "3", "6", &[], [closed; 2]);
    check_summary(
        &build,
        "1",
        "2",
        &[],
        [
            "turns 1-2\nthe summary of turns 1-2 lies inside that of turns 0-4: the view shows the older one around \
             it; `--overlap union` writes one summary of both",
            "turns 0-4\nturns 1-2 became turns 0-4, to be closed over older summaries",
        ],
    );
    check_summary(&build, "0", "4", &[], ["turns 0-4"; 2]);
}

#[test]
fn what_was_said_of_the_turns_is_said_of_a_summary_too() {
    let open = Build::turns(2).turn().ask("").call("w", "t");
    let left_out = "turns 0-1\nturn 2 is left out: a tool call in it waits for its answer";
    check_summary(&open, "", "-0", &[], [left_out; 2]);
}

#[test]
fn summaries_of_the_same_run_count() {
    let closed = "turns 2-6\nturns 4-6 became turns 2-6, to be closed over older summaries";
    check_summary(&Build::turns(10), "4", "6", &[(2, 5)], [closed; 2]);
}

#[test]
fn an_older_summary_that_ends_behind_the_stream_ends_with_it() {
    let build = Build::turns(6).raw(summary(3, usize::MAX));
    let closed = "turns 1-5\nturns 1-4 became turns 1-5, to be closed over older summaries";
    check_summary(&build, "1", "4", &[], [closed; 2]);
    check_summary(
        &build,
        "3",
        "4",
        &[],
        [
            "turns 3-4\nthe summary of turns 3-4 lies inside that of turns 3-5: the view shows the older one around \
             it; `--overlap union` writes one summary of both",
            "turns 3-5\nturns 3-4 became turns 3-5, to be closed over older summaries",
        ],
    );
    check_summary(&Build::turns(6).raw(summary(6, 9)), "0", "5", &[], ["turns 0-5"; 2]);
}

#[test]
fn closure_never_enters_an_open_turn() {
    let build = Build::turns(4).turn().ask("unanswered").raw(summary(2, 4));
    let closed = "turns 1-3\nturns 1-2 became turns 1-3, to be closed over older summaries";
    check_summary(&build, "1", "2", &[], [closed; 2]);
    let left_out = "turn 4 is left out: it does not end in a message of the assistant";
    check_summary(&Build::turns(4).turn().ask(""), "1", "4", &[], [&format!("turns 1-3\n{left_out}"); 2]);
}

#[test]
fn closure_that_would_split_a_call_leaves_nothing() {
    let build = Build::turns(4).turn().call("w", "t").turn().answer("w", "").say("").raw(summary(2, 4));
    let nothing = "nothing to compact: closed over older summaries, turns 1-2 became turns 1-4, which would split a \
                   tool call";
    check_summary(&build, "1", "2", &[], [nothing; 2]);
}
