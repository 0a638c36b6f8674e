//! The conversations of the conformance checks. They contain the unusual parts of real conversations that authors of
//! strategies forget. All except one are small.

use std::sync::LazyLock;

use bytes::Bytes;
use jp_compact_core::{Stream, Survey};
use serde_json::{Value, json};

/// The survey of each conversation.
pub(super) struct Surveys {
    pub(super) plain: Survey<'static>,
    pub(super) without_calls: Survey<'static>,
    pub(super) overlaid: Survey<'static>,
    pub(super) special_characters: Survey<'static>,
    pub(super) long: Survey<'static>,
    pub(super) empty_turn: Survey<'static>,
    pub(super) unknown: Survey<'static>,
}

impl Surveys {
    /// Returns the surveys. They are made once in a process.
    pub(super) fn get() -> &'static Self {
        static SURVEYS: LazyLock<Surveys> = LazyLock::new(|| {
            static STREAMS: LazyLock<[Stream; 7]> = LazyLock::new(|| {
                [plain(), without_calls(), overlaid(), special_characters(), long(), empty_turn(), unknown()]
            });
            let [plain, without_calls, overlaid, special_characters, long, empty_turn, unknown] =
                STREAMS.each_ref().map(Survey::new);
            Surveys { plain, without_calls, overlaid, special_characters, long, empty_turn, unknown }
        });
        &SURVEYS
    }
}

/// Builds a conversation from these events. They are constants, so they always parse.
fn stream(mut events: Vec<Value>) -> Stream {
    for (second, event) in events.iter_mut().enumerate() {
        event["timestamp"] = json!(format!(
            "2026-01-05 {:02}:{:02}:{:02}.0",
            second / 3600 % 24,
            second / 60 % 60,
            second % 60
        ));
    }
    let bytes = serde_json::to_vec(&events).expect("values have string keys");
    Stream::parse(Bytes::from(bytes)).expect("the conversations of the checks are valid")
}

/// Adds a turn with this request and these steps.
fn turn(events: &mut Vec<Value>, request: &str, steps: &[Value]) {
    events.push(json!({"type": "turn_start"}));
    events.push(json!({"type": "chat_request", "content": request}));
    events.extend_from_slice(steps);
    events.push(json!({"type": "chat_response", "message": "That is all."}));
}

/// Returns a tool call and its response.
fn call(id: &str, tool: &str, arguments: &Value, output: &str, is_error: bool) -> [Value; 2] {
    [
        json!({"type": "tool_call_request", "id": id, "name": tool, "arguments": arguments}),
        json!({"type": "tool_call_response", "id": id, "content": output, "is_error": is_error}),
    ]
}

fn reasoning(text: &str) -> Value {
    json!({"type": "chat_response", "reasoning": text})
}

/// Returns the events of the plain conversation. `text` is repeated in tool calls and their output.
fn events(text: &str) -> Vec<Value> {
    let long = format!("fn main() {{ {text} }} ").repeat(400);
    let path = json!({"path": "src/a.rs"});
    let mut events = Vec::new();
    turn(
        &mut events,
        "What is in a.rs?",
        &[
            &[reasoning("Read it first, and then say what is in it.")][..],
            &call("c1", "fs_read_file", &path, &long, false),
        ]
        .concat(),
    );
    let test = json!({"package": "the clock"});
    turn(
        &mut events,
        "Fix it.",
        &[
            &[reasoning("Does the test fail? Let us see what it says.")][..],
            &call("c2", "cargo_test", &test, &format!("3 of 14 failed: {text}"), true),
            &call(
                "c3",
                "fs_modify_file",
                &json!({"path": "src/a.rs", "patch": long}),
                "1 line changed.",
                false,
            ),
            &call("c4", "cargo_test", &test, "14 of 14 passed.", false),
        ]
        .concat(),
    );
    // Ids are reused, an answer has no call, and a call is answered one turn later.
    let [late, answer] = call("c8", "cargo_test", &test, "14 of 14 passed, late.", false);
    turn(
        &mut events,
        "And now?",
        &[
            &call("c1", "fs_read_file", &path, &long, false)[..],
            &[json!({"type": "tool_call_response", "id": "c9", "content": "A response without a call.", "is_error": false}), late],
        ]
        .concat(),
    );
    turn(&mut events, "Why?", &[reasoning("No call in this turn, only the end of one."), answer]);
    // A call without an answer.
    turn(
        &mut events,
        "Look for more.",
        &[
            json!({"type": "tool_call_request", "id": "c5", "name": "fs_grep_files", "arguments": {"pattern": "a b"}}),
        ],
    );
    turn(&mut events, "Thanks.", &[]);
    events
}

/// Returns a conversation with calls, failures, reasoning, and the unusual parts of real conversations.
fn plain() -> Stream {
    stream(events("x"))
}

/// Returns the plain conversation with characters that some readers mistake for a newline.
fn special_characters() -> Stream {
    stream(events("\u{2028}\u{2029}\u{85}\u{b}\u{c}\r\0\"\\ü🦀"))
}

/// Returns the plain conversation with events of a later version. Some resemble known events.
fn unknown() -> Stream {
    let mut events = events("x");
    let unknown_events = [
        json!({"type": "x_of_a_later_version", "content": "x", "is_error": true}),
        json!({"type": "tool_call_progress", "id": "c1", "name": ["fs_read_file"], "arguments": null}),
        json!({"type": "x_nested", "event": {"type": "tool_call_response", "content": "x"}}),
    ];
    let index = events.iter().position(|event| event["type"] == "tool_call_response").unwrap_or_default();
    events.splice(index..index, unknown_events);
    stream(events)
}

/// Returns three turns, of which the second is empty.
fn empty_turn() -> Stream {
    let mut events = Vec::new();
    turn(&mut events, "Hello.", &[]);
    events.push(json!({"type": "turn_start"}));
    turn(&mut events, "Good bye.", &[]);
    stream(events)
}

/// Returns a conversation without tool calls.
fn without_calls() -> Stream {
    let mut events = Vec::new();
    for request in ["Hello.", "How are you?", "Good bye."] {
        turn(&mut events, request, &[]);
    }
    stream(events)
}

/// Returns the plain conversation with overlays on its first turns.
fn overlaid() -> Stream {
    let mut events = events("x");
    events.push(json!({"type": "compaction", "from_turn": 0, "to_turn": 1, "summary": {"summary": "They read a.rs and fixed it."}}));
    events.push(json!({"type": "compaction", "from_turn": 1, "to_turn": 2, "reasoning": "strip", "tool_calls": {"policy": "strip", "request": true, "response": true}}));
    stream(events)
}

/// Returns many turns. One of their events has 3 MiB.
fn long() -> Stream {
    let mut events = events("x");
    let path = json!({"path": "src/long.rs"});
    let output = "a line of a long file\n".repeat((3 << 20) / 22);
    for number in 0..300 {
        let output = if number == 7 { &*output } else { "short, as most are" };
        turn(&mut events, "Go on.", &call("c7", "fs_read_file", &path, output, false));
    }
    stream(events)
}
