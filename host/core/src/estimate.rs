//! The estimation of tokens. The default counts the pieces of each text (`jp-compact-tokens`). The alternative is a
//! tokenizer that the caller passes. Both count the tokens of a request body: its texts as JSON strings, tool names,
//! ids, arguments, and the JSON around each message, call, and result (docs/decisions/0024-pieces.md).
//!
//! Metadata and inquiries do not count. Texts in base64 count in their decoded form. The estimate of an image is fixed
//! ([`IMAGE_TOKENS`]), and the estimate of encrypted reasoning depends on its size ([`ENVELOPE_BYTES`]). An event's
//! *content* is the part that a strip can remove. The *frame* is the rest: names, ids, and JSON.
//!
//! The estimate of a view is the sum of the estimates of its events, so an overlay changes only the estimates of the
//! events that it hides or replaces. Weights are summed before they are rounded up to tokens. A nonempty text never
//! counts as 0, so a strategy can distinguish stripped content (0) from short content.

mod arguments;

use std::iter::Sum;
use std::ops::{Add, Range};

use jp_compact_tokens::{Frames, PieceCounts, WEIGHT_PER_TOKEN};
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::external::ExternalEvent;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;
use crate::view::{Part, SUMMARY_REQUEST, View, note_text};
use jp_compact_json::Span;

/// Tokens of an image: Anthropic's maximum (1,568), rounded up. The size of an image is unknown here.
pub const IMAGE_TOKENS: u64 = 1_600;
/// The number of bytes of encrypted reasoning that are overhead and not reasoning.
pub const ENVELOPE_BYTES: u64 = 650;

/// The line that readers write into an event's text for each image.
pub const IMAGE_LINE: &str = "[image]";

/// The method of counting tokens.
#[derive(Debug, Clone, Copy, Default)]
pub enum Estimator {
    /// The pieces of each text, weighed.
    #[default]
    Pieces,
    /// The tokenizer `o200k`. The caller passes it, because its tables are in a separate executable.
    Exact(fn(&str) -> u64),
}

impl Estimator {
    /// Returns the name in requests and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pieces => jp_compact_tokens::NAME,
            Self::Exact(_) => "o200k",
        }
    }

    /// Counts the tokens of a text, without a frame.
    #[must_use]
    pub fn tokens(self, text: &str) -> u64 {
        tokens(self.measure(text).content)
    }

    /// Measures a text as a JSON string without quotes.
    fn measure(self, text: &str) -> Measure {
        match self {
            Self::Pieces => PieceCounts::of_text(text.as_bytes()).into(),
            Self::Exact(count) => {
                let json = Value::from(text).to_string();
                let count = count(&json[1..json.len() - 1]);
                Measure { content: count * WEIGHT_PER_TOKEN, bytes: text.len() as u64, frame: 0 }
            }
        }
    }

    /// Measures the JSON string at a span.
    fn measure_string(self, stream: &Stream, span: Span) -> Measure {
        match self {
            Self::Pieces => PieceCounts::of_json_string(stream.bytes_at(span)).unwrap_or_default().into(),
            Self::Exact(_) => self.measure(&stream.text(span)),
        }
    }

    /// Returns the weight of each byte of an id, in addition to the weight of its text.
    fn id_byte_weight(self) -> u64 {
        match self {
            Self::Pieces => Frames::ID_BYTE,
            Self::Exact(_) => 0,
        }
    }

    /// Returns the weight of the JSON around an event's content.
    fn frame(self, stream: &Stream, event: &Event) -> u64 {
        let text = |span| self.measure_string(stream, span);
        let id = || {
            let id = text(event.id);
            id.content + self.id_byte_weight() * id.bytes
        };
        match event.kind {
            // Providers refuse an empty text, so it is not sent.
            Kind::ChatRequest | Kind::Message if event.body.len() <= 2 => 0,
            Kind::ChatRequest | Kind::Message | Kind::Data | Kind::Reasoning => Frames::MESSAGE,
            Kind::ToolRequest => Frames::CALL + id() + text(event.name).content,
            Kind::ToolResponse { .. } => Frames::CALL + id(),
            _ => 0,
        }
    }
}

/// Converts a weight to tokens.
#[must_use]
pub fn tokens(weight: u64) -> u64 {
    weight.div_ceil(WEIGHT_PER_TOKEN)
}

#[derive(Debug, Clone)]
pub struct Estimate {
    estimator: Estimator,
    measures: Vec<Measure>,
}

/// The weights and the size of an event or a text. One pass over the text measures its weight and its size.
#[derive(Debug, Clone, Copy, Default)]
struct Measure {
    content: u64,
    frame: u64,
    /// The size of the decoded text.
    bytes: u64,
}

impl Measure {
    /// The JSON around a key or a value of arguments.
    const ARGUMENT: Self = Self { content: Frames::ARGUMENT, frame: 0, bytes: 0 };

