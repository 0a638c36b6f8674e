//! Google's contents: user and model alternate (M1), as many responses as calls directly follow the calls (M2, M3),
//! and signatures stay on their parts (M5).

use serde_json::{Value, json};

use super::talk::{Answer, Block, Role, Talk, What};
use super::{ViewPosition, merge};

/// The member in which JP stores the signature of a part.
pub(super) const SIGNATURE: &str = "google_thought_signature";

pub(super) fn takes_thought(block: &Block) -> bool {
    block.kept(SIGNATURE).is_some()
}

pub(super) fn render(talk: &Talk) -> Vec<(ViewPosition, Value)> {
    let mut contents = Vec::new();
    for message in &talk.messages {
        let role = if message.role == Role::User { "user" } else { "model" };
        merge(&mut contents, role, "parts", message.blocks.iter().map(|block| (block.place, part(block))));
        merge(
            &mut contents,
            "user",
            "parts",
            message.answers().map(|(call, answer)| (answer.place, response(&call.id, &call.name, answer))),
        );
    }
    contents
}

fn part(block: &Block) -> Value {
    let mut part = match &block.what {
        What::Text(text) => json!({"text": text}),
        What::Thought(text) => json!({"text": text, "thought": true}),
        What::Call(call) => {
            json!({"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}})
        }
        What::Stray(stray) => response(&stray.id, &stray.name, &stray.answer),
    };
    if let Some(signature) = block.kept(SIGNATURE) {
        part["thoughtSignature"] = signature.into();
    }
    part
}

fn response(id: &str, name: &str, answer: &Answer) -> Value {
    let what = if answer.is_error { "error" } else { "output" };
    let response = json!({what: answer.content});
    json!({"functionResponse": {"id": id, "name": name, "response": response}})
}
