//! The draft of an event: the values that a reader found, before the builder assigns turn, id, and time. Readers start
//! from a draft of the record and set the parts that differ. A draft holds spans and never text.

use jiff::Timestamp;
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;

use crate::source_map::{Deletion, ElementRef};
use jp_compact_json::{JsonNode, Span, span_of};

/// An event that has not been added yet.
pub(crate) type NewEvent = (Kind, EventDraft);

#[derive(Debug, Clone, Default)]
pub(crate) struct EventDraft {
    /// The part of the source whose bytes decide whether the event has changed. May be empty.
    pub(crate) span: Span,
    /// The id of a call, for the call and its result. A JSON string. An id is invented if it is empty.
    pub(crate) id: Span,
    pub(crate) name: Span,
    /// A JSON string. For a call, an object or a string that contains one.
    pub(crate) body: Span,
    /// The time, if the source has one.
    pub(crate) time: Option<Timestamp>,
    pub(crate) record: Option<ElementRef>,
    pub(crate) deletion: Deletion,
    pub(crate) further_deletions: Vec<Deletion>,
    pub(crate) edits: Vec<EditSite>,
    pub(crate) metadata: Span,
    pub(crate) signature: Option<(&'static str, Span)>,
    /// The number of the model's response, from the builder. 0 for the response of the record, in formats with one
    /// record for each response.
    pub(crate) response: u32,
}

impl EventDraft {
    /// Returns a draft for an event of a record.
    pub(crate) fn of_record(record: ElementRef, time: Option<Timestamp>) -> Self {
        Self { time, record: Some(record), ..Self::default() }
    }

    /// Returns a draft for an event that is the whole record `node`.
    pub(crate) fn whole(record: ElementRef, node: JsonNode<'_>) -> Self {
        Self { span: node.span(), record: Some(record), ..Self::default() }
    }

    /// Returns a draft for an event of the same record that is only `node`.
    pub(crate) fn part(&self, node: JsonNode<'_>, deletion: Deletion) -> Self {
        Self { span: node.span(), deletion, ..self.clone() }
    }

    /// Like [`Self::part`], for a string that is also the body.
    pub(crate) fn text_part(&self, text: JsonNode<'_>, deletion: Deletion) -> Self {
        self.part(text, deletion).with_body(text.span())
    }

    pub(crate) fn with_body(self, body: Span) -> Self {
        Self { body, ..self }
    }

    pub(crate) fn with_id(self, id: Span) -> Self {
        Self { id, ..self }
    }

    /// Adds an edit of a value, if there is one.
    pub(crate) fn with_edit(mut self, value: Option<JsonNode<'_>>, write: fn(&str) -> String) -> Self {
        self.edits.extend(value.map(|value| value.edit_site(write)));
        self
    }

    /// Sets the arguments of a call, and the edit that empties them.
    pub(crate) fn with_arguments(self, value: Option<JsonNode<'_>>, write: fn(&str) -> String) -> Self {
        self.with_body(span_of(value)).with_edit(value, write)
    }
}
