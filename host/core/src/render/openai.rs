//! The rendering of a conversation as the `messages` of a request to `OpenAI`'s chat completions. Each response is a
//! separate message after the calls (C1, C2). Arguments are text (C4), and reasoning is not sent back (C5).

use serde_json::{Value, json};

use super::ViewPosition;
use super::conversation::{Answer, Content, Message, Role};

pub(super) fn render(conversation: Vec<Message>) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in conversation {
        if message.role == Role::User {
            let blocks = message.blocks.iter();
            messages.extend(blocks.filter_map(|block| Some((block.position, user(&block.content)?))));
            continue;
        }
        let position = message.blocks.first().map(|block| block.position).unwrap_or_default();
        messages.push((position, assistant(&message)));
        messages.extend(message.answers().map(|(call, answer)| (answer.position, tool(&call.id, answer))));
    }
    messages
}

fn user(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) => Some(json!({"role": "user", "content": text})),
        Content::Orphan(orphan) => Some(tool(&orphan.id, &orphan.answer)),
        Content::Thought(_) | Content::Call(_) => None,
    }
}

fn tool(id: &str, answer: &Answer) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": answer.content})
}

fn assistant(message: &Message) -> Value {
    let mut rendered = json!({"role": "assistant"});
    let texts: Vec<_> = message.blocks.iter().filter_map(|block| text(&block.content)).collect();
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

fn text(content: &Content) -> Option<&str> {
    if let Content::Text(text) = content { Some(text) } else { None }
}
