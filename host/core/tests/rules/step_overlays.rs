//! Overlays that begin or end inside a turn: their grammar and their projection, and the effects of appends, resets, and
//! forks on them.

use jp_compact_core::append::{NewOverlay, append, stamped_overlays};
use jp_compact_core::jp_view::jp_view;
use jp_compact_core::lint;
use jp_compact_core::projection::project;
use jp_compact_core::receipts::receipts;
use jp_compact_core::source::{Reset, reset};
use jp_compact_core::splice::concat;
use jp_compact_core::validate::{Compaction, Refusal, ValidationContext, validate};
use jp_compact_core::{Overlap, Pairs, Position, Stream, TurnRange, fork};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::{Value, json};

use crate::append::entries_of;
use crate::build::{Build, compaction, format_projection, step_overlay, timestamp};

/// Returns one turn. Each step has a thought, a call, and a response. A user message precedes step 2.
fn steps(steps: usize) -> Build {
    (0..steps).fold(Build::default().turn().ask("q"), |build, step| {
        let id = format!("c{step}");
        let build = if step == 2 { build.ask("more") } else { build };
        build.think(&format!("t{step}")).call(&id, "read").answer(&id, &format!("body{step}"))
    })
}

#[track_caller]
fn check(build: &Build, overlays: &[Value], expected: &str) {
    assert_eq!(format_projection(&build.clone().elements(overlays).stream()), expected);
}

fn strip() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": false, "response": true}})
}

fn summary(text: &str) -> Value {
    json!({"summary": {"summary": text}})
}

const NOTE: &str =
    "?[A summary of the steps that were here. It is not from the user, and it asks for nothing.]";
const PAIR: &str = "?[Summary of previous conversation] =S";

#[test]
fn policies_apply_to_the_steps_of_the_range() {
    check(
        &steps(3),
        &[step_overlay(60, "0.1", "0.1", strip())],
        "?q ~t0 >c0{c0} <c0:body0 ~t1 >c1{c1} <c1:[compacted] read: success ?more ~t2 >c2{c2} <c2:body2",
    );
    check(
        &steps(3),
        &[step_overlay(60, "0", "0.1", json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}}))],
        "?q ?more ~t2 >c2{c2} <c2:body2",
    );
    check(&steps(1), &[step_overlay(60, "0.1", "0.7", strip())], "?q ~t0 >c0{c0} <c0:body0");
    let three_turns =
        steps(2).turn().ask("next").say("m0").turn().ask("third").say("m1").ask("and").say("m2");
    check(
        &three_turns,
        &[step_overlay(60, "0.1", "2.0", json!({"tool_calls": {"policy": "omit"}}))],
        "?q ~t0 >c0{c0} <c0:body0 ~t1 | ?next =m0 | ?third =m1 ?and =m2",
    );
}

#[test]
fn the_newest_overlay_wins_for_each_step() {
    let keep = json!({"tool_calls": {"policy": "strip", "request": false, "response": false}});
    check(
        &steps(2),
        &[compaction(60, 0, 0, strip()), step_overlay(61, "0.1", "0.1", keep)],
        "?q ~t0 >c0{c0} <c0:[compacted] read: success ~t1 >c1{c1} <c1:body1",
    );
    check(
        &steps(2),
        &[
            step_overlay(61, "0.1", "0.1", strip()),
            compaction(60, 0, 0, json!({"tool_calls": {"policy": "omit"}})),
        ],
        "?q ~t0 ~t1 >c1{c1} <c1:[compacted] read: success",
    );
}

#[test]
fn a_summary_from_step_0_is_a_note_after_the_user_message() {
    check(
        &steps(4),
        &[step_overlay(60, "0.0", "0.2", summary("S\n\nT"))],
        &format!("?q {NOTE}\n    S\n\n    T ?more ~t3 >c3{{c3}} <c3:body3"),
    );
}

