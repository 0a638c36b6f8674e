//! The index of JP's `events.json`, one JSON array of elements (docs/reference/store.md#on-disk). One pass finds the
//! position, kind and turn of each element. It rejects files that JP cannot load, and reports the byte and the
//! element.

use std::borrow::Cow;

use bytes::Bytes;

use crate::event::{Event, Kind};
use crate::json::{Malformed, Scanner, Span};
use crate::{text, time};

/// The type of an overlay that JP's grammar cannot express.
pub(crate) const OVERLAY: &str = "jp_compact_overlay";
/// The type of an overlay that begins or ends inside a turn. Version 0.1.0 would read its range as whole turns, and
/// passes by a type that it does not know.
pub(crate) const STEP_OVERLAY: &str = "jp_compact_step_overlay";

/// The start of the reason where an overlay is malformed.
pub(crate) const MALFORMED: &str = "a malformed ";

/// The end of the reason where each line of a file is a separate conversation.
pub const SEVERAL: &str = "a second conversation begins: each line holds its own";

/// The reason why bytes are not a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Byte offset.
    pub at: usize,
    /// Number of the element in the array, from 0. `None` outside of elements.
    pub element: Option<usize>,
    /// The error, as a fragment.
    pub what: String,
}

impl Unreadable {
    /// Returns whether each line of the file is a separate conversation.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        self.what.ends_with(SEVERAL)
    }

    /// Returns whether the cause is a malformed overlay. A reset repairs that.
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

/// The bytes of a stream and the positions of its elements. Overlays are not parsed yet, so an index can be made of a
/// stream with a malformed overlay too.
#[derive(Debug, Clone)]
pub struct Index {
    pub(crate) bytes: Bytes,
    /// Bytes that are not in the file. Spans past the end of `bytes` are in here.
    pub(crate) made: Bytes,
    pub(crate) events: Vec<Event>,
    pub(crate) turns: usize,
    /// Offset of the `[`.
    pub(crate) array_start: usize,
    /// Offset after the last element, or after `[` if there is none.
    pub(crate) body_end: usize,
    /// The first element that JP would not load, because `type` or `timestamp` is missing.
    pub(crate) unloadable: Option<usize>,
}

impl Index {
    /// Makes the index of events that a reader of another format found, and assigns turns and numbers. `made` holds
    /// the bytes that are not in the file: spans past the end of `bytes` are in it.
    #[must_use]
    pub fn from_events(bytes: Bytes, made: Bytes, mut events: Vec<Event>) -> Self {
        let mut count = Count::default();
        for event in &mut events {
            (event.turn, event.seq) = (count.turn(event.kind), count.seq(event.kind));
        }
        let (turns, body_end) = (count.turns(), bytes.len());
        Self { bytes, made, events, turns, array_start: 0, body_end, unloadable: None }
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes at a span.
    #[must_use]
    pub fn at(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.bytes.len()) {
            Some(start) if !self.made.is_empty() => &self.made[start..span.end - self.bytes.len()],
            _ => span.slice(&self.bytes),
        }
    }

    /// Counts the overlays, including malformed ones.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.events.iter().filter(|event| event.kind.is_overlay()).count()
    }
}

/// Indexes the bytes of an `events.json`.
///
/// # Errors
/// When the bytes are not a JSON array, or an element of a type that JP knows lacks a member that JP requires.
pub fn index(bytes: Bytes) -> Result<Index, Unreadable> {
    Indexer::default().finish(bytes)
}

/// Indexes an `events.json` while its bytes arrive. Scanning them immediately costs half as much as scanning them again
/// after all of a large file has passed.
#[derive(Default)]
pub struct Indexer {
    events: Vec<Event>,
    count: Count,
    array_start: usize,
    body_end: usize,
    unloadable: Option<usize>,
    next: Next,
    /// Offset at which `next` begins.
    at: usize,
    /// The number of bytes that must have arrived before the next attempt.
    wanted: usize,
}

/// The next thing to read. An element is complete only with the comma or bracket after it, because a number may
/// continue in the next bytes.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Array,
    /// An element, or the bracket that closes the array.
    First,
    Element,
    /// Only white space.
    End,
}

impl Indexer {
    /// Scans the bytes that have arrived; `bytes` holds all of them, from the first. Errors are reported by
    /// [`Indexer::finish`] only, because here the rest may simply be missing.
    pub fn advance(&mut self, bytes: &[u8]) {
        if bytes.len() < self.wanted {
            return;
        }
        let mut scanner = Scanner::at_byte(bytes, self.at);
        while self.next != Next::End && self.step(&mut scanner, bytes).is_ok() {}
        // A long element is retried only after its size has doubled.
        self.wanted = bytes.len() + (bytes.len() - self.at);
    }

