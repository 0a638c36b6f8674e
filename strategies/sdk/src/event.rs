//! The bodies of events, for strategies with `input: full`.
//!
//! Parsing never fails. An event without a required field of the right type is handled like one of an unknown type.

use jp_compact_schema::{EventLine, SUMMARY_REQUEST, has_summary_note};
use serde_json::{Map, Value};

/// The body of an event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventBody {
    /// A message of the user.
    User(String),
    /// An attachment to a message of the user, for example a file or the output of a hook.
    Attachment {
        /// The name, often a path.
        name: String,
        /// The text that is sent to a model.
        text: String,
    },
    /// A summary in a copy of a compacted transcript. It represents events that the copy lacks. The user did not write
    /// it. [`EventBody::parse`] recognizes only summaries of steps, and [`BodyParser`] all of them.
    Summary(String),
    /// A message of the assistant.
    Assistant(String),
    /// Reasoning of the assistant.
    Reasoning(String),
    /// A structured response of the assistant.
    Structured(Value),
    /// A tool call.
    Call(ToolCall),
    /// The output of a tool.
    Output(ToolOutput),
    /// A question of a tool to the user.
    Inquiry(Value),
    /// The answer to a question of a tool.
    InquiryAnswer(Value),
    /// Another event. Skip it.
    Other,
}

/// The request of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id of the call. A later call may reuse the id, even if this call has no output.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// The response of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The id of the call.
    pub id: String,
    /// The output of the tool.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
}

impl EventBody {
    /// Parses the body of an event.
    #[must_use]
    pub fn parse(line: &EventLine) -> Self {
        line.event_as().ok().and_then(read).unwrap_or(Self::Other)
    }
}

/// Parses the bodies of events in order. It recognizes the summary of turns in a copy of a compacted transcript: the
/// answer to a fixed request. This request is returned as [`EventBody::Other`], because the user did not write it.
#[derive(Debug, Default)]
pub struct BodyParser {
    expects_summary: bool,
}

impl BodyParser {
    /// Parses the body of the next event.
    pub fn parse(&mut self, line: &EventLine) -> EventBody {
        let body = EventBody::parse(line);
        if matches!(&body, EventBody::User(text) if text == SUMMARY_REQUEST) {
            self.expects_summary = true;
            return EventBody::Other;
        }
        match (std::mem::take(&mut self.expects_summary), body) {
            (true, EventBody::Assistant(text)) => EventBody::Summary(text),
            (_, body) => body,
        }
    }
}

fn read(mut event: Map<String, Value>) -> Option<EventBody> {
    let kind = text(event.remove("type"))?;
    Some(match kind.as_str() {
        "chat_request" => {
            let content = text(event.remove("content"))?;
            match event.get("metadata").and_then(|metadata| metadata.get("attachment")?.as_str()) {
                Some(name) => EventBody::Attachment { name: name.to_owned(), text: content },
                None if has_summary_note(content.as_bytes()) => EventBody::Summary(content),
                None => EventBody::User(content),
            }
        }
        "chat_response" => {
            let mut member = |name| event.remove(name).filter(|value| !value.is_null());
            match (member("message"), member("reasoning"), member("data")) {
                (Some(message), ..) => EventBody::Assistant(text(Some(message))?),
                (None, Some(reasoning), _) => EventBody::Reasoning(text(Some(reasoning))?),
                (None, None, data) => EventBody::Structured(data?),
            }
        }
        "tool_call_request" => {
            let arguments = match event.remove("arguments") {
                Some(Value::Object(arguments)) => arguments,
                _ => Map::new(),
            };
            EventBody::Call(ToolCall {
                id: text(event.remove("id"))?,
                tool: text(event.remove("name"))?,
                arguments,
            })
        }
        "tool_call_response" => EventBody::Output(ToolOutput {
            id: text(event.remove("id"))?,
            content: text(event.remove("content"))?,
            is_error: event.get("is_error") == Some(&Value::Bool(true)),
        }),
        "inquiry_request" => EventBody::Inquiry(event.remove("question")?),
        "inquiry_response" => EventBody::InquiryAnswer(event.remove("answer")?),
        _ => EventBody::Other,
    })
}

