//! A builder of conversations in JP's layout: two-space indentation, base64 in tool calls, and one event per second.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// A conversation. Each event that is added is one second later than the previous one.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    elements: Vec<Value>,
    next_time: Timestamp,
    calls: usize,
}

/// Returns six whole turns. Turn N begins N hours after 10:00.
pub(crate) fn hourly_turns() -> Conversation {
    let mut conversation = Conversation::new();
    for turn in 0..6 {
        conversation = conversation.at(&format!("2026-03-18T1{turn}:00:00Z")).whole_turn();
    }
    conversation
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self { elements: Vec::new(), next_time: "2026-03-18T11:58:01Z".parse().unwrap(), calls: 0 }
    }

    /// Returns a conversation with this many whole turns.
    pub(crate) fn with_turns(turns: usize) -> Self {
        (0..turns).fold(Self::new(), |conversation, _| conversation.whole_turn())
    }

    /// Returns a conversation with this many turns, each with a tool call that has a long output.
    pub(crate) fn bulky(turns: usize) -> Self {
        let output = "a line of no importance\n".repeat(100);
        (0..turns).fold(Self::new(), |conversation, _| {
            conversation
                .turn("Read it.")
                .call("fs_read_file", json!({ "path": "src/main.rs" }), &output)
                .message("It is read.")
        })
    }

    /// Sets the time of the next event.
    pub(crate) fn at(self, time: &str) -> Self {
        Self { next_time: time.parse().unwrap(), ..self }
    }

    /// Adds a turn with reasoning, a tool call and a message.
    pub(crate) fn whole_turn(self) -> Self {
        self.turn("What does the file say?")
            .reasoning("The file has to be read before anything can be said of it.")
            .call("fs_read_file", json!({ "path": "src/main.rs" }), "fn main() { println!(\"hello\"); }")
            .message("It prints a greeting.")
    }

    /// Adds an event of this type with these members.
    pub(crate) fn event(mut self, kind: &str, members: Value) -> Self {
        let time = self.next_time.strftime("%Y-%m-%d %H:%M:%S.0").to_string();
        let mut event = json!({ "timestamp": time, "type": kind });
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.next_time += SignedDuration::from_secs(1);
        self.element(event)
    }

    /// Adds any JSON value as an element.
    pub(crate) fn element(mut self, element: Value) -> Self {
        self.elements.push(element);
        self
    }

    pub(crate) fn turn(self, request: &str) -> Self {
        self.event("turn_start", json!({})).event("chat_request", json!({ "content": request }))
    }

    pub(crate) fn reasoning(self, text: &str) -> Self {
        self.event("chat_response", json!({ "reasoning": text }))
    }

    pub(crate) fn message(self, text: &str) -> Self {
        self.event("chat_response", json!({ "message": text }))
    }

    /// Adds a tool call without a response.
    pub(crate) fn request(mut self, tool: &str, arguments: Value) -> Self {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.event(
            "tool_call_request",
            json!({ "id": id, "name": tool, "arguments": encode_strings(arguments) }),
        )
    }

    pub(crate) fn call(self, tool: &str, arguments: Value, content: &str) -> Self {
        self.call_with_response(tool, arguments, content, false)
    }

    /// Adds a tool call with an error as its response.
    pub(crate) fn failing_call(self, tool: &str, arguments: Value, content: &str) -> Self {
        self.call_with_response(tool, arguments, content, true)
    }

    fn call_with_response(self, tool: &str, arguments: Value, content: &str, is_error: bool) -> Self {
        let conversation = self.request(tool, arguments);
        let response = json!({ "id": format!("call_{}", conversation.calls), "content": encode(content), "is_error": is_error });
        conversation.event("tool_call_response", response)
    }

    /// Adds an overlay of the type that JP itself writes.
    pub(crate) fn compaction(self, members: Value) -> Self {
        self.event("compaction", members)
    }

    pub(crate) fn elements(&self) -> &[Value] {
        &self.elements
    }

    /// Returns the bytes of `events.json`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.elements).unwrap();
        bytes.push(b'\n');
        bytes
    }
}

/// Returns the file with one more event, appended in JP's layout.
pub(crate) fn append_event(bytes: &[u8], event: &Value) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let body = text.strip_suffix("\n]\n").unwrap();
    let event = serde_json::to_string_pretty(event).unwrap().replace('\n', "\n  ");
    format!("{body},\n  {event}\n]\n").into_bytes()
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// Encodes every string in a value with base64, like JP does for arguments.
fn encode_strings(value: Value) -> Value {
    match value {
        Value::String(text) => encode(&text).into(),
        Value::Array(values) => values.into_iter().map(encode_strings).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, encode_strings(value))).collect()
        }
        other => other,
    }
}
