//! JP's inline form: policies, modes, and turns counted from 1.

use crate::call::{Call, ToolsMode};
use crate::inline;
use jp_compact_core::Bound::{self, FromEnd};
use jp_compact_core::position::Position;
use jp_compact_core::select::Selection;
use jp_compact_core::spec::Options;

#[track_caller]
fn check(text: &str, expected: &[Call]) {
    assert_eq!(inline::parse(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_turns(text: &str, from: Bound, to: Bound) {
    check(&format!("r:{text}"), &[Call::reasoning().with_range(range(from, to))]);
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = inline::parse(text).unwrap_err();
    assert!(error.contains(expected), "{text}: {error}");
}

fn range(from: Bound, to: Bound) -> Selection {
    Selection { from: Some(from), to: Some(to), ..Selection::default() }
}

fn summary() -> Call {
    Call::summary(None, None)
}

#[test]
fn parses_policies_joined_by_plus() {
    check("r", &[Call::reasoning()]);
    check("reasoning", &[Call::reasoning()]);
    check("s", &[summary()]);
    check("summarize", &[summary()]);
    check("r+t", &[Call::reasoning(), Call::tools(ToolsMode::Strip)]);
    check(" t=omit + r ", &[Call::reasoning(), Call::tools(ToolsMode::Omit)]);
    check("r+r", &[Call::reasoning()]);
}

#[test]
fn summary_replaces_other_policies() {
    check("r+t+s", &[summary()]);
}

#[test]
fn parses_tool_modes() {
    for (text, mode) in [
        ("t", ToolsMode::Strip),
        ("tools", ToolsMode::Strip),
        ("t=strip", ToolsMode::Strip),
        ("t=s", ToolsMode::Strip),
        ("t=strip-requests", ToolsMode::StripRequests),
        ("t=strip_requests", ToolsMode::StripRequests),
        ("t=sreq", ToolsMode::StripRequests),
        ("tools=strip-responses", ToolsMode::StripResponses),
        ("t=strip_responses", ToolsMode::StripResponses),
        ("t=sres", ToolsMode::StripResponses),
        ("t=omit", ToolsMode::Omit),
        ("t=o", ToolsMode::Omit),
    ] {
        check(text, &[Call::tools(mode)]);
    }
}

#[test]
fn counts_turns_from_one() {
    check_turns("5..-3", Bound::turn(4), FromEnd(3));
    check_turns("1..5", Bound::turn(0), Bound::turn(4));
    check_turns("..-3", Bound::turn(0), FromEnd(3));
    check_turns("..10", Bound::turn(0), Bound::turn(9));
    check_turns("5..", Bound::turn(4), FromEnd(0));
    check_turns("-10..-3", FromEnd(10), FromEnd(3));
    check_turns("..", Bound::turn(0), FromEnd(0));
}

#[test]
fn inline_form_has_steps_of_turns_counted_from_1() {
    let step = |turn, step| Bound::At(Position::step(turn, step));
    check_turns("5.2..7.0", step(4, 2), step(6, 0));
    check_turns("5.2..", step(4, 2), FromEnd(0));
    check_turns("..5.2", Bound::turn(0), step(4, 2));
    check_turns("1.10..-3", step(0, 10), FromEnd(3));
    check_turns("2.0", step(1, 0), FromEnd(0));
    check_error("r:0.1..", "turn `0` does not exist");
    for text in ["r:1.x", "r:1.", "r:.1..2", "r:1.2.3", "r:-1.2", "r:1.-2"] {
        check_error(text, "expected a turn (`5`, counted from 1), a step (`5.2`)");
    }
}

#[test]
fn single_number_is_first_or_last_turn() {
    check_turns("5", Bound::turn(4), FromEnd(0));
    check_turns("-20", Bound::turn(0), FromEnd(20));
}

#[test]
fn applies_range_to_every_call() {
    let turns = range(Bound::turn(4), FromEnd(3));
    check(
        "r+t=sreq:5..-3",
        &[Call::reasoning().with_range(turns), Call::tools(ToolsMode::StripRequests).with_range(turns)],
    );
    check("s:..-3", &[summary().with_range(range(Bound::turn(0), FromEnd(3)))]);
}

#[test]
fn errors_name_the_expected_form() {
    check_error("", "expected `r` (reasoning)");
    check_error("x", "not `x`");
    check_error("r+", "not ``");
    check_error("r=strip", "`r` takes no value");
    check_error("s=true", "`s` takes no value");
    check_error("t=nope", "expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `nope`");
    check_error("s:", "expected turns after `:`");
    check_error("s:abc", "not `abc`");
    check_error("s:5..x", "not `x`");
    check_error("s:--3", "not `--3`");
    check_error("s:+3", "not `+3`");
    check_error("s:-", "not `-`");
    check_error("s:0", "counted from 1");
    check_error("s:99999999999999999999", "not `99999999999999999999`");
}

#[test]
fn call_converts_to_spec_with_resolved_options() {
    let spec = Call::tools(ToolsMode::StripRequests).spec();
    assert_eq!(spec.name, "strip-tools");
    let Options::Object(options) = spec.options else { panic!("{spec:?}") };
    assert_eq!(options["mode"], "strip-requests");
    let options = Call::summary(Some("p/n"), Some("be short")).options;
    assert_eq!((&options["model"], &options["instructions"]), (&"p/n".into(), &"be short".into()));
}
