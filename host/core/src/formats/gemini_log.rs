//! The log of a chat of Gemini CLI, replayed: a message whose id was there before takes the place of that, `$set`
//! replaces the list of all, `$rewindTo` drops it from one message on, and a head that comes again says nothing new.

use std::collections::HashMap;

use super::detect::not_of;
use super::foreign::{At, ListForm};
use super::jp::Unreadable;
use super::reading::Reading;
use super::tree::{Look, Wanted};
use crate::json::Span;

/// What is looked into.
pub(super) const WANTED: Wanted = |key| matches!(key, b"$set" | b"messages");

/// The log as far as it was replayed.
#[derive(Default)]
pub(super) struct Log {
    pub(super) messages: Vec<Logged>,
    /// The place of each message by its id.
    places: HashMap<String, usize>,
}

/// A message: it stands where it was written first, and says what was written last.
pub(super) struct Logged {
    pub(super) first: At,
    /// Where else it was written since.
    pub(super) others: Vec<At>,
    pub(super) span: Span,
}

impl Log {
    pub(super) fn document(&mut self, reading: &mut Reading, document: Look<'_>) -> Result<(), Unreadable> {
        match document.get("messages") {
            Some(messages) if messages.is_array() => self.all(reading, messages),
            _ if !document.is_object() => {
                return Err(not_of("Gemini CLI", document.span().start, "neither a chat nor a line of one"));
            }
            // A log of one line.
            _ => {
                let list = reading.list(ListForm::Lines, vec![document.span()], None);
                self.line(reading, At { list, element: 0 }, document)?;
            }
        }
        Ok(())
    }

    pub(super) fn line<'a>(
        &mut self,
        reading: &mut Reading,
        at: At,
        line: Look<'a>,
    ) -> Result<(), Unreadable> {
        if !line.is_object() {
            return Err(not_of("Gemini CLI", line.span().start, "a line that is no object"));
        }
        let all = |value: Look<'a>| value.get("messages").filter(|all| all.is_array());
        if let Some(to) = line.text_of("$rewindTo") {
            // To one that is not there is to the beginning.
            let left = self.places.get(&*to).copied().unwrap_or_default();
            self.messages.truncate(left);
            self.places.retain(|_, place| *place < left);
        } else if let Some(id) = line.text_of("id") {
            self.put(&id, at, line.span());
        } else if let Some(set) = line.get("$set") {
            if let Some(messages) = all(set) {
                *self = Self::default();
                self.all(reading, messages);
            }
        } else if let Some(messages) = all(line) {
            self.all(reading, messages);
        } else if line.string("type").is_some() {
            self.put("", at, line.span());
        } else if line.string("sessionId").is_none() {
            reading.unknown(line);
        }
        Ok(())
    }

    fn all(&mut self, reading: &mut Reading, messages: Look<'_>) {
        let list = reading.items(messages, None);
        for (element, message) in messages.items().enumerate().filter(|(_, message)| message.is_object()) {
            self.put(&message.text_of("id").unwrap_or_default(), At { list, element }, message.span());
        }
    }

    fn put(&mut self, id: &str, at: At, span: Span) {
        match self.places.get(id).and_then(|place| self.messages.get_mut(*place)) {
            Some(message) => {
                message.others.push(at);
                message.span = span;
            }
            None => {
                if !id.is_empty() {
                    self.places.insert(id.to_owned(), self.messages.len());
                }
                self.messages.push(Logged { first: at, others: Vec::new(), span });
            }
        }
    }
}
