//! Entries of a stored `selective` policy: each matches the half that it was made for, despite inserted elements.

use std::collections::BTreeMap;

use jp_compact_core::halves::Halves;
use jp_compact_core::overlay::ToolPolicy;
use jp_compact_core::projection::project;
use jp_compact_core::view::Part;
use jp_compact_core::{Pairs, Stream, TurnRange};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::build::{Build, format_projection, own_overlay};

/// Returns a `selective` overlay over a turn range, with one entry.
fn entry(from: usize, to: usize, call: Value) -> Value {
    own_overlay(90, from, to, json!({"tool_calls": {"policy": "selective", "calls": [call]}}))
}

fn half(kind: &str, nth: usize, of: usize, tool: &str) -> Value {
    json!({"kind": kind, "nth": nth, "of": of, "tool": tool})
}

/// Returns two calls with the same id, as in JP's conversations.
fn calls() -> Build {
    Build::default().ask("a").call("x", "read").answer("x", "1").call("x", "read").answer("x", "2").say("b")
}

#[track_caller]
fn check(build: &Build, call: Value, view: &str, description: &str) {
    let stream = build.clone().element(entry(0, 0, call)).stream();
    assert_eq!(format_projection(&stream), view);
    let pairs = Pairs::new(&stream);
    let overlay = &stream.overlays()[0];
    let Some(ToolPolicy::Selective(calls)) = &overlay.tool_calls else {
        panic!("expected a selective policy")
    };
    let mismatch = Halves::new(&stream, &pairs).find(overlay, &calls[0]).err();
    let actual = mismatch.map(|mismatch| mismatch.describe(&calls[0])).unwrap_or_default();
    assert_eq!(actual, description);
}

const UNCHANGED: &str = "?a >x{x} <x:1 >x{x} <x:2 =b";

#[test]
fn entry_matches_nth_half_despite_wrong_number() {
    let strip = |nth, seq| json!({"seq": seq, "id": "x", "half": half("request", nth, 2, "read"), "request": "strip"});
    check(&calls(), strip(0, 1), "?a >x{} <x:1 >x{x} <x:2 =b", "");
    check(&calls(), strip(1, 3), "?a >x{x} <x:1 >x{} <x:2 =b", "");
    check(&calls(), strip(1, 77), "?a >x{x} <x:1 >x{} <x:2 =b", "");
    let omit = |nth| json!({"seq": 0, "id": "x", "half": half("response", nth, 2, "read"), "omit": true});
    check(&calls(), omit(0), "?a >x{x} <x:2 =b", "");
}

#[test]
fn entry_of_0_1_0_matches_by_number_and_id() {
    check(&calls(), json!({"seq": 3, "id": "x", "request": "strip"}), "?a >x{x} <x:1 >x{} <x:2 =b", "");
    let description = "no effect on event 5: it is not the request or response of call `x` in the range";
    check(&calls(), json!({"seq": 5, "id": "x", "request": "strip"}), UNCHANGED, description);
}

#[test]
fn entry_has_no_effect_if_count_or_tool_differs() {
    let strip = |of, tool: &str| json!({"seq": 3, "id": "x", "half": half("request", 1, of, tool), "request": "strip"});
    let count_description = |stored| {
        format!(
            "no effect on event 3: call `x` occurred {stored} times in the range when the overlay was made, and occurs 2 times now"
        )
    };
    check(&calls(), strip(3, "read"), UNCHANGED, &count_description(3));
    check(&calls(), strip(1, "read"), UNCHANGED, &count_description(1));
    let description =
        "no effect on event 3: the tool of call `x` was `grep` when the overlay was made, and is `read` now";
    check(&calls(), strip(2, "grep"), UNCHANGED, description);
}

#[test]
fn events_after_overlay_or_range_do_not_count() {
    let call = json!({"seq": 3, "id": "x", "half": half("response", 1, 2, "read"), "response": "strip"});
    let stripped = "?a >x{x} <x:1 >x{x} <x:[compacted] read: success =b";
    let build = calls().element(entry(0, 0, call));
    assert_eq!(format_projection(&build.stream()), stripped);
    // The conversation continues in the same turn and in the next turn, and reuses the id.
    let same_turn = build.call("x", "grep").answer("x", "3").say("c");
    assert_eq!(
        format_projection(&same_turn.stream()),
        format!("{stripped} >x{{x}} <x:3 =c").replace("] read", "] grep")
    );
    let next_turn = same_turn.turn().ask("d").call("x", "read").answer("x", "4").say("e");
    assert_eq!(
        format_projection(&next_turn.stream()),
        format!("{stripped} >x{{x}} <x:3 =c | ?d >x{{x}} <x:4 =e")
    );
}

/// Returns a stream that begins with a request, as JP's do. Each element has a unique number.
fn elements() -> impl Strategy<Value = Vec<Value>> {
    let id = || prop::sample::select(vec!["a", "b", "c"]);
    let event = prop_oneof![
        1 => Just(json!({"type": "turn_start"})),
        1 => Just(json!({"type": "chat_request", "content": "u"})),
        2 => Just(json!({"type": "chat_response", "message": "m"})),
        6 => (id(), prop::sample::select(vec!["read", "grep"]))
            .prop_map(|(id, tool)| json!({"type": "tool_call_request", "id": id, "name": tool, "arguments": {"x": "eA=="}})),
        6 => id().prop_map(|id| json!({"type": "tool_call_response", "id": id, "content": "eA==", "is_error": false})),
        1 => Just(json!({"type": "bookmark"})),
        1 => Just(json!({"type": "config_delta", "delta": {}})),
    ];
    (any::<bool>(), prop::collection::vec(event, 1..40)).prop_map(|(has_turn_start, mut events)| {
        events.insert(0, json!({"type": "chat_request", "content": "u"}));
        if has_turn_start {
            events.insert(0, json!({"type": "turn_start"}));
        }
        for (number, event) in events.iter_mut().enumerate() {
            event["timestamp"] = "2026-04-02 09:00:00.0".into();
            event["number"] = number.into();
        }
        events
    })
}

