//! The step table: where a step begins, which events belong to it, and which steps are closed.

use jp_compact_core::event::Kind;
use jp_compact_core::{Pairs, Stream, open};

use crate::build::Build;

/// Formats each event as a letter for its kind and the number of its step, or `-` if it has no step. `|` begins a turn.
fn format_steps(stream: &Stream) -> String {
    let (steps, mut turn) = (stream.steps(), 0);
    let mut out = String::new();
    for (element, event) in
        stream.events().iter().enumerate().filter(|(_, event)| event.kind.is_conversation())
    {
        if event.turn != turn {
            turn = event.turn;
            out.push_str("| ");
        }
        let letter = match event.kind {
            Kind::TurnStart => continue,
            Kind::ChatRequest => 'u',
            Kind::Message => 'm',
            Kind::Reasoning => 'r',
            Kind::ToolRequest => 'c',
            Kind::ToolResponse { .. } => 'a',
            _ => 'i',
        };
        let step = steps.step(element).map_or("-".into(), |step| step.to_string());
        out.push_str(&format!("{letter}{step} "));
    }
    out.trim_end().to_owned()
}

#[track_caller]
fn check(build: &Build, expected: &str) {
    assert_eq!(format_steps(&build.stream()), expected);
}

#[test]
fn a_step_begins_after_a_result_or_a_user_event() {
    let build = Build::default().turn().ask("q").think("t").call("a", "read").answer("a", "x").say("done");
    check(&build, "u- r0 c0 a0 m1");
    let continued = build.clone().ask("more").say("yes").turn().ask("q").say("m");
    check(&continued, "u- r0 c0 a0 m1 u- m2 | u- m0");
    check(&Build::default().say("m").say("n"), "m0 m0");
}

#[test]
fn parallel_calls_are_one_step() {
    let build =
        Build::default().ask("q").call("a", "read").call("b", "read").answer("b", "y").answer("a", "x");
    check(&build.say("m"), "u- c0 c0 a0 a0 m1");
}

#[test]
fn a_late_response_belongs_to_the_step_of_its_call() {
    let build = Build::default().ask("q").call("a", "read").call("b", "read").answer("b", "y");
    let build = build.call("c", "read").answer("c", "z").answer("a", "x").say("m");
    check(&build, "u- c0 c0 a0 c1 a1 a0 m2");
}

#[test]
fn reused_ids_pair_within_their_turn() {
    let build = Build::default().ask("q").call("a", "read").turn().call("a", "read").answer("a", "x");
    check(&build.call("a", "read").answer("a", "y"), "u- c0 | c0 a0 c1 a1");
    check(&Build::default().answer("a", "x").ask("q").say("m"), "a- u- m0");
}

#[track_caller]
fn check_closed(build: &Build, expected: usize) {
    let stream = build.stream();
    assert_eq!(open::closed_steps(&stream, &Pairs::new(&stream)), expected, "{}", format_steps(&stream));
}

#[test]
fn steps_before_an_unanswered_call_are_closed() {
    let build =
        Build::default().ask("q").call("a", "read").answer("a", "x").call("b", "read").answer("b", "y");
    check_closed(&build, 2);
    check_closed(&build.clone().say("m"), 3);
    check_closed(&build.clone().call("c", "read"), 2);
    check_closed(&build.clone().call("c", "read").call("d", "read").answer("d", "z"), 2);
    // A call that the model did not wait for does not keep the turn open.
    check_closed(&build.clone().call("c", "read").say("m").call("d", "read").answer("d", "z"), 3);
    check_closed(&Build::default(), 0);
    check_closed(&Build::default().ask("q").call("a", "read"), 0);
}

#[test]
fn a_late_response_after_an_unanswered_call_keeps_its_step_open() {
    let build =
        Build::default().ask("q").call("a", "read").answer("a", "x").call("b", "read").call("c", "read");
    let build = build.answer("c", "z").call("d", "read");
    check_closed(&build, 1);
    check_closed(&build.answer("b", "y"), 1);
}