    /// Scans the rest of `bytes`, which begin with everything passed to `advance`.
    ///
    /// # Errors
    /// Same as [`index`].
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

    /// Reads one bracket, or one element and its separator. A failed step changes nothing.
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
            let head =
                MemberSpans::read(scanner, bytes).map_err(|wrong| inside(wrong.at, wrong.what.into()))?;
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

/// Skips the bracket that opens the array.
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

/// An error outside of elements.
fn outside(wrong: Malformed) -> Unreadable {
    Unreadable { at: wrong.at, element: None, what: wrong.what.into() }
}

/// Assigns turns and numbers during the pass (docs/reference/store.md#turns).
#[derive(Default, Clone, Copy)]
pub(crate) struct Count {
    turn: usize,
    /// Whether the current turn has a conversation event.
    opened: bool,
    seq: u64,
}

impl Count {
    /// Returns the turn of the next element, which is of this kind.
    pub(crate) fn turn(&mut self, kind: Kind) -> usize {
        if kind == Kind::TurnStart && self.opened {
            self.turn += 1;
        }
        self.opened |= kind.is_conversation();
        self.turn
    }

    /// Returns the number of the next element if its kind is numbered.
    pub(crate) fn seq(&mut self, kind: Kind) -> Option<u64> {
        let seq = kind.is_numbered().then_some(self.seq);
        self.seq += u64::from(seq.is_some());
        seq
    }

    pub(crate) fn turns(&self) -> usize {
        self.turn + usize::from(self.opened)
    }
}

/// The spans of the members that the index needs. Of duplicate keys the last counts, as in JP.
#[derive(Default, Clone, Copy)]
struct MemberSpans {
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

impl MemberSpans {
    fn read(scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut head = Self::default();
        if scanner.peek() != Some(b'{') {
            head.span = scanner.value(1)?;
            return Ok(head);
        }
        let start = scanner.at();
        scanner.object(1, |scanner, key| {
            let value = scanner.value(2)?;
            if let Some(member) = head.member(&text::unquote_bytes(key.slice(bytes))) {
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

    /// Returns whether JP loads a conversation that contains this element: it has a type and a time.
    fn is_loadable(&self, bytes: &[u8]) -> bool {
        [self.kind, self.timestamp].iter().all(|span| span.slice(bytes).first() == Some(&b'"'))
    }

    /// Makes the event, with the checks that JP makes. An error is a fragment that names the type and the member.
    fn event(&self, bytes: &[u8], count: &mut Count) -> Result<Event, String> {
        let is_string = |span: Span| span.slice(bytes).first() == Some(&b'"');
        // An element that JP would not load is unknown, regardless of its `type`: it is kept, and is in no turn. Config
        // deltas are exempt, because strategies ignore them and those of old streams may lack a time.
        let mut tag =
            if is_string(self.kind) { text::unquote(self.kind.slice(bytes)) } else { Cow::Borrowed("") };
        if tag != "config_delta" && !self.is_loadable(bytes) {
            tag = Cow::Borrowed("");
        }
        let need = |span: Span, name: &str, opens: &[u8], shape: &str| match span.slice(bytes).first() {
            None => Err(format!("the `{name}` of a `{tag}` is missing")),
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
                return Err("a `chat_response` has no `message`, `reasoning` or `data`".into());
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
                let is_error =
                    need(self.is_error, "is_error", b"tf", "true or false")?.slice(bytes) == b"true";
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
            OVERLAY => Kind::Overlay,
            STEP_OVERLAY => Kind::StepOverlay,
            "jp_compact_receipt" => Kind::Receipt,
            _ => Kind::Unknown,
        };
        let timestamp = if is_string(self.timestamp) {
            time::parse(&text::unquote(self.timestamp.slice(bytes)))
        } else {
            None
        };
        if kind != Kind::Unknown && timestamp.is_none() && is_string(self.timestamp) {
            let found = text::unquote(self.timestamp.slice(bytes));
            return Err(format!("the `timestamp` of a `{tag}` is not a valid time: `{found}`"));
        }
        if kind.is_conversation() && !self.metadata.is_empty() {
            need(self.metadata, "metadata", b"{", "an object")?;
        }
        let (turn, seq) = (count.turn(kind), count.seq(kind));
        Ok(Event { span: self.span, kind, turn, seq, timestamp, id, name, body })
    }
}
