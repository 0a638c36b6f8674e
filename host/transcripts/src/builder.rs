//! The builder of a transcript's events. Readers report kinds and spans; the builder assigns turns, numbers, ids,
//! and times. The source is never changed. A value that is not in the source as it is (an invented id, the joined
//! text of several blocks) is appended to a second buffer, and its span begins after the end of the source.

use bytes::Bytes;
use jiff::Timestamp;

use jp_compact_core::estimate::IMAGE_LINE;
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::external::{EditSite, External, ExternalEvent};
use jp_compact_core::index::{Index, SEVERAL, Unreadable};
use jp_compact_core::json::{self, Malformed, Scanner, Span};
use jp_compact_core::stream::Stream;
use jp_compact_core::{text, time};

use crate::format::Format;
use crate::json_index::{JsonIndex, JsonNode, MemberFilter};
use crate::lines::{begin, estimated_records, line_end};
use crate::source_map::{Deletion, ElementRef, EventSource, First, Link, List, ListForm, SourceMap};
use crate::transcript::Transcript;

#[derive(Debug, Clone, Default)]
pub(crate) struct EventDraft {
    /// The part of the source whose bytes decide whether the event has changed. May be empty.
    pub(crate) span: Span,
    /// A JSON string, for calls and responses. An id is invented if it is empty.
    pub(crate) id: Span,
    pub(crate) name: Span,
    /// A JSON string. For a call, an object or a string that contains one.
    pub(crate) body: Span,
    /// The time, if the source has one.
    pub(crate) time: Option<Timestamp>,
    pub(crate) record: Option<ElementRef>,
    pub(crate) deletion: Deletion,
    pub(crate) also: Vec<Deletion>,
    pub(crate) edits: Vec<EditSite>,
    pub(crate) metadata: Span,
    pub(crate) signed: Option<(&'static str, Span)>,
}

impl EventDraft {
    /// Starts the event of a record.
    pub(crate) fn of_record(record: ElementRef, time: Option<Timestamp>) -> Self {
        Self { time, record: Some(record), ..Self::default() }
    }
}

/// Collects the events and the [`SourceMap`] of one transcript.
pub(crate) struct EventBuilder {
    bytes: Bytes,
    made: Vec<u8>,
    events: Vec<Event>,
    external: Vec<ExternalEvent>,
    map: SourceMap,
    /// The time of the previous event.
    last: Timestamp,
    ids: usize,
    /// Whether a value of the source has to be repaired before it is decoded.
    is_odd: bool,
    has_conversation: bool,
}

impl EventBuilder {
    pub(crate) fn new(bytes: Bytes, format: Format) -> Self {
        let records = estimated_records(&bytes);
        let mut map = SourceMap::new(format);
        map.sources.reserve(records);
        Self {
            bytes,
            made: Vec::new(),
            events: Vec::with_capacity(records),
            external: Vec::with_capacity(records),
            map,
            last: Timestamp::UNIX_EPOCH,
            ids: 0,
            is_odd: false,
            has_conversation: false,
        }
    }

