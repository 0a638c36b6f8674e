//! The parts of an event that the projection reads, and a log of them: about ten bytes for each event.

use std::ops::Range;

use jiff::Timestamp;
use jp_compact_core::event::{Event, Kind};

use crate::scan::ScannedEvent;

/// The kinds of events that the projection tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventClass {
    /// A conversation event that only a summary replaces.
    Plain,
    Reasoning,
    Request,
    Response {
        failed: bool,
        /// The number of its id.
        id: u32,
    },
    /// An element that no overlay hides: a change of the configuration, or an unknown element.
    Other,
    /// An overlay or a receipt.
    LeftOut,
}

/// An event. All ranges are ranges of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) class: EventClass,
    pub(crate) range: Range<usize>,
    /// The arguments of a request, or the content of a response. Empty if absent.
    pub(crate) body: Range<usize>,
    /// The time of the event, if it is the first conversation event of a turn.
    pub(crate) turn_start: Option<Timestamp>,
}

impl EventRecord {
    /// Returns the record of an event. `turns` is the number of turns before it. `id` is the number of a response's id.
    pub(crate) fn new(found: &ScannedEvent<'_>, turns: usize, id: u32) -> Self {
        let event = found.event;
        let class = match event.kind {
            Kind::Reasoning => EventClass::Reasoning,
            Kind::ToolRequest => EventClass::Request,
            Kind::ToolResponse { is_error } => EventClass::Response { failed: is_error, id },
            kind if kind.is_conversation() => EventClass::Plain,
            _ if is_left_out(event) => EventClass::LeftOut,
            _ => EventClass::Other,
        };
        let begins_turn = event.kind.is_conversation() && event.turn == turns;
        let body = if event.kind.is_tool() && !event.body.is_empty() {
            found.file_range(event.body)
        } else {
            Range::default()
        };
        let turn_start = begins_turn.then(|| event.timestamp.unwrap_or_default());
        Self { class, range: found.file_range(event.span), body, turn_start }
    }
}

/// Returns whether the compacted transcript never has the event.
pub(crate) fn is_left_out(event: &Event) -> bool {
    event.kind.is_overlay() || event.kind == Kind::Receipt
}

/// A bit of the first byte of a record. The lower bits are the class.
const FAILED: u8 = 1 << 3;
const HAS_BODY: u8 = 1 << 4;
const BEGINS_TURN: u8 = 1 << 5;

/// Records of events, in order. Numbers have seven bits in each byte, and offsets are relative to the record before.
#[derive(Default)]
pub(crate) struct EventLog {
    bytes: Vec<u8>,
    last: Last,
}

/// The values that the next record is relative to.
#[derive(Clone, Copy, Default)]
struct Last {
    end: usize,
    second: i64,
}

impl EventLog {
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn push(&mut self, record: &EventRecord) {
        let EventRecord { class, range, body, turn_start } = record;
        let (code, id) = match *class {
            EventClass::Plain => (0, None),
            EventClass::Reasoning => (1, None),
            EventClass::Request => (2, None),
            EventClass::Response { failed, id } => (3 | if failed { FAILED } else { 0 }, Some(id)),
            EventClass::Other => (4, None),
            EventClass::LeftOut => (5, None),
        };
        let has_body = if body.is_empty() { 0 } else { HAS_BODY };
        self.bytes.push(code | has_body | if turn_start.is_some() { BEGINS_TURN } else { 0 });
        self.push_number((range.start - self.last.end) as u64);
        if body.is_empty() {
            self.push_number(range.len() as u64);
        } else {
            self.push_number((body.start - range.start) as u64);
            self.push_number(body.len() as u64);
            self.push_number((range.end - body.end) as u64);
        }
        if let Some(id) = id {
            self.push_number(id.into());
        }
        if let Some(time) = turn_start {
            self.push_signed(time.as_second() - self.last.second);
            self.push_signed(time.subsec_nanosecond().into());
            self.last.second = time.as_second();
        }
        self.last.end = range.end;
    }

    pub(crate) fn records(&self) -> LoggedRecords<'_> {
        LoggedRecords { rest: &self.bytes, last: Last::default() }
    }

    #[inline]
    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Small numbers of both signs become small numbers.
    fn push_signed(&mut self, number: i64) {
        self.push_number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }
}

/// Reads the records of a log.
pub(crate) struct LoggedRecords<'a> {
    rest: &'a [u8],
    last: Last,
}

impl Iterator for LoggedRecords<'_> {
    type Item = EventRecord;

    fn next(&mut self) -> Option<EventRecord> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        let start = self.last.end + self.number();
        let (body, end) = if first & HAS_BODY == 0 {
            (Range::default(), start + self.number())
        } else {
            let body_start = start + self.number();
            let body_end = body_start + self.number();
            (body_start..body_end, body_end + self.number())
        };
        let class = match first & 7 {
            0 => EventClass::Plain,
            1 => EventClass::Reasoning,
            2 => EventClass::Request,
            3 => EventClass::Response { failed: first & FAILED != 0, id: self.number() as u32 },
            4 => EventClass::Other,
            _ => EventClass::LeftOut,
        };
        self.last.end = end;
        let turn_start = (first & BEGINS_TURN != 0).then(|| {
            self.last.second += self.signed();
            // The values are those of a timestamp, so this cannot fail.
            Timestamp::new(self.last.second, self.signed() as i32).unwrap_or_default()
        });
        Some(EventRecord { class, range: start..end, body, turn_start })
    }
}

impl LoggedRecords<'_> {
    #[inline]
    fn long_number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some((byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        number
    }

    #[inline]
    fn number(&mut self) -> usize {
        self.long_number() as usize
    }

    fn signed(&mut self) -> i64 {
        let number = self.long_number();
        (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
    }
}
