//! The stream: a transcript's bytes, the index of its events, and its overlays. It is made from bytes only, so that a
//! view can never be used as history (RFD 064, "Raw-Stream Invariant").

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_schema::ContentKind;
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::external::External;
use crate::index::{self, Index, MALFORMED, Unreadable};
use crate::overlay::{Overlay, ToolPolicy};
use crate::position::Position;
use crate::steps::Steps;
use crate::text;
use crate::turn::TurnRange;
use jp_compact_json::Span;

/// A transcript: raw events and overlays.
#[derive(Debug, Clone)]
pub struct Stream {
    index: Index,
    /// `None` for JP's own files.
    external: Option<Arc<External>>,
    /// Whether the last turn counts as closed, even with an unanswered call.
    is_ended: bool,
    overlays: Vec<Overlay>,
    /// The element of each `seq`.
    numbered: Vec<usize>,
    /// Computed on first use.
    steps: OnceLock<Steps>,
}

impl Stream {
    /// Parses the bytes of a JP `events.json`.
    ///
    /// # Errors
    /// When [`index::index`] rejects the bytes, or an overlay is malformed.
    pub fn parse(bytes: Bytes) -> Result<Self, Unreadable> {
        Self::from_index(index::index(bytes)?)
    }

    /// Parses the overlays of an index.
    ///
    /// # Errors
    /// When an overlay is malformed. If it is a `compaction`, JP would not load the conversation either.
    pub fn from_index(index: Index) -> Result<Self, Unreadable> {
        Self::read_overlays(index, None)
    }

    /// Makes the stream of a file in the format of another program.
    ///
    /// # Errors
    /// When an overlay is malformed.
    pub fn from_external(index: Index, external: External) -> Result<Self, Unreadable> {
        Self::read_overlays(index, Some(Arc::new(external)))
    }

