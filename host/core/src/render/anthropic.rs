//! The rendering of a conversation as the `messages` of an Anthropic request. In the message after calls, the results
//! precede the text (A3). A thought is sent back with its signature, or not at all (A6).

use serde_json::{Value, json};

use super::conversation::{Answer, Block, Content, Message, Role};
use super::{ViewPosition, merge};

/// The member in which JP stores the signature of a thought.
pub(super) const SIGNATURE: &str = "anthropic_thinking_signature";
/// The member in which JP stores a redacted thought.
pub(super) const REDACTED: &str = "anthropic_redacted_thinking";

pub(super) fn accepts_thought(block: &Block) -> bool {
    block.metadata_text(SIGNATURE).or(block.metadata_text(REDACTED)).is_some()
}

pub(super) fn render(conversation: Vec<Message>) -> Vec<(ViewPosition, Value)> {
    let mut messages = Vec::new();
    for message in conversation {
        let role = if message.role == Role::User { "user" } else { "assistant" };
        let blocks = message.blocks.iter().map(|block| (block.position, content(block)));
        merge(&mut messages, role, "content", blocks);
        let results = message.answers().map(|(call, answer)| (answer.position, result(&call.id, answer)));
        merge(&mut messages, "user", "content", results);
    }
    messages
}

fn content(block: &Block) -> Value {
    match &block.content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Thought(text) => match block.metadata_text(SIGNATURE) {
            Some(signature) => json!({"type": "thinking", "thinking": text, "signature": signature}),
            None => json!({"type": "redacted_thinking", "data": block.metadata_text(REDACTED)}),
        },
        Content::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        }
        Content::Orphan(orphan) => result(&orphan.id, &orphan.answer),
    }
}

fn result(id: &str, answer: &Answer) -> Value {
    let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": answer.content});
    if answer.is_error {
        result["is_error"] = true.into();
    }
    result
}
