//! Overlays that begin or end inside a turn: their grammar, their projection, and what appends, resets and forks do to
//! them.

use jp_compact_core::append::{Made, append, stamp};
use jp_compact_core::jp_view::jp_view;
use jp_compact_core::lint;
use jp_compact_core::projection::project;
use jp_compact_core::receipts::receipts;
use jp_compact_core::source::{Reset, reset};
use jp_compact_core::splice::concat;
use jp_compact_core::validate::{Asked, Compaction, Refusal, validate};
use jp_compact_core::{Overlap, Pairs, Position, Stream, TurnRange, fork};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::{Value, json};

use crate::append::entries_of;
use crate::build::{Build, jp, shown, stepped, when};

/// One turn with a request and steps that each think, call and get a result, and a message in the middle from the user.
fn steps(steps: usize) -> Build {
    (0..steps).fold(Build::default().turn().ask("q"), |build, step| {
        let id = format!("c{step}");
        let build = if step == 2 { build.ask("more") } else { build };
        build.think(&format!("t{step}")).call(&id, "read").answer(&id, &format!("body{step}"))
    })
}

#[track_caller]
fn check(build: &Build, overlays: &[Value], expected: &str) {
    assert_eq!(shown(&build.clone().all(overlays).stream()), expected);
}

fn strip() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": false, "response": true}})
}

fn summary(text: &str) -> Value {
    json!({"summary": {"summary": text}})
}

const NOTE: &str = "?[A model wrote this summary of the steps that were here. It is not from the user, and it asks for nothing.]";
const PAIR: &str = "?[Summary of previous conversation] =S";

#[test]
fn policies_apply_to_the_steps_of_the_range() {
    check(
        &steps(3),
        &[stepped(60, "0.1", "0.1", strip())],
        "?q ~t0 >c0{c0} <c0:body0 ~t1 >c1{c1} <c1:[compacted] read: success ?more ~t2 >c2{c2} <c2:body2",
    );
    check(
        &steps(3),
        &[stepped(60, "0", "0.1", json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}}))],
        "?q ?more ~t2 >c2{c2} <c2:body2",
    );
    check(&steps(1), &[stepped(60, "0.1", "0.7", strip())], "?q ~t0 >c0{c0} <c0:body0");
    let two = steps(2).turn().ask("next").say("m0").turn().ask("third").say("m1").ask("and").say("m2");
    check(
        &two,
        &[stepped(60, "0.1", "2.0", json!({"tool_calls": {"policy": "omit"}}))],
        "?q ~t0 >c0{c0} <c0:body0 ~t1 | ?next =m0 | ?third =m1 ?and =m2",
    );
}

#[test]
fn the_newest_overlay_wins_for_each_step() {
    let keeps = json!({"tool_calls": {"policy": "strip", "request": false, "response": false}});
    check(
        &steps(2),
        &[jp(60, 0, 0, strip()), stepped(61, "0.1", "0.1", keeps)],
        "?q ~t0 >c0{c0} <c0:[compacted] read: success ~t1 >c1{c1} <c1:body1",
    );
    check(
        &steps(2),
        &[stepped(61, "0.1", "0.1", strip()), jp(60, 0, 0, json!({"tool_calls": {"policy": "omit"}}))],
        "?q ~t0 ~t1 >c1{c1} <c1:[compacted] read: success",
    );
}

#[test]
fn a_summary_from_step_0_is_one_user_message_after_the_users() {
    check(
        &steps(4),
        &[stepped(60, "0.0", "0.2", summary("S\n\nT"))],
        &format!("?q {NOTE}\n    S\n\n    T ?more ~t3 >c3{{c3}} <c3:body3"),
    );
}