    fn weight(self) -> u64 {
        self.content + self.frame
    }
}

impl From<PieceCounts> for Measure {
    fn from(pieces: PieceCounts) -> Self {
        Self { content: pieces.weight(), frame: 0, bytes: pieces.bytes }
    }
}

impl Add for Measure {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            content: self.content + other.content,
            frame: self.frame + other.frame,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sum for Measure {
    fn sum<I: Iterator<Item = Self>>(measures: I) -> Self {
        measures.fold(Self::default(), Add::add)
    }
}

impl Estimate {
    #[must_use]
    pub fn new(stream: &Stream, estimator: Estimator) -> Self {
        Self::of_elements(stream, 0..stream.events().len(), estimator)
    }

    /// Measures some of the elements, for [`Self::append`].
    #[must_use]
    pub fn of_elements(stream: &Stream, elements: Range<usize>, estimator: Estimator) -> Self {
        let mut buffer = Vec::new();
        let measures = elements.map(|element| {
            let event = &stream.events()[element];
            let text = measure_event(stream, event, &mut buffer, estimator);
            let content = text.content + weight_outside_text(stream, element, event);
            Measure { content, frame: estimator.frame(stream, event), ..text }
        });
        Self { estimator, measures: measures.collect() }
    }

    /// Adds the measures of the next elements.
    pub fn append(&mut self, next: &Self) {
        self.measures.extend_from_slice(&next.measures);
    }

    /// Returns the estimate of `part`, which begins like the measured stream, and then has only overlays and receipts.
    #[must_use]
    pub fn for_part(&self, part: &Stream) -> Self {
        let is_own = |event: &&Event| !event.kind.is_overlay() && event.kind != Kind::Receipt;
        let own = part.events().iter().take_while(is_own).count();
        let mut measures = self.measures[..own.min(self.measures.len())].to_vec();
        measures.resize(part.events().len(), Measure::default());
        Self { estimator: self.estimator, measures }
    }

    #[must_use]
    pub fn estimator(&self) -> Estimator {
        self.estimator
    }

    #[must_use]
    pub fn weight(&self, element: usize) -> u64 {
        self.measures[element].weight()
    }

    /// Returns the weight of the part of an element that a strip can remove.
    #[must_use]
    pub(crate) fn content_weight(&self, element: usize) -> u64 {
        self.measures[element].content
    }

    /// Returns the size of an element's decoded text.
    #[must_use]
    pub(crate) fn bytes(&self, element: usize) -> u64 {
        self.measures[element].bytes
    }

    #[must_use]
    pub fn tokens(&self, element: usize) -> u64 {
        tokens(self.weight(element))
    }

    /// Returns the weight of an element of a view.
    #[must_use]
    pub fn part_weight(&self, part: &Part) -> u64 {
        self.measure_part(part).weight()
    }

    /// Returns the size of an element of a view.
    #[must_use]
    pub(crate) fn part_bytes(&self, part: &Part) -> u64 {
        self.measure_part(part).bytes
    }

    fn measure_part(&self, part: &Part) -> Measure {
        let frame_of = |element: usize| self.measures[element].frame;
        let framed = |text: &str, frame| Measure { frame, ..self.estimator.measure(text) };
        match part {
            Part::Kept(element) | Part::Short(element) => self.measures[*element],
            Part::Emptied(element) => Measure { frame: frame_of(*element), ..Measure::default() },
            Part::Replaced(element, text) => framed(text, frame_of(*element)),
            Part::SummaryStart { .. } => Measure::default(),
            Part::SummaryResponse { text, .. } => framed(text, Frames::MESSAGE),
            Part::SummaryRequest { .. } => framed(SUMMARY_REQUEST, Frames::MESSAGE),
            Part::SummaryNote { text, .. } => framed(&note_text(text), Frames::MESSAGE),
        }
    }

    #[must_use]
    pub fn stream_tokens(&self) -> u64 {
        tokens(self.measures.iter().map(|measure| measure.weight()).sum())
    }