fn parse(elements: &[Value]) -> Stream {
    Stream::parse(Value::from(elements.to_vec()).to_string().into()).unwrap()
}

/// Returns an overlay that hides the picked halves, as `validate` would make it. An event has at most one entry.
fn hiding_overlay(elements: &[Value], from: usize, to: usize, picks: &[(usize, u8)]) -> Option<Value> {
    let picks: BTreeMap<usize, u8> = picks.iter().copied().collect();
    let stream = parse(elements);
    let pairs = Pairs::new(&stream);
    let halves = Halves::new(&stream, &pairs);
    let range = TurnRange::new(from, to)?;
    let mut calls: Vec<Value> = Vec::new();
    for (element, action) in &picks {
        let Some(event) = stream.events().get(*element) else { continue };
        let is_request = elements[*element]["type"] == "tool_call_request";
        if !event.kind.is_tool() || !range.contains(event.turn) {
            continue;
        }
        let mut call = json!({
            "seq": event.seq, "id": elements[*element]["id"], "half": halves.half(*element, range, usize::MAX),
        });
        match (action, is_request) {
            (0, _) => call["omit"] = true.into(),
            (_, true) => call["request"] = "strip".into(),
            (1, false) => call["response"] = "strip".into(),
            (_, false) => call["response"] = json!({"replace": "r"}),
        }
        calls.push(call);
    }
    (!calls.is_empty())
        .then(|| own_overlay(90, from, to, json!({"tool_calls": {"policy": "selective", "calls": calls}})))
}

/// Returns the elements after JP's next save, which inserts the first `turn_start`, and responses for ids without one.
fn saved(elements: &[Value]) -> Vec<Value> {
    let has_type = |event: &Value, kind: &str| event["type"] == kind;
    let answered: Vec<_> = elements
        .iter()
        .filter(|event| has_type(event, "tool_call_response"))
        .map(|event| event["id"].clone())
        .collect();
    let mut saved = Vec::new();
    let first_turn_start = elements.iter().position(|event| has_type(event, "turn_start"));
    let first_request = elements.iter().position(|event| has_type(event, "chat_request"));
    for (index, event) in elements.iter().enumerate() {
        if Some(index) == first_request
            && first_turn_start.is_none_or(|first_turn_start| first_turn_start > index)
        {
            saved.push(json!({"type": "turn_start", "timestamp": event["timestamp"]}));
        }
        saved.push(event.clone());
        if has_type(event, "tool_call_request") && !answered.contains(&event["id"]) {
            saved.push(json!({
                "type": "tool_call_response", "timestamp": event["timestamp"], "id": event["id"],
                "content": "VG9vbCBjYWxsIHdhcyBpbnRlcnJ1cHRlZC4=", "is_error": true,
            }));
        }
    }
    saved
}

/// Returns the `number` of each element of the view, and its change.
fn shown_halves(elements: &[Value]) -> Vec<(Value, String)> {
    let stream = parse(elements);
    let view = project(&stream);
    let items = view.items().iter().filter_map(|item| match &item.part {
        Part::Kept(element) => Some((*element, "kept".to_owned())),
        Part::Emptied(element) => Some((*element, "emptied".to_owned())),
        Part::Replaced(element, text) => Some((*element, text.clone())),
        _ => None,
    });
    items
        .map(|(element, change)| (elements[element]["number"].clone(), change))
        .filter(|(number, _)| !number.is_null())
        .collect()
}

proptest! {
    #[test]
    fn entries_survive_next_save_of_jp(
        elements in elements(),
        (from, to) in (0..4usize, 0..4usize),
        picks in prop::collection::vec((0..42usize, 0..3u8), 1..6),
        bookmarks in prop::collection::vec(0..42usize, 0..4),
        later_elements in elements(),
    ) {
        if let Some(overlay) = hiding_overlay(&elements, from, to, &picks) {
            let mut before = elements.clone();
            before.push(overlay);
            let view = shown_halves(&before);
            prop_assert_eq!(&shown_halves(&saved(&before)), &view);
            // Unknown elements shift the `seq` of the events after them.
            let mut with_bookmarks = saved(&before);
            for index in bookmarks {
                let index = index.min(with_bookmarks.len());
                with_bookmarks.insert(index, json!({"type": "bookmark", "timestamp": "2026-04-02 09:00:00.0"}));
            }
            prop_assert_eq!(&shown_halves(&with_bookmarks), &view);
            // The conversation continues: exactly the same halves stay hidden.
            let mut continued = before;
            continued.extend(later_elements.into_iter().map(|mut event| { event["number"] = Value::Null; event }));
            let continued = shown_halves(&continued);
            let kept_flags = |view: &[(Value, String)]| -> Vec<(Value, bool)> {
                view.iter().map(|(number, change)| (number.clone(), change == "kept")).collect()
            };
            prop_assert_eq!(kept_flags(&continued), kept_flags(&view));
        }
    }
}
