//! The view that JP itself sends, where it differs from ours.

use jp_compact_core::Stream;
use jp_compact_core::jp_view::{jp_numbers, jp_view};
use jp_compact_core::projection::project;
use serde_json::{Value, json};

use crate::build::{Build, jp, own, shown, shown_view};

fn strip() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": true, "response": true}})
}

fn hinted() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": true, "response": true},
           "tool_overrides": {"read": {"response": "keep"}}})
}

fn stream(overlays: &[Value]) -> Stream {
    Build::turns(2).all(overlays).stream()
}

/// Checks that JP's view of a stream with `overlays` equals our view of a stream with `left`.
#[track_caller]
fn check(overlays: &[Value], left: &[Value], why: &str) {
    let stream = stream(overlays);
    let of_jp = jp_view(&stream, stream.overlays()).unwrap();
    assert_eq!(shown_view(&stream, &of_jp.view), shown(&self::stream(left)));
    assert_eq!(of_jp.why.to_string(), why);
}

#[test]
fn jp_sends_our_view_if_it_reads_every_overlay() {
    for overlays in [&[][..], &[jp(60, 0, 0, strip())], &[jp(60, 0, 1, json!({"reasoning": "strip"}))]] {
        let stream = stream(overlays);
        assert_eq!(jp_view(&stream, stream.overlays()), None);
    }
}

#[test]
fn jp_ignores_own_overlays() {
    check(&[own(60, 0, 1, hinted())], &[], "JP does not apply overlay 1");
    let older = jp(60, 0, 0, strip());
    check(&[older.clone(), own(61, 0, 1, hinted())], &[older], "JP does not apply overlay 2");
}

#[test]
fn jp_applies_compaction_without_over() {
    let over = |members: Value| {
        let mut members = members;
        members["over"] = json!(100);
        members
    };
    check(&[jp(60, 0, 1, over(strip()))], &[jp(60, 0, 1, strip())], "JP applies overlay 1 without `over`");
    let both = [own(60, 0, 0, hinted()), jp(61, 0, 1, over(strip()))];
    let why = "JP does not apply overlay 1, and JP applies overlay 2 without `over`";
    check(&both, &[jp(61, 0, 1, strip())], why);
}

#[test]
fn overlay_with_over_has_no_effect_in_our_view() {
    let whole = shown(&stream(&[]));
    for members in [
        json!({"over": 5, "tool_calls": {"policy": "omit"}}),
        json!({"tool_calls": {"policy": "omit", "over": {"tokens": 9}}}),
        json!({"reasoning": {"policy": "strip", "over": 1}}),
        json!({"over": {}, "summary": {"summary": "s"}}),
    ] {
        let with = stream(&[jp(60, 0, 1, members.clone())]);
        assert_eq!(shown(&with), whole, "{members}");
        assert_eq!(with.summaries().count(), 0, "{members}");
        // An older overlay that it would have shadowed still counts.
        let stacked = stream(&[jp(60, 0, 1, strip()), jp(61, 0, 1, members)]);
        assert_eq!(shown(&stacked), shown(&stream(&[jp(60, 0, 1, strip())])));
    }
}

#[test]
fn jp_numbers_only_its_own_compactions() {
    let stream = stream(&[jp(60, 0, 0, strip()), own(61, 0, 1, hinted()), jp(62, 1, 1, strip())]);
    assert_eq!(jp_numbers(stream.overlays()), [Some(1), None, Some(2)]);
}

#[test]
fn truncates_long_list_of_overlays() {
    let overlays: Vec<_> = (0..9).map(|second| own(60 + second, 0, 1, hinted())).collect();
    let stream = stream(&overlays);
    let why = jp_view(&stream, stream.overlays()).unwrap().why.to_string();
    assert_eq!(why, "JP does not apply overlays 1, 2, 3, 4, 5 and 4 more");
    assert_ne!(project(&stream), jp_view(&stream, stream.overlays()).unwrap().view);
}
