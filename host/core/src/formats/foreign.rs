//! What is known of a transcript of another program beside its events: where each lies in the source, what it is tied
//! to, and how it is taken out.

use std::collections::HashSet;

use serde_json::Value;

use super::Format;
use super::coverage::Coverage;
use crate::json::Span;
use crate::sidecar::Sidecar;

/// An element of a list of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct At {
    /// The list's number.
    pub(crate) list: usize,
    /// The element's number in it.
    pub(crate) element: usize,
}

/// Elements that stand in a row, and can be taken out one by one.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) form: ListForm,
    /// Where each lies; of lines with the line break.
    pub(crate) elements: Vec<Span>,
    /// What goes as well when none is left.
    pub(crate) holder: Option<At>,
}

/// What parts the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// Nothing: each is a line with its break.
    Lines,
    /// Commas: the items of an array, or the members of an object.
    Commas,
}

/// How an event is taken out of its record, where the record stays.
#[derive(Debug, Clone, Default)]
pub(crate) enum Cut {
    /// Nothing is done: it is the record, or goes with another event.
    #[default]
    Nothing,
    /// An element of a list goes.
    Element(At),
    /// These bytes are replaced.
    Value(Span, &'static str),
    /// All of these: it stands in several places.
    Several(Vec<Self>),
}

/// A value that is written anew where arguments are emptied, or content replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// Where it lies.
    pub(crate) span: Span,
    /// Writes it; of emptied arguments the text is empty.
    pub(crate) write: fn(&str) -> String,
}

/// Where an event lies in its source, beside the values that the index knows.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its record: it goes when none of its events is left. Of what lies in no record there is none.
    pub(crate) record: Option<At>,
    pub(crate) cut: Cut,
    /// What goes with the event, whatever becomes of its record: other records that say the same.
    pub(crate) also: Box<[Cut]>,
    pub(crate) slots: Box<[Slot]>,
    /// What the provider wants back with it, as an object under JP's names; may be absent.
    pub(crate) metadata: Span,
    /// A string of the source that the provider wants back with it, under JP's name.
    pub(crate) signed: Option<Box<(&'static str, Span)>>,
}

impl Place {
    /// Whether its values take no more bytes when they are written anew with this text, whatever the layout of the
    /// source: white space and escapes in it do not count.
    pub(crate) fn takes(&self, text: &str, source: &[u8]) -> bool {
        let new: usize = self.slots.iter().map(|slot| (slot.write)(text).len()).sum();
        let bytes: usize = self.slots.iter().map(|slot| slot.span.len()).sum();
        if bytes > ESCAPE_BYTES_MAX * new {
            return true;
        }
        let old: usize = self.slots.iter().map(|slot| least_bytes(slot.span.of(source))).sum();
        new <= old
    }
}

/// Bytes that an escape can take for one of what it stands for: `\u0041`.
const ESCAPE_BYTES_MAX: usize = 6;

/// The bytes of a value in the layout that takes the fewest. A part of a value is as it is.
fn least_bytes(raw: &[u8]) -> usize {
    let value: Option<Value> = serde_json::from_slice(raw).ok();
    value.map_or(raw.len(), |value| value.to_string().len()).min(raw.len())
}

/// What a record is called, and what it follows: both JSON values. One without a name mentions another record, and one
/// without a parent follows none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) record: At,
    pub(crate) id: Span,
    pub(crate) parent: Span,
    /// The place of what it follows, where that is the last record with a name before it, as nearly always.
    pub(crate) follows: Option<usize>,
}

/// A value that names the first of several records.
#[derive(Debug, Clone)]
pub(crate) struct First {
    /// Where the name lies, a JSON value.
    pub(crate) span: Span,
    /// The records, each of which has a link.
    pub(crate) records: Vec<At>,
}

/// What a stream knows of the transcript that it is of, when that is not JP's.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) format: Format,
    /// One for each element of the index that is an event.
    pub(crate) places: Vec<Place>,
    pub(crate) lists: Vec<List>,
    pub(crate) links: Vec<Link>,
    /// Elements that go when a record goes: what is said of it elsewhere.
    pub(crate) mentions: Vec<(At, At)>,
    /// The numbers of records that are counted, by which the next ones move up.
    pub(crate) numbers: Vec<(At, Span)>,
    /// Records that stay when none of their events is left; what stands for those comes behind them.
    pub(crate) pinned: HashSet<At>,
    /// What of a record has to stand in the pair that stands for it.
    pub(crate) carried: Vec<(At, Span)>,
    pub(crate) firsts: Vec<First>,
    pub(crate) coverage: Coverage,
    pub(crate) warnings: Vec<String>,
    /// What the model is told of its part, where the transcript says so.
    pub(crate) system: Option<String>,
    /// The model, by the name that its provider gives it.
    pub(crate) model: Option<String>,
    pub(crate) sidecar: Option<Sidecar>,
}

impl Foreign {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            places: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            mentions: Vec::new(),
            numbers: Vec::new(),
            pinned: HashSet::new(),
            carried: Vec::new(),
            firsts: Vec::new(),
            coverage: Coverage::default(),
            warnings: Vec::new(),
            system: None,
            model: None,
            sidecar: None,
        }
    }
}
