//! The messages for a model without tools, and the turn that is appended afterwards.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::append::{Held, turn};
use jp_compact_core::projection::project;
use jp_compact_core::render::spoken;
use jp_compact_core::splice::concat;
use jp_compact_schema::Role;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::build::{Build, at, jp, shown, when};
use crate::properties::transcript;

/// Checks the messages to the model, one per line. `?` marks the user's.
#[track_caller]
fn check(build: Build, expected: &str) {
    let stream = build.stream();
    let asked = spoken(&stream, &project(&stream), "next");
    let lines: Vec<_> = asked
        .iter()
        .map(|said| {
            let mark = if said.role == Role::User { '?' } else { '=' };
            format!("{mark}{}", said.content.replace("\n\n", "/"))
        })
        .collect();
    assert_eq!(lines.join(" "), expected);
}

#[test]
fn renders_calls_and_responses_as_text() {
    let build = Build::default().turn().ask("q").think("t").say("I look.");
    check(
        build.call("a", "read").call("b", "grep").fail("b", "none").answer("a", "body").say("done"),
        "?q =I look./[Call of read: {\"of\":\"a\"}]/[Call of grep: {\"of\":\"b\"}] \
         ?[Answer of read: body]/[Error of grep: none] =done ?next",
    );
}

#[test]
fn joins_last_and_next_user_text() {
    check(Build::default().turn().ask("q"), "?q/next");
    check(
        Build::default().turn().ask("q").call("a", "read").answer("a", "body"),
        "?q =[Call of read: {\"of\":\"a\"}] ?[Answer of read: body]/next",
    );
}

#[test]
fn empty_conversation_begins_with_user() {
    check(Build::default(), "?next");
    check(Build::default().turn(), "?next");
}

#[test]
fn renders_unanswered_calls_as_errors() {
    check(
        Build::default().turn().ask("q").call("a", "read"),
        "?q =[Call of read: {\"of\":\"a\"}] ?[Error of read: [This call was not answered]]/next",
    );
}

#[test]
fn renders_the_view() {
    let summary = json!({"summary": {"summary": "S"}});
    check(Build::turns(3).raw(jp(90, 0, 2, summary)), "?[Summary of previous conversation] =S ?next");
}

#[test]
fn appends_turn_in_jp_layout() {
    let held = Held { request: "q \"\u{e9}\n", asked: when(50), response: "a", answered: when(52) };
    for build in [Build::default(), Build::turns(1).raw(jp(90, 0, 0, json!({"reasoning": "strip"})))] {
        let stream = build.stream();
        let bytes = concat(&turn(&stream, &held), stream.bytes());
        let held = [
            json!({"timestamp": at(50), "type": "turn_start"}),
            json!({"timestamp": at(50), "type": "chat_request", "content": "q \"\u{e9}\n"}),
            json!({"timestamp": at(52), "type": "chat_response", "message": "a"}),
        ];
        assert_eq!(bytes, build.all(&held).bytes());
    }
}

proptest! {
    #[test]
    fn roles_alternate_without_blank_texts(bytes in transcript()) {
        let stream = Stream::parse(bytes).unwrap();
        let asked = spoken(&stream, &project(&stream), "next");
        for (place, said) in asked.iter().enumerate() {
            prop_assert_eq!(said.role, if place % 2 == 0 { Role::User } else { Role::Assistant });
            prop_assert!(!said.content.trim().is_empty());
        }
        prop_assert!(asked.len() % 2 == 1 && asked[asked.len() - 1].content.ends_with("next"));
    }

    #[test]
    fn appending_a_turn_keeps_history(bytes in transcript()) {
        let stream = Stream::parse(bytes.clone()).unwrap();
        let held = Held { request: "q", asked: when(80), response: "a", answered: when(81) };
        let longer = Bytes::from(concat(&turn(&stream, &held), &bytes));
        prop_assert!(longer.starts_with(&bytes[..stream.body_end()]));
        let longer = Stream::parse(longer).unwrap();
        prop_assert_eq!(longer.turns(), stream.turns() + 1);
        prop_assert!(shown(&longer).ends_with("?q =a") || !stream.overlays().is_empty());
        let elements: Vec<Value> = serde_json::from_slice(longer.bytes()).unwrap();
        prop_assert_eq!(&elements[elements.len() - 1]["message"], "a");
    }
}
