//! Condensed transcripts: they give the same compacted bytes and errors as the whole file, for windows of any size.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use jp_compact_condensed::{Condensed, CondensedLimits};
use jp_compact_core::projection::project;
use jp_compact_core::splice::concat;
use jp_compact_core::{Stream, source};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the compacted bytes of a file, or the error.
fn whole(file: &[u8]) -> Result<Vec<u8>, String> {
    let stream = Stream::parse(file.to_vec().into()).map_err(|error| error.to_string())?;
    Ok(concat(&source::render(&stream, &project(&stream)), file))
}

/// Same as [`whole`], through a condensed transcript. Reads cycle through these sizes, so a second scan has others.
fn condensed(file: &[u8], windows: &[usize], limits: CondensedLimits) -> Result<Vec<u8>, String> {
    let mut sizes = windows.iter().cycle();
    let mut read = |offset: u64, window: &mut [u8]| -> Result<usize, String> {
        let rest = &file[usize::try_from(offset).unwrap()..];
        let bytes = (*sizes.next().unwrap()).min(rest.len()).min(window.len());
        window[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    };
    let mut unchanged = Vec::new();
    let condensed =
        Condensed::read(file.len(), limits, &mut read, |bytes| unchanged.extend_from_slice(bytes));
    assert!(file.starts_with(&unchanged));
    let condensed = condensed?.map_err(|error| error.to_string())?;
    let mut written = Vec::new();
    condensed.compacted(read, |pieces| {
        written.extend(concat(pieces, file));
        Ok(())
    })?;
    if condensed.is_unchanged() && !unchanged.is_empty() {
        assert!(unchanged == file && written == file);
    }
    Ok(written)
}

#[track_caller]
fn check(file: &[u8], windows: &[usize]) {
    let none = CondensedLimits { log_bytes: 0, ids: 0 };
    let small_log = CondensedLimits { log_bytes: 20, ..CondensedLimits::default() };
    for limits in [CondensedLimits::default(), small_log, none] {
        check_within(file, windows, limits);
    }
}

#[track_caller]
fn check_within(file: &[u8], windows: &[usize], limits: CondensedLimits) {
    let (actual, expected) = (condensed(file, windows, limits), whole(file));
    if actual != expected {
        let text = |result: Result<Vec<u8>, String>| {
            result.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        panic!(
            "windows {windows:?}, {limits:?}, file {}\n{:?}\n{:?}",
            String::from_utf8_lossy(file),
            text(actual),
            text(expected)
        );
    }
}

/// A text of any size, with escapes and characters of several bytes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\"\\\\\n\u{e9}\u{1f600}]{0,12}",
        "[a-zA-Z0-9+/\u{e9}\\\\\"]{20,400}",
        Just(String::new()),
        Just("ZjAucnM=".to_owned()),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", "[a-c\"\u{e9}]{1,40}"]
}

/// The members of an element, without its time.
fn members() -> impl Strategy<Value = Value> {
    let turns = (0..6_usize, 0..6_usize);
    let steps = prop_oneof![3 => Just(Value::Null), 1 => (0..3_usize).prop_map(Value::from)];
    prop_oneof![
        3 => Just(json!({"type": "turn_start"})),
        3 => text().prop_map(|text| json!({"type": "chat_request", "content": text})),
        2 => text().prop_map(|text| json!({"type": "chat_response", "message": text})),
        2 => (text(), text()).prop_map(|(text, signature)| {
            json!({"type": "chat_response", "reasoning": text, "metadata": {"signature": signature}})
        }),
        1 => text().prop_map(|text| json!({"type": "chat_response", "data": [text, 1.5e3, null]})),
        1 => Just(json!({"type": "chat_response", "data": 5})),
        3 => (id(), id(), text()).prop_map(|(id, name, text)| {
            json!({"type": "tool_call_request", "id": id, "name": name, "arguments": {"path": text}})
        }),
        1 => (id(), id()).prop_map(|(id, name)| json!({"name": name, "type": "tool_call_request", "id": id})),
        3 => (id(), text(), any::<bool>()).prop_map(|(id, text, is_error)| {
            json!({"content": text, "type": "tool_call_response", "is_error": is_error, "id": id})
        }),
        // Members that stay in memory are directly before members that do not.
        2 => (id(), text(), text()).prop_map(|(id, text, other)| {
            json!({"type": "tool_call_response", "id": id, "is_error": false, "other": other, "content": text})
        }),
        1 => (id(), text(), text()).prop_map(|(id, text, other)| {
            json!({"type": "tool_call_request", "arguments": {"a": text}, "other": other, "name": "b", "id": id})
        }),
        1 => (id(), text()).prop_map(|(id, text)| {
            json!({"type": "inquiry_response", "id": id, "answer": text, "question": {}})
        }),
        1 => text().prop_map(|text| json!({"type": "config_delta", "delta": {"a": text}})),
        1 => text().prop_map(|text| json!({"type": "bookmark", "content": text})),
        2 => (turns.clone(), text()).prop_map(|((from, to), text)| {
            json!({"type": "compaction", "from_turn": from, "to_turn": to, "summary": {"summary": text}})
        }),
        2 => (turns.clone(), any::<bool>(), any::<bool>()).prop_map(|((from, to), request, response)| {
            let strip = json!({"policy": "strip", "request": request, "response": response});
            json!({"type": "compaction", "from_turn": from, "to_turn": to, "reasoning": "strip", "tool_calls": strip})
        }),
        1 => turns.clone().prop_map(|(from, to)| {
            json!({"type": "compaction", "from_turn": from, "to_turn": to, "tool_calls": {"policy": "omit"}})
        }),
        1 => (turns.clone(), steps.clone(), steps).prop_map(|((from, to), from_step, to_step)| {
            let range = json!({"from_turn": from, "to_turn": to, "from_step": from_step, "to_step": to_step});
            let mut members = json!({"type": "jp_compact_step_overlay", "tool_calls": {"policy": "omit"}});
            members.as_object_mut().unwrap().extend(range.as_object().unwrap().clone());
            members
        }),
        1 => (turns.clone(), id(), text(), 0..40_u64).prop_map(|((from, to), id, text, seq)| {
            let call = json!({"seq": seq, "id": id, "response": {"replace": text}});
            let calls = json!({"policy": "selective", "calls": [call]});
            json!({"type": "jp_compact_overlay", "from_turn": from, "to_turn": to, "tool_calls": calls})
        }),
        1 => (turns, text()).prop_map(|((from, to), text)| {
            json!({"type": "jp_compact_receipt", "from_turn": from, "to_turn": to, "strategy": text})
        }),
    ]
}

/// A file: elements with their own white space, most with a time, and sometimes values that are not objects.
fn file() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>()).prop_flat_map(file_with)
}

