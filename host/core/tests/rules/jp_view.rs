//! The view that JP itself sends, where it differs from the view of `jp-compact`.

use jp_compact_core::Stream;
use jp_compact_core::jp_view::{jp_numbers, jp_view};
use jp_compact_core::projection::project;
use serde_json::{Value, json};

use crate::build::{Build, compaction, format_projection, format_view, own_overlay};

fn strip() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": true, "response": true}})
}

fn hinted() -> Value {
    json!({"tool_calls": {"policy": "strip", "request": true, "response": true},
           "tool_overrides": {"read": {"response": "keep"}}})
}

fn stream(overlays: &[Value]) -> Stream {
    Build::turns(2).elements(overlays).stream()
}

/// Checks that JP's view of a stream with `overlays` equals our view of a stream with `equivalent`.
#[track_caller]
fn check(overlays: &[Value], equivalent: &[Value], reason: &str) {
    let stream = stream(overlays);
    let jp_view = jp_view(&stream, stream.overlays()).unwrap();
    assert_eq!(format_view(&stream, &jp_view.view), format_projection(&self::stream(equivalent)));
    assert_eq!(jp_view.difference.to_string(), reason);
}

#[test]
fn jp_sends_our_view_if_it_reads_every_overlay() {
    for overlays in
        [&[][..], &[compaction(60, 0, 0, strip())], &[compaction(60, 0, 1, json!({"reasoning": "strip"}))]]
    {
        let stream = stream(overlays);
        assert_eq!(jp_view(&stream, stream.overlays()), None);
    }
}

#[test]
fn jp_ignores_own_overlays() {
    check(&[own_overlay(60, 0, 1, hinted())], &[], "JP does not apply overlay 1");
    let older = compaction(60, 0, 0, strip());
    check(&[older.clone(), own_overlay(61, 0, 1, hinted())], &[older], "JP does not apply overlay 2");
}

#[test]
fn jp_applies_compaction_without_over() {
    let with_over = |members: Value| {
        let mut members = members;
        members["over"] = json!(100);
        members
    };
    check(
        &[compaction(60, 0, 1, with_over(strip()))],
        &[compaction(60, 0, 1, strip())],
        "JP applies overlay 1 without `over`",
    );
    let both = [own_overlay(60, 0, 0, hinted()), compaction(61, 0, 1, with_over(strip()))];
    let reason = "JP does not apply overlay 1, and JP applies overlay 2 without `over`";
    check(&both, &[compaction(61, 0, 1, strip())], reason);
}

#[test]
fn overlay_with_over_has_no_effect_in_our_view() {
    let unreduced = format_projection(&stream(&[]));
    for members in [
        json!({"over": 5, "tool_calls": {"policy": "omit"}}),
        json!({"tool_calls": {"policy": "omit", "over": {"tokens": 9}}}),
        json!({"reasoning": {"policy": "strip", "over": 1}}),
        json!({"over": {}, "summary": {"summary": "s"}}),
    ] {
        let with_overlay = stream(&[compaction(60, 0, 1, members.clone())]);
        assert_eq!(format_projection(&with_overlay), unreduced, "{members}");
        assert_eq!(with_overlay.summaries().count(), 0, "{members}");
        // The overlay does not replace an older overlay either.
        let stacked = stream(&[compaction(60, 0, 1, strip()), compaction(61, 0, 1, members)]);
        assert_eq!(format_projection(&stacked), format_projection(&stream(&[compaction(60, 0, 1, strip())])));
    }
    let half = json!({"kind": "request", "nth": 0, "of": 1, "tool": "read"});
    for call in [
        json!({"seq": 3, "id": "c0", "request": "strip"}),
        json!({"seq": 3, "id": "c0", "half": half, "request": "strip"}),
    ] {
        let mut members = json!({"tool_calls": {"policy": "selective", "calls": [call]}});
        assert_ne!(format_projection(&stream(&[own_overlay(60, 0, 1, members.clone())])), unreduced);
        members["over"] = json!(5);
        assert_eq!(
            format_projection(&stream(&[own_overlay(60, 0, 1, members.clone())])),
            unreduced,
            "{members}"
        );
    }
}

#[test]
fn jp_numbers_only_its_own_compactions() {
    let stream = stream(&[
        compaction(60, 0, 0, strip()),
        own_overlay(61, 0, 1, hinted()),
        compaction(62, 1, 1, strip()),
    ]);
    assert_eq!(jp_numbers(stream.overlays()), [Some(1), None, Some(2)]);
}

#[test]
fn truncates_long_list_of_overlays() {
    let overlays: Vec<_> = (0..9).map(|second| own_overlay(60 + second, 0, 1, hinted())).collect();
    let stream = stream(&overlays);
    let reason = jp_view(&stream, stream.overlays()).unwrap().difference.to_string();
    assert_eq!(reason, "JP does not apply overlays 1, 2, 3, 4, 5 and 4 more");
    assert_ne!(project(&stream), jp_view(&stream, stream.overlays()).unwrap().view);
}
