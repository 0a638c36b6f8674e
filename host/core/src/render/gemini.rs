//! The rendering of a conversation as the `contents` of a Gemini request. The ids in parentheses are lint rules. User
//! and model alternate (M1). A content with calls is followed by a content with one response for each call (M2, M3).
//! Signatures stay on their parts (M5).

use serde_json::{Value, json};

use super::conversation::{Answer, Block, Content, Message, Role};
use super::{ViewPosition, merge};

/// The member in which JP stores the signature of a part.
pub(super) const SIGNATURE: &str = "google_thought_signature";

pub(super) fn accepts_thought(block: &Block) -> bool {
    block.metadata_text(SIGNATURE).is_some()
}

pub(super) fn render(conversation: Vec<Message>) -> Vec<(ViewPosition, Value)> {
    let mut contents = Vec::new();
    for message in conversation {
        let role = if message.role == Role::User { "user" } else { "model" };
        let parts = message.blocks.iter().map(|block| (block.position, part(block)));
        merge(&mut contents, role, "parts", parts);
        let responses =
            message.answers().map(|(call, answer)| (answer.position, response(&call.id, &call.name, answer)));
        merge(&mut contents, "user", "parts", responses);
    }
    contents
}

fn part(block: &Block) -> Value {
    let mut part = match &block.content {
        Content::Text(text) => json!({"text": text}),
        Content::Thought(text) => json!({"text": text, "thought": true}),
        Content::Call(call) => {
            json!({"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}})
        }
        Content::Orphan(orphan) => response(&orphan.id, &orphan.name, &orphan.answer),
    };
    if let Some(signature) = block.metadata_text(SIGNATURE) {
        part["thoughtSignature"] = signature.into();
    }
    part
}

fn response(id: &str, name: &str, answer: &Answer) -> Value {
    let member = if answer.is_error { "error" } else { "output" };
    let response = json!({member: answer.content});
    json!({"functionResponse": {"id": id, "name": name, "response": response}})
}
