//! `OpenAI`'s responses: flat items. Reasoning is sent back encrypted before the output that follows it, or not at all
//! (R2).

use serde_json::{Value, json};

use super::ViewPosition;
use super::talk::{Answer, Block, Role, Talk, What};

/// The member in which JP stores the id of an item.
const ITEM: &str = "openai_item_id";
/// The member in which JP stores encrypted reasoning.
pub(super) const ENCRYPTED: &str = "openai_encrypted_content";

pub(super) fn takes_thought(block: &Block) -> bool {
    block.kept(ITEM).and(block.kept(ENCRYPTED)).is_some()
}

pub(super) fn render(talk: &Talk) -> Vec<(ViewPosition, Value)> {
    let mut items = Vec::new();
    for message in &talk.messages {
        items.extend(message.blocks.iter().map(|block| (block.place, item(message.role, block))));
        items.extend(message.answers().map(|(call, answer)| (answer.place, output(&call.id, answer))));
    }
    items
}

fn item(role: Role, block: &Block) -> Value {
    match &block.what {
        What::Text(text) => {
            let role = if role == Role::User { "user" } else { "assistant" };
            json!({"type": "message", "role": role, "content": text})
        }
        What::Thought(text) => {
            let texts = if text.trim().is_empty() { vec![] } else { vec![text] };
            let summary: Vec<_> =
                texts.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
            let (id, encrypted) = (block.kept(ITEM), block.kept(ENCRYPTED));
            json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
        }
        What::Call(call) => {
            let arguments = call.arguments.to_string();
            json!({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments})
        }
        What::Stray(stray) => output(&stray.id, &stray.answer),
    }
}

fn output(id: &str, answer: &Answer) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": answer.content})
}
