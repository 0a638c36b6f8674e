//! The pieces of a new transcript: ranges of the old bytes, and new bytes between them. Unchanged bytes are never
//! parsed or reformatted here, and only `concat` copies them.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::index::Index;
use jp_compact_json::Span;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A range of the old bytes.
    Old(Range<usize>),
    New(Vec<u8>),
}

impl Piece {
    #[must_use]
    pub fn bytes<'a>(&'a self, old: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Old(range) => &old[range.clone()],
            Self::New(bytes) => bytes,
        }
    }
}

/// Joins pieces. For small files and tests.
#[must_use]
pub fn concat(pieces: &[Piece], old: &[u8]) -> Vec<u8> {
    pieces.iter().map(|piece| piece.bytes(old)).collect::<Vec<_>>().concat()
}

/// The separator before a new element, and between old elements that were not neighbors. It follows JP's layout.
pub const SEPARATOR: &[u8] = b",\n  ";

pub enum Element {
    /// An unchanged old element, by its index.
    Old(usize),
    /// An old element, by its index, with new bytes for the value at a span.
    Patched(usize, Span, Vec<u8>),
    New(Vec<u8>),
}

/// Serializes an element in JP's layout, indented by two spaces.
pub fn pretty(element: &Map<String, Value>) -> Vec<u8> {
    // Cannot fail: the keys are strings. JSON strings contain no raw newline.
    let text = serde_json::to_string_pretty(element).unwrap_or_default();
    text.replace('\n', "\n  ").into_bytes()
}

/// The pieces of a file. Neighboring old ranges are joined, and so are consecutive new bytes.
#[derive(Default)]
pub struct Pieces(Vec<Piece>);

impl Pieces {
    pub fn with_capacity(pieces: usize) -> Self {
        Self(Vec::with_capacity(pieces))
    }

    pub fn push_old(&mut self, range: Range<usize>) {
        match self.0.last_mut() {
            _ if range.is_empty() => {}
            Some(Piece::Old(last)) if last.end == range.start => last.end = range.end,
            _ => self.0.push(Piece::Old(range)),
        }
    }

    pub fn copy_new(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Piece::New(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Piece::New(bytes.to_vec())),
        }
    }

    pub fn push_new(&mut self, bytes: Vec<u8>) {
        match self.0.last_mut() {
            Some(Piece::New(_)) => self.copy_new(&bytes),
            _ if bytes.is_empty() => {}
            _ => self.0.push(Piece::New(bytes)),
        }
    }

    pub fn into_pieces(self) -> Vec<Piece> {
        self.0
    }
}

/// Replaces the old array with an array of these elements. Bytes between two old neighbors stay.
pub fn array(index: &Index, elements: impl Iterator<Item = Element>) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    let events = &index.events;
    // `Some(None)` after a new element.
    let mut previous: Option<Option<usize>> = None;
    for element in elements {
        let old = match element {
            Element::Old(old) | Element::Patched(old, ..) => Some(old),
            Element::New(_) => None,
        };
        match (previous, old) {
            (None, _) => pieces.push_old(0..events.first().map_or(index.body_end, |first| first.span.start)),
            (Some(Some(left)), Some(right)) if left + 1 == right => {
                pieces.push_old(events[left].span.end..events[right].span.start);
            }
            (Some(_), _) => pieces.copy_new(SEPARATOR),
        }
        match element {
            Element::Old(old) => pieces.push_old(events[old].span.start..events[old].span.end),
            Element::Patched(old, value, bytes) => {
                pieces.push_old(events[old].span.start..value.start);
                pieces.copy_new(&bytes);
                pieces.push_old(value.end..events[old].span.end);
            }
            Element::New(bytes) => pieces.copy_new(&bytes),
        }
        previous = Some(old);
    }
    if previous.is_none() {
        // The array becomes empty. The white space before its first element is removed too.
        pieces.push_old(0..index.array_start + 1);
    }
    pieces.push_old(index.body_end..index.bytes.len());
    pieces.0
}

/// Appends new elements after the old elements. Every old byte up to the closing bracket stays.
pub fn append_elements(index: &Index, elements: &[Map<String, Value>]) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    pieces.push_old(0..index.body_end);
    for (number, element) in elements.iter().enumerate() {
        // The first element of an empty array needs no comma.
        pieces.copy_new(if number == 0 && index.events.is_empty() { &SEPARATOR[1..] } else { SEPARATOR });
        pieces.copy_new(&pretty(element));
    }
    pieces.push_old(index.body_end..index.bytes.len());
    pieces.0
}
