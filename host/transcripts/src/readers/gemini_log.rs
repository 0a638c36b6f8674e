//! The replay of a Gemini CLI log. A message replaces an earlier message with the same id. `$set` replaces all
//! messages. `$rewindTo` removes a message and all messages after it. A repeated header line is ignored.

use crate::builder::EventBuilder;
use crate::sample::ensure;
use crate::source_map::{ElementRef, ListForm};
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

use std::collections::HashMap;

pub(super) const WANTED: MemberFilter = |key| matches!(key, b"$set" | b"messages");

/// The state of the replay.
#[derive(Default)]
pub(super) struct Log {
    pub(super) messages: Vec<LogMessage>,
    /// The index of each message, by id.
    by_id: HashMap<String, usize>,
}

/// A message. It has the position of its first record and the content of its last record.
pub(super) struct LogMessage {
    pub(super) first: ElementRef,
    /// Later records of the same message.
    pub(super) others: Vec<ElementRef>,
    pub(super) span: Span,
}

impl Log {
    pub(super) fn document(
        &mut self,
        builder: &mut EventBuilder,
        document: JsonNode<'_>,
    ) -> Result<(), Unreadable> {
        match document.get("messages") {
            Some(messages) if messages.is_array() => self.put_all(builder, messages),
            // A log with only one line.
            _ => {
                ensure(document.is_object(), "Gemini CLI", document, "the document is not an object")?;
                let list = builder.add_list(ListForm::Lines, vec![document.span()], None);
                self.line(builder, ElementRef { list, element: 0 }, document)?;
            }
        }
        Ok(())
    }

    pub(super) fn line<'a>(
        &mut self,
        builder: &mut EventBuilder,
        at: ElementRef,
        line: JsonNode<'a>,
    ) -> Result<(), Unreadable> {
        ensure(line.is_object(), "Gemini CLI", line, "a line is not an object")?;
        let messages_of = |value: JsonNode<'a>| value.array("messages");
        if let Some(target) = line.text_of("$rewindTo") {
            // A rewind to an unknown message drops all messages.
            let remaining = self.by_id.get(&*target).copied().unwrap_or_default();
            self.messages.truncate(remaining);
            self.by_id.retain(|_, index| *index < remaining);
        } else if let Some(id) = line.text_of("id") {
            self.put_message(&id, at, line.span());
        } else if let Some(set) = line.get("$set") {
            if let Some(messages) = messages_of(set) {
                *self = Self::default();
                self.put_all(builder, messages);
            }
        } else if let Some(messages) = messages_of(line) {
            self.put_all(builder, messages);
        } else if line.string("type").is_some() {
            self.put_message("", at, line.span());
        } else if line.string("sessionId").is_none() {
            builder.count_unknown(line);
        }
        Ok(())
    }

    fn put_all(&mut self, builder: &mut EventBuilder, messages: JsonNode<'_>) {
        for (at, message) in builder.elements(messages, None).filter(|(_, message)| message.is_object()) {
            self.put_message(&message.text_of("id").unwrap_or_default(), at, message.span());
        }
    }

    fn put_message(&mut self, id: &str, at: ElementRef, span: Span) {
        match self.by_id.get(id).and_then(|index| self.messages.get_mut(*index)) {
            Some(message) => {
                message.others.push(at);
                message.span = span;
            }
            None => {
                if !id.is_empty() {
                    self.by_id.insert(id.to_owned(), self.messages.len());
                }
                self.messages.push(LogMessage { first: at, others: Vec::new(), span });
            }
        }
    }
}