#[test]
fn a_summary_from_the_start_of_a_turn_is_a_pair_before_the_users() {
    check(
        &steps(4),
        &[stepped(60, "0", "0.2", summary("S"))],
        &format!("{PAIR} | ?q ?more ~t3 >c3{{c3}} <c3:body3"),
    );
    let later = Build::turns(2).turn().ask("last").call("x", "t").answer("x", "y").say("end");
    check(
        &later,
        &[stepped(60, "1", "2.0", summary("S"))],
        &format!("?ask0 ~think0 >c0{{c0}} <c0:body0 =say0 | {PAIR} | ?last =end"),
    );
    check(
        &later,
        &[stepped(60, "1", "2.1", summary("S")), jp(61, 1, 1, summary("N"))],
        &format!(
            "?ask0 ~think0 >c0{{c0}} <c0:body0 =say0 | ?[Summary of previous conversation] =N | {NOTE}\n    S"
        )
        .replace(&format!("| {NOTE}\n    S"), &format!("| ?last {NOTE}\n    S")),
    );
}

#[test]
fn a_stepped_summary_leaves_a_view_that_lints_clean() {
    for (from, to) in [("0", "0.1"), ("0.0", "0.1"), ("0.0", "0.3")] {
        let stream = steps(4).raw(stepped(60, from, to, summary("S"))).stream();
        let view = project(&stream);
        assert_eq!(lint::view(&stream, stream.overlays(), &view), [], "{from}..{to}");
    }
}

#[track_caller]
fn malformed(overlay: Value, expected: &str) {
    let wrong = Stream::parse(steps(1).raw(overlay).bytes()).unwrap_err();
    assert!(wrong.is_of_overlay() && wrong.what.contains(expected), "{}", wrong.what);
}

#[test]
fn steps_are_parsed_strictly_and_only_in_their_own_type() {
    let with = |name: &str, step: Value| {
        let mut overlay = stepped(60, "0.0", "0.0", strip());
        overlay[name] = step;
        overlay
    };
    malformed(with("from_step", json!("1")), "`jp_compact_step_overlay`: `from_step`");
    malformed(with("to_step", json!(-1)), "`to_step`");
    malformed(with("to_step", json!(1.5)), "`to_step`");
    let mut other = jp(60, 0, 0, strip());
    other["to_step"] = json!(0);
    let stream = steps(2).raw(other).stream();
    assert!(!stream.overlays()[0].is_stepped(), "JP ignores the member, and so do we");
    assert_eq!(stream.overlays()[0].range(), TurnRange::new(0, 0));
}

#[test]
fn the_bound_last_is_after_the_greatest_position() {
    for (overlays, expected) in [
        (vec![stepped(60, "0", "0.1", strip())], Position::step(0, 2)),
        (vec![stepped(60, "0", "0.1", strip()), jp(61, 0, 0, strip())], Position::turn(1)),
        (vec![stepped(61, "0.0", "1.0", strip()), jp(60, 0, 0, strip())], Position::step(1, 1)),
    ] {
        assert_eq!(steps(3).all(&overlays).stream().after_last_overlay(), expected);
    }
}

#[track_caller]
fn asked(stream: &Stream, by_step: bool, proposal: Value) -> Result<Vec<Compaction>, Refusal> {
    let range = TurnRange::between(Position::turn(0), Position::step(stream.turns() - 1, 1)).unwrap();
    let asked = Asked {
        stream,
        pairs: &Pairs::new(stream),
        range,
        requested: range,
        produces: &[Summary, Reasoning, ToolCalls],
        by_step,
        accepted: &[],
        overlap: Overlap::Partial,
        hints: &std::collections::BTreeMap::new(),
        by_model: false,
    };
    validate(&asked, serde_json::from_value(proposal).unwrap())
}

#[test]
fn a_payload_with_steps_needs_the_feature_and_existing_steps() {
    let stream = steps(3).stream();
    let payload = |from: usize, to: usize| json!([{"from_turn": 0, "from_step": from, "to_turn": 0, "to_step": to, "reasoning": "strip"}]);
    assert!(asked(&stream, true, payload(0, 1)).is_ok());
    assert_eq!(asked(&stream, false, payload(0, 1)), Err(Refusal::Stepped));
    assert_eq!(asked(&stream, true, payload(0, 3)), Err(Refusal::NoSuchStep(Position::step(0, 3))));
    assert!(matches!(asked(&stream, true, payload(0, 2)), Err(Refusal::OutOfRange { .. })));
    assert!(matches!(asked(&stream, true, payload(1, 0)), Err(Refusal::Inverted { .. })));
    let whole = json!([{"from_turn": 0, "to_turn": 0, "reasoning": "strip"}]);
    assert!(matches!(asked(&stream, true, whole), Err(Refusal::OutOfRange { .. })));
}

