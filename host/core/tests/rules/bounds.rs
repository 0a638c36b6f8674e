//! Bounds as the user types them, and their resolution to turns (docs/reference/store.md#ranges).

use jiff::SignedDuration;
use jp_compact_core::bound::{self, Bound};
use jp_compact_core::{Position, Stream, TurnRange};
use serde_json::json;

use crate::build::{Build, compaction, own_overlay, timestamp};

#[track_caller]
fn check_parse(text: &str, expected: Bound) {
    assert_eq!(text.parse(), Ok(expected));
}

#[test]
fn parses_all_forms_of_bounds() {
    check_parse("0", Bound::turn(0));
    check_parse("5", Bound::turn(5));
    check_parse("007", Bound::turn(7));
    check_parse("3.5", Bound::At(Position::step(3, 5)));
    check_parse("4.10", Bound::At(Position::step(4, 10)));
    check_parse("-3", Bound::FromEnd(3));
    check_parse("-0", Bound::FromEnd(0));
    check_parse("last", Bound::AfterLast);
    check_parse("90s", Bound::Ago(SignedDuration::from_secs(90)));
    check_parse("5h", Bound::Ago(SignedDuration::from_hours(5)));
    check_parse("1d 12h", Bound::Ago(SignedDuration::from_hours(36)));
    check_parse("2w", Bound::Ago(SignedDuration::from_hours(14 * 24)));
    check_parse("PT5M", Bound::Ago(SignedDuration::from_mins(5)));
    check_parse("0s", Bound::Ago(SignedDuration::ZERO));
}

#[test]
fn rejects_and_quotes_invalid_bounds() {
    for text in [
        "",
        " ",
        "-",
        "--3",
        "+3",
        "3.",
        ".5",
        "-3.5",
        "3.5.1",
        "five",
        "Last",
        "5 hours ago",
        "-5h",
        "5x",
        "1mo",
        "1y",
        "0x1",
        "\u{663}",
    ] {
        let error = text.parse::<Bound>().unwrap_err();
        assert!(error.contains(&format!("`{text}`")), "{text}: {error}");
    }
    let huge = "99999999999999999999999";
    assert!(huge.parse::<Bound>().unwrap_err().contains(huge));
    assert!(format!("-{huge}").parse::<Bound>().is_err());
}

/// Returns five turns that begin 0, 6, 12, 18 and 24 seconds after the first event. The current time is second 30. The
/// overlays end at turn 2.
fn stream() -> Stream {
    Build::turns(5)
        .element(compaction(60, 2, 2, json!({"reasoning": "strip"})))
        .element(own_overlay(61, 0, 1, json!({"tool_calls": {"policy": "omit"}})))
        .stream()
}

fn bound(text: &str) -> Option<Bound> {
    (text != "none").then(|| text.parse().unwrap())
}

#[track_caller]
fn check_in(stream: &Stream, from: &str, to: &str, expected: Option<(usize, usize)>) {
    let range = bound::resolve(stream, bound(from), bound(to), timestamp(30));
    assert_eq!(range.map(|range| (range.from(), range.to())), expected, "{from}..{to}");
}

#[track_caller]
fn check(from: &str, to: &str, expected: Option<(usize, usize)>) {
    check_in(&stream(), from, to, expected);
}

#[test]
fn resolves_from() {
    check("none", "none", Some((0, 4)));
    check("0", "none", Some((0, 4)));
    check("4", "none", Some((4, 4)));
    check("5", "none", None);
    check("-0", "none", Some((4, 4)));
    check("-4", "none", Some((0, 4)));
    check("-99", "none", Some((0, 4)));
    check("last", "none", Some((3, 4)));
}

#[test]
fn from_time_is_first_turn_at_or_after_it() {
    check("18s", "none", Some((2, 4)));
    check("17s", "none", Some((3, 4)));
    check("19s", "none", Some((2, 4)));
    check("1d", "none", Some((0, 4)));
    check("5s", "none", None);
    check("0s", "none", None);
}

#[test]
fn within_first_ends_at_first_turn_that_began_later() {
    let resolve = |from, to| {
        let range = bound::resolve(&stream(), from, to, timestamp(30));
        range.map(|range| (range.from(), range.to()))
    };
    let within_first = |seconds| Some(Bound::WithinFirst(SignedDuration::from_secs(seconds)));
    assert_eq!(resolve(within_first(0), None), Some((1, 4)));
    assert_eq!(resolve(within_first(11), None), Some((2, 4)));
    assert_eq!(resolve(within_first(12), None), Some((3, 4)));
    assert_eq!(resolve(within_first(24), None), None);
    assert_eq!(resolve(within_first(i64::MAX), None), None);
    assert_eq!(resolve(None, within_first(12)), Some((0, 2)));
}

#[test]
fn resolves_to() {
    check("none", "0", Some((0, 0)));
    check("none", "4", Some((0, 4)));
    check("none", "99", Some((0, 4)));
    check("none", "-1", Some((0, 3)));
    check("none", "-4", Some((0, 0)));
    check("none", "-5", None);
    check("none", "last", Some((0, 3)));
}

#[test]
fn to_time_is_last_turn_at_or_before_it() {
    check("none", "18s", Some((0, 2)));
    check("none", "19s", Some((0, 1)));
    check("none", "17s", Some((0, 2)));
    check("none", "0s", Some((0, 4)));
    check("none", "30s", Some((0, 0)));
    check("none", "31s", None);
    check("none", "99999d", None);
}

#[test]
fn from_after_to_is_empty() {
    check("3", "2", None);
    check("3", "3", Some((3, 3)));
    check("last", "2", None);
    check("12s", "24s", None);
}

#[test]
fn last_is_turn_0_without_overlays_and_is_clamped() {
    let without_overlays = Build::turns(3).stream();
    check_in(&without_overlays, "last", "none", Some((0, 2)));
    check_in(&without_overlays, "none", "last", Some((0, 0)));
    let all_compacted = Build::turns(3).element(compaction(60, 0, 2, json!({}))).stream();
    check_in(&all_compacted, "last", "none", None);
    check_in(&all_compacted, "none", "last", Some((0, 2)));
    let after_end = Build::turns(3).element(compaction(60, 0, usize::MAX, json!({}))).stream();
    check_in(&after_end, "last", "none", Some((0, 2)));
}

#[test]
fn stream_without_turns_has_no_range() {
    for (from, to) in
        [("none", "none"), ("0", "0"), ("-0", "-0"), ("last", "last"), ("0s", "0s"), ("none", "99")]
    {
        check_in(&Build::default().stream(), from, to, None);
        check_in(&Build::default().config_delta().unknown().stream(), from, to, None);
    }
}

#[test]
fn turn_begins_with_its_first_conversation_event() {
    let stream = Build::default().config_delta().unknown().ask("a").turn().config_delta().ask("b").stream();
    assert_eq!(stream.turn_starts(), [timestamp(2), timestamp(3)]);
}

#[test]
fn ranges_are_never_empty() {
    assert_eq!(TurnRange::new(2, 1), None);
    let range = TurnRange::new(1, 3).unwrap();
    assert_eq!(
        (range.to_string(), TurnRange::new(4, 4).unwrap().to_string()),
        ("turns 1-3".into(), "turn 4".into())
    );
    assert!(range.contains(1) && range.contains(3) && !range.contains(0) && !range.contains(4));
    assert!(range.covers(range) && !range.covers(TurnRange::new(0, 3).unwrap()));
}