    /// Returns a handle to the source, so that events can be added while it is read.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Calls `each` for every line that is JSON. The lines are the elements of list 0, numbered from 0. Other lines
    /// stay in the source and cause a warning, because the agents skip them too. The last line may be
    /// incomplete because the program is still writing it.
    ///
    /// # Errors
    /// `each` failed, or none of the lines is JSON.
    pub(crate) fn lines(
        &mut self,
        wanted: MemberFilter,
        mut each: impl FnMut(&mut Self, ElementRef, JsonNode<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let bytes = self.bytes();
        let list = self.list(ListForm::Lines, Vec::with_capacity(estimated_records(&bytes)), None);
        let (mut tree, mut start) = (JsonIndex::default(), begin(&bytes));
        let mut is_any_read = false;
        let mut malformed: Vec<(usize, Malformed)> = Vec::new();
        for element in 0.. {
            if start == bytes.len() {
                break;
            }
            let fast = tree.read_line(&bytes, start, wanted).ok();
            let span = Span { start, end: fast.unwrap_or_else(|| line_end(&bytes, start)) };
            start = span.end;
            self.map.lists[list].elements.push(span);
            let line = span.slice(&bytes);
            // The error is reported relative to this line, because the fast path reads on past a cut-off line.
            let read = fast.map_or_else(|| tree.read(&bytes, span, wanted), |_| Ok(()));
            self.is_odd |= tree.is_odd();
            match read {
                Ok(()) => {
                    is_any_read = true;
                    each(self, ElementRef { list, element }, JsonNode::new(&bytes, &tree))
                        .map_err(|wrong| in_line(element, wrong))?;
                }
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(wrong)
                    if element > 0
                        && bytes[start..].trim_ascii().is_empty()
                        && is_cut_off(&bytes, span, &wrong) =>
                {
                    let line = element + 1;
                    self.warn(format!(
                        "line {line} is cut off and was skipped: the program may still be writing it"
                    ));
                }
                Err(wrong) => {
                    self.map.coverage.lose(line);
                    malformed.push((element, wrong));
                }
            }
        }
        let Some((element, Malformed { at, what })) = malformed.first() else { return Ok(()) };
        if !is_any_read {
            return Err(in_line(*element, Unreadable { at: *at, element: None, what: (*what).into() }));
        }
        let (line, several) = (element + 1, malformed.len() - 1);
        let others = match several {
            0 => String::new(),
            1 => " and 1 other line".to_owned(),
            several => format!(" and {several} other lines"),
        };
        let are = if several == 0 { "is" } else { "are" };
        let were = if several == 0 { "was" } else { "were" };
        self.warn(format!("line {line}{others} {are} not JSON ({what}) and {were} skipped"));
        Ok(())
    }

    /// Calls `read` with the source as one JSON value.
    ///
    /// # Errors
    /// `read` failed, or the source is not one JSON value.
    pub(crate) fn document(
        &mut self,
        wanted: MemberFilter,
        read: impl FnOnce(&mut Self, JsonNode<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let bytes = self.bytes();
        let wrong = |Malformed { at, what }| Unreadable { at, element: None, what: what.into() };
        let whole = Span { start: begin(&bytes), end: bytes.len() };
        let tree = JsonIndex::new(&bytes, whole, wanted).map_err(wrong)?;
        self.is_odd |= tree.is_odd();
        read(self, JsonNode::new(&bytes, &tree))
    }

    /// Adds a list of elements of the source. Returns its number.
    pub(crate) fn list(&mut self, form: ListForm, elements: Vec<Span>, holder: Option<ElementRef>) -> usize {
        self.map.lists.push(List { form, elements, holder });
        self.map.lists.len() - 1
    }

    /// Adds the items of an array as a list. Returns its number.
    pub(crate) fn items(&mut self, array: JsonNode<'_>, holder: Option<ElementRef>) -> usize {
        self.list(ListForm::Commas, array.items().map(JsonNode::span).collect(), holder)
    }

    /// Adds the members of an object as a list, so that a value can be deleted with its key. Returns its number.
    pub(crate) fn members(&mut self, object: JsonNode<'_>) -> usize {
        self.list(ListForm::Commas, object.member_spans(), None)
    }

    /// Stores the name of a record and of the record that it follows.
    pub(crate) fn link(&mut self, record: ElementRef, id: Span, parent: Span) {
        let links = &mut self.map.links;
        if links.is_empty() {
            links.reserve(estimated_records(&self.bytes));
        }
        let named = links.iter().rposition(|link| !link.id.is_empty());
        // Compared now, while both are still in the processor's cache.
        let is_it = |named: &usize| {
            !parent.is_empty() && links[*named].id.slice(&self.bytes) == parent.slice(&self.bytes)
        };
        let follows = named.filter(is_it);
        links.push(Link { record, id, parent, follows });
    }

    /// Deletes `element`, of another list, whenever `record` is deleted.
    pub(crate) fn mention(&mut self, record: ElementRef, element: ElementRef) {
        self.map.mentions.push((record, element));
    }

    /// Stores the number of a record, in formats that number them. Must be called for all records, in order.
    pub(crate) fn number(&mut self, record: ElementRef, number: Span) {
        self.map.numbers.push((record, number));
    }

    /// Keeps a record even if all its events are deleted.
    pub(crate) fn pin(&mut self, line: ElementRef) {
        self.map.pinned.insert(line);
    }

    /// Copies these bytes of a record into the pair of records that replaces it.
    pub(crate) fn carry(&mut self, record: ElementRef, bytes: Span) {
        self.map.carried.push((record, bytes));
    }

    /// Stores a value that names the first of several records. If that record is deleted, the value names the next.
    pub(crate) fn first(&mut self, span: Span, records: Vec<ElementRef>) {
        self.map.firsts.push(First { span, records });
    }

    /// Marks the beginning of a conversation. A file holds only one; a second one is not a continuation of the
    /// first.
    ///
    /// # Errors
    /// The file already has a conversation.
    pub(crate) fn conversation(&mut self, node: JsonNode<'_>) -> Result<(), Unreadable> {
        if std::mem::replace(&mut self.has_conversation, true) {
            return Err(Unreadable { at: node.span().start, element: None, what: SEVERAL.into() });
        }
        Ok(())
    }

    /// Counts a record that the reader does not know.
    pub(crate) fn unknown(&mut self, record: JsonNode<'_>) {
        self.map.coverage.lose(record.raw());
    }

    /// Counts text of known events that are left out deliberately, because the model no longer receives them.
    pub(crate) fn passed_over(&mut self, text: u64) {
        self.map.coverage.understood += text;
    }

    /// Counts text of events that cannot be reached because a record that links to them is missing.
    pub(crate) fn unreachable(&mut self, text: u64, records: u64) {
        self.map.coverage.lost += text;
        self.map.coverage.records += records;
        let are = if records == 1 { "record is" } else { "records are" };
        self.warn(format!(
            "{records} {are} not read because a record that links them to the last one is missing"
        ));
    }

    /// Same as [`Self::unreachable`], for text that was already counted as understood.
    pub(crate) fn unreachable_understood(&mut self, text: u64, records: u64) {
        let understood = &mut self.map.coverage.understood;
        *understood = understood.saturating_sub(text);
        self.unreachable(text, records);
    }

    /// Returns the length of the text of a range of added events.
    pub(crate) fn text_of(&self, events: std::ops::Range<usize>) -> u64 {
        self.events[events].iter().map(|event| event.body.len() as u64).sum()
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.map.warnings.push(warning);
    }

    /// Adds a text to the system prompt. Several texts are joined by blank lines.
    pub(crate) fn system(&mut self, text: &str) {
        match &mut self.map.system {
            Some(system) => {
                system.push_str("\n\n");
                system.push_str(text);
            }
            None => self.map.system = Some(text.to_owned()),
        }
    }

    /// Adds the string at `span` to the system prompt.
    pub(crate) fn system_at(&mut self, span: Span) {
        let text = self.unquoted(span);
        self.system(&text);
    }

    /// Returns the bytes of a span of the source or of the second buffer.
    fn raw(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.bytes.len()) {
            Some(start) => &self.made[start..span.end - self.bytes.len()],
            None => span.slice(&self.bytes),
        }
    }

    fn unquoted(&self, span: Span) -> String {
        text::unquote(self.raw(span)).into_owned()
    }

    /// Sets the current model, by its provider's name for it.
    pub(crate) fn model(&mut self, name: &str) {
        if self.map.model.as_deref() != Some(name) {
            self.map.model = Some(name.to_owned());
        }
    }

    /// Begins a turn. The user's request comes next.
    pub(crate) fn turn(&mut self, time: Option<Timestamp>) {
        self.add(Kind::TurnStart, EventDraft { time, ..EventDraft::default() });
    }

    pub(crate) fn add(&mut self, kind: Kind, draft: EventDraft) {
        let draft = if self.is_odd { self.repaired(draft) } else { draft };
        let EventDraft { span, mut id, name, body, time, record, deletion, also, edits, metadata, signed } =
            draft;
        self.last = time.unwrap_or(self.last);
        self.map.coverage.understood += body.len() as u64;
        if kind.is_tool() && id.is_empty() {
            id = self.next_id();
        }
        // Turns and numbers are assigned at the end, to the events that remain.
        let timestamp = Some(self.last);
        self.events.push(Event { span, kind, turn: 0, seq: None, timestamp, id, name, body });
        let (also, edits, signed) = (also.into(), edits.into(), signed.map(Box::new));
        self.map.sources.push(EventSource { record, deletion, also });
        self.external.push(ExternalEvent { edits, metadata, signature: signed });
    }

    /// Replaces the values of an event that cannot be decoded by repaired copies.
    fn repaired(&mut self, mut draft: EventDraft) -> EventDraft {
        let signed = draft.signed.as_mut().map(|(_, span)| span);
        let values = [&mut draft.id, &mut draft.name, &mut draft.body, &mut draft.metadata];
        for span in values.into_iter().chain(signed) {
            let raw = self.raw(*span).to_vec();
            if !raw.is_empty() && Scanner::at_byte(&raw, 0).value(0).is_err() {
                *span = self.made_raw(&String::from_utf8_lossy(&json::repaired(&raw)));
            }
        }
        draft
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Keeps the events for whose index `stays` returns true, and removes all others.
    pub(crate) fn keep(&mut self, stays: impl Fn(usize) -> bool) {
        let mut element = 0..;
        self.events.retain(|_| element.next().is_some_and(&stays));
        let mut element = 0..;
        self.map.sources.retain(|_| element.next().is_some_and(&stays));
        let mut element = 0..;
        self.external.retain(|_| element.next().is_some_and(&stays));
    }

    /// Returns the span of a tool's name. A call without a name gets the name `unknown`.
    pub(crate) fn tool_name(&mut self, call: JsonNode<'_>, member: &str) -> Span {
        call.string(member).map(JsonNode::span).unwrap_or_else(|| self.made("unknown"))
    }

    pub(crate) fn next_id(&mut self) -> Span {
        self.ids += 1;
        self.made(&format!("call_{}", self.ids))
    }

    /// Returns the span of a new JSON string with this text.
    pub(crate) fn made(&mut self, text: &str) -> Span {
        self.made_raw(&serde_json::Value::from(text).to_string())
    }

    /// Returns the span of a new JSON value.
    pub(crate) fn made_raw(&mut self, json: &str) -> Span {
        let start = self.bytes.len() + self.made.len();
        self.made.extend_from_slice(json.as_bytes());
        Span { start, end: start + json.len() }
    }

    /// Returns the span of a text: a string's own span, or the joined texts of an array of blocks, with one line for
    /// each image.
    pub(crate) fn text(&mut self, value: JsonNode<'_>) -> Span {
        if value.is_string() {
            return value.span();
        }
        let parts = value.items().filter_map(|item| {
            let own = if item.is_string() { Some(item) } else { item.string("text") };
            let is_image =
                || item.text_of("type").is_some_and(|kind| kind.ends_with("image") || kind == "image_url");
            own.map(JsonNode::text).or_else(|| is_image().then_some(IMAGE_LINE.into()))
        });
        let parts: Vec<_> = parts.collect();
        self.made(&parts.join("\n"))
    }

    /// Returns the span of a new string that joins several texts by line breaks.
    pub(crate) fn joined(&mut self, texts: &[Span]) -> Span {
        let parts: Vec<String> = texts.iter().map(|span| self.unquoted(*span)).collect();
        self.made(&parts.join("\n"))
    }

    pub(crate) fn finish(self) -> Result<Transcript, Unreadable> {
        let Self { bytes, made, events, external, map, .. } = self;
        let index = Index::from_events(bytes, made.into(), events);
        let external = External { format: map.format.as_str(), events: external };
        Ok(Transcript::new(Stream::from_external(index, external)?, map))
    }
}

/// Parses a member that is an RFC 3339 time.
pub(crate) fn time_of(record: JsonNode<'_>, name: &str) -> Option<Timestamp> {
    record.text_of(name).and_then(|text| time::parse(&text))
}

/// Returns whether a line that is not JSON is the beginning of a JSON value: it has no line break, or the error is
/// at its end.
fn is_cut_off(bytes: &[u8], line: Span, wrong: &Malformed) -> bool {
    let line_bytes = line.slice(bytes);
    !line_bytes.ends_with(b"\n") || wrong.at >= line.start + line_bytes.trim_ascii_end().len()
}

fn in_line(element: usize, wrong: Unreadable) -> Unreadable {
    Unreadable { what: format!("line {}: {}", element + 1, wrong.what), ..wrong }
}
