//! The log of a session: one row for each event, and one for each record with a name. The session is smaller than 4 GiB,
//! so that an offset has four bytes.

use std::ops::Range;

use jp_compact_core::estimate::IMAGE_LINE;
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::external::{EditSite, ExternalEvent, compact_len};
use jp_compact_core::index::ElementCounter;
use jp_compact_core::text;
use jp_compact_json::Span;

use std::hash::{BuildHasher as _, RandomState};

use crate::tool_names::ToolNames;

/// An upper bound for the size of the line that replaces a result, with its quotes, without the name of the tool.
const STATUS_LINE_BYTES: usize = 32;
/// The maximum size of one character in JSON, as in `\ud83d\ude00`.
const CHARACTER_BYTES_MAX: usize = 12;

/// A range of bytes of the session, or of rows of the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShortSpan {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl ShortSpan {
    fn new(span: Span) -> Self {
        Self { start: span.start as u32, end: span.end as u32 }
    }

    pub(super) fn span(self) -> Span {
        Span { start: self.start as usize, end: self.end as usize }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The kinds of events that the log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowClass {
    TurnStart,
    ChatRequest,
    Message { is_blank: bool },
    Reasoning { is_signed: bool },
    ToolRequest,
    ToolResponse { is_error: bool },
}

/// An event.
pub(super) struct EventRow {
    pub(super) span: ShortSpan,
    /// The line of the event. `None` for an event outside of all lines.
    line: u32,
    /// The size of its body as JSON, with quotes and escapes.
    body_bytes: u32,
    /// The index in `tools` for a half of a call, otherwise 0.
    pub(super) detail: u32,
    block: u32,
    pub(super) class: RowClass,
}

const NO_LINE: u32 = u32::MAX;
const NO_BLOCK: u32 = u32::MAX;

impl EventRow {
    pub(super) fn line(&self) -> Option<usize> {
        (self.line != NO_LINE).then_some(self.line as usize)
    }

    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes as usize
    }
}

/// A half of a call.
pub(super) struct ToolRow {
    /// The digest of its id, with a random key. An equal digest of two ids is less likely than a failure of the memory.
    pub(super) id: u64,
    /// The number of the name of a request. 0 for a response.
    pub(super) name: u32,
    edits: ShortSpan,
    /// The size of the edited values without white space and unneeded escapes.
    pub(super) compact_bytes: Option<u32>,
    /// The size of the text of a response, if the text may be shorter than its replacement.
    pub(super) text: Option<ShortText>,
}

/// The size of a short text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortText {
    pub(super) bytes: u32,
    pub(super) chars: u32,
    pub(super) has_image: bool,
}

pub(super) struct EditRow {
    pub(super) span: ShortSpan,
    pub(super) write: fn(&str) -> String,
}

/// A record with a name, or a record that mentions another record.
pub(super) struct LinkRow {
    pub(super) line: u32,
    /// The name as JSON. Empty for a mention.
    pub(super) name: ShortSpan,
    pub(super) parent: ShortSpan,
    /// Whether the parent is the previous record with a name.
    pub(super) follows_last: bool,
}

/// An event, with the parts that the write-back needs.
pub struct LoggedEvent<'a> {
    pub event: &'a Event,
    pub external: &'a ExternalEvent,
    /// The line of the event, from 0.
    pub line: Option<usize>,
    /// The list and the position of the event, if it is an element of a list. Lists are numbered from 0 in each window.
    pub block: Option<(usize, usize)>,
}

/// The name of a record, and the record that it follows.
#[derive(Debug, Clone, Copy)]
pub struct LoggedLink {
    pub line: usize,
    /// Empty for a record that only mentions another record.
    pub name: Span,
    pub parent: Span,
    /// Whether the parent is the previous record with a name.
    pub follows_last: bool,
}

