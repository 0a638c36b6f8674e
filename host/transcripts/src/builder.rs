//! The builder of a transcript's events. Readers report kinds and spans; the builder assigns turns, numbers, ids, and
//! times. The source is never changed. Values that are not in the source in this form (invented ids, joined texts of
//! blocks) are appended to a second buffer. Their spans begin after the end of the source.

mod lists;
mod memory;
mod values;

use bytes::Bytes;
use jiff::Timestamp;

use jp_compact_condensed::{CondensedSession, LoggedLink, SessionLog};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::external::{External, ExternalEvent};
use jp_compact_core::index::{Index, SEVERAL_CONVERSATIONS, Unreadable};
use jp_compact_core::stream::Stream;
use jp_compact_core::view::has_summary_note;
use jp_compact_core::{text, time};

pub(crate) use self::lists::Members;
use self::memory::MemoryPlan;
pub(crate) use crate::event_draft::{EventDraft, NewEvent};
use crate::format::Format;
use crate::lines::{estimated_records, line_end, text_start};
use crate::responses::Responses;
use crate::sample;
use crate::source::ByteSource;
use crate::source_map::{ElementRef, EventSource, FirstRecord, Link, ListForm, SourceMap};
use crate::transcript::Transcript;
use jp_compact_json::{JsonIndex, JsonNode, Malformed, MemberFilter, Scanner, Span};

/// Collects the events and the [`SourceMap`] of one transcript.
pub(crate) struct EventBuilder {
    source: ByteSource,
    appended: Vec<u8>,
    events: Vec<Event>,
    external: Vec<ExternalEvent>,
    map: SourceMap,
    last_time: Timestamp,
    /// The number of invented ids.
    id_count: usize,
    /// Whether a value of the source has to be repaired before it is decoded.
    needs_repair: bool,
    has_conversation: bool,
    responses: Responses,
    memory: MemoryPlan,
    /// The index and the name of the last link with a name.
    last_name: Option<(usize, Span)>,
    /// Holds the events of earlier windows, without their times, for a session whose texts are not needed.
    pub(crate) log: Option<SessionLog>,
}

impl EventBuilder {
    pub(crate) fn new(source: ByteSource, format: Format) -> Self {
        let records = estimated_records(source.size());
        let mut map = SourceMap::new(format);
        map.sources.reserve(records);
        Self {
            source,
            appended: Vec::new(),
            events: Vec::with_capacity(records),
            external: Vec::with_capacity(records),
            map,
            last_time: Timestamp::UNIX_EPOCH,
            id_count: 0,
            needs_repair: false,
            has_conversation: false,
            responses: Responses::default(),
            memory: MemoryPlan::default(),
            last_name: None,
            log: None,
        }
    }

    /// Returns a handle to the bytes of the source that are in memory, so that events can be added while they are read.
    pub(crate) fn bytes(&self) -> Bytes {
        self.source.window()
    }

    /// Returns the size of the source.
    pub(crate) fn size(&self) -> usize {
        self.source.size()
    }

