//! The messages for a model without tools, and the turn that is appended afterwards.

use bytes::Bytes;
use jp_compact_core::Stream;
use jp_compact_core::append::{NewTurn, append_turn};
use jp_compact_core::projection::project;
use jp_compact_core::render::render_as_texts;
use jp_compact_core::splice::concat;
use jp_compact_schema::Role;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::build::{Build, compaction, format_projection, timestamp, timestamp_text};
use crate::properties::transcript;

/// Checks the messages to the model. `?` marks a message of the user, `=` a message of the assistant.
#[track_caller]
fn check(build: Build, expected: &str) {
    let stream = build.stream();
    let messages = render_as_texts(&stream, &project(&stream), "next");
    let texts: Vec<_> = messages
        .iter()
        .map(|message| {
            let mark = if message.role == Role::User { '?' } else { '=' };
            format!("{mark}{}", message.content.replace("\n\n", "/"))
        })
        .collect();
    assert_eq!(texts.join(" "), expected);
}

#[test]
fn renders_calls_and_responses_as_text() {
    let build = Build::default().turn().ask("q").think("t").say("I look.");
    check(
        build.call("a", "read").call("b", "grep").answer_error("b", "none").answer("a", "body").say("done"),
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
    check(
        Build::turns(3).element(compaction(90, 0, 2, summary)),
        "?[Summary of previous conversation] =S ?next",
    );
}

#[test]
fn appends_turn_in_jp_layout() {
    let new_turn = NewTurn {
        request: "q \"\u{e9}\n",
        asked_at: timestamp(50),
        response: "a",
        answered_at: timestamp(52),
    };
    for build in
        [Build::default(), Build::turns(1).element(compaction(90, 0, 0, json!({"reasoning": "strip"})))]
    {
        let stream = build.stream();
        let bytes = concat(&append_turn(&stream, &new_turn), stream.bytes());
        let elements = [
            json!({"timestamp": timestamp_text(50), "type": "turn_start"}),
            json!({"timestamp": timestamp_text(50), "type": "chat_request", "content": "q \"\u{e9}\n"}),
            json!({"timestamp": timestamp_text(52), "type": "chat_response", "message": "a"}),
        ];
        assert_eq!(bytes, build.elements(&elements).bytes());
    }
}

proptest! {
    #[test]
    fn roles_alternate_without_blank_texts(bytes in transcript()) {
        let stream = Stream::parse(bytes).unwrap();
        let messages = render_as_texts(&stream, &project(&stream), "next");
        for (index, message) in messages.iter().enumerate() {
            prop_assert_eq!(message.role, if index % 2 == 0 { Role::User } else { Role::Assistant });
            prop_assert!(!message.content.trim().is_empty());
        }
        prop_assert!(messages.len() % 2 == 1 && messages[messages.len() - 1].content.ends_with("next"));
    }

    #[test]
    fn appending_a_turn_keeps_history(bytes in transcript()) {
        let stream = Stream::parse(bytes.clone()).unwrap();
        let new_turn = NewTurn { request: "q", asked_at: timestamp(80), response: "a", answered_at: timestamp(81) };
        let appended = Bytes::from(concat(&append_turn(&stream, &new_turn), &bytes));
        prop_assert!(appended.starts_with(&bytes[..stream.body_end()]));
        let appended = Stream::parse(appended).unwrap();
        prop_assert_eq!(appended.turns(), stream.turns() + 1);
        prop_assert!(format_projection(&appended).ends_with("?q =a") || !stream.overlays().is_empty());
        let elements: Vec<Value> = serde_json::from_slice(appended.bytes()).unwrap();
        prop_assert_eq!(&elements[elements.len() - 1]["message"], "a");
    }
}
