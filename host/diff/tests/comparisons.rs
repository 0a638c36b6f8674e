//! Comparisons of whole streams: each event of a view is in one entry, the changes save as many tokens as the views
//! differ by, and each names the overlay that made it. JP's cases are checked if `../shared/data/jp-golden` has them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a panic fails the test, and it prints which cases are missing"
)]

use std::fs;
use std::path::{Path, PathBuf};

use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::{Pairs, Stream};
use jp_compact_diff::{Comparison, NoSuchOverlay, OverlayChoice, SizedChanges};
use jp_compact_schema::document::ChangeKind;
use serde_json::{Value, json};

fn stream(events: &[Value]) -> Stream {
    Stream::parse(serde_json::to_vec(events).unwrap().into()).unwrap()
}

fn event(kind: &str, members: Value) -> Value {
    let mut event = json!({"timestamp": "2026-03-18 11:58:01.0", "type": kind});
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event
}

/// Returns a turn with reasoning, a call, its result, and a message.
fn turn(number: usize) -> Vec<Value> {
    let id = format!("call_{number}");
    let result = "line one of the result\nline two of the result\nline three of the result";
    vec![
        event("turn_start", json!({})),
        event("chat_request", json!({"content": format!("Request {number}.")})),
        event("chat_response", json!({"reasoning": "It has to be read."})),
        event("tool_call_request", json!({"id": id, "name": "read", "arguments": {"path": 1}})),
        event("tool_call_response", json!({"id": id, "content": result, "is_error": false})),
        event("chat_response", json!({"message": "It is read."})),
    ]
}

/// Returns three turns with these overlays. The overlays are one second apart.
fn compacted(overlays: &[(&str, Value)]) -> Stream {
    let mut events: Vec<Value> = (0..3).flat_map(turn).collect();
    for (second, (kind, members)) in overlays.iter().enumerate() {
        let mut overlay = event(kind, members.clone());
        overlay["timestamp"] = json!(format!("2026-03-19 11:58:{second:02}.0"));
        events.push(overlay);
    }
    stream(&events)
}

/// Returns the changes that the chosen overlays make: for each, the kind, the number of the overlay, and the text in
/// the second view.
fn changes(stream: &Stream, choice: &OverlayChoice) -> Vec<(ChangeKind, Option<usize>, String)> {
    let pairs = Pairs::new(stream);
    let comparison = Comparison::new(stream, &pairs, choice);
    let changed = comparison.entries.iter().filter_map(|entry| {
        let number = entry.overlay.map(|index| index + 1);
        Some((entry.kind?, number, comparison.texts(entry).1))
    });
    changed.collect()
}

#[track_caller]
fn check(overlays: &[(&str, Value)], expected: &[(ChangeKind, Option<usize>, &str)]) {
    let stream = compacted(overlays);
    let found = changes(&stream, &OverlayChoice::all(stream.overlays()));
    let found: Vec<_> = found.iter().map(|(kind, number, text)| (*kind, *number, text.as_str())).collect();
    assert_eq!(found, expected);
}

fn strip(request: bool, response: bool) -> Value {
    json!({"policy": "strip", "request": request, "response": response})
}

#[test]
fn strip_shortens_calls_and_replaces_results() {
    check(
        &[(
            "compaction",
            json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip", "tool_calls": strip(true, true)}),
        )],
        &[
            (ChangeKind::Removed, Some(1), ""),
            (ChangeKind::Shortened, Some(1), ""),
            (ChangeKind::Replaced, Some(1), "[compacted] read: success"),
        ],
    );
}

#[test]
fn result_that_keeps_a_line_is_shortened() {
    let calls = json!([{"seq": 4, "id": "call_0", "half": {"kind": "response", "nth": 0, "of": 1, "tool": "read"},
        "response": {"replace": "line one of the result\n[2 lines removed]"}}]);
    check(
        &[(
            "jp_compact_overlay",
            json!({"from_turn": 0, "to_turn": 0, "tool_calls": {"policy": "selective", "calls": calls}}),
        )],
        &[(ChangeKind::Shortened, Some(1), "line one of the result\n[2 lines removed]")],
    );
}

#[test]
fn omitted_halves_name_their_overlay() {
    check(
        &[("compaction", json!({"from_turn": 1, "to_turn": 1, "tool_calls": {"policy": "omit"}}))],
        &[(ChangeKind::Removed, Some(1), ""), (ChangeKind::Removed, Some(1), "")],
    );
}

