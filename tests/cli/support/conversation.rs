//! Conversations as JP writes them: two spaces, base64 where JP has it, one event a second.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// A conversation that grows by one event a second.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    elements: Vec<Value>,
    at: Timestamp,
    calls: usize,
}

/// Six turns, each with reasoning and a tool call; turn N begins N hours after ten o'clock.
pub(crate) fn hourly() -> Conversation {
    let mut conversation = Conversation::new();
    for turn in 0..6 {
        conversation = conversation.at(&format!("2026-03-18T1{turn}:00:00Z")).whole_turn();
    }
    conversation
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self { elements: Vec::new(), at: "2026-03-18T11:58:01Z".parse().unwrap(), calls: 0 }
    }

    /// So many turns, each with reasoning and a tool call.
    pub(crate) fn of(turns: usize) -> Self {
        (0..turns).fold(Self::new(), |conversation, _| conversation.whole_turn())
    }

    /// So many turns, each with a tool call whose output is long.
    pub(crate) fn bulky(turns: usize) -> Self {
        let output = "a line of no importance\n".repeat(100);
        let call = |this: Self| this.call("fs_read_file", json!({ "path": "src/main.rs" }), &output);
        (0..turns).fold(Self::new(), |this, _| call(this.turn("Read it.")).message("It is read."))
    }

    pub(crate) fn at(self, time: &str) -> Self {
        Self { at: time.parse().unwrap(), ..self }
    }

    pub(crate) fn whole_turn(self) -> Self {
        self.turn("What does the file say?")
            .reasoning("The file has to be read before anything can be said of it.")
            .call("fs_read_file", json!({ "path": "src/main.rs" }), "fn main() { println!(\"hello\"); }")
            .message("It prints a greeting.")
    }

    /// An event of this type, with these members.
    pub(crate) fn event(mut self, kind: &str, members: Value) -> Self {
        let time = self.at.strftime("%Y-%m-%d %H:%M:%S.0").to_string();
        let mut event = json!({ "timestamp": time, "type": kind });
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.at += SignedDuration::from_secs(1);
        self.element(event)
    }

    /// Whatever it is.
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

    /// A request without its response.
    pub(crate) fn request(mut self, tool: &str, arguments: Value) -> Self {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        self.event("tool_call_request", json!({ "id": id, "name": tool, "arguments": encoded(arguments) }))
    }

    pub(crate) fn call(self, tool: &str, arguments: Value, content: &str) -> Self {
        self.answered(tool, arguments, content, false)
    }

    /// A call that fails.
    pub(crate) fn failing(self, tool: &str, arguments: Value, content: &str) -> Self {
        self.answered(tool, arguments, content, true)
    }

    fn answered(self, tool: &str, arguments: Value, content: &str, is_error: bool) -> Self {
        let this = self.request(tool, arguments);
        let response =
            json!({ "id": format!("call_{}", this.calls), "content": encode(content), "is_error": is_error });
        this.event("tool_call_response", response)
    }

    /// One of JP's own overlays.
    pub(crate) fn compaction(self, members: Value) -> Self {
        self.event("compaction", members)
    }

    pub(crate) fn elements(&self) -> &[Value] {
        &self.elements
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(&self.elements).unwrap();
        bytes.push(b'\n');
        bytes
    }
}

/// The file with one more event in it, as JP appends.
pub(crate) fn grown(bytes: &[u8], event: &Value) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let body = text.strip_suffix("\n]\n").unwrap();
    let event = serde_json::to_string_pretty(event).unwrap().replace('\n', "\n  ");
    format!("{body},\n  {event}\n]\n").into_bytes()
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// Every string in it, as JP stores arguments.
fn encoded(value: Value) -> Value {
    match value {
        Value::String(text) => encode(&text).into(),
        Value::Array(values) => values.into_iter().map(encoded).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, encoded(value))).collect(),
        other => other,
    }
}
