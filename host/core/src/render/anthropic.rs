//! Anthropic's messages: results precede text in the message after the calls (A3). Thoughts are sent back with their
//! signatures or not at all (A6).

use serde_json::{Value, json};

use super::talk::{Answer, Block, Role, Talk, What};
use super::{ViewPosition, merge};

/// The member in which JP stores the signature of a thought.
pub(super) const SIGNATURE: &str = "anthropic_thinking_signature";
/// The member in which JP stores a redacted thought.
pub(super) const REDACTED: &str = "anthropic_redacted_thinking";

pub(super) fn takes_thought(block: &Block) -> bool {
    block.kept(SIGNATURE).or(block.kept(REDACTED)).is_some()
}

pub(super) fn render(talk: &Talk) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in &talk.messages {
        let role = if message.role == Role::User { "user" } else { "assistant" };
        merge(
            &mut messages,
            role,
            "content",
            message.blocks.iter().map(|block| (block.place, content(block))),
        );
        merge(
            &mut messages,
            "user",
            "content",
            message.answers().map(|(call, answer)| (answer.place, result(&call.id, answer))),
        );
    }
    messages
}

fn content(block: &Block) -> Value {
    match &block.what {
        What::Text(text) => json!({"type": "text", "text": text}),
        What::Thought(text) => match block.kept(SIGNATURE) {
            Some(signature) => json!({"type": "thinking", "thinking": text, "signature": signature}),
            None => json!({"type": "redacted_thinking", "data": block.kept(REDACTED)}),
        },
        What::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        }
        What::Stray(stray) => result(&stray.id, &stray.answer),
    }
}

fn result(id: &str, answer: &Answer) -> Value {
    let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": answer.content});
    if answer.is_error {
        result["is_error"] = true.into();
    }
    result
}
