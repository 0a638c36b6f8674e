//! The reader of Kimi CLI's sessions: JSONL with one message in each line, in the form of `OpenAI`'s chat, and lines of the
//! program between them. Kimi CLI begins a new file when it compacts or rewinds, so all messages of a file were sent.

use super::openai_chat::{self, WANTED};
use crate::builder::EventBuilder;
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure};
use jp_compact_core::index::Unreadable;

pub(super) struct KimiCli;

/// The line with the system prompt. It is not a message of the conversation.
const SYSTEM_PROMPT: &str = "_system_prompt";
/// The roles of lines that are not sent.
const INTERNAL: [&str; 2] = ["_checkpoint", "_usage"];

impl Reader for KimiCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let role = line.text_of("role");
            role.is_some_and(|role| role == SYSTEM_PROMPT || INTERNAL.contains(&&*role))
        })
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_lines(WANTED, |builder, at, line| {
            ensure(line.is_object(), "Kimi CLI", line, "a line is not an object")?;
            match line.text_of("role").as_deref() {
                Some(SYSTEM_PROMPT) => builder.add_system_content(line.get("content")),
                Some(role) if INTERNAL.contains(&role) => {}
                _ => openai_chat::read_message(builder, at, line)?,
            }
            Ok(())
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        openai_chat::OpenaiChat.pair(pair)
    }
}
