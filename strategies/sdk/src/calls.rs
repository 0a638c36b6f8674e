//! The tool calls of a conversation, each with its result, and the other texts that a model reads.
//!
//! Strategies that shorten single calls need both halves of a call. Ids can be reused, and a result can be missing.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::event::EventBody;
use crate::exchange::Exchange;
use crate::outcome::StrategyError;

/// The calls and the other texts of a request with `input: full`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallHistory {
    /// The calls, in the order of their requests.
    pub calls: Vec<CallPair>,
    /// The other texts, in order: messages, summaries, attachments, data, and inquiries. Reasoning is left out.
    pub messages: Vec<ShownText>,
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPair {
    /// The turn of the call.
    pub turn: usize,
    /// The step of the call. `None` without the feature `steps`.
    pub step: Option<usize>,
    /// The number of the request.
    pub seq: u64,
    /// Whether the view does not show the request unchanged. Only with `hidden` in `wants`.
    pub hidden: bool,
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The result. `None` if the call was not answered.
    pub result: Option<CallResult>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The turn of the result. It can be later than the turn of the call.
    pub turn: usize,
    /// The number of the response.
    pub seq: u64,
    /// The size of the response in tokens.
    pub tokens: u64,
    /// Whether the view does not show the response unchanged. Only with `hidden` in `wants`.
    pub hidden: bool,
    /// The output of the tool.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A text outside of tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownText {
    /// The turn.
    pub turn: usize,
    /// Whether the view does not show the event unchanged. Only with `hidden` in `wants`.
    pub hidden: bool,
    /// The text.
    pub text: String,
}

impl CallPair {
    /// Returns the strings and numbers of the arguments, one per line, without keys.
    #[must_use]
    pub fn argument_text(&self) -> String {
        let mut text = String::new();
        self.arguments.values().for_each(|value| add_leaves(value, &mut text));
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}

fn add_leaves(value: &Value, text: &mut String) {
    match value {
        Value::String(leaf) => {
            text.push_str(leaf);
            text.push('\n');
        }
        Value::Number(leaf) => {
            text.push_str(&leaf.to_string());
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| add_leaves(item, text)),
        Value::Object(members) => members.values().for_each(|member| add_leaves(member, text)),
        Value::Null | Value::Bool(_) => {}
    }
}

impl CallHistory {
    /// Reads all events of a request. A result belongs to the oldest open call with its id. A later turn that reuses
    /// the id of an open call abandons that call.
    ///
    /// # Errors
    ///
    /// The events are incomplete or invalid.
    pub fn read(exchange: &mut Exchange<'_>) -> Result<Self, StrategyError> {
        let mut conversation = Self::default();
        let mut open: HashMap<String, VecDeque<usize>> = HashMap::new();
        while let Some(line) = exchange.next_event()? {
            let calls = &mut conversation.calls;
            let text = match EventBody::parse(&line) {
                EventBody::Call(call) => {
                    let same_id = open.entry(call.id).or_default();
                    same_id.retain(|&earlier| calls[earlier].turn == line.turn);
                    same_id.push_back(calls.len());
                    calls.push(CallPair {
                        turn: line.turn,
                        step: line.step,
                        seq: line.seq,
                        hidden: line.hidden,
                        tool: call.tool,
                        arguments: call.arguments,
                        result: None,
                    });
                    continue;
                }
                EventBody::Output(output) => {
                    if let Some(call) = open.get_mut(&output.id).and_then(VecDeque::pop_front) {
                        calls[call].result = Some(CallResult {
                            turn: line.turn,
                            seq: line.seq,
                            tokens: line.tokens,
                            hidden: line.hidden,
                            content: output.content,
                            is_error: output.is_error,
                        });
                    }
                    continue;
                }
                EventBody::User(text) | EventBody::Summary(text) | EventBody::Assistant(text) => text,
                EventBody::Attachment { text, .. } => text,
                EventBody::Structured(value)
                | EventBody::Inquiry(value)
                | EventBody::InquiryAnswer(value) => value.to_string(),
                EventBody::Reasoning(_) | EventBody::Other => continue,
            };
            conversation.messages.push(ShownText { turn: line.turn, hidden: line.hidden, text });
        }
        Ok(conversation)
    }