    /// Calls `each` for every line that is JSON. The lines are the elements of list 0, numbered from 0. Other lines
    /// stay in the source. They are skipped with a warning, because the agents skip them too. The last line may be
    /// incomplete because the program is still writing it.
    ///
    /// # Errors
    /// `each` failed, or none of the lines is JSON.
    pub(crate) fn read_lines(
        &mut self,
        filter: MemberFilter,
        mut each: impl FnMut(&mut Self, ElementRef, JsonNode<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let records = estimated_records(self.size());
        let list = self.add_list(ListForm::Lines, Vec::with_capacity(records), None);
        let mut index = JsonIndex::default();
        let mut is_any_read = false;
        let (mut element, mut malformed) = (0, Vec::<(usize, Malformed)>::new());
        while self.source.has_more() {
            let (bytes, base) = (self.bytes(), self.source.window_start());
            let mut start = if base == 0 { text_start(&bytes) } else { 0 };
            index.set_base(base);
            while start < bytes.len() {
                let fast_end = index.read_line(&bytes, start, filter).ok();
                let span = Span { start, end: fast_end.unwrap_or_else(|| line_end(&bytes, start)) };
                start = span.end;
                self.map.lists[list].elements.push(Span { start: base + span.start, end: base + span.end });
                let line = span.slice(&bytes);
                // The error is reported relative to this line, because the fast path reads on past a cut-off line.
                let result = fast_end.map_or_else(|| index.read(&bytes, span, filter), |_| Ok(()));
                self.needs_repair |= index.needs_repair();
                match result {
                    Ok(()) => {
                        is_any_read = true;
                        each(self, ElementRef { list, element }, JsonNode::new(&bytes, &index))
                            .map_err(|error| in_line(element, error))?;
                    }
                    Err(_) if line.trim_ascii().is_empty() => {}
                    Err(error) => {
                        self.source.check_is_whole(&error)?;
                        let is_last = element > 0 && bytes[start..].trim_ascii().is_empty();
                        if is_last && is_cut_off(&bytes, span, &error) {
                            let line = element + 1;
                            self.warn(format!(
                                "line {line} is cut off and was skipped: the program may still be writing it"
                            ));
                        } else {
                            self.map.coverage.count_lost(line);
                            malformed.push((element, error));
                        }
                    }
                }
                element += 1;
            }
            drop(bytes);
            self.leave_window()?;
        }
        let Some((element, Malformed { offset, message })) = malformed.first() else { return Ok(()) };
        if !is_any_read {
            let error = Unreadable { offset: *offset, element: None, reason: (*message).into() };
            return Err(in_line(*element, error));
        }
        let (line, other_count) = (element + 1, malformed.len() - 1);
        let (others, are, were) = match other_count {
            0 => (String::new(), "is", "was"),
            1 => (" and 1 other line".to_owned(), "are", "were"),
            _ => (format!(" and {other_count} other lines"), "are", "were"),
        };
        self.warn(format!("line {line}{others} {are} not JSON ({message}) and {were} skipped"));
        Ok(())
    }

    /// Returns whether the source is one JSON value, as opposed to lines that are values.
    pub(crate) fn is_document(&self) -> bool {
        sample::is_document(&self.bytes())
    }

    /// Calls `read` with the source as one JSON value.
    ///
    /// # Errors
    /// `read` failed, or the source is not one JSON value.
    pub(crate) fn read_document(
        &mut self,
        filter: MemberFilter,
        read: impl FnOnce(&mut Self, JsonNode<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let bytes = self.bytes();
        let unreadable =
            |Malformed { offset, message }| Unreadable { offset, element: None, reason: message.into() };
        let whole = Span { start: text_start(&bytes), end: bytes.len() };
        let index = JsonIndex::new(&bytes, whole, filter).map_err(unreadable)?;
        self.needs_repair |= index.needs_repair();
        read(self, JsonNode::new(&bytes, &index))
    }

    /// Stores the name of a record and of the record that it follows. Returns whether it follows the last named record.
    pub(crate) fn add_link(&mut self, record: ElementRef, id: Span, parent: Span) -> bool {
        // The names are compared now, while both are still in the processor's cache.
        let is_parent = |(_, last): &(usize, Span)| {
            !parent.is_empty() && self.source.bytes_at(*last) == self.source.bytes_at(parent)
        };
        let previous = self.last_name.filter(is_parent).map(|(index, _)| index);
        let follows_last = previous.is_some();
        let links = &mut self.map.links;
        if !id.is_empty() {
            self.last_name = Some((links.len(), id));
        }
        if let Some(log) = &mut self.log {
            log.add_link(LoggedLink { line: record.element, name: id, parent, follows_last });
            self.keep(id);
            self.keep(if follows_last { Span::default() } else { parent });
            return follows_last;
        }
        if links.is_empty() {
            links.reserve(estimated_records(self.source.size()));
        }
        links.push(Link { record, id, parent, previous });
        follows_last
    }

    /// Marks `element`, which is in another list, for deletion together with `record`.
    pub(crate) fn add_mention(&mut self, record: ElementRef, element: ElementRef) {
        self.map.deleted_with.push((record, element));
    }

    /// Stores the number of a record, in formats that number their records. The caller must add all records, in order.
    pub(crate) fn add_number(&mut self, record: ElementRef, number: Span) {
        self.map.numbers.push((record, number));
    }

    /// Keeps a record even if all its events are deleted.
    pub(crate) fn pin(&mut self, record: ElementRef) {
        self.map.pinned.insert(record);
    }

    /// Marks bytes of a record that must be copied into the pair of records that replaces it.
    pub(crate) fn carry_over(&mut self, record: ElementRef, bytes: Span) {
        self.map.carried.push((record, bytes));
    }

    /// Stores a value that names the first of several records. If that record is deleted, the value names the next.
    pub(crate) fn add_first_record(&mut self, first: FirstRecord) {
        self.map.first_records.push(first);
    }

    /// Marks the beginning of a conversation. A file must contain only one conversation, because a second
    /// conversation does not continue the first.
    ///
    /// # Errors
    /// The file already has a conversation.
    pub(crate) fn start_conversation(&mut self, node: JsonNode<'_>) -> Result<(), Unreadable> {
        if std::mem::replace(&mut self.has_conversation, true) {
            let (offset, reason) = (node.span().start, SEVERAL_CONVERSATIONS.into());
            return Err(Unreadable { offset, element: None, reason });
        }
        Ok(())
    }

    /// Counts a record that the reader does not know.
    pub(crate) fn count_unknown(&mut self, record: JsonNode<'_>) {
        self.map.coverage.count_lost(record.raw());
    }

    /// Counts the text of known events that are left out because the model no longer receives them.
    pub(crate) fn count_unsent(&mut self, text: u64) {
        self.map.coverage.understood += text;
    }

    /// Counts records that cannot be reached because a record that links to them is missing. `texts` has the length of
    /// the text of each unreachable record.
    pub(crate) fn count_unreachable(&mut self, texts: &[u64]) {
        let (text, records): (u64, _) = (texts.iter().sum(), texts.len());
        if records == 0 {
            return;
        }
        self.map.coverage.lost += text;
        self.map.coverage.records += records as u64;
        let records_are = if records == 1 { "record is" } else { "records are" };
        self.warn(format!(
            "{records} {records_are} not read because a record that links them to the last record is missing"
        ));
    }

    /// Same as [`Self::count_unreachable`], for text that was already counted as understood.
    pub(crate) fn recount_as_unreachable(&mut self, texts: &[u64]) {
        let understood = &mut self.map.coverage.understood;
        *understood = understood.saturating_sub(texts.iter().sum());
        self.count_unreachable(texts);
    }

    /// Returns the sum of the text lengths in a range of added events.
    pub(crate) fn text_len(&self, events: std::ops::Range<usize>) -> u64 {
        match &self.log {
            Some(log) => log.text_bytes(events),
            None => self.events[events].iter().map(|event| event.body.len() as u64).sum(),
        }
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.map.warnings.push(warning);
    }

    /// Adds a text to the system prompt. Several texts are joined by blank lines.
    pub(crate) fn add_system(&mut self, text: &str) {
        match &mut self.map.system {
            Some(system) => {
                system.push_str("\n\n");
                system.push_str(text);
            }
            None => self.map.system = Some(text.to_owned()),
        }
    }

    /// Adds the string at `span` to the system prompt.
    pub(crate) fn add_system_at(&mut self, span: Span) {
        let text = self.unquoted(span);
        self.add_system(&text);
    }

    /// Adds the text of a message to the system prompt.
    pub(crate) fn add_system_content(&mut self, content: Option<JsonNode<'_>>) {
        if let Some(content) = content {
            let text = self.text(content);
            self.add_system_at(text);
        }
    }

    /// Returns the bytes of a span of the source or of the second buffer.
    pub(crate) fn raw(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.source.size()) {
            Some(start) => &self.appended[start..span.end - self.source.size()],
            None => self.source.bytes_at(span),
        }
    }

    fn unquoted(&self, span: Span) -> String {
        text::unquote(self.raw(span)).into_owned()
    }

    /// Sets the current model to the name that its provider uses.
    pub(crate) fn set_model(&mut self, name: &str) {
        if self.map.model.as_deref() != Some(name) {
            self.map.model = Some(name.to_owned());
        }
    }

    /// Sets the current model to a string member, if there is one.
    pub(crate) fn read_model(&mut self, holder: JsonNode<'_>, member: &str) {
        if let Some(model) = holder.text_of(member) {
            self.set_model(&model);
        }
    }

    /// Begins a turn. The user's request comes next.
    pub(crate) fn start_turn(&mut self, time: Option<Timestamp>) {
        self.add(Kind::TurnStart, EventDraft { time, ..EventDraft::default() });
    }

    /// Begins a turn and adds its request.
    pub(crate) fn add_request(&mut self, draft: EventDraft) {
        self.start_turn(draft.time);
        self.add(Kind::ChatRequest, draft);
    }

    /// Adds the events of a record. `starts_turn` is false for a record that continues a turn.
    pub(crate) fn add_all(&mut self, events: Vec<NewEvent>, starts_turn: bool) {
        if let Some((_, first)) = events.first().filter(|_| starts_turn) {
            self.start_turn(first.time);
        }
        for (kind, draft) in events {
            self.add(kind, draft);
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, draft: EventDraft) {
        let draft = if self.needs_repair { self.repaired(draft) } else { draft };
        if kind == Kind::ChatRequest && self.is_note(draft.body) {
            self.undo_turn_start();
        }
        let response = self.response_of(kind, &draft);
        let EventDraft {
            span,
            mut id,
            name,
            body,
            time,
            record,
            deletion,
            further_deletions,
            edits,
            metadata,
            signature,
            ..
        } = draft;
        self.last_time = time.unwrap_or(self.last_time);
        self.map.coverage.understood += body.len() as u64;
        if kind.is_tool() && id.is_empty() {
            id = self.next_id();
        }
        // Turns and numbers are assigned at the end, to the events that remain.
        let timestamp = Some(self.last_time);
        self.events.push(Event { span, kind, turn: 0, seq: None, timestamp, id, name, body });
        let (further_deletions, edits, signature) =
            (further_deletions.into(), edits.into(), signature.map(Box::new));
        self.map.sources.push(EventSource { record, deletion, further_deletions });
        self.external.push(ExternalEvent { edits, metadata, signature, response });
    }

    /// Returns whether a text is a summary of steps that this program wrote. Such a text does not begin a turn, even if
    /// the format has no mark for text that no human wrote.
    fn is_note(&self, body: Span) -> bool {
        self.raw(body).strip_prefix(b"\"").is_some_and(has_summary_note)
    }

    /// Marks a request that the agent wrote, not the user, as an attachment. No constraints of the user are then read
    /// from it. A summary of steps is not marked, because a strategy recognizes it by its text.
    pub(crate) fn by_agent(&mut self, name: &str, mut draft: EventDraft) -> EventDraft {
        if !self.is_note(draft.body) {
            draft.metadata = self.new_json(&format!(r#"{{"attachment":"{name}"}}"#));
        }
        draft
    }

    /// Removes the last event if it begins a turn, and is not the first event.
    fn undo_turn_start(&mut self) {
        if self.len() > 1 && self.events.last().is_some_and(|last| last.kind == Kind::TurnStart) {
            self.events.pop();
            self.map.sources.pop();
            self.external.pop();
        }
    }

    /// Returns the number of a response by its id, a JSON string of the source. 0 without an id.
    pub(crate) fn response(&mut self, id: Span) -> u32 {
        if self.log.is_some() { 0 } else { self.responses.by_id(self.source.bytes_at(id)) }
    }

    /// Returns the number of a new response.
    pub(crate) fn next_response(&mut self) -> u32 {
        self.responses.next()
    }

    /// Returns the number of the response that an event belongs to.
    fn response_of(&mut self, kind: Kind, draft: &EventDraft) -> u32 {
        let is_of_model = kind.is_chat_response() || kind == Kind::ToolRequest;
        if draft.response != 0 || !is_of_model || !self.map.format.has_record_per_response() {
            return draft.response;
        }
        draft.record.map_or(0, |record| self.responses.by_record(record))
    }

    /// Replaces the values of an event that cannot be decoded with repaired copies.
    fn repaired(&mut self, mut draft: EventDraft) -> EventDraft {
        let signature = draft.signature.as_mut().map(|(_, span)| span);
        let values = [&mut draft.id, &mut draft.name, &mut draft.body, &mut draft.metadata];
        for span in values.into_iter().chain(signature) {
            let raw = self.raw(*span).to_vec();
            if !raw.is_empty() && Scanner::at_byte(&raw, 0).value(0).is_err() {
                *span = self.new_json(&String::from_utf8_lossy(&jp_compact_json::repaired(&raw)));
            }
        }
        draft
    }

    pub(crate) fn len(&self) -> usize {
        self.log.as_ref().map_or(0, SessionLog::len) + self.events.len()
    }

    /// Keeps the events for whose index `stays` returns true, and removes all others.
    pub(crate) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        if let Some(log) = &mut self.log {
            return log.retain(stays);
        }
        let mut indices = 0..;
        self.events.retain(|_| indices.next().is_some_and(&stays));
        let mut indices = 0..;
        self.map.sources.retain(|_| indices.next().is_some_and(&stays));
        let mut indices = 0..;
        self.external.retain(|_| indices.next().is_some_and(&stays));
    }

    pub(crate) fn finish(self) -> Result<Transcript, Unreadable> {
        let Self { source, appended, events, external, map, .. } = self;
        let (bytes, kept, size) = source.into_parts();
        let index = Index::from_events(bytes, appended.into(), events);
        let index = match kept {
            Some(kept) => index.with_kept_spans(kept, size),
            None => index,
        };
        let external = External { format: map.format.as_str(), events: external };
        Ok(Transcript::new(Stream::from_external(index, external)?, map))
    }

    /// Returns a transcript that has only the starts of the turns, and the session that has the events. `None` without
    /// a log, or after an error.
    pub(crate) fn finish_condensed(mut self) -> Option<(Transcript, CondensedSession)> {
        let session = CondensedSession::new(self.log.take()?, self.source.take_kept()?, self.size());
        (0..session.turns()).for_each(|_| self.start_turn(None));
        Some((self.finish().ok()?, session))
    }
}

/// Parses a member that is an RFC 3339 time.
pub(crate) fn time_of(record: JsonNode<'_>, name: &str) -> Option<Timestamp> {
    record.text_of(name).and_then(|text| time::parse(&text))
}

/// Returns whether a line that is not JSON is the beginning of a JSON value: it has no line break, or the error is
/// at its end.
fn is_cut_off(bytes: &[u8], line: Span, error: &Malformed) -> bool {
    let line_bytes = line.slice(bytes);
    !line_bytes.ends_with(b"\n") || error.offset >= line.start + line_bytes.trim_ascii_end().len()
}

/// Adds the number of the line to an error.
fn in_line(element: usize, error: Unreadable) -> Unreadable {
    Unreadable { reason: format!("line {}: {}", element + 1, error.reason), ..error }
}
