//! JP's `events.json`: one JSON array of elements (JP-STREAM, "On disk"). One pass makes the index: where
//! each element lies, what it is, to which turn it belongs. It refuses what JP cannot load, and names the
//! byte and the element.

use std::borrow::Cow;

use bytes::Bytes;

use crate::event::{Event, Kind};
use crate::json::{Malformed, Scanner, Span};
use crate::{text, time};

/// How the reason begins where an overlay is malformed.
pub(crate) const MALFORMED: &str = "a malformed ";

/// Why bytes are no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Offset of the byte.
    pub at: usize,
    /// Number of the element in the array, from 0, when it lies in one.
    pub element: Option<usize>,
    /// What is wrong, as a fragment.
    pub what: String,
}

impl Unreadable {
    /// Whether each line of the file is a conversation of its own.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        self.what.ends_with(super::reading::SEVERAL)
    }

    /// Whether it is an overlay that cannot be read: a reset would mend it.
    #[must_use]
    pub fn is_of_overlay(&self) -> bool {
        self.what.starts_with(MALFORMED)
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.element {
            Some(element) => write!(out, "element {element} (byte {}): {}", self.at, self.what),
            None => write!(out, "byte {}: {}", self.at, self.what),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The bytes of a stream, and where its elements lie. Overlays are not read yet: what an index suffices for
/// works on a stream with a malformed one too.
#[derive(Debug, Clone)]
pub struct Index {
    pub(crate) bytes: Bytes,
    /// What `bytes` do not hold as such: spans behind their end lie here.
    pub(crate) made: Bytes,
    pub(crate) events: Vec<Event>,
    /// Number of turns.
    pub(crate) turns: usize,
    /// Offset of the `[`.
    pub(crate) array_start: usize,
    /// Offset behind the last element, or behind `[` when there is none.
    pub(crate) body_end: usize,
    /// The first element that JP would not load: without `type` or `timestamp`.
    pub(crate) unloadable: Option<usize>,
}

impl Index {
    /// The bytes that lie at a span.
    pub(crate) fn at(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.bytes.len()) {
            Some(start) if !self.made.is_empty() => &self.made[start..span.end - self.bytes.len()],
            _ => span.of(&self.bytes),
        }
    }

    /// How many overlays there are, malformed ones among them.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.events.iter().filter(|event| event.kind.is_overlay()).count()
    }
}

/// Reads the bytes of an `events.json`.
///
/// # Errors
/// When they are not JSON, not an array, or an element of a type that JP knows lacks what JP needs.
pub fn index(bytes: Bytes) -> Result<Index, Unreadable> {
    Indexer::default().finish(bytes)
}

/// Reads an `events.json` while its bytes come: looking at them right away costs half as much as going back to
/// them when all of a large file has passed.
#[derive(Default)]
pub struct Indexer {
    events: Vec<Event>,
    count: Count,
    array_start: usize,
    body_end: usize,
    unloadable: Option<usize>,
    next: Next,
    /// Where that begins.
    at: usize,
    /// How many bytes must have come before it is worth another look.
    wanted: usize,
}

/// What is read next. An element is behind us only with the comma or the bracket behind it, for a number may go
/// on in the bytes to come.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The bracket that opens the array.
    #[default]
    Array,
    /// The first element, or the bracket that closes the array.
    First,
    /// An element.
    Element,
    /// Nothing but white space.
    End,
}

impl Indexer {
    /// Reads what is there: `bytes` are all that have come, from the first on. What is wrong with them is not
    /// said before [`Indexer::finish`], for it may be that the rest is missing.
    pub fn advance(&mut self, bytes: &[u8]) {
        if bytes.len() < self.wanted {
            return;
        }
        let mut scanner = Scanner::at_byte(bytes, self.at);
        while self.next != Next::End && self.step(&mut scanner, bytes).is_ok() {}
        // A long element is tried again only when there is twice as much of it.
        self.wanted = bytes.len() + (bytes.len() - self.at);
    }

    /// Reads the rest of `bytes`, which begin with all that came before.
    ///
    /// # Errors
    /// As [`index`].
    pub fn finish(mut self, bytes: Bytes) -> Result<Index, Unreadable> {
        let mut scanner = Scanner::at_byte(&bytes, self.at);
        while self.next != Next::End {
            self.step(&mut scanner, &bytes)?;
        }
        if scanner.peek().is_some() {
            let what = "text after the closing `]`".into();
            return Err(Unreadable { at: scanner.at(), element: None, what });
        }
        let Self { events, count, array_start, body_end, unloadable, .. } = self;
        Ok(Index {
            bytes,
            made: Bytes::new(),
            events,
            turns: count.turns(),
            array_start,
            body_end,
            unloadable,
        })
    }

