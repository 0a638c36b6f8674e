//! The rendering of a conversation as the `input` of a request to `OpenAI`'s Responses API, a flat list of items.
//! Reasoning is sent back encrypted and together with the item after it, or not at all (R2).

use serde_json::{Value, json};

use super::ViewPosition;
use super::conversation::{Answer, Block, Content, Message, Role};

/// The member in which JP stores the id of an item.
const ITEM_ID: &str = "openai_item_id";
/// The member in which JP stores encrypted reasoning.
pub(super) const ENCRYPTED: &str = "openai_encrypted_content";

pub(super) fn accepts_thought(block: &Block) -> bool {
    block.metadata_text(ITEM_ID).and(block.metadata_text(ENCRYPTED)).is_some()
}

pub(super) fn render(conversation: Vec<Message>) -> Vec<(ViewPosition, Value)> {
    let mut items = Vec::new();
    for message in conversation {
        items.extend(message.blocks.iter().map(|block| (block.position, item(message.role, block))));
        items.extend(message.answers().map(|(call, answer)| (answer.position, output(&call.id, answer))));
    }
    items
}

fn item(role: Role, block: &Block) -> Value {
    match &block.content {
        Content::Text(text) => {
            let role = if role == Role::User { "user" } else { "assistant" };
            json!({"type": "message", "role": role, "content": text})
        }
        Content::Thought(text) => {
            let summary = match text.trim() {
                "" => json!([]),
                _ => json!([{"type": "summary_text", "text": text}]),
            };
            let (id, encrypted) = (block.metadata_text(ITEM_ID), block.metadata_text(ENCRYPTED));
            json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
        }
        Content::Call(call) => {
            let arguments = call.arguments.to_string();
            json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
        }
        Content::Orphan(orphan) => output(&orphan.id, &orphan.answer),
    }
}

fn output(id: &str, answer: &Answer) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": answer.content})
}