/// The events and records of a session.
#[derive(Default)]
pub struct SessionLog {
    pub(super) events: Vec<EventRow>,
    pub(super) tools: Vec<ToolRow>,
    edits: Vec<EditRow>,
    pub(super) links: Vec<LinkRow>,
    pub(super) lines: Vec<ShortSpan>,
    /// The elements of lists with several elements.
    pub(super) lists: Vec<Box<[ShortSpan]>>,
    /// The list and the position of each event that is an element of a list.
    blocks: Vec<(u32, u32)>,
    /// The number of lists before the current window.
    window_lists: usize,
    pub(super) names: ToolNames,
    key: RandomState,
    /// The size of the longest name of a tool.
    name_bytes: usize,
    /// Whether an event has a kind that the log cannot hold.
    has_other: bool,
}

impl SessionLog {
    /// Returns an empty log for a file of `bytes` bytes. `None` if the file is too large.
    #[must_use]
    pub fn for_file_of(bytes: usize) -> Option<Self> {
        u32::try_from(bytes).ok().filter(|bytes| *bytes < u32::MAX)?;
        let rows = bytes / 1024;
        Some(Self {
            events: Vec::with_capacity(rows),
            tools: Vec::with_capacity(rows),
            edits: Vec::with_capacity(rows),
            links: Vec::with_capacity(rows),
            lines: Vec::with_capacity(rows),
            ..Self::default()
        })
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the number of bytes of the texts of some events.
    #[must_use]
    pub fn text_bytes(&self, events: Range<usize>) -> u64 {
        self.events[events].iter().map(|event| u64::from(event.body_bytes)).sum()
    }

    /// Adds the next line.
    pub fn add_line(&mut self, line: Span) {
        self.lines.push(ShortSpan::new(line));
    }

    /// Adds the next list of the window.
    pub fn add_list(&mut self, elements: &[Span]) {
        self.lists.push(elements.iter().copied().map(ShortSpan::new).collect());
    }

    pub fn add_link(&mut self, link: LoggedLink) {
        let LoggedLink { line, name, parent, follows_last } = link;
        let (name, parent) = (ShortSpan::new(name), ShortSpan::new(parent));
        self.links.push(LinkRow { line: line as u32, name, parent, follows_last });
    }

    /// Ends a window. The next list has number 0.
    pub fn end_window(&mut self) {
        self.window_lists = self.lists.len();
    }

    /// Adds the next event. `raw` returns the bytes of a span. Spans after `size` are not in the file.
    pub fn add<'a>(&mut self, logged: &LoggedEvent<'_>, size: usize, raw: impl Fn(Span) -> &'a [u8]) {
        let LoggedEvent { event, external, line, block } = logged;
        let class = match event.kind {
            Kind::TurnStart => RowClass::TurnStart,
            Kind::ChatRequest => RowClass::ChatRequest,
            Kind::Message => RowClass::Message { is_blank: is_blank(raw(event.body)) },
            // The name of a signature is not checked: `render::is_signed` accepts all names in the logged formats.
            Kind::Reasoning => RowClass::Reasoning {
                is_signed: external.signature.as_ref().is_some_and(|signature| signature.1.len() > 2),
            },
            Kind::ToolRequest => RowClass::ToolRequest,
            Kind::ToolResponse { is_error } => RowClass::ToolResponse { is_error },
            _ => {
                self.has_other = true;
                return;
            }
        };
        let block = block.map_or(NO_BLOCK, |(list, element)| {
            self.blocks.push(((self.window_lists + list) as u32, element as u32));
            self.blocks.len() as u32 - 1
        });
        let detail = if event.kind.is_tool() { self.add_tool(event, external, size, raw) } else { 0 };
        let line = line.map_or(NO_LINE, |line| line as u32);
        // A body is smaller than its file, or generated from parts of one line.
        let body_bytes = event.body.len().min(u32::MAX as usize) as u32;
        self.events.push(EventRow {
            span: ShortSpan::new(event.span),
            line,
            body_bytes,
            detail,
            block,
            class,
        });
    }