#[test]
fn summary_is_added_after_the_events_that_it_replaces() {
    let summary = json!({"from_turn": 0, "to_turn": 0, "summary": {"summary": "It was read."}});
    let mut expected = vec![(ChangeKind::Summarized, Some(2), ""); 5];
    expected.push((ChangeKind::Added, Some(2), "It was read."));
    let strip = ("compaction", json!({"from_turn": 0, "to_turn": 0, "tool_calls": strip(true, true)}));
    check(&[strip, ("compaction", summary)], &expected);
}

#[test]
fn newer_summary_replaces_an_older_one() {
    let summary = |to: usize, text: &str| {
        ("compaction", json!({"from_turn": 0, "to_turn": to, "summary": {"summary": text}}))
    };
    let stream = compacted(&[summary(0, "One."), summary(1, "Two.")]);
    let choice = OverlayChoice::of_numbers(stream.overlays(), &[2]).unwrap();
    let found = changes(&stream, &choice);
    assert_eq!(found.len(), 1 + 5 + 1, "{found:?}");
    assert!(found[..6].iter().all(|(kind, number, _)| (*kind, *number) == (ChangeKind::Summarized, Some(2))));
    assert_eq!(found[6], (ChangeKind::Added, Some(2), "Two.".to_owned()));
    let same = changes(&stream, &OverlayChoice::added(stream.overlays(), []));
    assert_eq!(same, []);
}

#[test]
fn newer_overlay_restores_events_that_an_older_one_hid() {
    let policy = |policy: Value| ("compaction", json!({"from_turn": 0, "to_turn": 0, "tool_calls": policy}));
    let stream = compacted(&[policy(strip(true, true)), policy(strip(true, false))]);
    let choice = OverlayChoice::of_numbers(stream.overlays(), &[2]).unwrap();
    let found = changes(&stream, &choice);
    let [(kind, number, text)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((*kind, *number), (ChangeKind::Restored, Some(2)));
    assert!(text.starts_with("line one"), "{text}");
}

#[test]
fn unknown_number_is_rejected() {
    let stream = compacted(&[("compaction", json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip"}))]);
    for number in [0, 2, usize::MAX] {
        let choice = OverlayChoice::of_numbers(stream.overlays(), &[1, number]);
        assert_eq!(choice, Err(NoSuchOverlay(number)));
    }
}

/// Returns the folders of the project's own cases, and of JP's if they are present.
fn cases() -> Vec<PathBuf> {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cases = Vec::new();
    for folder in ["../core/tests/cases", "../../../shared/data/jp-golden"] {
        match fs::read_dir(manifest_dir.join(folder)) {
            Ok(entries) => cases.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => eprintln!("{folder} is missing"),
        }
    }
    cases.retain(|case| case.join("events.json").is_file());
    assert!(!cases.is_empty());
    cases.sort();
    cases
}

#[test]
fn entries_cover_both_views_and_changes_sum_to_the_saving() {
    for case in cases() {
        let stream = Stream::parse(fs::read(case.join("events.json")).unwrap().into()).unwrap();
        let (pairs, estimate) = (Pairs::new(&stream), Estimate::new(&stream, Estimator::default()));
        let comparison = Comparison::new(&stream, &pairs, &OverlayChoice::all(stream.overlays()));
        for (view, index) in [
            (&comparison.before, (|entry| entry.before) as fn(&jp_compact_diff::DiffEntry) -> Option<usize>),
            (&comparison.after, |entry| entry.after),
        ] {
            let indices: Vec<usize> = comparison.entries.iter().filter_map(index).collect();
            assert!(indices.is_sorted(), "{}", case.display());
            let shown = (0..view.items().len()).filter(|index| view.items()[*index].event(&stream).is_some());
            let is_request = |index: &usize| {
                matches!(view.items()[*index].part, jp_compact_core::view::Part::SummaryRequest { .. })
            };
            let shown: Vec<usize> = shown.filter(|index| !is_request(index)).collect();
            assert_eq!(indices, shown, "{}", case.display());
        }
        let changes = SizedChanges::new(&comparison, &estimate, None);
        let (tokens, _) = changes.total();
        let saved = i128::from(estimate.view_tokens(&comparison.before))
            - i128::from(estimate.view_tokens(&comparison.after));
        let saved_by_changes = i128::from(tokens.view_before) - i128::from(tokens.view_after);
        assert!((saved - saved_by_changes).abs() <= 1, "{}: {saved} {saved_by_changes}", case.display());
        for change in &changes.changes {
            assert!(change.entry.overlay.is_some(), "{}: {change:?}", case.display());
        }
    }
}
