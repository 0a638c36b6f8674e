//! The index of JP's `events.json`, one JSON array of elements (docs/reference/store.md#on-disk). One pass finds the
//! position, kind and turn of each element. It rejects malformed bytes and malformed elements, and reports the byte and
//! the element.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::event::{Event, Kind};
use crate::{text, time};
use jp_compact_json::{KeptSpans, Malformed, Scanner, Span};

/// The type of an overlay that JP's grammar cannot express.
pub(crate) const OVERLAY: &str = "jp_compact_overlay";
/// The type of an overlay that begins or ends inside a turn. It is a separate type because version 0.1.0 would read
/// such a range as whole turns. That version ignores unknown types.
pub(crate) const STEP_OVERLAY: &str = "jp_compact_step_overlay";

/// The start of the reason if an overlay is malformed.
pub(crate) const MALFORMED: &str = "a malformed ";

/// The end of the reason if each line of a file is a separate conversation.
pub const SEVERAL_CONVERSATIONS: &str = "a second conversation begins: each line is a separate conversation";

/// The reason why bytes are not a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Byte offset.
    pub offset: usize,
    /// Number of the element in the array, from 0. `None` outside of elements.
    pub element: Option<usize>,
    /// The error, as a fragment.
    pub reason: String,
}

impl Unreadable {
    /// Returns whether each line of the file is a separate conversation.
    #[must_use]
    pub fn has_several_conversations(&self) -> bool {
        self.reason.ends_with(SEVERAL_CONVERSATIONS)
    }