/// Returns whether the members are an overlay of a type that JP does not read.
fn is_extended(members: &Value) -> bool {
    members["type"].as_str().is_some_and(|kind| kind.ends_with("_overlay"))
}

fn file_with(has_extended: bool) -> impl Strategy<Value = Vec<u8>> {
    let members = members().prop_map(move |members| {
        if !has_extended && is_extended(&members) { json!({"type": "turn_start"}) } else { members }
    });
    let element = (members, 0..4_u32, 0..20_u32).prop_map(|(mut members, layout, second)| {
        if members["type"] != "bookmark" || layout > 0 {
            members["timestamp"] = format!("2026-04-02 09:00:{second:02}.5").into();
        }
        match layout {
            0 => members.to_string(),
            1 => format!("\n  {members:#}"),
            2 => format!(" {members}\t\n"),
            _ => serde_json::to_string_pretty(&members).unwrap(),
        }
    });
    let value = prop_oneof![30 => element, 1 => Just("12".to_owned()), 1 => text().prop_map(|text| json!(text).to_string())];
    (prop::collection::vec(value, 0..24), "[ \n]{0,3}", "[ \n]{0,3}").prop_map(|(elements, start, end)| {
        format!("{start}[{start}{}{end}]{end}", elements.join(",")).into_bytes()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn windows_do_not_change_the_result(file in file(), windows in prop::collection::vec(1..200_usize, 1..4)) {
        check(&file, &windows);
    }

    #[test]
    fn windows_do_not_change_errors(
        file in file(), windows in prop::collection::vec(1..200_usize, 1..4),
        at in any::<prop::sample::Index>(), byte in prop_oneof![Just(b'"'), Just(b'}'), Just(b','), Just(0xFF), any::<u8>()],
    ) {
        let mut file = file;
        let at = at.index(file.len());
        file[at] = byte;
        check(&file, &windows);
    }
}

#[test]
fn file_that_ends_at_any_byte_has_the_same_error() {
    let event = |number: usize, members: Value| {
        let mut event = json!({"timestamp": format!("2026-04-02 09:00:{number:02}")});
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        event
    };
    let file = serde_json::to_vec_pretty(&json!([
        event(0, json!({"type": "turn_start"})),
        event(1, json!({"type": "chat_request", "content": "caf\u{e9} \u{1f600} ".repeat(12)})),
        event(2, json!({"type": "tool_call_request", "id": "a", "name": "read", "arguments": {"path": "x".repeat(90)}})),
        event(3, json!({"type": "tool_call_response", "id": "a", "is_error": false, "content": "QUJD".repeat(40)})),
        -12.5e7,
        event(4, json!({"type": "compaction", "from_turn": 0, "to_turn": 0, "tool_calls": {"policy": "omit"}})),
    ]))
    .unwrap();
    for end in 0..=file.len() {
        for window in [1, 7, 64, 300] {
            check(&file[..end], &[window]);
        }
    }
}