    /// Returns for each call how many steps with calls follow its step. Without steps, each call counts as a step.
    #[must_use]
    pub fn steps_after(&self) -> Vec<usize> {
        let mut after = vec![0; self.calls.len()];
        let mut later: Vec<(usize, Option<usize>)> = Vec::new();
        for (index, call) in self.calls.iter().enumerate().rev() {
            let position = (call.turn, call.step);
            if call.step.is_none() || later.last() != Some(&position) {
                later.push(position);
            }
            after[index] = later.len() - 1;
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use jp_compact_schema::EventLine;
    use serde_json::json;

    use super::*;
    use crate::testing::{exchange_with, request};

    fn event(seq: u64, turn: usize, step: Option<usize>, event: &Value) -> EventLine {
        let raw = serde_json::value::to_raw_value(event).unwrap();
        EventLine { step, ..EventLine::new(seq, turn, 1, raw) }
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_call_request", "id": id, "name": "Read", "arguments": {"path": id, "line": 7}})
    }

    fn output(id: &str, content: &str) -> Value {
        json!({"type": "tool_call_response", "id": id, "content": content})
    }

    fn read(events: &[EventLine]) -> CallHistory {
        exchange_with(&request(0, 0, &[]), events, |_, exchange| CallHistory::read(exchange)).unwrap()
    }

    #[test]
    fn each_result_belongs_to_the_oldest_open_call_with_its_id() {
        let conversation = read(&[
            event(0, 0, Some(0), &call("a")),
            event(1, 0, Some(0), &call("a")),
            event(2, 0, Some(0), &output("a", "first")),
            event(3, 0, Some(0), &output("a", "second")),
            event(4, 0, Some(0), &output("a", "without a call")),
        ]);
        let contents: Vec<_> =
            conversation.calls.iter().map(|call| call.result.as_ref().unwrap().content.as_str()).collect();
        assert_eq!(contents, ["first", "second"]);
    }

    #[test]
    fn later_turn_abandons_an_open_call_with_the_same_id() {
        let conversation = read(&[
            event(0, 0, Some(0), &call("a")),
            event(1, 1, Some(0), &call("a")),
            event(2, 1, Some(0), &output("a", "of turn 1")),
        ]);
        let answered: Vec<_> = conversation.calls.iter().map(|call| call.result.is_some()).collect();
        assert_eq!(answered, [false, true]);
    }

    #[test]
    fn arguments_are_strings_and_numbers_without_keys() {
        let arguments = json!({"a": "x\ny", "b": [1, true, null, {"c": "z"}]});
        let arguments = arguments.as_object().unwrap().clone();
        let pair = read(&[event(0, 0, None, &call("a"))]).calls.remove(0);
        assert_eq!(CallPair { arguments, ..pair }.argument_text(), "x\ny\n1\nz");
    }

    #[test]
    fn messages_do_not_contain_reasoning() {
        let conversation = read(&[
            event(0, 0, None, &json!({"type": "chat_request", "content": "Hi"})),
            event(1, 0, Some(0), &json!({"type": "chat_response", "reasoning": "Hm"})),
            event(2, 0, Some(0), &json!({"type": "chat_response", "message": "Ho"})),
        ]);
        let texts: Vec<_> = conversation.messages.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["Hi", "Ho"]);
    }

    #[test]
    fn calls_of_a_step_have_the_same_number_of_later_steps() {
        let steps = [(0, Some(0)), (0, Some(0)), (0, Some(2)), (1, Some(0))];
        let events: Vec<_> =
            (0..).zip(steps).map(|(seq, (turn, step))| event(seq, turn, step, &call("a"))).collect();
        assert_eq!(read(&events).steps_after(), [2, 2, 1, 0]);
        let events: Vec<_> = (0..3).map(|seq| event(seq, 0, None, &call("a"))).collect();
        assert_eq!(read(&events).steps_after(), [2, 1, 0], "without steps");
    }
}