#[test]
fn a_summary_from_the_start_of_a_turn_is_a_pair_before_the_user_message() {
    check(
        &steps(4),
        &[step_overlay(60, "0", "0.2", summary("S"))],
        &format!("{PAIR} | ?q ?more ~t3 >c3{{c3}} <c3:body3"),
    );
    let build = Build::turns(2).turn().ask("last").call("x", "t").answer("x", "y").say("end");
    check(
        &build,
        &[step_overlay(60, "1", "2.0", summary("S"))],
        &format!("?ask0 ~think0 >c0{{c0}} <c0:body0 =say0 | {PAIR} | ?last =end"),
    );
    check(
        &build,
        &[step_overlay(60, "1", "2.1", summary("S")), compaction(61, 1, 1, summary("N"))],
        &format!(
            "?ask0 ~think0 >c0{{c0}} <c0:body0 =say0 | ?[Summary of previous conversation] =N | ?last {NOTE}\n    S"
        ),
    );
}

#[test]
fn a_stepped_summary_leaves_a_view_that_lints_clean() {
    for (from, to) in [("0", "0.1"), ("0.0", "0.1"), ("0.0", "0.3")] {
        let stream = steps(4).element(step_overlay(60, from, to, summary("S"))).stream();
        let view = project(&stream);
        assert_eq!(lint::check_view(&stream, stream.overlays(), &view), [], "{from}..{to}");
    }
}

#[track_caller]
fn check_malformed(overlay: Value, expected: &str) {
    let error = Stream::parse(steps(1).element(overlay).bytes()).unwrap_err();
    assert!(error.is_malformed_overlay() && error.reason.contains(expected), "{}", error.reason);
}

#[test]
fn steps_are_parsed_strictly_and_only_in_their_own_type() {
    let with_step = |name: &str, step: Value| {
        let mut overlay = step_overlay(60, "0.0", "0.0", strip());
        overlay[name] = step;
        overlay
    };
    check_malformed(with_step("from_step", json!("1")), "`jp_compact_step_overlay`: `from_step`");
    check_malformed(with_step("to_step", json!(-1)), "`to_step`");
    check_malformed(with_step("to_step", json!(1.5)), "`to_step`");
    let mut with_ignored_step = compaction(60, 0, 0, strip());
    with_ignored_step["to_step"] = json!(0);
    let stream = steps(2).element(with_ignored_step).stream();
    assert!(!stream.overlays()[0].has_steps(), "JP ignores the member, so we ignore it too");
    assert_eq!(stream.overlays()[0].range(), TurnRange::new(0, 0));
}

#[test]
fn the_bound_last_is_after_the_greatest_position() {
    for (overlays, expected) in [
        (vec![step_overlay(60, "0", "0.1", strip())], Position::step(0, 2)),
        (vec![step_overlay(60, "0", "0.1", strip()), compaction(61, 0, 0, strip())], Position::turn(1)),
        (vec![step_overlay(61, "0.0", "1.0", strip()), compaction(60, 0, 0, strip())], Position::step(1, 1)),
    ] {
        assert_eq!(steps(3).elements(&overlays).stream().after_last_overlay(), expected);
    }
}

#[track_caller]
fn validate_proposal(
    stream: &Stream,
    allows_steps: bool,
    proposal: Value,
) -> Result<Vec<Compaction>, Refusal> {
    let range = TurnRange::between(Position::turn(0), Position::step(stream.turns() - 1, 1)).unwrap();
    let context = ValidationContext {
        stream,
        pairs: &Pairs::new(stream),
        range,
        requested_range: range,
        produces: &[Summary, Reasoning, ToolCalls],
        allows_steps,
        accepted: &[],
        overlap: Overlap::Partial,
        hints: &std::collections::BTreeMap::new(),
        written_by_model: false,
    };
    validate(&context, serde_json::from_value(proposal).unwrap())
}

#[test]
fn a_payload_with_steps_needs_the_feature_and_existing_steps() {
    let stream = steps(3).stream();
    let payload = |from: usize, to: usize| json!([{"from_turn": 0, "from_step": from, "to_turn": 0, "to_step": to, "reasoning": "strip"}]);
    assert!(validate_proposal(&stream, true, payload(0, 1)).is_ok());
    assert_eq!(validate_proposal(&stream, false, payload(0, 1)), Err(Refusal::Stepped));
    assert_eq!(
        validate_proposal(&stream, true, payload(0, 3)),
        Err(Refusal::NoSuchStep(Position::step(0, 3)))
    );
    assert!(matches!(validate_proposal(&stream, true, payload(0, 2)), Err(Refusal::OutOfRange { .. })));
    assert!(matches!(validate_proposal(&stream, true, payload(1, 0)), Err(Refusal::Inverted { .. })));
    let whole_turn = json!([{"from_turn": 0, "to_turn": 0, "reasoning": "strip"}]);
    assert!(matches!(validate_proposal(&stream, true, whole_turn), Err(Refusal::OutOfRange { .. })));
}

