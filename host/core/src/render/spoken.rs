//! A view as texts alone, for a model that is offered no tools: what was called, and what came of it, is told.

use jp_compact_schema::{Message, Role};

use super::Place;
use super::talk::{self, Talk, What};

pub(super) fn render(talk: &Talk) -> Vec<Message> {
    let mut messages = Vec::new();
    // What the renderer put behind an assistant's message makes room for what is said next.
    let ours = |message: &talk::Message| message.blocks.iter().all(|block| block.place == Place::default());
    let said = match talk.messages.split_last() {
        Some((last, before)) if last.role == talk::Role::User && ours(last) => before,
        _ => &talk.messages,
    };
    for message in said {
        let role = if message.role == talk::Role::User { Role::User } else { Role::Assistant };
        for block in &message.blocks {
            match &block.what {
                What::Text(text) => say(&mut messages, role, text),
                What::Call(call) => {
                    say(&mut messages, role, &format!("[Call of {}: {}]", call.name, call.arguments));
                }
                What::Thought(_) | What::Stray(_) => {}
            }
        }
        for (call, answer) in message.answers() {
            let what = if answer.is_error { "Error" } else { "Answer" };
            say(&mut messages, Role::User, &format!("[{what} of {}: {}]", call.name, answer.content));
        }
    }
    messages
}

/// Says something: one message, where the same role has just spoken.
pub(super) fn say(messages: &mut Vec<Message>, role: Role, text: &str) {
    match messages.last_mut() {
        Some(last) if last.role == role => {
            last.content.push_str("\n\n");
            last.content.push_str(text);
        }
        _ => messages.push(Message { role, content: text.to_owned() }),
    }
}
