//! The validation of proposals: the only way from a strategy's reply to a [`Compaction`], which may be appended. It
//! lists every reason to reject one (PROTOCOL.md, "Replies").

use std::collections::{BTreeMap, BTreeSet};

use jp_compact_schema::version::{COMPACTIONS_MAX, SUMMARY_BYTES_MAX};
use jp_compact_schema::{ContentKind, Hint, Payload, Reasoning, SelectiveCall, ToolCalls, ToolHint};

use crate::estimate;
use crate::event::Kind;
use crate::halves::Halves;
use crate::overlap::{self, Overlap};
use crate::overlay::{StoredCall, ToolPolicy};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// The request that the proposal answers.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The stream that the request was made from.
    pub stream: &'a Stream,
    pub pairs: &'a Pairs,
    /// The request's `range`, which includes older summaries completely if the strategy produces one.
    pub range: TurnRange,
    /// The request's `requested_range`.
    pub requested: TurnRange,
    /// The strategy's `produces`.
    pub produces: &'a [ContentKind],
    /// Summaries accepted earlier in the same run. They count for overlap.
    pub accepted: &'a [TurnRange],
    /// Which overlaps extend a summary's range.
    pub overlap: Overlap,
    /// How the user wants tools to be compacted, by name. Stored with a `strip`, so that the projection needs only
    /// the stream (RFD D17, "Projection Integration").
    pub hints: &'a BTreeMap<String, ToolHint>,
    /// Whether the strategy has the feature `steps`. Otherwise its ranges have whole turns only.
    pub by_step: bool,
    /// Whether a model writes the summaries. If so, a summary that is not shorter than its events is rejected, because
    /// it misses its purpose, and was not free.
    pub by_model: bool,
}

impl<'a> Asked<'a> {
    /// Describes a request for exactly these turns, without tool hints, earlier summaries of the run, or a model.
    #[must_use]
    pub fn new(stream: &'a Stream, pairs: &'a Pairs, range: TurnRange, produces: &'a [ContentKind]) -> Self {
        static NO_HINTS: BTreeMap<String, ToolHint> = BTreeMap::new();
        Self {
            stream,
            pairs,
            range,
            requested: range,
            produces,
            by_step: false,
            accepted: &[],
            overlap: Overlap::default(),
            hints: &NO_HINTS,
            by_model: false,
        }
    }
}

/// A valid compaction. The host stamps and appends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    range: TurnRange,
    summary: Option<String>,
    reasoning: Option<Reasoning>,
    tool_calls: Option<ToolPolicy>,
}

impl Compaction {
    #[must_use]
    pub fn range(&self) -> TurnRange {
        self.range
    }

    /// The text that replaces the range.
    #[must_use]
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    #[must_use]
    pub fn reasoning(&self) -> Option<Reasoning> {
        self.reasoning
    }

    #[must_use]
    pub fn tool_calls(&self) -> Option<&ToolPolicy> {
        self.tool_calls.as_ref()
    }
}

/// The reason why a proposal is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A result without a compaction. The correct reply is a decline.
    Nothing,
    /// More compactions than a reply may have.
    TooMany(usize),
    /// The range ends before it starts.
    Inverted {
        from: Position,
        to: Position,
    },
    /// The range is not within the requested one.
    OutOfRange {
        /// The payload's range.
        range: TurnRange,
        /// The range that it must be in.
        asked: TurnRange,
    },
    /// A range with steps from a strategy without the feature `steps`.
    Stepped,
    /// A step that does not exist.
    NoSuchStep(Position),
    NoPolicy,
    /// A kind that is not in `produces`.
    NotProduced(&'static str),
    /// Two summaries of one reply overlap.
    SummariesOverlap(TurnRange, TurnRange),
    /// Only white space, which would erase the range.
    SummaryBlank,
    SummaryNul,
    /// More than 256 KiB.
    SummaryTooLong(usize),
    /// Not shorter than the events that it replaces: the view would grow.
    SummaryLarger {
        /// Characters of the summary.
        summary: u64,
        /// Characters of the raw events of its range.
        raw: u64,
    },
    /// The range includes only a part of an older summary.
    NotClosed {
        /// The payload's range.
        range: TurnRange,
        /// The range extended over older summaries.
        closed: TurnRange,
    },
    /// One half of a call is inside the range, the other is outside.
    SplitsCall {
        /// The payload's range.
        range: TurnRange,
        /// The turn of the request.
        request: usize,
        /// The turn of the response.
        response: usize,
    },
    SelectiveEmpty,
    /// An invalid entry in the list of calls.
    Call {
        /// The number in the entry.
        seq: u64,
        wrong: CallWrong,
    },
}