    #[must_use]
    pub fn view_tokens(&self, view: &View) -> u64 {
        tokens(view.items().iter().map(|item| self.part_weight(&item.part)).sum())
    }
}

/// Counts the characters of the raw events of a range. Stops when the count exceeds `limit`.
#[must_use]
pub fn chars_in(stream: &Stream, range: TurnRange, limit: u64) -> u64 {
    let (mut buffer, mut sum) = (Vec::new(), 0);
    let events = stream.events().iter().enumerate();
    for (_, event) in events.filter(|(element, _)| stream.is_in(range, *element)) {
        for_each_text(stream, event, &mut buffer, &mut |text| sum += text.chars().count() as u64);
        if sum > limit {
            break;
        }
    }
    sum
}

/// Counts the images in an element. Readers write one line per image into the text that they generate.
pub(crate) fn images(stream: &Stream, event: &Event) -> u64 {
    let is_generated = event.body.start >= stream.size() && !event.body.is_empty();
    let can_have_images = matches!(event.kind, Kind::ChatRequest | Kind::Message | Kind::ToolResponse { .. });
    if !can_have_images || !is_generated || stream.external().is_none() {
        return 0;
    }
    // Few texts contain such a line. Only these are decoded.
    if memchr::memmem::find(stream.bytes_at(event.body), IMAGE_LINE.as_bytes()).is_none() {
        return 0;
    }
    stream.text(event.body).lines().filter(|line| *line == IMAGE_LINE).count() as u64
}

/// Returns the tokens of a view that no text shows: images and encrypted reasoning.
#[must_use]
pub fn tokens_outside_text(stream: &Stream, view: &View) -> u64 {
    let weights = view.items().iter().map(|item| match item.part {
        Part::Kept(element) | Part::Short(element) => {
            weight_outside_text(stream, element, &stream.events()[element])
        }
        _ => 0,
    });
    tokens(weights.sum())
}

/// Returns the weight of an element's images and encrypted reasoning.
fn weight_outside_text(stream: &Stream, element: usize, event: &Event) -> u64 {
    let encrypted = match stream.external().and_then(|external| external.events.get(element)) {
        Some(source) if event.kind == Kind::Reasoning => encrypted_bytes(stream, source),
        _ => 0,
    };
    // Base64 has 4 characters for 3 bytes. A token has about 4 bytes.
    let reasoning_tokens = (encrypted * 3 / 4).saturating_sub(ENVELOPE_BYTES) / 4;
    (images(stream, event) * IMAGE_TOKENS + reasoning_tokens) * WEIGHT_PER_TOKEN
}

/// Returns the size of reasoning that only its provider can read.
fn encrypted_bytes(stream: &Stream, source: &ExternalEvent) -> u64 {
    const REDACTED: &str = "anthropic_redacted_thinking";
    let signature = source.signature.as_deref().filter(|(name, _)| *name == REDACTED);
    let in_signature = signature.map_or(0, |(_, span)| span.len());
    let metadata = stream.value(source.metadata).filter(|_| !source.metadata.is_empty());
    let length = |name: &str| metadata.as_ref()?.get(name)?.as_str().map(str::len);
    let in_metadata = length("openai_encrypted_content").or_else(|| length(REDACTED));
    (in_signature + in_metadata.unwrap_or_default()) as u64
}

/// Measures the decoded text of one element.
fn measure_event(stream: &Stream, event: &Event, buffer: &mut Vec<u8>, estimator: Estimator) -> Measure {
    let (body, is_encoded) = (event.body, stream.is_encoded());
    if let Estimator::Pieces = estimator {
        match event.kind {
            Kind::ChatRequest | Kind::Message | Kind::Reasoning => {
                return estimator.measure_string(stream, body);
            }
            Kind::ToolResponse { .. } if !is_encoded => return estimator.measure_string(stream, body),
            Kind::ToolRequest => {
                let raw = stream.bytes_at(body);
                if let Some(measure) = arguments::measure(raw, is_encoded, buffer) {
                    return measure;
                }
            }
            _ => {}
        }
    }
    let argument = if event.kind == Kind::ToolRequest { Measure::ARGUMENT } else { Measure::default() };
    let mut sum = Measure::default();
    for_each_text(stream, event, buffer, &mut |text| sum = sum + estimator.measure(text) + argument);
    sum
}

/// Calls `read` with each decoded text of one element.
fn for_each_text(stream: &Stream, event: &Event, buffer: &mut Vec<u8>, read: &mut dyn FnMut(&str)) {
    let body = event.body;
    match event.kind {
        Kind::ChatRequest | Kind::Message | Kind::Reasoning => read(&stream.text(body)),
        Kind::Data => read(std::str::from_utf8(stream.bytes_at(body)).unwrap_or_default()),
        Kind::ToolResponse { .. } if !stream.is_encoded() => read(&stream.text(body)),
        Kind::ToolResponse { .. } => text::with_stored(stream.bytes_at(body), buffer, read),
        Kind::ToolRequest if !stream.is_encoded() => {
            for_each_argument(&stream.arguments(event), &mut |text, _| read(text));
        }
        Kind::ToolRequest => {
            for_each_argument(&stream.value(body).unwrap_or_default(), &mut |text, is_key| match is_key {
                true => read(text),
                false => text::with_decoded(text, buffer, &mut *read),
            });
        }
        _ => {}
    }
}

/// Calls `read` with every key and value below `value`. The flag marks keys and literals, which are never encoded.
fn for_each_argument(value: &Value, read: &mut dyn FnMut(&str, bool)) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => read(&value.to_string(), true),
        Value::String(text) => read(text, false),
        Value::Array(items) => items.iter().for_each(|item| for_each_argument(item, read)),
        Value::Object(members) => {
            for (key, value) in members {
                read(key, true);
                for_each_argument(value, read);
            }
        }
    }
}