    /// Reads one bracket, or one element and what stands behind it. Where that fails nothing has happened.
    fn step(&mut self, scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<(), Unreadable> {
        if self.next == Next::Array {
            open(scanner)?;
            (self.array_start, self.body_end) = (scanner.at() - 1, scanner.at());
            self.next = Next::First;
        } else if self.next == Next::First && scanner.take(b']') {
            self.next = Next::End;
        } else {
            let element = self.events.len();
            let inside = |at, what| Unreadable { at, element: Some(element), what };
            let mut count = self.count;
            let head = Head::read(scanner, bytes).map_err(|wrong| inside(wrong.at, wrong.what.into()))?;
            let event = head.event(bytes, &mut count).map_err(|what| inside(head.span.start, what))?;
            let next = if scanner.take(b']') { Next::End } else { Next::Element };
            if next == Next::Element {
                scanner.expect(b',', "expected `,` or `]` between events").map_err(outside)?;
            }
            if self.unloadable.is_none() && !head.is_loadable(bytes) {
                self.unloadable = Some(element);
            }
            self.events.push(event);
            (self.count, self.body_end, self.next) = (count, head.span.end, next);
        }
        self.at = scanner.at();
        Ok(())
    }
}

/// Passes over the bracket that opens the array.
fn open(scanner: &mut Scanner<'_>) -> Result<(), Unreadable> {
    let unreadable = |at, what: &str| Err(Unreadable { at, element: None, what: what.into() });
    match scanner.peek() {
        Some(b'[') => scanner.expect(b'[', "not an array").map_err(outside),
        None => unreadable(0, "the file is empty, expected a JSON array"),
        Some(_) => {
            let at = scanner.at();
            scanner.value(0).map_err(outside)?;
            unreadable(at, "expected a JSON array of events")
        }
    }
}

/// What is wrong in no element.
fn outside(wrong: Malformed) -> Unreadable {
    Unreadable { at: wrong.at, element: None, what: wrong.what.into() }
}

/// Counts turns and numbers on the way through (JP-STREAM, "Turns").
#[derive(Default, Clone, Copy)]
pub(crate) struct Count {
    turn: usize,
    /// Whether the current turn holds a conversation event.
    opened: bool,
    seq: u64,
}

impl Count {
    /// The turn of an element of this kind that comes next.
    pub(crate) fn turn(&mut self, kind: Kind) -> usize {
        if kind == Kind::TurnStart && self.opened {
            self.turn += 1;
        }
        self.opened |= kind.is_conversation();
        self.turn
    }

    /// Its number, where one of this kind carries one.
    pub(crate) fn seq(&mut self, kind: Kind) -> Option<u64> {
        let seq = kind.is_numbered().then_some(self.seq);
        self.seq += u64::from(seq.is_some());
        seq
    }

    /// How many turns there were.
    pub(crate) fn turns(&self) -> usize {
        self.turn + usize::from(self.opened)
    }
}

/// Where the members lie that the index needs. A key that comes twice counts as JP counts it: the last.
#[derive(Default, Clone, Copy)]
struct Head {
    span: Span,
    kind: Span,
    timestamp: Span,
    id: Span,
    name: Span,
    content: Span,
    arguments: Span,
    is_error: Span,
    message: Span,
    reasoning: Span,
    data: Span,
    metadata: Span,
    source: Span,
    question: Span,
    answer: Span,
}

impl Head {
    fn read(scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut head = Self::default();
        if scanner.peek() != Some(b'{') {
            head.span = scanner.value(1)?;
            return Ok(head);
        }
        let start = scanner.at();
        scanner.object(1, |scanner, key| {
            let value = scanner.value(2)?;
            if let Some(member) = head.member(&text::unquote_bytes(key.of(bytes))) {
                *member = value;
            }
            Ok(())
        })?;
        head.span = Span { start, end: scanner.at() };
        Ok(head)
    }

