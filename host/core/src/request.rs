//! A request to a strategy, made from a stream and from nothing else. No more is sent than the strategy's
//! description asks for (PROTOCOL.md, "describe" and "compact").

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use jiff::Timestamp;
use jp_compact_schema::{
    CompactRequest, CompactionRef, Context, Conversation, Description, EventLine, Events, EventsEnd, Input,
    Limits, Llm, Outline, PROTOCOL, PreviousSummary, Range, Scope, Tokens, ToolCallsRef, ToolHint, to_line,
};
use serde_json::{Map, Value};

use crate::decode;
use crate::event::Kind;
use crate::overlay::{Overlay, ToolPolicy};
use crate::stream::Stream;
use crate::survey::Survey;
use crate::turn::TurnRange;
use crate::view::Part;

/// What is asked, beside the stream.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Unique in the run; echoed in every reply.
    pub id: &'a str,
    /// How the strategy describes itself.
    pub description: &'a Description,
    /// The conversation's id, where it has one.
    pub conversation: Option<&'a str>,
    /// SHA-256 of the raw input, for a strategy that wants it.
    pub digest: Option<&'a str>,
    /// The turns to compact: closed over summaries, where the strategy produces one.
    pub range: TurnRange,
    /// The turns that were asked for.
    pub requested: TurnRange,
    /// The options, checked and with defaults filled in.
    pub options: &'a Map<String, Value>,
    /// How the user wants tools to be compacted, by name. The host applies them; a strategy may look.
    pub hints: &'a BTreeMap<String, ToolHint>,
    /// The time of the run.
    pub now: Timestamp,
    /// Whether a summary must be of exactly `range`.
    pub range_exact: bool,
    /// What the strategy has to keep to.
    pub limits: Limits,
    /// Whether nothing will be appended.
    pub dry_run: bool,
    /// The model behind `llm.complete`, for a strategy that needs one.
    pub llm: Option<&'a Llm>,
    /// The window of the model that the conversation is for; sent to whoever is told of a model at all.
    pub context_window: Option<u64>,
}

/// All of the request's lines: the header, and for `input: full` the events and the end.
#[must_use]
pub fn lines(survey: &Survey<'_>, ask: &Ask<'_>) -> Vec<u8> {
    if ask.description.input != Input::Full {
        return line(&header(survey, ask, None));
    }
    let mut events = Vec::new();
    let count = write_events(survey, ask, &mut events).unwrap_or_default();
    let mut lines = line(&header(survey, ask, Some(Events::Inline { count })));
    lines.append(&mut events);
    lines.extend(line(&EventsEnd::new(ask.id, count)));
    lines
}

/// Writes the event lines of `input: full`, and counts them. They depend on the scope and, but for the scope
/// `conversation`, on the range; on nothing else of what is asked.
///
/// # Errors
/// Those of `out`.
pub fn write_events(survey: &Survey<'_>, ask: &Ask<'_>, out: &mut impl Write) -> io::Result<u64> {
    let mut count = 0;
    for (seq, element) in events(survey, ask) {
        if let Some(event) = event_line(survey, seq, element) {
            out.write_all(&line(&event))?;
            count += 1;
        }
    }
    Ok(count)
}

/// A message as a line.
#[must_use]
pub fn line(message: &impl serde::Serialize) -> Vec<u8> {
    // Messages are structs of strings and numbers: writing them cannot fail.
    to_line(message).unwrap_or_default()
}

/// The turns that a strategy is told of.
#[must_use]
pub fn scope(survey: &Survey<'_>, ask: &Ask<'_>) -> TurnRange {
    match ask.description.scope {
        Scope::Conversation => {
            TurnRange::new(0, survey.stream.turns().saturating_sub(1)).unwrap_or(ask.range)
        }
        _ => ask.range,
    }
}

/// The request's header; `events` says how those of `input: full` come.
#[must_use]
pub fn header(survey: &Survey<'_>, ask: &Ask<'_>, events: Option<Events>) -> CompactRequest {
    let stream = survey.stream;
    let range = |range: TurnRange| Range { from_turn: range.from(), to_turn: range.to() };
    let scope = scope(survey, ask);
    let wants = |word| ask.description.wants(word);
    CompactRequest {
        r#type: jp_compact_schema::CompactTag::Compact,
        id: ask.id.to_owned(),
        protocol: PROTOCOL,
        strategy: ask.description.name.clone(),
        conversation: Conversation {
            id: ask.conversation.map(str::to_owned),
            format: stream.format().as_str().into(),
            turns: stream.turns(),
            events: stream.numbered().count() as u64,
            bytes: stream.bytes().len() as u64,
            digest: ask.digest.filter(|_| wants("digest")).map(str::to_owned),
        },
        range: range(ask.range),
        requested_range: range(ask.requested),
        range_exact: ask.range_exact,
        options: ask.options.clone(),
        context: Context {
            now: ask.now.to_string(),
            estimator: survey.estimate.estimator().name().into(),
            tokens: Tokens {
                raw: survey.estimate.stream_tokens(),
                view: survey.estimate.view_tokens(&survey.view),
                in_range: survey.raw_tokens_in(ask.range),
            },
            context_window: ask.context_window,
            target_tokens: None,
            llm: ask.llm.cloned(),
            turns: survey.turns.iter().filter(|turn| scope.contains(turn.turn)).cloned().collect(),
            compactions: stream
                .overlays()
                .iter()
                .filter(|overlay| overlay.is_applied())
                .map(reference)
                .collect(),
            tool_hints: ask.hints.clone(),
            previous_summaries: wants("previous_summaries").then(|| previous_summaries(stream)),
        },
        outline: (ask.description.input == Input::Outline).then(|| outline(survey, scope)),
        events,
        limits: ask.limits,
        answers: BTreeMap::new(),
        state: None,
        dry_run: ask.dry_run,
    }
}

