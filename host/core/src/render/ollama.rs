//! A conversation as the `messages` of an Ollama request. Arguments are objects, and thoughts need no signature.

use serde_json::{Value, json};

use super::ViewPosition;
use super::conversation::{Block, Content, Message, Role};

pub(super) fn accepts_thought(block: &Block) -> bool {
    matches!(&block.content, Content::Thought(text) if !text.trim().is_empty())
}

pub(super) fn render(conversation: Vec<Message>) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in conversation {
        let position = message.blocks.first().map(|block| block.position).unwrap_or_default();
        let role = if message.role == Role::User { "user" } else { "assistant" };
        let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for block in &message.blocks {
            match &block.content {
                Content::Text(text) => texts.push(text.as_str()),
                Content::Thought(text) => thoughts.push(text.as_str()),
                Content::Call(call) => {
                    calls.push(json!({"function": {"name": call.name, "arguments": call.arguments}}));
                }
                Content::Orphan(_) => {}
            }
        }
        let mut rendered = json!({"role": role, "content": texts.join("\n\n")});
        if !thoughts.is_empty() {
            rendered["thinking"] = thoughts.join("\n\n").into();
        }
        if !calls.is_empty() {
            rendered["tool_calls"] = calls.into();
        }
        messages.push((position, rendered));
        let orphans = message.blocks.iter().filter_map(|block| match &block.content {
            Content::Orphan(orphan) => Some((&orphan.name, &orphan.answer)),
            _ => None,
        });
        let answers = message.answers().map(|(call, answer)| (&call.name, answer));
        for (name, answer) in answers.chain(orphans) {
            let tool = json!({"role": "tool", "tool_name": name, "content": answer.content});
            messages.push((answer.position, tool));
        }
    }
    messages
}
