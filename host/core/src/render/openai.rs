//! `OpenAI`'s chat completions: every response is a separate message after its calls (C1, C2), arguments are text (C4),
//! and reasoning is not sent back (C5).

use serde_json::{Value, json};

use super::ViewPosition;
use super::talk::{Answer, Message, Role, Talk, What};

pub(super) fn render(talk: &Talk) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in &talk.messages {
        if message.role == Role::User {
            messages
                .extend(message.blocks.iter().filter_map(|block| Some((block.place, user(&block.what)?))));
            continue;
        }
        let place = message.blocks.first().map(|block| block.place).unwrap_or_default();
        messages.push((place, assistant(message)));
        messages.extend(message.answers().map(|(call, answer)| (answer.place, tool(&call.id, answer))));
    }
    messages
}

fn user(what: &What) -> Option<Value> {
    match what {
        What::Text(text) => Some(json!({"role": "user", "content": text})),
        What::Stray(stray) => Some(tool(&stray.id, &stray.answer)),
        What::Thought(_) | What::Call(_) => None,
    }
}

fn tool(id: &str, answer: &Answer) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": answer.content})
}

fn assistant(message: &Message) -> Value {
    let mut rendered = json!({"role": "assistant"});
    let texts: Vec<_> = message.blocks.iter().filter_map(|block| text(&block.what)).collect();
    if !texts.is_empty() {
        rendered["content"] = texts.join("\n\n").into();
    }
    let calls: Vec<_> = message
        .calls()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    if !calls.is_empty() {
        rendered["tool_calls"] = calls.into();
    }
    rendered
}

fn text(what: &What) -> Option<&str> {
    if let What::Text(text) = what { Some(text) } else { None }
}