/// The error in one entry of a `selective` policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallWrong {
    /// Listed twice.
    Twice,
    Missing,
    /// Not half of a tool call.
    NoTool,
    /// Outside of the payload's range. The other half is outside too, because no range splits a call.
    Outside,
    /// `request` for a response.
    RequestOnResponse,
    /// `response` for a request.
    ResponseOnRequest,
    /// `omit` together with another policy.
    OmitAndMore,
    /// No policy.
    NoOpinion,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => {
                write!(out, "the result has no compaction; reply `decline` if there is nothing to do")
            }
            Self::TooMany(found) => {
                write!(out, "the result has {found} compactions; at most {COMPACTIONS_MAX} are allowed")
            }
            Self::Inverted { from, to } => {
                write!(out, "the turn range ends at {to}, before its start {from}")
            }
            Self::OutOfRange { range, asked } => {
                write!(out, "the compaction of {range} is not within the requested range, {asked}")
            }
            Self::Stepped => {
                write!(out, "the range has steps, but `features` does not list `steps`")
            }
            Self::NoSuchStep(at) => write!(out, "step {at} does not exist"),
            Self::NoPolicy => write!(out, "the compaction has no policy"),
            Self::NotProduced(kind) => {
                write!(out, "`{kind}` is not in the strategy's `produces`")
            }
            Self::SummariesOverlap(left, right) => write!(out, "two summaries overlap: {left} and {right}"),
            Self::SummaryBlank => write!(out, "the summary is blank, and would erase its range"),
            Self::SummaryNul => write!(out, "the summary contains a NUL character"),
            Self::SummaryTooLong(bytes) => {
                write!(out, "the summary has {bytes} bytes; at most {SUMMARY_BYTES_MAX} are allowed")
            }
            Self::SummaryLarger { summary, raw } => {
                write!(
                    out,
                    "the summary has {summary} characters, and must be shorter than its events, which have {raw}"
                )
            }
            Self::NotClosed { range, closed } => {
                write!(
                    out,
                    "range_not_closed: a summary of {range} partially overlaps an older one; a summary of {closed} does not"
                )
            }
            Self::SplitsCall { range, request, response } => {
                write!(out, "{range} would split a tool call between turns {request} and {response}")
            }
            Self::SelectiveEmpty => write!(out, "the selective policy lists no calls"),
            Self::Call { seq, wrong } => {
                let wrong = match wrong {
                    CallWrong::Twice => "is listed twice",
                    CallWrong::Missing => "does not exist",
                    CallWrong::NoTool => "is not half of a tool call",
                    CallWrong::Outside => "is outside the range",
                    CallWrong::RequestOnResponse => "is a response, but has a policy for requests",
                    CallWrong::ResponseOnRequest => "is a request, but has a policy for responses",
                    CallWrong::OmitAndMore => "is omitted, but has another policy too",
                    CallWrong::NoOpinion => "has no policy",
                };
                write!(out, "event {seq} {wrong}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Validates a whole reply. Either all payloads are valid, or none is accepted.
///
/// # Errors
/// The first reason to reject it.
pub fn validate(asked: &Asked<'_>, proposal: Vec<Payload>) -> Result<Vec<Compaction>, Refusal> {
    if proposal.is_empty() {
        return Err(Refusal::Nothing);
    }
    if proposal.len() > COMPACTIONS_MAX {
        return Err(Refusal::TooMany(proposal.len()));
    }
    let mut compactions: Vec<Compaction> = Vec::with_capacity(proposal.len());
    for payload in proposal {
        let compaction = validate_payload(asked, payload)?;
        if compaction.summary.is_some() {
            let range = compaction.range;
            let other = compactions.iter().filter(|other| other.summary.is_some()).map(Compaction::range);
            if let Some(other) = other.into_iter().find(|other| other.meets(range)) {
                return Err(Refusal::SummariesOverlap(other, range));
            }
        }
        compactions.push(compaction);
    }
    Ok(compactions)
}

fn validate_payload(asked: &Asked<'_>, payload: Payload) -> Result<Compaction, Refusal> {
    let range = range_of(asked, &payload)?;
    let bounds = if payload.summary.is_some() { asked.range } else { asked.requested };
    if !bounds.covers(range) {
        return Err(Refusal::OutOfRange { range, asked: bounds });
    }
    let kinds = [
        (ContentKind::Summary, "summary", payload.summary.is_some()),
        (ContentKind::Reasoning, "reasoning", payload.reasoning.is_some()),
        (ContentKind::ToolCalls, "tool_calls", payload.tool_calls.is_some()),
    ];
    if !kinds.iter().any(|(.., present)| *present) {
        return Err(Refusal::NoPolicy);
    }
    if let Some((_, name, _)) =
        kinds.iter().find(|(kind, _, present)| *present && !asked.produces.contains(kind))
    {
        return Err(Refusal::NotProduced(name));
    }
    if let Some((request, response)) = asked.pairs.split_by(asked.stream, range) {
        return Err(Refusal::SplitsCall { range, request, response });
    }
    let summary = payload.summary.map(|summary| check_summary(asked, range, summary.summary)).transpose()?;
    let tool_calls = payload.tool_calls.map(|policy| tool_policy(asked, range, policy)).transpose()?;
    Ok(Compaction { range, summary, reasoning: payload.reasoning, tool_calls })
}

fn range_of(asked: &Asked<'_>, payload: &Payload) -> Result<TurnRange, Refusal> {
    let from = Position { turn: payload.from_turn, step: payload.from_step };
    let to = Position { turn: payload.to_turn, step: payload.to_step };
    let range = TurnRange::between(from, to).ok_or(Refusal::Inverted { from, to })?;
    if range.is_stepped() && !asked.by_step {
        return Err(Refusal::Stepped);
    }
    let is_missing = |at: &Position| at.step.is_some_and(|step| step >= asked.stream.steps().count(at.turn));
    match [from, to].into_iter().find(is_missing) {
        Some(missing) => Err(Refusal::NoSuchStep(missing)),
        None => Ok(range),
    }
}

fn check_summary(asked: &Asked<'_>, range: TurnRange, text: String) -> Result<String, Refusal> {
    if text.chars().all(char::is_whitespace) {
        return Err(Refusal::SummaryBlank);
    }
    if text.contains('\0') {
        return Err(Refusal::SummaryNul);
    }
    if text.len() as u64 > SUMMARY_BYTES_MAX {
        return Err(Refusal::SummaryTooLong(text.len()));
    }
    let closed = overlap::close(range, asked.stream, asked.pairs, asked.accepted, asked.overlap);
    if closed != range {
        return Err(Refusal::NotClosed { range, closed });
    }
    if asked.by_model {
        let summary = text.chars().count() as u64;
        let raw = estimate::chars_in(asked.stream, range, summary);
        if summary >= raw {
            return Err(Refusal::SummaryLarger { summary, raw });
        }
    }
    Ok(text)
}

fn tool_policy(asked: &Asked<'_>, range: TurnRange, policy: ToolCalls) -> Result<ToolPolicy, Refusal> {
    Ok(match policy {
        ToolCalls::Strip { request, response } => {
            ToolPolicy::Strip { request, response, overrides: overrides(asked, range, request, response) }
        }
        ToolCalls::Omit => ToolPolicy::Omit,
        ToolCalls::Selective { calls } => {
            if calls.is_empty() {
                return Err(Refusal::SelectiveEmpty);
            }
            let halves = Halves::new(asked.stream, asked.pairs);
            let mut named = BTreeSet::new();
            let mut stored = Vec::with_capacity(calls.len());
            for call in calls {
                let seq = call.seq;
                if !named.insert(seq) {
                    return Err(Refusal::Call { seq, wrong: CallWrong::Twice });
                }
                stored.push(
                    stored_call(asked, &halves, range, call).map_err(|wrong| Refusal::Call { seq, wrong })?,
                );
            }
            ToolPolicy::Selective(stored)
        }
    })
}

/// Returns the hints that change something in the range. An absent half inherits the policy, a present one replaces it.
fn overrides(
    asked: &Asked<'_>,
    range: TurnRange,
    request: bool,
    response: bool,
) -> BTreeMap<String, ToolHint> {
    let changes = |policy: bool, hint: Option<Hint>| hint.filter(|hint| (*hint == Hint::Strip) != policy);
    let mut overrides: BTreeMap<String, ToolHint> = BTreeMap::new();
    if asked.hints.is_empty() {
        return overrides;
    }
    for (element, event) in asked.stream.events().iter().enumerate() {
        if !event.kind.is_tool() || !asked.stream.is_in(range, element) {
            continue;
        }
        let own = asked.pairs.tool(asked.stream, element);
        let Some(name) = own.or_else(|| asked.pairs.name_by_id(asked.stream, element)) else { continue };
        let Some(hint) = asked.hints.get(&*name) else { continue };
        let (request, response) = match event.kind {
            Kind::ToolRequest => (changes(request, hint.request), None),
            _ => (None, changes(response, hint.response)),
        };
        if request.is_some() || response.is_some() {
            let entry = overrides.entry(name.into_owned()).or_default();
            entry.request = entry.request.or(request);
            entry.response = entry.response.or(response);
        }
    }
    overrides
}

fn stored_call(
    asked: &Asked<'_>,
    halves: &Halves<'_>,
    range: TurnRange,
    call: SelectiveCall,
) -> Result<StoredCall, CallWrong> {
    let element = asked.stream.element(call.seq).ok_or(CallWrong::Missing)?;
    let event = &asked.stream.events()[element];
    if !event.kind.is_tool() {
        return Err(CallWrong::NoTool);
    }
    if !asked.stream.is_in(range, element) {
        return Err(CallWrong::Outside);
    }
    match (call.request.is_some(), call.response.is_some(), call.omit) {
        (false, false, false) => return Err(CallWrong::NoOpinion),
        (true, _, true) | (_, true, true) => return Err(CallWrong::OmitAndMore),
        (true, ..) if event.kind != Kind::ToolRequest => return Err(CallWrong::RequestOnResponse),
        (_, true, _) if event.kind == Kind::ToolRequest => return Err(CallWrong::ResponseOnRequest),
        _ => {}
    }
    let id = asked.stream.text(event.id).into_owned();
    let half = halves.half(element, range, usize::MAX);
    Ok(StoredCall {
        seq: call.seq,
        id,
        half,
        request: call.request,
        response: call.response,
        omit: call.omit,
    })
}