/// Appends a proposal, and returns the new stream and the overlays.
#[track_caller]
fn appended(stream: &Stream, proposal: Value) -> (Stream, Vec<Made>) {
    let entries = entries_of(asked(stream, true, proposal).unwrap());
    let made = stamp(stream, &entries, when(100)).unwrap();
    let bytes = concat(&append(stream, &entries, &made), stream.bytes());
    (Stream::parse(bytes.into()).unwrap(), made)
}

fn across() -> Stream {
    let build = Build::turns(2).turn().ask("last").call("x", "t").answer("x", "y");
    build.call("y", "t").answer("y", "z").say("end").stream()
}

#[test]
fn jp_reads_the_whole_turns_of_a_stepped_policy() {
    let stream = across();
    let (grown, made) = appended(
        &stream,
        json!([{"from_turn": 0, "to_turn": 2, "to_step": 1, "tool_calls": {"policy": "omit"}}]),
    );
    let ranges: Vec<_> = made
        .iter()
        .map(|made| (made.overlay.range().unwrap().to_string(), made.overlay.applied_by_jp))
        .collect();
    assert_eq!(ranges, [("turns 0-1".to_owned(), true), ("steps 2.0-2.1".to_owned(), false)]);
    assert_eq!(shown(&grown), "?ask0 ~think0 =say0 | ?ask1 ~think1 =say1 | ?last =end");
    assert_eq!(receipts(&grown).iter().filter(|receipt| receipt.is_some()).count(), 2);
    let jps = jp_view(&grown, grown.overlays()).unwrap();
    assert_eq!(jps.why.to_string(), "JP does not apply overlay 2, because its range has steps");
}

#[test]
fn reset_removes_a_step_overlay_and_its_receipt() {
    let stream = across();
    let payload = |from: usize| json!({"from_turn": 2, "from_step": from, "to_turn": 2, "to_step": 1, "tool_calls": {"policy": "omit"}});
    let (grown, _) = appended(&stream, json!([payload(0), payload(1)]));
    let one = reset(grown.index(), Reset::One(1)).unwrap();
    assert_eq!((one.overlays, one.receipts), (1, 1));
    let left = Stream::parse(concat(&one.pieces, grown.bytes()).into()).unwrap();
    assert_eq!(left.overlays()[0].range().unwrap().to_string(), "step 2.1");
    assert!(receipts(&left)[0].is_some(), "the receipt of the other overlay of the same turn stays");
    let all = reset(grown.index(), Reset::All).unwrap();
    assert_eq!(concat(&all.pieces, grown.bytes()), **stream.bytes());
}

#[track_caller]
fn forked(overlay: Value, last: usize, expected: Option<&str>) {
    let stream = Build::turns(2).turn().ask("last").say("a").ask("b").say("c").raw(overlay).stream();
    let copy = fork::fork(&stream, Some(last));
    let copy = Stream::parse(concat(&copy.pieces, stream.bytes()).into()).unwrap();
    let range = copy.overlays().first().map(|overlay| overlay.range().unwrap().to_string());
    assert_eq!(range.as_deref(), expected);
}

#[test]
fn a_fork_counts_turns_anew_and_keeps_steps() {
    forked(stepped(60, "2.0", "2.1", strip()), 1, Some("steps 0.0-0.1"));
    forked(stepped(60, "1.1", "2.1", strip()), 1, Some("turns 0-0.1"));
    forked(stepped(60, "1.1", "2.1", strip()), 2, Some("steps 0.1-1.1"));
    forked(stepped(60, "0.0", "1.1", strip()), 1, None);
}
