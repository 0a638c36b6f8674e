//! The interface of a reader: detection, reading, and the records that represent a summary. A reader does no input
//! or output. It reports spans to an [`EventBuilder`] and never changes the bytes of the source.

use jiff::Timestamp;
use jp_compact_core::index::Unreadable;

use crate::builder::EventBuilder;
use crate::sample::Sample;
use jp_compact_json::JsonNode;

pub(crate) trait Reader: Sync {
    /// Returns whether a sample looks like this format. The first match in [`Format::ALL`] wins, so a special case
    /// of another format must come before it.
    fn detects(&self, sample: &Sample<'_>) -> bool;

    /// Adds the events to the builder, in the order in which the model received them.
    ///
    /// # Errors
    /// The bytes are not of this format. The error carries the byte offset.
    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable>;

    /// Returns the records that represent a summary: the user's request, then the assistant's response. The caller
    /// adds the separators between records.
    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String>;

    /// Returns the records that represent a summary of steps: one message on the user's side, marked as text that no human
    /// wrote if the format has such a mark.
    fn note(&self, note: &SummaryPair<'_>) -> Vec<String> {
        let mut records = self.pair(note);
        records.truncate(1);
        records
    }

    /// Returns the member of a message that holds its blocks, if the provider requires alternating roles.
    /// Neighboring messages of one role are then merged after an edit.
    fn blocks(&self) -> Option<&'static str> {
        None
    }

    /// Returns the id of a record of a summary if it is not from `SummaryPair::ids`.
    fn record_id(&self, _record: &str) -> Option<String> {
        None
    }

    /// Returns whether a pinned record contains a list of messages. A summary that begins in that list, or precedes a
    /// message in it, is inserted into it.
    fn has_nested_messages(&self) -> bool {
        false
    }

    /// Returns whether a summary of events of a pinned record follows that record.
    fn adds_after_pinned(&self) -> bool {
        true
    }

    /// Returns whether the reader needs the bytes of a line only while it reads the line, except for kept spans.
    fn reads_lines_once(&self) -> bool {
        false
    }

    /// Returns whether reasoning may be the only content of a message, because it is visible text in this format. In
    /// all other formats reasoning is deleted with the output that it led to, because providers reject reasoning alone.
    fn shows_reasoning(&self) -> bool {
        false
    }
}

pub(crate) struct SummaryPair<'a> {
    /// The first record that the summary replaces, with the contents of all its members. The pair copies shared members
    /// (session, version, model) from it.
    pub(crate) first: JsonNode<'a>,
    pub(crate) last: JsonNode<'a>,
    /// Bytes of the replaced records that the pair must contain.
    pub(crate) carried: Vec<&'a [u8]>,
    /// The time of the first replaced event, or of `next` if the pair precedes it.
    pub(crate) at: Timestamp,
    pub(crate) request: &'a str,
    pub(crate) response: &'a str,
    /// Unique ids of the two records, for formats whose records have ids.
    pub(crate) ids: [String; 2],
    /// The id of the record that the first record follows, as JSON.
    pub(crate) parent: &'a str,
    /// The number of the first record, for formats that number their records.
    pub(crate) number: Option<usize>,
    /// The record that follows the pair, if the summary replaces only records after it: the request of their turn.
    pub(crate) next: Option<JsonNode<'a>>,
    /// Whether `first` is deleted.
    pub(crate) replaces_first: bool,
    /// Whether the pair goes into a list of messages inside of a record that stays.
    pub(crate) is_nested: bool,
}
