//! The map from events to the bytes of their source: where each event is, which records it is linked to, and how it
//! is deleted. Readers fill it through the builder.

use std::collections::HashSet;

use jp_compact_json::Span;

use crate::coverage::Coverage;
use crate::format::Format;

/// An element of a list in the source: the number of the list, and the position in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ElementRef {
    pub(crate) list: usize,
    pub(crate) element: usize,
}

/// Neighboring elements, each of which can be deleted alone.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) form: ListForm,
    /// The spans of the elements. A line includes its line break.
    pub(crate) elements: Vec<Span>,
    /// The element that is deleted too when this list becomes empty.
    pub(crate) holder: Option<ElementRef>,
}

/// The separator of a list's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// None: each element is a line with its line break.
    Lines,
    /// Commas: the items of an array, or the members of an object.
    Commas,
}

/// The edit that deletes an event from a record that stays.
#[derive(Debug, Clone, Default)]
pub(crate) enum Deletion {
    /// No edit: the event is the whole record, or is deleted with another event.
    #[default]
    Nothing,
    /// The element is removed from its list.
    Element(ElementRef),
    /// The value with this span is replaced with this JSON.
    Value(Span, &'static str),
    /// All of these, because the event is in several places.
    Several(Vec<Self>),
}

/// The place of an event in its source, in addition to the values in the index.
#[derive(Debug, Clone)]
pub(crate) struct EventSource {
    /// The record, which is deleted when none of its events is left. `None` for an event outside of all records.
    pub(crate) record: Option<ElementRef>,
    pub(crate) deletion: Deletion,
    /// Deletions outside of the event: its copies, and values that are invalid without it. They are also applied if the
    /// event's own record is deleted.
    pub(crate) further_deletions: Box<[Deletion]>,
}

/// Returns the deletion of one element. Without a list there is nothing to delete.
pub(crate) fn element_deletion(list: Option<usize>, element: usize) -> Deletion {
    list.map_or(Deletion::Nothing, |list| Deletion::Element(ElementRef { list, element }))
}

/// The name of a record and of the record that it follows, as JSON values. A link with an empty name only
/// mentions another record. A record with an empty parent follows none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) record: ElementRef,
    pub(crate) id: Span,
    pub(crate) parent: Span,
    /// The index of the previous link with a name, if that link is the parent's, as it nearly always is.
    pub(crate) previous: Option<usize>,
}

/// A value that names the first of several records.
#[derive(Debug, Clone)]
pub(crate) struct FirstRecord {
    /// The span of the value, which is JSON. With a key, the span of the object that lacks this member.
    pub(crate) span: Span,
    pub(crate) key: Option<&'static str>,
    /// The records, each with its id.
    pub(crate) records: Vec<(ElementRef, Span)>,
    /// Whether the model receives nothing before the first record, so a summary before it must be named instead.
    pub(crate) is_start: bool,
}

/// The relation of a stream to its source file, for all formats but JP's.
#[derive(Debug, Clone)]
pub(crate) struct SourceMap {
    pub(crate) format: Format,
    /// One for each element of the index that is an event.
    pub(crate) sources: Vec<EventSource>,
    pub(crate) lists: Vec<List>,
    pub(crate) links: Vec<Link>,
    /// Pairs of a record and an element that is deleted with it.
    pub(crate) deleted_with: Vec<(ElementRef, ElementRef)>,
    /// The numbers of records, for formats that number them. Later records are renumbered.
    pub(crate) numbers: Vec<(ElementRef, Span)>,
    /// Records that stay even if all their events are deleted. `Reader::has_nested_messages` and
    /// `Reader::adds_after_pinned` decide where a summary of those events is inserted.
    pub(crate) pinned: HashSet<ElementRef>,
    /// Bytes of a record that are copied into the summary pair that replaces it.
    pub(crate) carried: Vec<(ElementRef, Span)>,
    pub(crate) first_records: Vec<FirstRecord>,
    pub(crate) coverage: Coverage,
    pub(crate) warnings: Vec<String>,
    /// The system prompt, if the transcript contains one.
    pub(crate) system: Option<String>,
    /// The model, under the name that its provider uses.
    pub(crate) model: Option<String>,
}

impl SourceMap {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            sources: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            deleted_with: Vec::new(),
            numbers: Vec::new(),
            pinned: HashSet::new(),
            carried: Vec::new(),
            first_records: Vec::new(),
            coverage: Coverage::default(),
            warnings: Vec::new(),
            system: None,
            model: None,
        }
    }
}