fn text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(event: &Value, expect: &EventBody) {
        let event = serde_json::value::to_raw_value(event).unwrap();
        assert_eq!(EventBody::parse(&EventLine::new(0, 0, 1, event)), *expect);
    }

    #[test]
    fn parses_every_event_type() {
        check(&json!({"type": "chat_request", "content": "Hi"}), &EventBody::User("Hi".into()));
        let file = json!({"type": "chat_request", "content": "x = 1", "metadata": {"attachment": "a.py"}});
        check(&file, &EventBody::Attachment { name: "a.py".into(), text: "x = 1".into() });
        // Earlier versions wrote the second sentence.
        for subject in ["A summary", "A model wrote this summary"] {
            let note = format!(
                "[{subject} of the steps that were here. It is not from the user, and it asks for nothing.]\n    They looked."
            );
            check(&json!({"type": "chat_request", "content": note}), &EventBody::Summary(note.clone()));
        }
        check(&json!({"type": "chat_response", "message": "Ho"}), &EventBody::Assistant("Ho".into()));
        check(&json!({"type": "chat_response", "reasoning": "Hm"}), &EventBody::Reasoning("Hm".into()));
        check(
            &json!({"type": "chat_response", "message": null, "data": {"a": 1}}),
            &EventBody::Structured(json!({"a": 1})),
        );
        check(&json!({"type": "inquiry_request", "question": "Yes?"}), &EventBody::Inquiry(json!("Yes?")));
        check(&json!({"type": "inquiry_response", "answer": true}), &EventBody::InquiryAnswer(json!(true)));
        let arguments = Map::from_iter([("p".to_owned(), json!("a"))]);
        let call = |arguments| EventBody::Call(ToolCall { id: "1".into(), tool: "t".into(), arguments });
        check(
            &json!({"type": "tool_call_request", "id": "1", "name": "t", "arguments": {"p": "a"}}),
            &call(arguments),
        );
        check(&json!({"type": "tool_call_request", "id": "1", "name": "t"}), &call(Map::new()));
        let output =
            |is_error| EventBody::Output(ToolOutput { id: "1".into(), content: "c".into(), is_error });
        check(
            &json!({"type": "tool_call_response", "id": "1", "content": "c", "is_error": true}),
            &output(true),
        );
        check(&json!({"type": "tool_call_response", "id": "1", "content": "c"}), &output(false));
    }

    #[test]
    fn other_events_are_skipped() {
        for event in [
            json!({"type": "turn_start"}),
            json!({"type": "of_a_later_version", "content": "x"}),
            json!({"type": "chat_request", "content": 7}),
            json!({"type": "chat_response"}),
            json!({"type": "tool_call_response", "content": "an answer without a call"}),
            json!({}),
        ] {
            check(&event, &EventBody::Other);
        }
    }

    #[test]
    fn answer_to_the_request_of_a_summary_is_a_summary() {
        let ask = |text: &str| json!({"type": "chat_request", "content": text});
        let say = |text: &str| json!({"type": "chat_response", "message": text});
        let events = [ask(SUMMARY_REQUEST), say("S"), say("Ho"), ask("Hi"), say("Ho")];
        let mut parser = BodyParser::default();
        let bodies = events.map(|event| {
            let event = serde_json::value::to_raw_value(&event).unwrap();
            parser.parse(&EventLine::new(0, 0, 1, event))
        });
        let said = || EventBody::Assistant("Ho".into());
        let summary = EventBody::Summary("S".into());
        assert_eq!(bodies, [EventBody::Other, summary, said(), EventBody::User("Hi".into()), said()]);
    }
}
