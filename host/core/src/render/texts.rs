//! A view as plain texts, for `query`. `query` offers no tools to the model, and providers reject calls of tools that
//! are not offered. Therefore, calls and their answers become texts in brackets. Reasoning is left out.

use jp_compact_schema::{Message, Role};

use super::ViewPosition;
use super::conversation::{self, Content, Conversation};

pub(super) fn render(conversation: &Conversation) -> Vec<Message> {
    let mut messages = Vec::new();
    let is_added = |message: &conversation::Message| {
        message.blocks.iter().all(|block| block.position == ViewPosition::default())
    };
    // The caller appends the user's request, so the user message that the renderer added at the end is not needed.
    let original = match conversation.messages.split_last() {
        Some((last, earlier)) if last.role == conversation::Role::User && is_added(last) => earlier,
        _ => &conversation.messages,
    };
    for message in original {
        let role = if message.role == conversation::Role::User { Role::User } else { Role::Assistant };
        for block in &message.blocks {
            match &block.content {
                Content::Text(text) => push_text(&mut messages, role, text),
                Content::Call(call) => {
                    push_text(&mut messages, role, &format!("[Call of {}: {}]", call.name, call.arguments));
                }
                Content::Thought(_) | Content::Orphan(_) => {}
            }
        }
        for (call, answer) in message.answers() {
            let label = if answer.is_error { "Error" } else { "Answer" };
            push_text(&mut messages, Role::User, &format!("[{label} of {}: {}]", call.name, answer.content));
        }
    }
    messages
}

/// Appends a text to the last message, or as a new message if the last message has another role.
pub(super) fn push_text(messages: &mut Vec<Message>, role: Role, text: &str) {
    match messages.last_mut() {
        Some(last) if last.role == role => {
            last.content.push_str("\n\n");
            last.content.push_str(text);
        }
        _ => messages.push(Message { role, content: text.to_owned() }),
    }
}
