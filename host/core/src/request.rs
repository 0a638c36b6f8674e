//! Requests to strategies. They are made from a stream, never from a view. A request contains only the data that the
//! strategy's description asks for (PROTOCOL.md, "describe" and "compact").

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use jiff::Timestamp;
use jp_compact_schema::version::{COMPACT_DEADLINE_MS, RESULT_BYTES_MAX};
use jp_compact_schema::{
    CompactRequest, CompactionRef, ContentKind, Context, Conversation, Description, EventLine, Events,
    EventsEnd, HIDDEN, Input, Limits, Llm, Outline, PROTOCOL, PreviousSummary, Range, RequestReason, STEPS,
    Scope, Tokens, ToolCallsRef, ToolHint, Turn, to_line,
};
use serde_json::{Map, Value};

use crate::decode;
use crate::event::Kind;
use crate::hints;
use crate::overlay::{Overlay, ToolPolicy};
use crate::projection::shown_in_range;
use crate::receipts::receipts;
use crate::stream::Stream;
use crate::survey::Survey;
use crate::turn::TurnRange;
use crate::view::Part;

/// The parameters of a request, in addition to the stream.
#[derive(Debug, Clone)]
pub struct RequestParameters<'a> {
    /// Unique in the run. Every reply repeats it.
    pub id: &'a str,
    /// The strategy's description of itself.
    pub description: &'a Description,
    /// The conversation's id, if it has one.
    pub conversation: Option<&'a str>,
    /// SHA-256 of the raw input. Sent only if the strategy wants it.
    pub digest: Option<&'a str>,
    /// The turns to compact. For a strategy that writes summaries, extended over older summaries (see `overlap.rs`).
    pub range: TurnRange,
    /// The turns that the user requested.
    pub requested_range: TurnRange,
    /// The options, checked and with defaults filled in.
    pub options: &'a Map<String, Value>,
    /// The user's policies for single tools, by name. The host applies them. Strategies may read them.
    pub hints: &'a BTreeMap<String, ToolHint>,
    pub now: Timestamp,
    /// Whether a summary must cover exactly `range`.
    pub range_exact: bool,
    pub limits: Limits,
    /// Whether the reply is only reported, and not appended.
    pub dry_run: bool,
    /// The model that `llm.complete` calls, if the strategy needs one.
    pub llm: Option<&'a Llm>,
    /// The context window of the conversation's model, if it is known.
    pub context_window: Option<u64>,
}

impl<'a> RequestParameters<'a> {
    /// Creates parameters for exactly the turns of `range`, with the protocol's limits. The optional parameters are empty.
    #[must_use]
    pub fn new(
        id: &'a str,
        description: &'a Description,
        range: TurnRange,
        options: &'a Map<String, Value>,
        now: Timestamp,
    ) -> Self {
        static NO_HINTS: BTreeMap<String, ToolHint> = BTreeMap::new();
        Self {
            id,
            description,
            conversation: None,
            digest: None,
            range,
            requested_range: range,
            options,
            hints: &NO_HINTS,
            now,
            range_exact: false,
            limits: Limits {
                deadline_ms: COMPACT_DEADLINE_MS,
                result_bytes_max: RESULT_BYTES_MAX,
                needs_many: false,
            },
            dry_run: false,
            llm: None,
            context_window: None,
        }
    }
}

/// Returns all lines of the request: the header and, for `input: full`, the events and the line that ends them.
#[must_use]
pub fn lines(survey: &Survey<'_>, parameters: &RequestParameters<'_>) -> Vec<u8> {
    let (header, events) = header_and_events(survey, parameters);
    let mut lines = line(&header);
    if let Some((mut events, count)) = events {
        lines.append(&mut events);
        lines.extend(line(&EventsEnd::new(parameters.id, count)));
    }
    lines
}