/// An earlier overlay: its range and its kinds, never its text.
fn reference(overlay: &Overlay) -> CompactionRef {
    CompactionRef {
        from_turn: overlay.from_turn,
        to_turn: overlay.to_turn,
        summary: overlay.summary.is_some(),
        reasoning: overlay.reasoning,
        tool_calls: overlay.tool_calls.as_ref().map(|policy| match policy {
            ToolPolicy::Strip { request, response, .. } => {
                ToolCallsRef::Strip { request: *request, response: *response }
            }
            ToolPolicy::Omit => ToolCallsRef::Omit,
            ToolPolicy::Selective(_) => ToolCallsRef::Selective,
        }),
    }
}

fn previous_summaries(stream: &Stream) -> Vec<PreviousSummary> {
    let summary = |overlay: &Overlay| {
        let (from_turn, to_turn) = (overlay.from_turn, overlay.to_turn);
        overlay.summary.clone().map(|text| PreviousSummary { from_turn, to_turn, text })
    };
    stream.overlays().iter().filter(|overlay| overlay.is_applied()).filter_map(summary).collect()
}

/// The elements that carry a number and lie in the scope.
fn elements<'a>(stream: &'a Stream, scope: TurnRange) -> impl Iterator<Item = (u64, usize)> + 'a {
    stream.numbered().filter(move |(_, element)| scope.contains(stream.events()[*element].turn))
}

/// Those of them that are sent as events: an element that is no object is none.
fn events<'a>(survey: &'a Survey<'_>, ask: &Ask<'_>) -> impl Iterator<Item = (u64, usize)> + 'a {
    let stream = survey.stream;
    elements(stream, scope(survey, ask)).filter(|(_, element)| stream.is_object(*element))
}

fn event_line(survey: &Survey<'_>, seq: u64, element: usize) -> Option<EventLine> {
    let members = decode::raw(survey.stream, element)?;
    let event = serde_json::value::to_raw_value(&members).ok()?;
    let turn = survey.stream.events()[element].turn;
    Some(EventLine::new(seq, turn, survey.estimate.tokens(element), event))
}

/// The envelope of each event, in columns.
fn outline(survey: &Survey<'_>, scope: TurnRange) -> Outline {
    let stream = survey.stream;
    let rows = elements(stream, scope).count();
    let mut outline = Outline {
        seq: Vec::with_capacity(rows),
        turn: Vec::with_capacity(rows),
        r#type: Vec::with_capacity(rows),
        tool: Vec::with_capacity(rows),
        pair: Vec::with_capacity(rows),
        bytes: Vec::with_capacity(rows),
        tokens: Vec::with_capacity(rows),
        ..Outline::default()
    };
    let mut shown = vec![false; stream.events().len()];
    for item in survey.view.items() {
        if let Part::Kept(element) = item.part {
            shown[element] = true;
        }
    }
    let (mut types, mut tools) = (Table::default(), Table::default());
    for (seq, element) in elements(stream, scope) {
        let event = &stream.events()[element];
        let tool = survey.pairs.tool(stream, element);
        outline.seq.push(seq);
        outline.turn.push(event.turn);
        outline.r#type.push(types.place(&type_name(stream, element)));
        outline.tool.push(tool.map(|tool| tools.place(&tool)));
        outline.pair.push(survey.pairs.partner(element).and_then(|partner| stream.events()[partner].seq));
        outline.bytes.push(survey.estimate.bytes(element));
        outline.tokens.push(survey.estimate.tokens(element));
        if event.kind == (Kind::ToolResponse { is_error: true }) {
            outline.error.push(seq);
        }
        if !shown[element] {
            outline.hidden.push(seq);
        }
    }
    outline.types = types.names;
    outline.tools = tools.names;
    outline
}

/// What an element is called in an outline: JP's type, and for the assistant's words what they are.
fn type_name(stream: &Stream, element: usize) -> Cow<'static, str> {
    Cow::Borrowed(match stream.events()[element].kind {
        Kind::TurnStart => "turn_start",
        Kind::ChatRequest => "chat_request",
        Kind::Message => "message",
        Kind::Reasoning => "reasoning",
        Kind::Data => "data",
        Kind::ToolRequest => "tool_call_request",
        Kind::ToolResponse { .. } => "tool_call_response",
        Kind::InquiryRequest => "inquiry_request",
        Kind::InquiryResponse => "inquiry_response",
        Kind::ConfigDelta | Kind::Compaction | Kind::Overlay | Kind::Receipt | Kind::Unknown => {
            let value = stream.value(stream.events()[element].span);
            let name = value.as_ref().and_then(|value| value.get("type")).and_then(Value::as_str);
            return name.map_or("unknown".into(), |name| name.to_owned().into());
        }
    })
}

/// Names in the order in which they came up.
#[derive(Default)]
struct Table {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

/// So many names are looked through: hashing costs more.
const NAMES_FEW: usize = 16;

impl Table {
    fn place(&mut self, name: &str) -> usize {
        let few = &self.names[..self.names.len().min(NAMES_FEW)];
        if let Some(place) = few.iter().position(|other| other == name) {
            return place;
        }
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        if place >= NAMES_FEW {
            self.places.insert(name.to_owned(), place);
        }
        place
    }
}
