//! The trigger of automatic compaction (RFD D17, "Trigger"), and its start (`from = AfterLastCompaction`).

use jp_compact_core::Survey;
use jp_compact_core::auto::{AutoVerdict, Threshold, Trigger, verdict};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use serde_json::json;

use crate::build::{Build, compaction, own_overlay};

/// Checks six turns. Their view has 646 tokens, or 544 without reasoning.
fn check(threshold: Threshold, min_turns: usize, strip_reasoning: bool, expected: AutoVerdict) {
    let mut build = Build::turns(6);
    if strip_reasoning {
        build = build.element(compaction(60, 0, 5, json!({"reasoning": "strip"})));
    }
    let stream = build.stream();
    assert_eq!(verdict(&Survey::new(&stream), Trigger { threshold, min_turns }), expected);
}

#[test]
fn view_above_ratio_of_window_is_due() {
    let ratio_of = |window| Threshold::Ratio(0.75, Some(window));
    check(ratio_of(800), 5, false, AutoVerdict::Due { view: 646, threshold: 600 });
    check(ratio_of(862), 5, false, AutoVerdict::Small { view: 646, threshold: 646 });
    check(ratio_of(861), 5, false, AutoVerdict::Due { view: 646, threshold: 645 });
}

#[test]
fn compacted_events_do_not_count() {
    check(Threshold::Tokens(600), 5, false, AutoVerdict::Due { view: 646, threshold: 600 });
    check(Threshold::Tokens(600), 5, true, AutoVerdict::Small { view: 544, threshold: 600 });
}

#[test]
fn requires_more_than_min_turns() {
    check(Threshold::Tokens(1), 6, false, AutoVerdict::Short { turns: 6, min_turns: 6 });
    check(Threshold::Tokens(1), 5, false, AutoVerdict::Due { view: 646, threshold: 1 });
}

#[test]
fn unknown_window_disables_ratio_but_not_threshold() {
    check(Threshold::Ratio(0.75, None), 5, false, AutoVerdict::UnknownWindow);
    check(Threshold::Tokens(204_800), 5, false, AutoVerdict::Small { view: 646, threshold: 204_800 });
}

#[test]
fn position_after_last_overlay_depends_on_kind() {
    let stream = Build::turns(6)
        .element(compaction(60, 0, 3, json!({"reasoning": "strip"})))
        .element(own_overlay(61, 0, 1, json!({"tool_calls": {"policy": "omit"}})))
        // A selective policy does not count, because the other calls in its turns are not compacted.
        .element(own_overlay(62, 0, 5, json!({"tool_calls": {"policy": "selective", "calls": [{"seq": 3, "id": "c0", "request": "strip"}]}})))
        .stream();
    assert_eq!(stream.after_last_overlay_of(&[Reasoning]), 4.into());
    assert_eq!(stream.after_last_overlay_of(&[ToolCalls]), 2.into());
    assert_eq!(stream.after_last_overlay_of(&[ToolCalls, Reasoning]), 4.into());
    assert_eq!(stream.after_last_overlay_of(&[Summary]), 0.into());
}
