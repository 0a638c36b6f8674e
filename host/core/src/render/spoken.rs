//! A view as texts alone, for a model without tools. A model accepts calls only of tools that it is offered, and
//! `query` offers none. Calls and their answers become texts in brackets, and reasoning is left out.

use jp_compact_schema::{Message, Role};

use super::ViewPosition;
use super::talk::{self, Talk, What};

pub(super) fn render(talk: &Talk) -> Vec<Message> {
    let mut messages = Vec::new();
    // The user message that the renderer added after an assistant message is replaced by the next text.
    let ours =
        |message: &talk::Message| message.blocks.iter().all(|block| block.place == ViewPosition::default());
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

/// Appends a text, to the last message if it has the same role.
pub(super) fn say(messages: &mut Vec<Message>, role: Role, text: &str) {
    match messages.last_mut() {
        Some(last) if last.role == role => {
            last.content.push_str("\n\n");
            last.content.push_str(text);
        }
        _ => messages.push(Message { role, content: text.to_owned() }),
    }
}
