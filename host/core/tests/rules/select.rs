//! The selection of turns to compact, and its notes to the user.

use jp_compact_core::bound::Bound;
use jp_compact_core::overlap::Overlap;
use jp_compact_core::select::{
    Keep, KeepLast, Selected, Selection, StrategyTraits, select, select_for_summary,
};
use jp_compact_core::{Survey, TurnRange};
use serde_json::json;

use crate::build::{Build, compaction, timestamp};

fn selection(from: &str, to: &str) -> Selection {
    let bound = |text: &str| (!text.is_empty()).then(|| text.parse::<Bound>().unwrap());
    Selection { from: bound(from), to: bound(to), ..Selection::default() }
}

/// Formats a range and its notes, or the reason why there is nothing to compact.
fn describe(selected: Result<Selected, jp_compact_core::select::NothingToCompact>) -> String {
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
    assert_eq!(describe(select(&Survey::new(&stream), selection(from, to), timestamp(0))), expected);
}

#[test]
fn keeps_last_three_turns_by_default() {
    check(&Build::turns(10), "", "", "turns 0-6");
    check(&Build::turns(10), "4", "", "turns 4-6");
    check(&Build::turns(10), "", "9", "turns 0-9");
    check(&Build::turns(10), "", "-0", "turns 0-9");
    check(&Build::turns(10), "-4", "-1", "turns 5-8");
    check(&Build::turns(4), "", "", "turn 0");
}

#[test]
fn reports_why_there_is_nothing_to_compact() {
    check(&Build::default(), "", "", "nothing to compact: the conversation has no turns");
    let hint = "use `--keep-last 0` to compact them too, or `--keep-steps N` to keep only the newest steps";
    let kept = "nothing to compact: the defaults keep the last 3 turns, and";
    let check_kept =
        |turns, from, rest| check(&Build::turns(turns), from, "", &format!("{kept} {rest}; {hint}"));
    check_kept(3, "", "the conversation has 3 turns and 6 steps");
    check_kept(1, "", "the conversation has 1 turn and 2 steps");
    // The user's bound alone would select turns 2 and 3. The default keeps both.
    check_kept(4, "2", "the bounds select nothing else");
    check(
        &Build::turns(4),
        "3",
        "2",
        "nothing to compact: the bounds select no turns; turns are numbered 0 to 3",
    );
    check(
        &Build::turns(4),
        "9",
        "",
        "nothing to compact: the bounds select no turns; turns are numbered 0 to 3",
    );
}

/// Checks the reason why nothing of five turns is compacted. `first` is the number of first turns that are kept by
/// default.
#[track_caller]
fn check_kept(first: usize, bounds: (&str, &str), keep_last: KeepLast, expected: &str) {
    let keep = Keep { first, ..Keep::DEFAULT };
    let selection = Selection { keep_last, keep, ..selection(bounds.0, bounds.1) };
    let stream = Build::turns(5).stream();
    let actual = describe(select(&Survey::new(&stream), selection, timestamp(0)));
    assert_eq!(actual, format!("nothing to compact: {expected}"));
}

#[test]
fn reports_only_the_rules_that_keep_the_turns() {
    let (none, total) = (KeepLast::default(), "and the conversation has 5 turns and 10 steps");
    let (first, both) = ("; use `--keep-first 0`", "; use `--keep-first 0` and `--keep-last 0`");
    check_kept(
        10,
        ("", ""),
        none,
        &format!(
            "the defaults keep the first 10 turns and the last 3 turns, {total}{both} to compact them too"
        ),
    );
    check_kept(
        10,
        ("", ""),
        KeepLast::turns(0),
        &format!("the defaults keep the first 10 turns, {total}{first} to compact them too"),
    );
    check_kept(
        4,
        ("", "2"),
        none,
        &format!(
            "the defaults keep the first 4 turns, and the bounds select nothing else{first} to compact them too"
        ),
    );
    check_kept(
        4,
        ("", ""),
        KeepLast { steps: Some(1), ..KeepLast::turns(1) },
        &format!(
            "the given rules keep the last turn and the last step, the defaults keep the first 4 turns, \
             {total}{first} to compact them too"
        ),
    );
    let one_turn = "the given rules keep the last turn, and the bounds select nothing else";
    check_kept(4, ("4", ""), KeepLast::turns(1), one_turn);
    let all = format!("the given rules keep the last 10 turns, {total}");
    check_kept(2, ("", ""), KeepLast::turns(10), &all);
    // `--keep-first 0` is the bound 0.
    check_kept(2, ("0", ""), KeepLast::turns(10), &all);
}

