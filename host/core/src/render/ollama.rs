//! Ollama's chat: arguments are objects, and thoughts need no signature.

use serde_json::{Value, json};

use super::ViewPosition;
use super::talk::{Block, Message, Role, Talk, What};

pub(super) fn takes_thought(block: &Block) -> bool {
    matches!(&block.what, What::Thought(text) if !text.trim().is_empty())
}

pub(super) fn render(talk: &Talk) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in &talk.messages {
        let place = message.blocks.first().map(|block| block.place).unwrap_or_default();
        let texts = joined(message, |what| if let What::Text(text) = what { Some(text) } else { None });
        let role = if message.role == Role::User { "user" } else { "assistant" };
        let mut rendered = json!({"role": role, "content": texts});
        let thoughts = joined(message, |what| if let What::Thought(text) = what { Some(text) } else { None });
        if !thoughts.is_empty() {
            rendered["thinking"] = thoughts.into();
        }
        let calls: Vec<_> = message
            .calls()
            .map(|call| json!({"function": {"name": call.name, "arguments": call.arguments}}))
            .collect();
        if !calls.is_empty() {
            rendered["tool_calls"] = calls.into();
        }
        messages.push((place, rendered));
        let strays = message.blocks.iter().filter_map(|block| match &block.what {
            What::Stray(stray) => Some((&stray.name, &stray.answer)),
            _ => None,
        });
        let answers = message.answers().map(|(call, answer)| (&call.name, answer));
        messages.extend(answers.chain(strays).map(|(name, answer)| {
            (answer.place, json!({"role": "tool", "tool_name": name, "content": answer.content}))
        }));
    }
    messages
}

fn joined(message: &Message, pick: impl Fn(&What) -> Option<&String>) -> String {
    let texts: Vec<_> = message.blocks.iter().filter_map(|block| pick(&block.what).cloned()).collect();
    texts.join("\n\n")
}