/// Returns the request's header and, for `input: full`, the event lines and their number.
#[must_use]
pub fn header_and_events(
    survey: &Survey<'_>,
    parameters: &RequestParameters<'_>,
) -> (CompactRequest, Option<(Vec<u8>, u64)>) {
    if parameters.description.input != Input::Full {
        return (header(survey, parameters, None), None);
    }
    let mut events = Vec::new();
    let count = write_events(survey, parameters, &mut events).unwrap_or_default();
    (header(survey, parameters, Some(Events::Inline { count })), Some((events, count)))
}

/// Writes the event lines of `input: full`, and returns their number. With the scope `conversation`, the lines are the same
/// for every range.
///
/// # Errors
/// The errors of `out`.
pub fn write_events(
    survey: &Survey<'_>,
    parameters: &RequestParameters<'_>,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut count = 0;
    let steps = parameters.description.has_feature(STEPS).then(|| survey.stream.steps());
    let shown = parameters.description.wants(HIDDEN).then(|| shown_elements(survey));
    for (seq, element) in events(survey, parameters) {
        if let Some(mut event) = event_line(survey, seq, element) {
            event.step = steps.and_then(|steps| steps.step(element));
            event.hidden = shown.as_ref().is_some_and(|shown| !shown[element]);
            out.write_all(&line(&event))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Serializes a message as a line.
#[must_use]
pub fn line(message: &impl serde::Serialize) -> Vec<u8> {
    // Cannot fail: messages are structs of strings and numbers.
    to_line(message).unwrap_or_default()
}

/// Returns the turns that the strategy receives.
#[must_use]
pub fn scope(survey: &Survey<'_>, parameters: &RequestParameters<'_>) -> TurnRange {
    match parameters.description.scope {
        Scope::Conversation => {
            TurnRange::new(0, survey.stream.turns().saturating_sub(1)).unwrap_or(parameters.range)
        }
        _ => parameters.range,
    }
}

/// Returns the request's header. `events` describes how the events of `input: full` are sent.
#[must_use]
pub fn header(
    survey: &Survey<'_>,
    parameters: &RequestParameters<'_>,
    events: Option<Events>,
) -> CompactRequest {
    let stream = survey.stream;
    let scope = scope(survey, parameters);
    let has_steps = parameters.description.has_feature(STEPS);
    // A strategy without the feature would read an overlay of steps as an overlay of whole turns.
    let is_sent = |overlay: &Overlay| overlay.is_applied() && (has_steps || !overlay.has_steps());
    let wants = |member| parameters.description.wants(member);
    CompactRequest {
        r#type: jp_compact_schema::CompactTag::Compact,
        id: parameters.id.to_owned(),
        protocol: PROTOCOL,
        strategy: parameters.description.name.clone(),
        conversation: Conversation {
            id: parameters.conversation.map(str::to_owned),
            format: stream.format_name().into(),
            turns: stream.turns(),
            events: stream.numbered().count() as u64,
            bytes: stream.bytes().len() as u64,
            digest: parameters.digest.filter(|_| wants("digest")).map(str::to_owned),
        },
        range: range_message(parameters.range),
        requested_range: range_message(parameters.requested_range),
        range_exact: parameters.range_exact,
        reason: parameters.range_exact.then_some(RequestReason::Overlap),
        options: parameters.options.clone(),
        context: Context {
            now: parameters.now.to_string(),
            estimator: survey.estimate.estimator().name().into(),
            tokens: Tokens {
                raw: survey.estimate.stream_tokens(),
                view: survey.estimate.view_tokens(&survey.view),
                in_range: survey.raw_tokens_in(parameters.range),
            },
            context_window: parameters.context_window,
            target_tokens: None,
            llm: parameters.llm.cloned(),
            turns: turn_table(survey, parameters, scope),
            compactions: references(survey, parameters, is_sent),
            tool_hints: parameters.hints.clone(),
            previous_summaries: wants("previous_summaries").then(|| {
                stream
                    .overlays()
                    .iter()
                    .filter(|overlay| is_sent(overlay))
                    .filter_map(previous_summary)
                    .collect()
            }),
        },
        outline: (parameters.description.input == Input::Outline).then(|| outline(survey, scope, has_steps)),
        events,
        limits: parameters.limits,
        answers: BTreeMap::new(),
        state: None,
        dry_run: parameters.dry_run,
    }
}

fn range_message(range: TurnRange) -> Range {
    let (from, to) = (range.start(), range.end());
    Range { from_turn: from.turn, to_turn: to.turn, from_step: from.step, to_step: to.step }
}

/// Returns the table of the turns in the scope. The row of a turn that the range cuts counts only the events in the range.
fn turn_table(survey: &Survey<'_>, parameters: &RequestParameters<'_>, scope: TurnRange) -> Vec<Turn> {
    let mut rows: Vec<Turn> = survey.turns.iter().filter(|row| scope.contains(row.turn)).cloned().collect();
    if parameters.description.has_feature(STEPS) {
        let steps = survey.stream.steps();
        let rows_in_range = parameters.range.has_steps().then(|| survey.turn_table_in(parameters.range));
        for row in &mut rows {
            if let Some(rows_in_range) = rows_in_range.as_ref().filter(|_| parameters.range.cuts(row.turn)) {
                row.clone_from(&rows_in_range[row.turn]);
            }
            row.steps = Some(steps.count(row.turn));
        }
    }
    rows
}

/// Describes the earlier overlays by their ranges and policies, without the texts of summaries.
fn references(
    survey: &Survey<'_>,
    parameters: &RequestParameters<'_>,
    is_sent: impl Fn(&Overlay) -> bool,
) -> Vec<CompactionRef> {
    let (stream, pairs) = (survey.stream, &survey.pairs);
    if stream.overlays().is_empty() {
        return Vec::new();
    }
    let range = parameters.requested_range;
    let shown = shown_in_range(stream, pairs, range).overlays;
    let mut references = Vec::new();
    for (number, ((overlay, shown), receipts)) in
        (1..).zip(stream.overlays().iter().zip(shown).zip(receipts(stream)))
    {
        if !is_sent(overlay) {
            continue;
        }
        let kinds = [ContentKind::Summary, ContentKind::Reasoning, ContentKind::ToolCalls];
        references.push(CompactionRef {
            number: Some(number),
            strategies: receipts
                .iter()
                .filter_map(|receipt| receipt.get("strategy")?.as_str().map(str::to_owned))
                .collect(),
            from_turn: overlay.from_turn,
            to_turn: overlay.to_turn,
            from_step: overlay.from_step,
            to_step: overlay.to_step,
            summary: overlay.summary.is_some(),
            reasoning: overlay.reasoning,
            shown: kinds
                .into_iter()
                .filter(|kind| shown.shows(*kind))
                .map(|kind| kind.name().to_owned())
                .collect(),
            hints_changed: shown.tool_calls
                && hints::have_changed(stream, pairs, parameters.hints, overlay, range),
            tool_calls: overlay.tool_calls.as_ref().map(|policy| tool_calls_reference(policy, shown.seqs)),
        });
    }
    references
}

fn tool_calls_reference(policy: &ToolPolicy, seqs: Vec<u64>) -> ToolCallsRef {
    match policy {
        ToolPolicy::Strip { request, response, .. } => {
            ToolCallsRef::Strip { request: *request, response: *response }
        }
        ToolPolicy::Omit => ToolCallsRef::Omit,
        ToolPolicy::Selective(_) => ToolCallsRef::Selective { seqs },
    }
}

fn previous_summary(overlay: &Overlay) -> Option<PreviousSummary> {
    let &Overlay { from_turn, to_turn, from_step, to_step, .. } = overlay;
    overlay.summary.clone().map(|text| PreviousSummary { from_turn, to_turn, from_step, to_step, text })
}

/// Iterates over the numbered elements in the scope, and over the user's elements in the turns that the scope cuts.
fn elements<'a>(stream: &'a Stream, scope: TurnRange) -> impl Iterator<Item = (u64, usize)> + 'a {
    stream.numbered().filter(move |(_, element)| {
        stream.is_in(scope, *element)
            || (scope.cuts(stream.events()[*element].turn) && stream.steps().step(*element).is_none())
    })
}

/// Iterates over the elements that are sent as events. Elements that are not objects are not sent.
fn events<'a>(
    survey: &'a Survey<'_>,
    parameters: &RequestParameters<'_>,
) -> impl Iterator<Item = (u64, usize)> + 'a {
    let stream = survey.stream;
    elements(stream, scope(survey, parameters)).filter(|(_, element)| stream.is_object(*element))
}