/// Appends a proposal, and returns the new stream and the overlays.
#[track_caller]
fn append_proposal(stream: &Stream, proposal: Value) -> (Stream, Vec<NewOverlay>) {
    let entries = entries_of(validate_proposal(stream, true, proposal).unwrap());
    let stamped = stamped_overlays(stream, &entries, timestamp(100)).unwrap();
    let bytes = concat(&append(stream, &entries, &stamped), stream.bytes());
    (Stream::parse(bytes.into()).unwrap(), stamped)
}

fn long_last_turn() -> Stream {
    let build = Build::turns(2).turn().ask("last").call("x", "t").answer("x", "y");
    build.call("y", "t").answer("y", "z").say("end").stream()
}

#[test]
fn jp_reads_the_whole_turns_of_a_stepped_policy() {
    let stream = long_last_turn();
    let (appended, stamped) = append_proposal(
        &stream,
        json!([{"from_turn": 0, "to_turn": 2, "to_step": 1, "tool_calls": {"policy": "omit"}}]),
    );
    let ranges: Vec<_> = stamped
        .iter()
        .map(|stamped| (stamped.overlay.range().unwrap().to_string(), stamped.overlay.applied_by_jp))
        .collect();
    assert_eq!(ranges, [("turns 0-1".to_owned(), true), ("steps 2.0-2.1".to_owned(), false)]);
    assert_eq!(format_projection(&appended), "?ask0 ~think0 =say0 | ?ask1 ~think1 =say1 | ?last =end");
    assert_eq!(receipts(&appended).iter().filter(|receipts| !receipts.is_empty()).count(), 2);
    let jp_view = jp_view(&appended, appended.overlays()).unwrap();
    assert_eq!(jp_view.difference.to_string(), "JP does not apply overlay 2, because its range has steps");
}

#[test]
fn reset_removes_a_step_overlay_and_its_receipt() {
    let stream = long_last_turn();
    let payload = |from: usize| json!({"from_turn": 2, "from_step": from, "to_turn": 2, "to_step": 1, "tool_calls": {"policy": "omit"}});
    let (appended, _) = append_proposal(&stream, json!([payload(0), payload(1)]));
    let removal = reset(appended.index(), Reset::One(1)).unwrap();
    assert_eq!((removal.overlays, removal.receipts), (1, 1));
    let remaining = Stream::parse(concat(&removal.pieces, appended.bytes()).into()).unwrap();
    assert_eq!(remaining.overlays()[0].range().unwrap().to_string(), "step 2.1");
    assert!(!receipts(&remaining)[0].is_empty(), "the receipt of the other overlay of the same turn stays");
    let removal_of_all = reset(appended.index(), Reset::All).unwrap();
    assert_eq!(concat(&removal_of_all.pieces, appended.bytes()), **stream.bytes());
}

#[track_caller]
fn check_fork(overlay: Value, last: usize, expected: Option<&str>) {
    let stream = Build::turns(2).turn().ask("last").say("a").ask("b").say("c").element(overlay).stream();
    let copy = fork::fork(&stream, Some(last));
    let copy = Stream::parse(concat(&copy.pieces, stream.bytes()).into()).unwrap();
    let range = copy.overlays().first().map(|overlay| overlay.range().unwrap().to_string());
    assert_eq!(range.as_deref(), expected);
}

#[test]
fn a_fork_renumbers_turns_and_keeps_steps() {
    check_fork(step_overlay(60, "2.0", "2.1", strip()), 1, Some("steps 0.0-0.1"));
    check_fork(step_overlay(60, "1.1", "2.1", strip()), 1, Some("turns 0-0.1"));
    check_fork(step_overlay(60, "1.1", "2.1", strip()), 2, Some("steps 0.1-1.1"));
    check_fork(step_overlay(60, "0.0", "1.1", strip()), 1, None);
}