    fn member(&mut self, key: &[u8]) -> Option<&mut Span> {
        Some(match key {
            b"type" => &mut self.kind,
            b"timestamp" => &mut self.timestamp,
            b"id" => &mut self.id,
            b"name" => &mut self.name,
            b"content" => &mut self.content,
            b"arguments" => &mut self.arguments,
            b"is_error" => &mut self.is_error,
            b"message" => &mut self.message,
            b"reasoning" => &mut self.reasoning,
            b"data" => &mut self.data,
            b"metadata" => &mut self.metadata,
            b"source" => &mut self.source,
            b"question" => &mut self.question,
            b"answer" => &mut self.answer,
            _ => return None,
        })
    }

    /// Whether JP loads a conversation that holds this element: it has a type and a time.
    fn is_loadable(&self, bytes: &[u8]) -> bool {
        [self.kind, self.timestamp].iter().all(|span| span.of(bytes).first() == Some(&b'"'))
    }

    /// The event, checked as JP checks it. An error is a fragment that names the type and the member.
    fn event(&self, bytes: &[u8], count: &mut Count) -> Result<Event, String> {
        let is_string = |span: Span| span.of(bytes).first() == Some(&b'"');
        // What JP would not load is unknown, whatever it calls itself: kept, and in no turn. But a config delta is
        // no strategy's business, and those of old streams may lack a time.
        let mut tag =
            if is_string(self.kind) { text::unquote(self.kind.of(bytes)) } else { Cow::Borrowed("") };
        if tag != "config_delta" && !self.is_loadable(bytes) {
            tag = Cow::Borrowed("");
        }
        let need = |span: Span, name: &str, opens: &[u8], shape: &str| match span.of(bytes).first() {
            None => Err(format!("a `{tag}` without `{name}`")),
            Some(first) if !opens.contains(first) => {
                Err(format!("the `{name}` of a `{tag}` must be {shape}"))
            }
            Some(_) => Ok(span),
        };
        let string = |span, name: &str| need(span, name, b"\"", "a string");
        let any = |span, name: &str| need(span, name, b"\"{[tfn-0123456789", "a value");
        let (mut id, mut name, mut body) = (Span::default(), Span::default(), Span::default());
        let kind = match &*tag {
            "turn_start" => Kind::TurnStart,
            "chat_request" => {
                body = string(self.content, "content")?;
                Kind::ChatRequest
            }
            "chat_response" if is_string(self.message) => {
                body = self.message;
                Kind::Message
            }
            "chat_response" if is_string(self.reasoning) => {
                body = self.reasoning;
                Kind::Reasoning
            }
            "chat_response" if !self.data.is_empty() => {
                body = self.data;
                Kind::Data
            }
            "chat_response" => {
                return Err("a `chat_response` without a `message`, `reasoning` or `data`".into());
            }
            "tool_call_request" => {
                id = string(self.id, "id")?;
                name = string(self.name, "name")?;
                if !self.arguments.is_empty() {
                    body = need(self.arguments, "arguments", b"{", "an object")?;
                }
                Kind::ToolRequest
            }
            "tool_call_response" => {
                id = string(self.id, "id")?;
                body = string(self.content, "content")?;
                let is_error = need(self.is_error, "is_error", b"tf", "true or false")?.of(bytes) == b"true";
                Kind::ToolResponse { is_error }
            }
            "inquiry_request" => {
                string(self.id, "id")?;
                any(self.source, "source")?;
                any(self.question, "question")?;
                Kind::InquiryRequest
            }
            "inquiry_response" => {
                string(self.id, "id")?;
                any(self.answer, "answer")?;
                Kind::InquiryResponse
            }
            "config_delta" => Kind::ConfigDelta,
            "compaction" => Kind::Compaction,
            "jp_compact_overlay" => Kind::Overlay,
            "jp_compact_receipt" => Kind::Receipt,
            _ => Kind::Unknown,
        };
        let timestamp = if is_string(self.timestamp) {
            time::parse(&text::unquote(self.timestamp.of(bytes)))
        } else {
            None
        };
        if kind != Kind::Unknown && timestamp.is_none() && is_string(self.timestamp) {
            let found = text::unquote(self.timestamp.of(bytes));
            return Err(format!("the `timestamp` of a `{tag}` is no point in time: `{found}`"));
        }
        if kind.is_conversation() && !self.metadata.is_empty() {
            need(self.metadata, "metadata", b"{", "an object")?;
        }
        let (turn, seq) = (count.turn(kind), count.seq(kind));
        Ok(Event { span: self.span, kind, turn, seq, timestamp, id, name, body })
    }
}