#[test]
fn skips_open_turn_in_any_range() {
    let open = Build::turns(2).turn().ask("").call("w", "t");
    check(&open, "", "-0", "turns 0-1\nturn 2 is skipped: one of its tool calls has no response yet");
    check(&open, "", "-1", "turns 0-1");
    check(
        &open,
        "2",
        "2",
        "nothing to compact: turn 2 is skipped: one of its tool calls has no response yet",
    );
    check(
        &Build::default().call("w", "t"),
        "",
        "-0",
        "nothing to compact: turn 0 is skipped: one of its tool calls has no response yet",
    );
    // Without an unanswered call, only a summary skips the open turn.
    check(&Build::turns(2).turn().ask(""), "", "-0", "turns 0-2");
}

#[test]
fn shrinks_range_that_would_split_a_call() {
    let build = Build::turns(2).turn().call("w", "t").turn().answer("w", "").say("");
    check(&build, "", "2", "turns 0-1\nreduced turns 0-2 to turns 0-1, to avoid splitting a tool call");
    check(&build, "1", "2", "turn 1\nreduced turns 1-2 to turn 1, to avoid splitting a tool call");
    check(&build, "2", "2", "nothing to compact: turn 2 splits tool calls, and nothing is left without them");
    check(&build, "", "3", "turns 0-3");
}

#[track_caller]
fn check_summary(build: &Build, from: &str, to: &str, accepted: &[(usize, usize)], expected: [&str; 2]) {
    let stream = build.stream();
    let survey = Survey::new(&stream);
    let accepted: Vec<_> = accepted.iter().map(|(from, to)| TurnRange::new(*from, *to).unwrap()).collect();
    let selected = select(&survey, selection(from, to), timestamp(0)).unwrap();
    for (overlap, expected) in [Overlap::Partial, Overlap::Union].into_iter().zip(expected) {
        assert_eq!(
            describe(select_for_summary(&survey, &selected, StrategyTraits::default(), &accepted, overlap)),
            expected,
            "{overlap:?}"
        );
    }
}

fn summary(from: usize, to: usize) -> serde_json::Value {
    compaction(60, from, to, json!({"summary": {"summary": "S"}}))
}

#[test]
fn extends_summary_over_older_ones() {
    let build = Build::turns(10).element(summary(0, 4));
    check_summary(&build, "5", "6", &[], ["turns 5-6"; 2]);
    let extended = "turns 0-6\nextended turns 3-6 to turns 0-6, to include older summaries completely";
    check_summary(&build, "3", "6", &[], [extended; 2]);
    check_summary(
        &build,
        "1",
        "2",
        &[],
        [
            "turns 1-2\nthe summary of turns 1-2 is inside the summary of turns 0-4: the view shows the \
             older summary for the rest of its range; `--overlap union` writes one summary for both",
            "turns 0-4\nextended turns 1-2 to turns 0-4, to include older summaries completely",
        ],
    );
    check_summary(&build, "0", "4", &[], ["turns 0-4"; 2]);
}

#[test]
fn keeps_notes_of_the_selection_for_summaries() {
    let open = Build::turns(2).turn().ask("").call("w", "t");
    let expected = "turns 0-1\nturn 2 is skipped: one of its tool calls has no response yet";
    check_summary(&open, "", "-0", &[], [expected; 2]);
}

#[test]
fn extends_over_summaries_of_the_same_run() {
    let extended = "turns 2-6\nextended turns 4-6 to turns 2-6, to include older summaries completely";
    check_summary(&Build::turns(10), "4", "6", &[(2, 5)], [extended; 2]);
}

#[test]
fn clamps_older_summary_to_end_of_stream() {
    let build = Build::turns(6).element(summary(3, usize::MAX));
    let extended = "turns 1-5\nextended turns 1-4 to turns 1-5, to include older summaries completely";
    check_summary(&build, "1", "4", &[], [extended; 2]);
    check_summary(
        &build,
        "3",
        "4",
        &[],
        [
            "turns 3-4\nthe summary of turns 3-4 is inside the summary of turns 3-5: the view shows the \
             older summary for the rest of its range; `--overlap union` writes one summary for both",
            "turns 3-5\nextended turns 3-4 to turns 3-5, to include older summaries completely",
        ],
    );
    check_summary(&Build::turns(6).element(summary(6, 9)), "0", "5", &[], ["turns 0-5"; 2]);
}

#[test]
fn extension_never_includes_open_turn() {
    let build = Build::turns(4).turn().ask("unanswered").element(summary(2, 4));
    let extended = "turns 1-3\nextended turns 1-2 to turns 1-3, to include older summaries completely";
    check_summary(&build, "1", "2", &[], [extended; 2]);
    let note = "turn 4 is skipped: it does not end with an assistant message";
    check_summary(&Build::turns(4).turn().ask(""), "1", "4", &[], [&format!("turns 1-3\n{note}"); 2]);
}

#[test]
fn rejects_extension_that_would_split_a_call() {
    let build = Build::turns(4).turn().call("w", "t").turn().answer("w", "").say("").element(summary(2, 4));
    let expected = "nothing to compact: turns 1-2, extended over summaries to turns 1-4, would split a call or \
                    an open turn";
    check_summary(&build, "1", "2", &[], [expected; 2]);
}
