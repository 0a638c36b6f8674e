//! JP's inline form: policies, modes, and turns counted from 1.

use jp_compact_core::Bound::{self, FromEnd};
use jp_compact_core::call::{Call, ToolsMode};
use jp_compact_core::inline;
use jp_compact_core::select::Selection;
use jp_compact_core::spec::Options;

#[track_caller]
fn calls(text: &str, expected: &[Call]) {
    assert_eq!(inline::parse(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn turns(text: &str, from: Bound, to: Bound) {
    calls(&format!("r:{text}"), &[Call::reasoning().over(range(from, to))]);
}

#[track_caller]
fn refused(text: &str, expected: &str) {
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
    calls("r", &[Call::reasoning()]);
    calls("reasoning", &[Call::reasoning()]);
    calls("s", &[summary()]);
    calls("summarize", &[summary()]);
    calls("r+t", &[Call::reasoning(), Call::tools(ToolsMode::Strip)]);
    calls(" t=omit + r ", &[Call::reasoning(), Call::tools(ToolsMode::Omit)]);
    calls("r+r", &[Call::reasoning()]);
}

#[test]
fn summary_replaces_other_policies() {
    calls("r+t+s", &[summary()]);
}

#[test]
fn parses_tool_modes() {
    for (word, mode) in [
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
        calls(word, &[Call::tools(mode)]);
    }
}

#[test]
fn counts_turns_from_one() {
    turns("5..-3", Bound::turn(4), FromEnd(3));
    turns("1..5", Bound::turn(0), Bound::turn(4));
    turns("..-3", Bound::turn(0), FromEnd(3));
    turns("..10", Bound::turn(0), Bound::turn(9));
    turns("5..", Bound::turn(4), FromEnd(0));
    turns("-10..-3", FromEnd(10), FromEnd(3));
    turns("..", Bound::turn(0), FromEnd(0));
}

#[test]
fn single_number_is_first_or_last_turn() {
    turns("5", Bound::turn(4), FromEnd(0));
    turns("-20", Bound::turn(0), FromEnd(20));
}

#[test]
fn applies_range_to_every_call() {
    let both = range(Bound::turn(4), FromEnd(3));
    calls(
        "r+t=sreq:5..-3",
        &[Call::reasoning().over(both), Call::tools(ToolsMode::StripRequests).over(both)],
    );
    calls("s:..-3", &[summary().over(range(Bound::turn(0), FromEnd(3)))]);
}

#[test]
fn errors_name_the_expected_form() {
    refused("", "expected `r` (reasoning)");
    refused("x", "not `x`");
    refused("r+", "not ``");
    refused("r=strip", "`r` takes no value");
    refused("s=true", "`s` takes no value");
    refused("t=nope", "expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `nope`");
    refused("s:", "expected turns after `:`");
    refused("s:abc", "not `abc`");
    refused("s:5..x", "not `x`");
    refused("s:--3", "not `--3`");
    refused("s:+3", "not `+3`");
    refused("s:-", "not `-`");
    refused("s:0", "counted from 1");
    refused("s:99999999999999999999", "not `99999999999999999999`");
}

#[test]
fn call_converts_to_spec_with_resolved_options() {
    let spec = Call::tools(ToolsMode::StripRequests).spec();
    assert_eq!(spec.name, "strip-tools");
    let Options::Whole(options) = spec.options else { panic!("{spec:?}") };
    assert_eq!(options["mode"], "strip-requests");
    let options = Call::summary(Some("p/n"), Some("be short")).options;
    assert_eq!((&options["model"], &options["instructions"]), (&"p/n".into(), &"be short".into()));
}
