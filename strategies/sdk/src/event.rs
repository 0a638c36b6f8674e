//! What an event says, for a strategy that reads bodies (`input: full`). Nothing here fails: an event that is
//! not of the shape that its type promises is one of an unknown type.

use jp_compact_schema::EventLine;
use serde_json::{Map, Value};

/// An event by what it says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Said {
    /// The user asks.
    User(String),
    /// Something that a program attached to what the user asks: a file, a note of a hook.
    Attachment {
        /// Its name, often a path.
        name: String,
        /// What a model is sent of it.
        text: String,
    },
    /// The assistant answers.
    Assistant(String),
    /// The assistant thinks.
    Reasoning(String),
    /// The assistant answers in the shape of a schema.
    Data(Value),
    /// The assistant calls a tool.
    Call(Call),
    /// A tool answers.
    Output(Output),
    /// A tool asks somebody.
    Question(Value),
    /// Somebody answers a tool.
    Reply(Value),
    /// Anything else: skip it.
    Other,
}

/// The request half of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Names the call until it is answered; a later one may bear the same.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

/// The response half of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Of which call.
    pub id: String,
    /// What the tool answered.
    pub content: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl Said {
    /// Reads an event.
    #[must_use]
    pub fn of(line: &EventLine) -> Self {
        line.event_as().ok().and_then(read).unwrap_or(Self::Other)
    }
}

fn read(mut event: Map<String, Value>) -> Option<Said> {
    let kind = text(event.remove("type"))?;
    Some(match kind.as_str() {
        "chat_request" => {
            let content = text(event.remove("content"))?;
            match event.get("metadata").and_then(|metadata| metadata.get("attachment")?.as_str()) {
                Some(name) => Said::Attachment { name: name.to_owned(), text: content },
                None => Said::User(content),
            }
        }
        "chat_response" => {
            let mut member = |name| event.remove(name).filter(|value| !value.is_null());
            match (member("message"), member("reasoning"), member("data")) {
                (Some(message), ..) => Said::Assistant(text(Some(message))?),
                (None, Some(reasoning), _) => Said::Reasoning(text(Some(reasoning))?),
                (None, None, data) => Said::Data(data?),
            }
        }
        "tool_call_request" => {
            let arguments = match event.remove("arguments") {
                Some(Value::Object(arguments)) => arguments,
                _ => Map::new(),
            };
            Said::Call(Call { id: text(event.remove("id"))?, tool: text(event.remove("name"))?, arguments })
        }
        "tool_call_response" => Said::Output(Output {
            id: text(event.remove("id"))?,
            content: text(event.remove("content"))?,
            is_error: event.get("is_error") == Some(&Value::Bool(true)),
        }),
        "inquiry_request" => Said::Question(event.remove("question")?),
        "inquiry_response" => Said::Reply(event.remove("answer")?),
        _ => Said::Other,
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
    fn check(event: &Value, expect: &Said) {
        let event = serde_json::value::to_raw_value(event).unwrap();
        assert_eq!(Said::of(&EventLine::new(0, 0, 1, event)), *expect);
    }

    #[test]
    fn each_type_says_its_own() {
        check(&json!({"type": "chat_request", "content": "Hi"}), &Said::User("Hi".into()));
        let file = json!({"type": "chat_request", "content": "x = 1", "metadata": {"attachment": "a.py"}});
        check(&file, &Said::Attachment { name: "a.py".into(), text: "x = 1".into() });
        check(&json!({"type": "chat_response", "message": "Ho"}), &Said::Assistant("Ho".into()));
        check(&json!({"type": "chat_response", "reasoning": "Hm"}), &Said::Reasoning("Hm".into()));
        check(
            &json!({"type": "chat_response", "message": null, "data": {"a": 1}}),
            &Said::Data(json!({"a": 1})),
        );
        check(&json!({"type": "inquiry_request", "question": "Yes?"}), &Said::Question(json!("Yes?")));
        check(&json!({"type": "inquiry_response", "answer": true}), &Said::Reply(json!(true)));
        let arguments = Map::from_iter([("p".to_owned(), json!("a"))]);
        let call = |arguments| Said::Call(Call { id: "1".into(), tool: "t".into(), arguments });
        check(
            &json!({"type": "tool_call_request", "id": "1", "name": "t", "arguments": {"p": "a"}}),
            &call(arguments),
        );
        check(&json!({"type": "tool_call_request", "id": "1", "name": "t"}), &call(Map::new()));
        let output = |is_error| Said::Output(Output { id: "1".into(), content: "c".into(), is_error });
        check(
            &json!({"type": "tool_call_response", "id": "1", "content": "c", "is_error": true}),
            &output(true),
        );
        check(&json!({"type": "tool_call_response", "id": "1", "content": "c"}), &output(false));
    }

    #[test]
    fn whatever_else_there_is_says_nothing() {
        for event in [
            json!({"type": "turn_start"}),
            json!({"type": "of_a_later_version", "content": "x"}),
            json!({"type": "chat_request", "content": 7}),
            json!({"type": "chat_response"}),
            json!({"type": "tool_call_response", "content": "of nobody"}),
            json!({}),
        ] {
            check(&event, &Said::Other);
        }
    }
}
