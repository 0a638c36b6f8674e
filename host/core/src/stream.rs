//! The stream: a transcript's bytes, the index of its events, and its overlays. Made only from bytes, so
//! that nothing can pass a reduced view for history (RFD 064, "Raw-Stream Invariant").

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_schema::ContentKind;
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::formats::jp::{self, Index, MALFORMED, Unreadable};
use crate::formats::{Foreign, Format};
use crate::json::Span;
use crate::overlay::{Overlay, ToolPolicy};
use crate::sidecar::Sidecar;
use crate::text;
use crate::turn::TurnRange;

/// A transcript: raw events and overlays.
#[derive(Debug, Clone)]
pub struct Stream {
    index: Index,
    /// What there is to know of a transcript that is not JP's.
    foreign: Option<Box<Foreign>>,
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
        Self::of(index, None)
    }

    /// The stream of a transcript that is not JP's.
    ///
    /// # Errors
    /// When an overlay is malformed.
    pub(crate) fn of_foreign(index: Index, foreign: Foreign) -> Result<Self, Unreadable> {
        Self::of(index, Some(Box::new(foreign)))
    }

    fn of(index: Index, foreign: Option<Box<Foreign>>) -> Result<Self, Unreadable> {
        let mut overlays = Vec::new();
        let mut numbered = Vec::with_capacity(index.events.len());
        for (element, event) in index.events.iter().enumerate() {
            if event.kind.is_overlay() {
                let overlay = Overlay::read(element, event, index.at(event.span)).map_err(|what| {
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
        Ok(Self { index, foreign, overlays, numbered })
    }

    /// The bytes it was made from.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.index.bytes
    }

    /// The form that its transcript is written in.
    #[must_use]
    pub fn format(&self) -> Format {
        self.foreign.as_ref().map_or(Format::Jp, |foreign| foreign.format)
    }

    /// What there is to know of a transcript that is not JP's.
    pub(crate) fn foreign(&self) -> Option<&Foreign> {
        self.foreign.as_deref()
    }

    /// What has to be said of how it was read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.foreign.as_ref().map_or(&[], |foreign| &foreign.warnings)
    }

    /// Whether some of its texts are in base64.
    pub(crate) fn is_encoded(&self) -> bool {
        self.foreign.is_none()
    }

    /// The bytes that lie at a span.
    pub(crate) fn at(&self, span: Span) -> &[u8] {
        self.index.at(span)
    }

    /// The arguments of a call, which some formats keep in a string. What is no object is the member `input` of one.
    pub(crate) fn arguments(&self, event: &Event) -> Value {
        let value = match self.value(event.body) {
            Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            value => value.unwrap_or_default(),
        };
        match value {
            Value::Object(_) => value,
            Value::Null => Value::Object(serde_json::Map::new()),
            Value::String(text) if text.is_empty() => Value::Object(serde_json::Map::new()),
            other => serde_json::json!({ "input": other }),
        }
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
        self.numbered.iter().map(|element| self.at(self.events()[*element].span))
    }

    /// The same, of the events of a range alone.
    pub fn raw_input_of(&self, range: TurnRange) -> impl Iterator<Item = &[u8]> + '_ {
        let within = move |element: &&usize| range.contains(self.events()[**element].turn);
        self.numbered.iter().filter(within).map(|element| self.at(self.events()[*element].span))
    }

    /// The stream with the overlays that lie beside its transcript. Nothing else of what lies there counts.
    ///
    /// # Errors
    /// When one of them is malformed.
    pub fn with_sidecar(self, sidecar: Sidecar) -> Result<Self, Unreadable> {
        let Some(mut foreign) = self.foreign else { return Ok(self) };
        let mut index = self.index;
        let behind = index.bytes.len() + index.made.len();
        let moved = |span: Span| Span { start: span.start + behind, end: span.end + behind };
        let beside = sidecar.index();
        let ours = |event: &&Event| event.kind.is_overlay() || event.kind == Kind::Receipt;
        index.events.extend(
            beside.events.iter().filter(ours).map(|event| Event { span: moved(event.span), ..*event }),
        );
        let mut made = Vec::from(index.made);
        made.extend_from_slice(&beside.bytes);
        index.made = made.into();
        foreign.sidecar = Some(sidecar);
        Self::of(index, Some(foreign))
    }

    /// The overlays that lie beside the transcript, as they were read.
    #[must_use]
    pub fn sidecar(&self) -> Option<&Sidecar> {
        self.foreign.as_ref().and_then(|foreign| foreign.sidecar.as_ref())
    }

    /// Says of an overlay, by its place in [`Stream::overlays`], that it was made of other events.
    pub fn mark_stale(&mut self, place: usize) {
        if let Some(overlay) = self.overlays.get_mut(place) {
            overlay.stale = true;
        }
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
        let applied = self.overlays.iter().filter(|overlay| !overlay.stale);
        applied.map(|overlay| overlay.to_turn.wrapping_add(1)).max().unwrap_or(0)
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
        let ends = self
            .overlays
            .iter()
            .filter(|overlay| overlay.is_applied())
            .filter(of_kind)
            .map(|overlay| overlay.to_turn.wrapping_add(1));
        ends.max().unwrap_or(0)
    }

    /// The ranges of the overlays that carry a summary.
    pub fn summaries(&self) -> impl Iterator<Item = (usize, usize)> + Clone {
        self.overlays
            .iter()
            .filter(|overlay| overlay.summary.is_some() && overlay.is_applied())
            .map(|overlay| (overlay.from_turn, overlay.to_turn))
    }

    /// Whether an element is one that a strategy can be sent: those of JP may be no objects.
    pub(crate) fn is_object(&self, element: usize) -> bool {
        !self.is_encoded() || self.at(self.events()[element].span).first() == Some(&b'{')
    }

    /// The text of a JSON string that lies at `span`.
    #[must_use]
    pub fn text(&self, span: Span) -> Cow<'_, str> {
        text::unquote(self.at(span))
    }

    /// The content of a tool response, base64 undone.
    #[must_use]
    pub fn stored_text(&self, span: Span) -> String {
        let text = self.text(span);
        if self.is_encoded() { text::decode(&text).into_owned() } else { text.into_owned() }
    }

    /// The value that lies at `span`. Nothing for an absent one.
    #[must_use]
    pub fn value(&self, span: Span) -> Option<Value> {
        // What the index let through can be read; see the property in `json`.
        serde_json::from_slice(self.at(span)).ok()
    }
}
