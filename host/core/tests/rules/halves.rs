//! An entry of a stored `selective` matches the half that it was made for, despite inserted elements.

use std::collections::BTreeMap;

use jp_compact_core::halves::Halves;
use jp_compact_core::overlay::ToolPolicy;
use jp_compact_core::projection::project;
use jp_compact_core::view::Part;
use jp_compact_core::{Pairs, Stream, TurnRange};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::build::{Build, own, shown};

/// Returns a `selective` overlay over a turn range, with one entry.
fn entry(from: usize, to: usize, call: Value) -> Value {
    own(90, from, to, json!({"tool_calls": {"policy": "selective", "calls": [call]}}))
}

fn half(kind: &str, nth: usize, of: usize, tool: &str) -> Value {
    json!({"kind": kind, "nth": nth, "of": of, "tool": tool})
}

/// Two calls with the same id, as in JP's conversations.
fn calls() -> Build {
    Build::default().ask("a").call("x", "read").answer("x", "1").call("x", "read").answer("x", "2").say("b")
}

#[track_caller]
fn check(build: &Build, call: Value, view: &str, remark: &str) {
    let stream = build.clone().raw(entry(0, 0, call)).stream();
    assert_eq!(shown(&stream), view);
    let pairs = Pairs::new(&stream);
    let overlay = &stream.overlays()[0];
    let Some(ToolPolicy::Selective(calls)) = &overlay.tool_calls else {
        panic!("expected a selective policy")
    };
    let lost = Halves::new(&stream, &pairs).find(overlay, &calls[0]).err();
    let described = lost.map(|lost| lost.describe(&calls[0])).unwrap_or_default();
    assert_eq!(described, remark);
}

const WHOLE: &str = "?a >x{x} <x:1 >x{x} <x:2 =b";

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
    let remark = "no effect on event 5: it is not the request or response of call `x` in the range";
    check(&calls(), json!({"seq": 5, "id": "x", "request": "strip"}), WHOLE, remark);
}

#[test]
fn entry_has_no_effect_if_count_or_tool_differs() {
    let strip = |of, tool: &str| json!({"seq": 3, "id": "x", "half": half("request", 1, of, tool), "request": "strip"});
    let count = |was| {
        format!(
            "no effect on event 3: call `x` occurred {was} times in the range when the overlay was made, and occurs 2 times now"
        )
    };
    check(&calls(), strip(3, "read"), WHOLE, &count(3));
    check(&calls(), strip(1, "read"), WHOLE, &count(1));
    let remark =
        "no effect on event 3: the tool of call `x` was `grep` when the overlay was made, and is `read` now";
    check(&calls(), strip(2, "grep"), WHOLE, remark);
}

#[test]
fn events_after_overlay_or_range_do_not_count() {
    let call = json!({"seq": 3, "id": "x", "half": half("response", 1, 2, "read"), "response": "strip"});
    let stripped = "?a >x{x} <x:1 >x{x} <x:[compacted] read: success =b";
    let build = calls().raw(entry(0, 0, call));
    assert_eq!(shown(&build.stream()), stripped);
    // The conversation continues in the same turn and in the next one, and reuses the id.
    let same = build.call("x", "grep").answer("x", "3").say("c");
    assert_eq!(shown(&same.stream()), format!("{stripped} >x{{x}} <x:3 =c").replace("] read", "] grep"));
    let next = same.turn().ask("d").call("x", "read").answer("x", "4").say("e");
    assert_eq!(shown(&next.stream()), format!("{stripped} >x{{x}} <x:3 =c | ?d >x{{x}} <x:4 =e"));
}

/// A stream that begins with a request, as JP's do. Each element has a unique number.
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
    (any::<bool>(), prop::collection::vec(event, 1..40)).prop_map(|(opens, mut events)| {
        events.insert(0, json!({"type": "chat_request", "content": "u"}));
        if opens {
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

/// Hides some halves of some turns with an overlay as `validate` makes it: with at most one entry for an event.
fn hide(elements: &[Value], from: usize, to: usize, picks: &[(usize, u8)]) -> Option<Value> {
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
        .then(|| own(90, from, to, json!({"tool_calls": {"policy": "selective", "calls": calls}})))
}

/// Applies the changes of JP's next save: inserts the first `turn_start`, and responses for ids without one.
fn saved(elements: &[Value]) -> Vec<Value> {
    let is = |event: &Value, kind: &str| event["type"] == kind;
    let answered: Vec<_> = elements
        .iter()
        .filter(|event| is(event, "tool_call_response"))
        .map(|event| event["id"].clone())
        .collect();
    let mut saved = Vec::new();
    let opens = elements.iter().position(|event| is(event, "turn_start"));
    let asks = elements.iter().position(|event| is(event, "chat_request"));
    for (place, event) in elements.iter().enumerate() {
        if Some(place) == asks && opens.is_none_or(|opens| opens > place) {
            saved.push(json!({"type": "turn_start", "timestamp": event["timestamp"]}));
        }
        saved.push(event.clone());
        if is(event, "tool_call_request") && !answered.contains(&event["id"]) {
            saved.push(json!({
                "type": "tool_call_response", "timestamp": event["timestamp"], "id": event["id"],
                "content": "VG9vbCBjYWxsIHdhcyBpbnRlcnJ1cHRlZC4=", "is_error": true,
            }));
        }
    }
    saved
}

/// Returns each numbered element of a view, and whether it is shown unchanged.
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
        .map(|(element, how)| (elements[element]["number"].clone(), how))
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
        later in elements(),
    ) {
        if let Some(overlay) = hide(&elements, from, to, &picks) {
            let mut before = elements.clone();
            before.push(overlay);
            let view = shown_halves(&before);
            prop_assert_eq!(&shown_halves(&saved(&before)), &view);
            // Unknown elements at any position have numbers too.
            let mut moved = saved(&before);
            for place in bookmarks {
                let place = place.min(moved.len());
                moved.insert(place, json!({"type": "bookmark", "timestamp": "2026-04-02 09:00:00.0"}));
            }
            prop_assert_eq!(&shown_halves(&moved), &view);
            // The conversation continues: exactly the same halves stay hidden.
            let mut grown = before;
            grown.extend(later.into_iter().map(|mut event| { event["number"] = Value::Null; event }));
            let grown = shown_halves(&grown);
            let kinds = |view: &[(Value, String)]| -> Vec<(Value, bool)> {
                view.iter().map(|(number, how)| (number.clone(), how == "kept")).collect()
            };
            prop_assert_eq!(kinds(&grown), kinds(&view));
        }
    }
}