    fn add_tool<'a>(
        &mut self,
        event: &Event,
        external: &ExternalEvent,
        size: usize,
        raw: impl Fn(Span) -> &'a [u8],
    ) -> u32 {
        let is_request = event.kind == Kind::ToolRequest;
        let name = if is_request { self.names.name(raw(event.name)) } else { 0 };
        self.name_bytes = self.name_bytes.max(event.name.len());
        let long_bytes = long_bytes(is_request, self.name_bytes);
        let edits = &external.edits;
        let raw_bytes: usize = edits.iter().map(|edit| edit.span.len()).sum();
        let is_short = raw_bytes <= long_bytes * edits.len().div_ceil(2);
        let compact_bytes =
            is_short.then(|| edits.iter().map(|edit| compact_len(raw(edit.span))).sum::<usize>() as u32);
        let may_be_short = !is_request && event.body.len() <= long_bytes;
        let text = may_be_short.then(|| {
            let text = text::unquote(raw(event.body));
            ShortText {
                bytes: text.len() as u32,
                chars: text.chars().count() as u32,
                has_image: event.body.start >= size && text.lines().any(|line| line == IMAGE_LINE),
            }
        });
        let first_edit = self.edits.len() as u32;
        let edit_row = |edit: &EditSite| EditRow { span: ShortSpan::new(edit.span), write: edit.write };
        self.edits.extend(edits.iter().map(edit_row));
        let edits = ShortSpan { start: first_edit, end: self.edits.len() as u32 };
        let id = self.key.hash_one(&*text::unquote_bytes(raw(event.id)));
        self.tools.push(ToolRow { id, name, edits, compact_bytes, text });
        self.tools.len() as u32 - 1
    }

    /// Keeps the events for whose index `stays` returns true.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let mut indices = 0..;
        self.events.retain(|_| indices.next().is_some_and(&stays));
    }

    /// Returns the events with their turns.
    pub(super) fn turns(&self) -> impl Iterator<Item = (usize, &EventRow)> {
        let mut count = ElementCounter::default();
        self.events.iter().map(move |row| {
            let is_start = row.class == RowClass::TurnStart;
            (count.turn(if is_start { Kind::TurnStart } else { Kind::ChatRequest }), row)
        })
    }

    /// Returns whether the log does not hold all events.
    pub(super) fn is_incomplete(&self) -> bool {
        self.has_other
    }

    pub(super) fn tool(&self, row: &EventRow) -> Option<&ToolRow> {
        let is_tool = matches!(row.class, RowClass::ToolRequest | RowClass::ToolResponse { .. });
        is_tool.then(|| &self.tools[row.detail as usize])
    }

    pub(super) fn edits(&self, tool: &ToolRow) -> &[EditRow] {
        &self.edits[tool.edits.range()]
    }

    /// Returns the list and the position of an event that is an element of a list.
    pub(super) fn block(&self, row: &EventRow) -> Option<(usize, usize)> {
        let block = (row.block != NO_BLOCK).then(|| self.blocks[row.block as usize]);
        block.map(|(list, element)| (list as usize, element as usize))
    }
}

/// Returns the size from which the values of a call are certainly longer than their replacement, if no name of a tool is
/// longer than `name_bytes`. Arguments become `{}`.
#[must_use]
pub fn long_bytes(is_request: bool, name_bytes: usize) -> usize {
    CHARACTER_BYTES_MAX * if is_request { 2 } else { STATUS_LINE_BYTES + name_bytes }
}

/// Returns whether the text of a JSON string is only white space.
#[must_use]
pub fn is_blank(raw: &[u8]) -> bool {
    match raw.get(1) {
        Some(first) if first.is_ascii_alphanumeric() => false,
        _ => text::unquote(raw).trim().is_empty(),
    }
}