    /// Returns whether the cause is a malformed overlay, which a reset can remove.
    #[must_use]
    pub fn is_malformed_overlay(&self) -> bool {
        self.reason.starts_with(MALFORMED)
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.element {
            Some(element) => write!(out, "element {element} (byte {}): {}", self.offset, self.reason),
            None => write!(out, "byte {}: {}", self.offset, self.reason),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The bytes of a stream and the positions of its elements. Overlays are not parsed yet, so a stream with a malformed
/// overlay has an index too.
#[derive(Debug, Clone)]
pub struct Index {
    pub(crate) bytes: Bytes,
    /// For a file that was read in windows: the spans that are in memory. `bytes` is then empty.
    pub(crate) kept: Option<Arc<KeptSpans>>,
    /// The size of the file.
    pub(crate) size: usize,
    /// Bytes that are not in the file. Spans after the end of the file refer to these.
    pub(crate) generated: Bytes,
    pub events: Vec<Event>,
    pub(crate) turns: usize,
    /// Offset of the `[`.
    pub(crate) array_start: usize,
    /// Offset after the last element, or after `[` if the array is empty.
    pub(crate) body_end: usize,
    /// The first element that JP would not load, because `type` or `timestamp` is missing.
    pub(crate) unloadable: Option<usize>,
}

impl Index {
    /// Makes an index from the events that a reader of another format found, and assigns turns and numbers. `generated`
    /// holds the bytes that are not in the file. Spans after the end of `bytes` refer to it.
    #[must_use]
    pub fn from_events(bytes: Bytes, generated: Bytes, mut events: Vec<Event>) -> Self {
        let mut count = ElementCounter::default();
        for event in &mut events {
            (event.turn, event.seq) = (count.turn(event.kind), count.seq(event.kind));
        }
        let (turns, size) = (count.turns(), bytes.len());
        let (body_end, kept) = (size, None);
        Self { bytes, kept, size, generated, events, turns, array_start: 0, body_end, unloadable: None }
    }

    /// Keeps only these spans of the file in memory. The file has `size` bytes.
    #[must_use]
    pub fn with_kept_spans(self, kept: KeptSpans, size: usize) -> Self {
        Self { bytes: Bytes::new(), kept: Some(Arc::new(kept)), size, body_end: size, ..self }
    }

    /// Returns the spans that are in memory, for a file that was read in windows.
    #[must_use]
    pub fn kept(&self) -> Option<&KeptSpans> {
        self.kept.as_deref()
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    #[must_use]
    pub fn bytes_at(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.size) {
            Some(start) if !self.generated.is_empty() => &self.generated[start..span.end - self.size],
            _ => self.kept.as_ref().map_or_else(|| span.slice(&self.bytes), |kept| kept.bytes_at(span)),
        }
    }

    /// Returns whether the bytes at a span are in memory.
    pub(crate) fn is_in_memory(&self, span: Span) -> bool {
        span.start >= self.size || self.kept.as_ref().is_none_or(|kept| kept.get(span).is_some())
    }

    /// Returns the offset of the bracket that opens the array.
    #[must_use]
    pub fn array_start(&self) -> usize {
        self.array_start
    }

    /// Counts the overlays, including malformed overlays.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.events.iter().filter(|event| event.kind.is_overlay()).count()
    }
}

/// Indexes the bytes of an `events.json`.
///
/// # Errors
/// When the bytes are not a JSON array, or an element of a type that JP knows has a missing or invalid member.
pub fn index(bytes: Bytes) -> Result<Index, Unreadable> {
    Indexer::default().finish(bytes)
}

/// Indexes an `events.json` while its bytes arrive. For a large file this costs half as much as a scan after the last
/// byte has arrived.
#[derive(Default, Clone)]
pub struct Indexer {
    events: Vec<Event>,
    count: ElementCounter,
    array_start: usize,
    unloadable: Option<usize>,
    next: Next,
    /// Offset at which `next` begins.
    next_at: usize,
    /// The number of bytes after `next_at` that must have arrived before the next attempt.
    retry_bytes: usize,
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
    /// Scans the bytes that have arrived. `bytes` holds all of them, from the first. Only [`Indexer::finish`] reports
    /// errors, because an element may still be incomplete here.
    pub fn advance(&mut self, bytes: &[u8]) {
        if bytes.len() - self.next_at < self.retry_bytes {
            return;
        }
        let mut scanner = Scanner::at_byte(bytes, self.next_at);
        while self.next != Next::End && self.step(&mut scanner, bytes).is_ok() {}
        // A long element is retried only after its size has doubled.
        self.retry_bytes = 2 * (bytes.len() - self.next_at);
    }

    /// Returns the complete events, and the offset of the first unread byte. A caller that removes bytes before this
    /// offset must update both.
    pub fn read_part(&mut self) -> (&mut Vec<Event>, &mut usize) {
        (&mut self.events, &mut self.next_at)
    }

    /// Scans the rest of `bytes`, which begin with everything passed to `advance`.
    ///
    /// # Errors
    /// Same as [`index`].
    pub fn finish(mut self, bytes: Bytes) -> Result<Index, Unreadable> {
        let mut scanner = Scanner::at_byte(&bytes, self.next_at);
        while self.next != Next::End {
            self.step(&mut scanner, &bytes)?;
        }
        if scanner.peek().is_some() {
            let reason = "text after the closing `]`".into();
            return Err(Unreadable { offset: scanner.at(), element: None, reason });
        }
        let Self { events, count, array_start, unloadable, .. } = self;
        let (turns, generated) = (count.turns(), Bytes::new());
        let body_end = events.last().map_or(array_start + 1, |last| last.span.end);
        let (kept, size) = (None, bytes.len());
        Ok(Index { bytes, kept, size, generated, events, turns, array_start, body_end, unloadable })
    }

    /// Reads one bracket, or one element and its separator. A failed step changes nothing.
    fn step(&mut self, scanner: &mut Scanner<'_>, bytes: &[u8]) -> Result<(), Unreadable> {
        if self.next == Next::Array {
            open_array(scanner)?;
            self.array_start = scanner.at() - 1;
            self.next = Next::First;
        } else if self.next == Next::First && scanner.take(b']') {
            self.next = Next::End;
        } else {
            let element = self.events.len();
            let unreadable = |offset, reason| Unreadable { offset, element: Some(element), reason };
            let mut count = self.count;
            let members = MemberSpans::read(scanner, bytes)
                .map_err(|error| unreadable(error.offset, error.message.into()))?;
            let event = members.event(bytes, &mut count);
            let event = event.map_err(|reason| unreadable(members.span.start, reason))?;
            let next = if scanner.take(b']') { Next::End } else { Next::Element };
            if next == Next::Element {
                scanner.expect(b',', "expected `,` or `]` between events").map_err(outside_elements)?;
            }
            if self.unloadable.is_none() && !members.is_loadable(bytes) {
                self.unloadable = Some(element);
            }
            self.events.push(event);
            (self.count, self.next) = (count, next);
        }
        self.next_at = scanner.at();
        Ok(())
    }
}

/// Skips the bracket that opens the array.
fn open_array(scanner: &mut Scanner<'_>) -> Result<(), Unreadable> {
    let unreadable = |offset, reason: &str| Err(Unreadable { offset, element: None, reason: reason.into() });
    match scanner.peek() {
        Some(b'[') => scanner.expect(b'[', "not an array").map_err(outside_elements),
        None => unreadable(0, "the file is empty, expected a JSON array"),
        Some(_) => {
            let at = scanner.at();
            scanner.value(0).map_err(outside_elements)?;
            unreadable(at, "expected a JSON array of events")
        }
    }
}

/// Converts an error that is outside of elements.
fn outside_elements(error: Malformed) -> Unreadable {
    Unreadable { offset: error.offset, element: None, reason: error.message.into() }
}

/// Assigns turns and numbers during the pass (docs/reference/store.md#turns).
#[derive(Default, Clone, Copy)]
pub struct ElementCounter {
    turn: usize,
    /// Whether the current turn has a conversation event.
    opened: bool,
    seq: u64,
}

impl ElementCounter {
    /// Returns the turn of the next element, which has this kind.
    pub fn turn(&mut self, kind: Kind) -> usize {
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
        let mut members = Self::default();
        if scanner.peek() != Some(b'{') {
            members.span = scanner.value(1)?;
            return Ok(members);
        }
        let start = scanner.at();
        scanner.object(1, |scanner, key| {
            let has_escapes = scanner.has_escapes();
            let value = scanner.value(2)?;
            if let Some(member) = members.member(&text::unquote_key(key.slice(bytes), has_escapes)) {
                *member = value;
            }
            Ok(())
        })?;
        members.span = Span { start, end: scanner.at() };
        Ok(members)
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

    /// Returns whether JP loads a conversation with this element. The element must have a type and a time.
    fn is_loadable(&self, bytes: &[u8]) -> bool {
        [self.kind, self.timestamp].iter().all(|span| span.slice(bytes).first() == Some(&b'"'))
    }

    /// Makes the event, with JP's checks. An error is a fragment that names the type and the member.
    fn event(&self, bytes: &[u8], count: &mut ElementCounter) -> Result<Event, String> {
        let is_string = |span: Span| span.slice(bytes).first() == Some(&b'"');
        // An element that JP would not load is unknown, regardless of its `type`. Config deltas are exempt, because
        // strategies ignore them, and those of old streams may lack a time.
        let mut tag =
            if is_string(self.kind) { text::unquote(self.kind.slice(bytes)) } else { Cow::Borrowed("") };
        if tag != "config_delta" && !self.is_loadable(bytes) {
            tag = Cow::Borrowed("");
        }
        let require = |span: Span, name: &str, allowed: &[u8], kind: &str| match span.slice(bytes).first() {
            None => Err(format!("the `{name}` of the `{tag}` is missing")),
            Some(first) if !allowed.contains(first) => {
                Err(format!("the `{name}` of the `{tag}` must be {kind}"))
            }
            Some(_) => Ok(span),
        };
        let require_string = |span, name: &str| require(span, name, b"\"", "a string");
        let require_value = |span, name: &str| require(span, name, b"\"{[tfn-0123456789", "a value");
        let (mut id, mut name, mut body) = (Span::default(), Span::default(), Span::default());
        let kind = match &*tag {
            "turn_start" => Kind::TurnStart,
            "chat_request" => {
                body = require_string(self.content, "content")?;
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
                id = require_string(self.id, "id")?;
                name = require_string(self.name, "name")?;
                if !self.arguments.is_empty() {
                    body = require(self.arguments, "arguments", b"{", "an object")?;
                }
                Kind::ToolRequest
            }
            "tool_call_response" => {
                id = require_string(self.id, "id")?;
                body = require_string(self.content, "content")?;
                let is_error =
                    require(self.is_error, "is_error", b"tf", "true or false")?.slice(bytes) == b"true";
                Kind::ToolResponse { is_error }
            }
            "inquiry_request" => {
                require_string(self.id, "id")?;
                require_value(self.source, "source")?;
                require_value(self.question, "question")?;
                Kind::InquiryRequest
            }
            "inquiry_response" => {
                require_string(self.id, "id")?;
                require_value(self.answer, "answer")?;
                Kind::InquiryResponse
            }
            "config_delta" => Kind::ConfigDelta,
            "compaction" => Kind::Compaction,
            OVERLAY => Kind::Overlay,
            STEP_OVERLAY => Kind::StepOverlay,
            "jp_compact_receipt" => Kind::Receipt,
            _ => Kind::Unknown,
        };
        let has_time = is_string(self.timestamp);
        let timestamp = has_time.then(|| time::parse_stored(self.timestamp.slice(bytes))).flatten();
        if has_time && kind != Kind::Unknown && timestamp.is_none() {
            let time = text::unquote(self.timestamp.slice(bytes));
            return Err(format!("the `timestamp` of the `{tag}` is not a valid time: `{time}`"));
        }
        if kind.is_conversation() && !self.metadata.is_empty() {
            require(self.metadata, "metadata", b"{", "an object")?;
        }
        let (turn, seq) = (count.turn(kind), count.seq(kind));
        Ok(Event { span: self.span, kind, turn, seq, timestamp, id, name, body })
    }
}