fn event_line(survey: &Survey<'_>, seq: u64, element: usize) -> Option<EventLine> {
    let members = decode::raw(survey.stream, element)?;
    let event = serde_json::value::to_raw_value(&members).ok()?;
    let turn = survey.stream.events()[element].turn;
    Some(EventLine::new(seq, turn, survey.estimate.tokens(element), event))
}

/// Returns the metadata of the events in the scope, in columns.
fn outline(survey: &Survey<'_>, scope: TurnRange, has_steps: bool) -> Outline {
    let stream = survey.stream;
    let len = elements(stream, scope).count();
    let mut outline = Outline {
        seq: Vec::with_capacity(len),
        turn: Vec::with_capacity(len),
        r#type: Vec::with_capacity(len),
        tool: Vec::with_capacity(len),
        pair: Vec::with_capacity(len),
        bytes: Vec::with_capacity(len),
        tokens: Vec::with_capacity(len),
        ..Outline::default()
    };
    let shown = shown_elements(survey);
    let steps = has_steps.then(|| stream.steps());
    let (mut types, mut tools) = (NameTable::default(), NameTable::default());
    outline.step = steps.map(|_| Vec::with_capacity(len));
    for (seq, element) in elements(stream, scope) {
        let event = &stream.events()[element];
        let tool = survey.pairs.tool(stream, element);
        outline.seq.push(seq);
        outline.turn.push(event.turn);
        if let (Some(column), Some(steps)) = (&mut outline.step, steps) {
            column.push(steps.step(element));
        }
        outline.r#type.push(types.index_of(&type_name(stream, element)));
        outline.tool.push(tool.map(|tool| tools.index_of(&tool)));
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

/// Returns for each element whether the view shows it unchanged, and no strip applies to it.
fn shown_elements(survey: &Survey<'_>) -> Vec<bool> {
    let mut shown = vec![false; survey.stream.events().len()];
    for item in survey.view.items() {
        if let Part::Kept(element) = item.part {
            shown[element] = true;
        }
    }
    shown
}

/// Returns the type of an element in an outline: JP's type or, instead of `chat_response`, the kind of response.
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
        _ => {
            let value = stream.value(stream.events()[element].span);
            let name = value.as_ref().and_then(|value| value.get("type")).and_then(Value::as_str);
            return name.map_or("unknown".into(), |name| name.to_owned().into());
        }
    })
}

/// Names in the order of their first use, each with its index.
#[derive(Default)]
struct NameTable {
    names: Vec<String>,
    /// The indexes of the names from [`UNHASHED_NAMES`] on.
    indexes: HashMap<String, usize>,
}

/// The number of names that are found by comparison. For so few names, hashing is slower.
const UNHASHED_NAMES: usize = 16;

impl NameTable {
    /// Returns the index of a name. Adds the name if it is new.
    fn index_of(&mut self, name: &str) -> usize {
        let unhashed = &self.names[..self.names.len().min(UNHASHED_NAMES)];
        if let Some(index) = unhashed.iter().position(|other| other == name) {
            return index;
        }
        if let Some(index) = self.indexes.get(name) {
            return *index;
        }
        let index = self.names.len();
        self.names.push(name.to_owned());
        if index >= UNHASHED_NAMES {
            self.indexes.insert(name.to_owned(), index);
        }
        index
    }
}
