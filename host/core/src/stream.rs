//! The stream: a transcript's bytes, the index of its events, and its overlays. Made only from bytes, so
//! that nothing can pass a reduced view for history (RFD 064, "Raw-Stream Invariant").

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_schema::ContentKind;
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::formats::jp::{self, Index, MALFORMED, Unreadable};
use crate::json::Span;
use crate::overlay::{Overlay, ToolPolicy};
use crate::text;

/// A transcript: raw events and overlays.
#[derive(Debug, Clone)]
pub struct Stream {
    index: Index,
    overlays: Vec<Overlay>,
    /// The element of each `seq`.
    numbered: Vec<usize>,
}

impl Stream {
    /// Reads the bytes of a JP `events.json`.
    ///
    /// # Errors
    /// When [`jp::index`] refuses them, or an overlay is malformed.
    pub fn parse(bytes: Bytes) -> Result<Self, Unreadable> {
        Self::from_index(jp::index(bytes)?)
    }

    /// Reads the overlays of an index.
    ///
    /// # Errors
    /// When an overlay is malformed: JP would not load the conversation either.
    pub fn from_index(index: Index) -> Result<Self, Unreadable> {
        let mut overlays = Vec::new();
        let mut numbered = Vec::with_capacity(index.events.len());
        for (element, event) in index.events.iter().enumerate() {
            if event.kind.is_overlay() {
                let overlay = Overlay::read(element, event, event.span.of(&index.bytes)).map_err(|what| {
                    let kind = if event.kind == Kind::Overlay { "jp_compact_overlay" } else { "compaction" };
                    let what = format!("{MALFORMED}`{kind}`: {what}");
                    Unreadable { at: event.span.start, element: Some(element), what }
                })?;
                overlays.push(overlay);
            }
            if event.seq.is_some() {
                numbered.push(element);
            }
        }
        Ok(Self { index, overlays, numbered })
    }

    /// The bytes it was made from.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.index.bytes
    }

    /// The index of its elements.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Offset behind the last element: the bytes before it are history, and stay.
    #[must_use]
    pub fn body_end(&self) -> usize {
        self.index.body_end
    }

    /// Its elements, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.index.events
    }

    /// Its overlays, in order.
    #[must_use]
    pub fn overlays(&self) -> &[Overlay] {
        &self.overlays
    }

    /// Number of turns.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.index.turns
    }

    /// The element whose number is `seq`.
    #[must_use]
    pub fn element(&self, seq: u64) -> Option<usize> {
        self.numbered.get(usize::try_from(seq).ok()?).copied()
    }

    /// The elements that carry a number, with it, in order.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        (0..).zip(self.numbered.iter().copied())
    }

    /// The raw input: the bytes of every numbered element, in order. What a digest of the input covers, so that
    /// neither an overlay nor a change of config changes it.
    pub fn raw_input(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.numbered.iter().map(|element| self.events()[*element].span.of(&self.index.bytes))
    }

    /// Number of conversation events.
    #[must_use]
    pub fn conversation_events(&self) -> usize {
        self.events().iter().filter(|event| event.kind.is_conversation()).count()
    }

    /// When each turn began: the time of its first conversation event.
    #[must_use]
    pub fn turns_began(&self) -> Vec<Timestamp> {
        let mut began = Vec::with_capacity(self.turns());
        for event in self.events() {
            if event.kind.is_conversation() && event.turn == began.len() {
                began.extend(event.timestamp);
            }
        }
        began
    }

    /// One past the greatest `to_turn` of all overlays, or 0: what the bound `last` means. One past the
    /// greatest number there is comes out as 0, as it does in JP.
    #[must_use]
    pub fn after_last_overlay(&self) -> usize {
        self.overlays.iter().map(|overlay| overlay.to_turn.wrapping_add(1)).max().unwrap_or(0)
    }

    /// The same, of the overlays with an opinion on one of `kinds` alone.
    #[must_use]
    pub fn after_last_overlay_of(&self, kinds: &[ContentKind]) -> usize {
        let of_kind = |overlay: &&Overlay| {
            kinds.iter().any(|kind| match kind {
                ContentKind::Summary => overlay.summary.is_some(),
                ContentKind::Reasoning => overlay.reasoning.is_some(),
                // One that names single calls says nothing of the others in its turns.
                ContentKind::ToolCalls => {
                    matches!(overlay.tool_calls, Some(ToolPolicy::Strip { .. } | ToolPolicy::Omit))
                }
                _ => false,
            })
        };
        let ends = self.overlays.iter().filter(of_kind).map(|overlay| overlay.to_turn.wrapping_add(1));
        ends.max().unwrap_or(0)
    }

    /// The ranges of the overlays that carry a summary.
    pub fn summaries(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        self.overlays
            .iter()
            .filter(|overlay| overlay.summary.is_some())
            .map(|overlay| (overlay.from_turn, overlay.to_turn))
    }

    /// The text of a JSON string that lies at `span`.
    #[must_use]
    pub fn text(&self, span: Span) -> Cow<'_, str> {
        text::unquote(span.of(&self.index.bytes))
    }

    /// The content of a tool response, base64 undone.
    #[must_use]
    pub fn stored_text(&self, span: Span) -> String {
        text::decode(&self.text(span)).into_owned()
    }

    /// The value that lies at `span`. Nothing for an absent one.
    #[must_use]
    pub fn value(&self, span: Span) -> Option<Value> {
        // What the index let through can be read; see the property in `json`.
        serde_json::from_slice(span.of(&self.index.bytes)).ok()
    }
}