    fn read_overlays(index: Index, external: Option<Arc<External>>) -> Result<Self, Unreadable> {
        let mut overlays = Vec::new();
        let mut numbered = Vec::with_capacity(index.events.len());
        for (element, event) in index.events.iter().enumerate() {
            if event.kind.is_overlay() {
                let overlay =
                    Overlay::parse(element, event, index.bytes_at(event.span)).map_err(|reason| {
                        let kind = match event.kind {
                            Kind::Overlay => index::OVERLAY,
                            Kind::StepOverlay => index::STEP_OVERLAY,
                            _ => "compaction",
                        };
                        let reason = format!("{MALFORMED}`{kind}`: {reason}");
                        Unreadable { offset: event.span.start, element: Some(element), reason }
                    })?;
                overlays.push(overlay);
            }
            if event.seq.is_some() {
                numbered.push(element);
            }
        }
        Ok(Self { index, external, is_ended: false, overlays, numbered, steps: OnceLock::new() })
    }

    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.index.bytes
    }

    /// Returns the size of the file.
    #[must_use]
    pub fn size(&self) -> usize {
        self.index.size
    }

    /// Returns the name of the format, as in requests to strategies.
    #[must_use]
    pub fn format_name(&self) -> &'static str {
        self.external.as_ref().map_or("jp", |external| external.format)
    }

    #[must_use]
    pub fn is_jp(&self) -> bool {
        self.external.is_none()
    }

    /// Returns the data of the format's reader. `None` for JP's own files.
    #[must_use]
    pub fn external(&self) -> Option<&External> {
        self.external.as_deref()
    }

    /// Returns whether texts can be in base64, as in JP's own files.
    pub fn is_encoded(&self) -> bool {
        self.external.is_none()
    }

    pub fn bytes_at(&self, span: Span) -> &[u8] {
        self.index.bytes_at(span)
    }

    /// Returns the arguments of a call as an object. Some formats store them as a string. Null and an empty string
    /// become `{}`. Any other value becomes the member `input` of an object.
    pub fn arguments(&self, event: &Event) -> Value {
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

    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the offset after the last element. An append changes no byte before it.
    #[must_use]
    pub fn body_end(&self) -> usize {
        self.index.body_end
    }

    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.index.events
    }

    #[must_use]
    pub fn overlays(&self) -> &[Overlay] {
        &self.overlays
    }

    #[must_use]
    pub fn turns(&self) -> usize {
        self.index.turns
    }

    /// Returns the step of each event. Computed on first use.
    #[must_use]
    pub fn steps(&self) -> &Steps {
        self.steps.get_or_init(|| Steps::new(&self.index, self.external()))
    }

    /// Returns the number of the model's response that an element belongs to. 0 if the format has no such numbers.
    #[must_use]
    pub fn response(&self, element: usize) -> u32 {
        let external_event = self.external().and_then(|external| external.events.get(element));
        external_event.map_or(0, |event| event.response)
    }

    /// Returns whether a range contains an element. Steps are computed only if the range begins or ends inside a turn.
    #[must_use]
    pub fn is_in(&self, range: TurnRange, element: usize) -> bool {
        let turn = self.events()[element].turn;
        if range.cuts(turn) {
            return range.contains_step(turn, self.steps().step(element));
        }
        range.contains(turn)
    }

    /// Returns the element with the number `seq`.
    #[must_use]
    pub fn element(&self, seq: u64) -> Option<usize> {
        self.numbered.get(usize::try_from(seq).ok()?).copied()
    }

    /// Iterates over the numbered elements as `(seq, element)`.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        (0..).zip(self.numbered.iter().copied())
    }

    /// Iterates over the bytes of the numbered elements: the raw input. A digest of them does not depend on overlays or
    /// changes of the configuration.
    pub fn raw_input(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.numbered.iter().map(|element| self.bytes_at(self.events()[*element].span))
    }

    /// Same as [`Stream::raw_input`], for the events of `range` only.
    pub fn raw_input_of(&self, range: TurnRange) -> impl Iterator<Item = &[u8]> + '_ {
        let is_inside = move |element: &&usize| self.is_in(range, **element);
        self.numbered.iter().filter(is_inside).map(|element| self.bytes_at(self.events()[*element].span))
    }

    /// Adds the overlays and receipts of another index, such as a sidecar's. Its other elements are ignored.
    ///
    /// # Errors
    /// When an overlay is malformed.
    pub fn with_overlays(self, overlays: &Index) -> Result<Self, Unreadable> {
        let mut index = self.index;
        let offset = index.size + index.generated.len();
        // The turn numbers of the other index are not this stream's.
        let turn = index.turns.saturating_sub(1);
        for event in &overlays.events {
            if event.kind.is_overlay() || event.kind == Kind::Receipt {
                let span = Span { start: event.span.start + offset, end: event.span.end + offset };
                index.events.push(Event { span, turn, ..*event });
            }
        }
        index.generated = match index.generated.is_empty() {
            true => overlays.bytes.clone(),
            false => [index.generated, overlays.bytes.clone()].concat().into(),
        };
        Ok(Self { is_ended: self.is_ended, ..Self::read_overlays(index, self.external)? })
    }

    /// Returns the stream without overlays and receipts.
    #[must_use]
    pub fn without_overlays(&self) -> Self {
        let is_kept = |event: &Event| !event.kind.is_overlay() && event.kind != Kind::Receipt;
        // In the files of other programs, overlays and receipts are the last elements, so the others keep their
        // indexes.
        self.with_events(self.events().iter().filter(|event| is_kept(event)).copied().collect())
    }

    /// Returns the stream with only its first `elements` elements, and without overlays.
    #[must_use]
    pub fn prefix(&self, elements: usize) -> Self {
        self.with_events(self.events()[..elements.min(self.events().len())].to_vec())
    }

    /// Returns the stream with only these events, which are some of its own, and without overlays.
    fn with_events(&self, events: Vec<Event>) -> Self {
        let turns = events.iter().filter(|event| event.kind.is_conversation()).map(|event| event.turn + 1);
        let index = Index {
            turns: turns.max().unwrap_or_default(),
            unloadable: self.index.unloadable.filter(|element| *element < events.len()),
            bytes: self.index.bytes.clone(),
            kept: self.index.kept.clone(),
            generated: self.index.generated.clone(),
            events,
            ..self.index
        };
        let numbered = (0..index.events.len()).filter(|element| index.events[*element].seq.is_some());
        let numbered = numbered.collect();
        let external = self.external.clone();
        Self {
            index,
            external,
            is_ended: self.is_ended,
            overlays: Vec::new(),
            numbered,
            steps: OnceLock::new(),
        }
    }

    /// Returns the stream with a last turn that counts as closed.
    #[must_use]
    pub fn ended(self) -> Self {
        Self { is_ended: true, ..self }
    }

    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Marks the overlay at `index` in [`Stream::overlays`] as stale: it was made for other events.
    pub fn mark_stale(&mut self, index: usize) {
        if let Some(overlay) = self.overlays.get_mut(index) {
            overlay.stale = true;
        }
    }

    #[must_use]
    pub fn conversation_events(&self) -> usize {
        self.events().iter().filter(|event| event.kind.is_conversation()).count()
    }

    /// Returns the start time of each turn, the time of its first conversation event.
    #[must_use]
    pub fn turn_starts(&self) -> Vec<Timestamp> {
        let mut starts = Vec::with_capacity(self.turns());
        for event in self.events() {
            if event.kind.is_conversation() && event.turn == starts.len() {
                starts.extend(event.timestamp);
            }
        }
        starts
    }

    /// Returns the position after the greatest end of all overlays that are not stale, or turn 0. This is the value of
    /// the bound `last`. After the greatest possible number it wraps to 0, as in JP.
    #[must_use]
    pub fn after_last_overlay(&self) -> Position {
        position_after(self.overlays.iter().filter(|overlay| !overlay.stale))
    }

    /// Same as [`Stream::after_last_overlay`], for applied overlays with a policy for one of `kinds` only.
    #[must_use]
    pub fn after_last_overlay_of(&self, kinds: &[ContentKind]) -> Position {
        let has_policy = |overlay: &&Overlay| {
            kinds.iter().any(|kind| match kind {
                ContentKind::Summary => overlay.summary.is_some(),
                ContentKind::Reasoning => overlay.reasoning.is_some(),
                // A selective policy does not concern the other calls in its turns.
                ContentKind::ToolCalls => {
                    matches!(overlay.tool_calls, Some(ToolPolicy::Strip { .. } | ToolPolicy::Omit))
                }
                _ => false,
            })
        };
        position_after(self.overlays.iter().filter(|overlay| overlay.is_applied()).filter(has_policy))
    }

    /// Iterates over the ranges of the overlays with a summary, clamped to the end of the stream.
    pub fn summaries(&self) -> impl Iterator<Item = TurnRange> + Clone {
        let summaries = self.overlays.iter().filter(|overlay| overlay.summary.is_some());
        summaries.filter_map(|overlay| overlay.effective_range(self.turns()))
    }

    /// Returns whether an element is an object. In JP's files it can be any value. Strategies receive only objects.
    pub fn is_object(&self, element: usize) -> bool {
        !self.is_encoded() || self.bytes_at(self.events()[element].span).first() == Some(&b'{')
    }

    /// Returns the text of the JSON string at `span`.
    #[must_use]
    pub fn text(&self, span: Span) -> Cow<'_, str> {
        text::unquote(self.bytes_at(span))
    }

    /// Returns the content of a tool response, with decoded base64.
    #[must_use]
    pub fn stored_text(&self, span: Span) -> String {
        let text = self.text(span);
        if self.is_encoded() { text::decode(&text).into_owned() } else { text.into_owned() }
    }

    /// Returns the value at `span`. `None` for an absent value.
    #[must_use]
    pub fn value(&self, span: Span) -> Option<Value> {
        // Any value that passed the index can be read. See the property test in `json`.
        serde_json::from_slice(self.bytes_at(span)).ok()
    }
}

/// Returns the position after the greatest end of these overlays, or turn 0.
fn position_after<'a>(overlays: impl Iterator<Item = &'a Overlay>) -> Position {
    let ends = overlays.map(|overlay| Position { turn: overlay.to_turn, step: overlay.to_step }.after());
    ends.max_by_key(|end| end.start_key()).unwrap_or(Position::turn(0))
}
