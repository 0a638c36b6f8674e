//! A builder of transcripts, element by element, and a form of views that is short enough for tables.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use jp_compact_core::projection::project;
use jp_compact_core::{Position, Stream, View, time};
use serde_json::{Value, json};

/// Returns the time `second` seconds after the first event, in JP's form.
pub(crate) fn timestamp_text(second: i64) -> String {
    time::format(timestamp(second))
}

/// Same as [`timestamp_text`], as a timestamp.
pub(crate) fn timestamp(second: i64) -> Timestamp {
    time::parse("2026-04-02 09:00:00").unwrap() + SignedDuration::from_secs(second)
}

pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// A transcript under construction. Each element is a second later than the previous element.
#[derive(Debug, Clone, Default)]
pub(crate) struct Build(Vec<Value>);

impl Build {
    /// Adds complete turns: `turn_start`, a request, a thought, a call and its response, a message. An element's number
    /// is six times its turn plus its position in the turn.
    pub(crate) fn turns(turns: usize) -> Self {
        (0..turns).fold(Self::default(), |build, turn| {
            let id = format!("c{turn}");
            build
                .turn()
                .ask(&format!("ask{turn}"))
                .think(&format!("think{turn}"))
                .call(&id, "read")
                .answer(&id, &format!("body{turn}"))
                .say(&format!("say{turn}"))
        })
    }

    fn event(self, kind: &str, members: Value) -> Self {
        let mut event =
            json!({"timestamp": timestamp_text(i64::try_from(self.0.len()).unwrap()), "type": kind});
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.element(event)
    }

    pub(crate) fn turn(self) -> Self {
        self.event("turn_start", json!({}))
    }

    pub(crate) fn ask(self, text: &str) -> Self {
        self.event("chat_request", json!({"content": text}))
    }

    pub(crate) fn say(self, text: &str) -> Self {
        self.event("chat_response", json!({"message": text}))
    }

    pub(crate) fn think(self, text: &str) -> Self {
        self.event("chat_response", json!({"reasoning": text}))
    }

    pub(crate) fn call(self, id: &str, tool: &str) -> Self {
        let arguments = json!({"of": base64(id)});
        self.event("tool_call_request", json!({"id": id, "name": tool, "arguments": arguments}))
    }

    pub(crate) fn answer(self, id: &str, content: &str) -> Self {
        self.response(id, content, false)
    }

    pub(crate) fn answer_error(self, id: &str, content: &str) -> Self {
        self.response(id, content, true)
    }

    fn response(self, id: &str, content: &str, is_error: bool) -> Self {
        let content = base64(content);
        self.event("tool_call_response", json!({"id": id, "content": content, "is_error": is_error}))
    }

    pub(crate) fn inquire(self, id: &str) -> Self {
        self.event("inquiry_request", json!({"id": id, "source": "tool", "question": {"text": "sure?"}}))
    }

    pub(crate) fn config_delta(self) -> Self {
        self.event("config_delta", json!({"delta": {"a": 1}}))
    }

    pub(crate) fn unknown(self) -> Self {
        self.event("bookmark", json!({"of": "a later program"}))
    }

    pub(crate) fn element(mut self, element: Value) -> Self {
        self.0.push(element);
        self
    }

    pub(crate) fn elements(mut self, elements: &[Value]) -> Self {
        self.0.extend_from_slice(elements);
        self
    }

    /// Returns the bytes as JP writes them.
    pub(crate) fn bytes(&self) -> Bytes {
        format!("{:#}\n", Value::from(self.0.clone())).into()
    }

    #[track_caller]
    pub(crate) fn stream(&self) -> Stream {
        Stream::parse(self.bytes()).unwrap()
    }
}

/// Returns a `compaction` of the turns `from` to `to`, with the time of [`timestamp`].
pub(crate) fn compaction(second: i64, from: usize, to: usize, policies: Value) -> Value {
    ranged_element("compaction", second, from, to, policies)
}

/// Same as [`compaction`], for a `jp_compact_overlay`.
pub(crate) fn own_overlay(second: i64, from: usize, to: usize, policies: Value) -> Value {
    ranged_element("jp_compact_overlay", second, from, to, policies)
}

/// Returns a `jp_compact_step_overlay` between two positions such as `4` or `4.10`.
pub(crate) fn step_overlay(second: i64, from: &str, to: &str, policies: Value) -> Value {
    let (from, to): (Position, Position) = (from.parse().unwrap(), to.parse().unwrap());
    let mut overlay = ranged_element("jp_compact_step_overlay", second, from.turn, to.turn, policies);
    for (name, step) in [("from_step", from.step), ("to_step", to.step)] {
        if let Some(step) = step {
            overlay[name] = step.into();
        }
    }
    overlay
}

pub(crate) fn receipt(second: i64, from: usize, to: usize) -> Value {
    ranged_element("jp_compact_receipt", second, from, to, json!({"strategy": "s", "version": "1.0.0"}))
}

fn ranged_element(kind: &str, second: i64, from: usize, to: usize, members: Value) -> Value {
    let mut element =
        json!({"type": kind, "timestamp": timestamp_text(second), "from_turn": from, "to_turn": to});
    element.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    element
}

/// Formats the events that providers receive, one word per event: `?request`, `~thought`, `=message`, `>id{arguments}`,
/// `<id:content`, with `!` for an error. `|` separates turns.
pub(crate) fn format_projection(stream: &Stream) -> String {
    format_view(stream, &project(stream))
}

/// Same as [`format_projection`], for any view of the stream.
pub(crate) fn format_view(stream: &Stream, view: &View) -> String {
    let mut words = Vec::new();
    let mut turn = 0;
    for event in view.events(stream) {
        if event.turn != turn {
            words.push("|".to_owned());
            turn = event.turn;
        }
        words.push(format_event(&Value::Object(event.event)));
    }
    words.join(" ")
}

fn format_event(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    match event["type"].as_str().unwrap() {
        "chat_request" => format!("?{}", text("content")),
        "chat_response" if event.get("reasoning").is_some() => format!("~{}", text("reasoning")),
        "chat_response" => format!("={}", text("message")),
        "tool_call_request" => {
            let arguments = event["arguments"].as_object().unwrap();
            let values: Vec<_> = arguments.values().filter_map(Value::as_str).collect();
            format!(">{}{{{}}}", text("id"), values.join(","))
        }
        "tool_call_response" => {
            let mark = if event["is_error"] == true { "!" } else { "" };
            format!("<{}{mark}:{}", text("id"), text("content"))
        }
        other => panic!("unexpected event in a view: {other}"),
    }
}
