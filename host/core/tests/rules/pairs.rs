//! The pairing of halves of calls (docs/reference/lint-rules.md, G1 and G3), and its effect on ranges.

use jp_compact_core::open::{OpenReason, open_reason};
use jp_compact_core::{Pairs, TurnRange};

use crate::build::Build;

/// Checks the pairs of elements, as `(request, response)`, in order.
#[track_caller]
fn check(build: &Build, expected: &[(usize, usize)]) {
    let stream = build.stream();
    let pairs = Pairs::new(&stream);
    let actual: Vec<_> = (0..stream.events().len())
        .filter_map(|element| pairs.partner(element).map(|partner| (element, partner)))
        .filter(|(element, partner)| element < partner)
        .collect();
    assert_eq!(actual, expected);
    for (request, response) in actual {
        assert_eq!(pairs.partner(response), Some(request));
    }
}

fn turn() -> Build {
    Build::default().turn()
}

#[test]
fn request_pairs_with_next_response_of_its_id() {
    check(&turn().call("a", "t").call("b", "t").answer("b", "").answer("a", ""), &[(1, 4), (2, 3)]);
    check(&turn().call("a", "t").answer("a", "").call("a", "t").answer("a", ""), &[(1, 2), (3, 4)]);
    check(&turn().call("a", "t").call("a", "t").answer("a", "").answer("a", ""), &[(1, 3), (2, 4)]);
    check(&turn().call("a", "t").turn().answer("a", ""), &[(1, 3)]);
}

#[test]
fn halves_without_partner_stay_unpaired() {
    check(&turn().answer("a", "").call("a", "t"), &[]);
    check(&turn().call("a", "t").answer("a", "").answer("a", ""), &[(1, 2)]);
    check(&turn().call("a", "t").answer("A", ""), &[]);
}

#[test]
fn abandoned_request_takes_no_later_response() {
    let abandoned =
        turn().call("a", "t").turn().call("a", "t").answer("a", "").turn().call("a", "t").answer("a", "");
    check(&abandoned, &[(3, 4), (6, 7)]);
    let stream = abandoned.stream();
    let pairs = Pairs::new(&stream);
    assert_eq!(open_reason(&stream, &pairs, false), None);
    assert_eq!(pairs.split_by(&stream, TurnRange::new(1, 1).unwrap()), None);
}

#[test]
fn ids_compare_unescaped() {
    let stream = jp_compact_core::Stream::parse(
        br#"[{"type":"tool_call_request","timestamp":"2026-01-01 00:00:00","id":"\u0061","name":"t"},
             {"type":"tool_call_response","timestamp":"2026-01-01 00:00:00","id":"a","content":"","is_error":false}]"#
            .as_slice()
            .into(),
    );
    assert_eq!(Pairs::new(&stream.unwrap()).partner(0), Some(1));
}

/// Returns a call from turn 1 to turn 2, and another from turn 3 to turn 5.
fn cross_turn_calls() -> Build {
    turn()
        .ask("")
        .turn()
        .call("a", "t")
        .turn()
        .answer("a", "")
        .turn()
        .call("b", "t")
        .turn()
        .say("")
        .turn()
        .answer("b", "")
}

#[track_caller]
fn check_shrink(from: usize, to: usize, expected: Option<(usize, usize)>) {
    let stream = cross_turn_calls().stream();
    let shrunk = Pairs::new(&stream).shrink(&stream, TurnRange::new(from, to).unwrap());
    assert_eq!(shrunk.map(|range| (range.from(), range.to())), expected);
}

#[test]
fn range_shrinks_until_it_splits_no_call() {
    check_shrink(0, 5, Some((0, 5)));
    check_shrink(1, 2, Some((1, 2)));
    check_shrink(0, 1, Some((0, 0)));
    check_shrink(0, 4, Some((0, 2)));
    check_shrink(2, 5, Some((3, 5)));
    check_shrink(1, 1, None);
    check_shrink(2, 2, None);
    check_shrink(4, 4, Some((4, 4)));
    check_shrink(2, 4, None);
}

#[track_caller]
fn check_open(build: &Build, for_policies: Option<OpenReason>, for_summary: Option<OpenReason>) {
    let stream = build.stream();
    let pairs = Pairs::new(&stream);
    assert_eq!(open_reason(&stream, &pairs, false), for_policies);
    assert_eq!(open_reason(&stream, &pairs, true), for_summary);
}

#[test]
fn last_turn_is_open_while_a_call_is_unanswered() {
    let waiting = Some(OpenReason::ToolCall);
    check_open(&turn().ask("").call("a", "t"), waiting, waiting);
    check_open(&turn().call("a", "t").call("b", "t").answer("b", ""), waiting, waiting);
    check_open(&turn().call("a", "t").inquire("a"), waiting, waiting);
    check_open(&turn().call("a", "t").config_delta().unknown(), waiting, waiting);
    check_open(&turn().call("a", "t").say("never mind"), None, None);
    check_open(&turn().call("a", "t").ask("never mind"), None, Some(OpenReason::Unanswered));
    check_open(&turn().call("a", "t").turn().say(""), None, None);
}

#[test]
fn for_summaries_turn_is_open_until_assistant_message() {
    let unanswered = Some(OpenReason::Unanswered);
    check_open(&turn(), None, unanswered);
    check_open(&turn().ask(""), None, unanswered);
    check_open(&turn().say("").think(""), None, unanswered);
    check_open(&turn().call("a", "t").answer("a", ""), None, unanswered);
    check_open(&turn().ask("").say(""), None, None);
    check_open(&turn().ask("").say("").config_delta().unknown(), None, None);
    check_open(&Build::default(), None, None);
}
