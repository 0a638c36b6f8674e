//! The validation of proposals. Nothing else makes a [`Compaction`] from a strategy's reply, and only compactions can
//! be appended. [`Refusal`] lists every reason to reject a proposal (PROTOCOL.md, "Replies").

use std::collections::{BTreeMap, BTreeSet};

use jp_compact_schema::version::{COMPACTIONS_MAX, SUMMARY_BYTES_MAX};
use jp_compact_schema::{ContentKind, Payload, Reasoning, SelectiveCall, ToolCalls, ToolHint};

use crate::estimate;
use crate::event::Kind;
use crate::halves::Halves;
use crate::hints;
use crate::overlap::Overlap;
use crate::overlay::{StoredCall, ToolPolicy};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::stream::Stream;
use crate::summary_range;
use crate::turn::TurnRange;

/// The request that the proposal answers.
#[derive(Debug, Clone)]
pub struct ValidationContext<'a> {
    /// The stream that the request was made from.
    pub stream: &'a Stream,
    pub pairs: &'a Pairs,
    /// The request's `range`, which includes older summaries completely if the strategy produces a summary.
    pub range: TurnRange,
    /// The request's `requested_range`.
    pub requested_range: TurnRange,
    /// The strategy's `produces`.
    pub produces: &'a [ContentKind],
    /// The ranges of the summaries accepted earlier in the same run. The overlap rules apply to them too.
    pub accepted: &'a [TurnRange],
    /// The kinds of overlap that extend a summary's range.
    pub overlap: Overlap,
    /// The user's policies for single tools, by name. They are stored with a `strip`, because the projection knows only
    /// the stream (RFD D17, "Projection Integration").
    pub hints: &'a BTreeMap<String, ToolHint>,
    /// Whether the strategy has the feature `steps`. Without it, the ranges have whole turns only.
    pub allows_steps: bool,
    /// Whether a model writes the summaries. Such a summary must be shorter than its events, because the user pays for
    /// it.
    pub written_by_model: bool,
}

impl<'a> ValidationContext<'a> {
    /// Describes a request for exactly these turns, without tool hints, earlier summaries of the run, or a model.
    #[must_use]
    pub fn new(stream: &'a Stream, pairs: &'a Pairs, range: TurnRange, produces: &'a [ContentKind]) -> Self {
        static NO_HINTS: BTreeMap<String, ToolHint> = BTreeMap::new();
        Self {
            stream,
            pairs,
            range,
            requested_range: range,
            produces,
            allows_steps: false,
            accepted: &[],
            overlap: Overlap::default(),
            hints: &NO_HINTS,
            written_by_model: false,
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

    /// Returns the text that replaces the range.
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

    /// Returns the kinds of its policies, in a fixed order.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let policies = [
            (ContentKind::Summary, self.summary.is_some()),
            (ContentKind::Reasoning, self.reasoning.is_some()),
            (ContentKind::ToolCalls, self.tool_calls.is_some()),
        ];
        policies.into_iter().filter_map(|(kind, is_present)| is_present.then_some(kind.name())).collect()
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
    /// The range is not within the range of the request: `range` for a summary, otherwise `requested_range`.
    OutOfRange {
        /// The payload's range.
        range: TurnRange,
        /// The range that must cover it.
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
    /// The summary is only white space, which would erase the range.
    SummaryBlank,
    SummaryNul,
    /// The summary has more than 256 KiB.
    SummaryTooLong(usize),
    /// The summary of a model is not shorter than the events that it replaces.
    SummaryLarger {
        /// Characters of the summary.
        summary: u64,
        /// Characters of the raw events of its range.
        raw: u64,
    },
    /// A summary that begins inside a turn, after the turn's first step.
    SummaryInsideTurn(TurnRange),
    /// A summary ends inside an open turn, but not directly before a step that begins with signed thinking.
    SummaryBeforeThinking(TurnRange),
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
        /// The number of the event.
        seq: u64,
        error: CallError,
    },
}

/// The error in one entry of a `selective` policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// Listed twice.
    Twice,
    Missing,
    /// Not half of a tool call.
    NotToolCall,
    /// Outside the payload's range. The other half is outside too, because the range splits no call.
    Outside,
    /// A policy for requests on a response.
    RequestOnResponse,
    /// A policy for responses on a request.
    ResponseOnRequest,
    /// `omit` together with another policy.
    OmitWithPolicy,
    NoPolicy,
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
                write!(out, "the compaction of {range} is not within the range of the request, {asked}")
            }
            Self::Stepped => {
                write!(out, "the range has steps, but `features` does not list `steps`")
            }
            Self::NoSuchStep(position) => write!(out, "step {position} does not exist"),
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
            Self::SummaryInsideTurn(range) => {
                write!(
                    out,
                    "the summary of {range} begins neither with a turn nor with the first step of one"
                )
            }
            Self::SummaryBeforeThinking(range) => write!(
                out,
                "the summary of {range} ends in a turn that is open, and the next step does not begin with thinking"
            ),
            Self::NotClosed { range, closed } => {
                write!(
                    out,
                    "range_not_closed: a summary of {range} splits an older one; a summary of {closed} does not"
                )
            }
            Self::SplitsCall { range, request, response } => {
                write!(out, "{range} would split a tool call between turns {request} and {response}")
            }
            Self::SelectiveEmpty => write!(out, "the selective policy lists no calls"),
            Self::Call { seq, error } => {
                let problem = match error {
                    CallError::Twice => "is listed twice",
                    CallError::Missing => "does not exist",
                    CallError::NotToolCall => "is not half of a tool call",
                    CallError::Outside => "is outside the range",
                    CallError::RequestOnResponse => "is a response, but has a policy for requests",
                    CallError::ResponseOnRequest => "is a request, but has a policy for responses",
                    CallError::OmitWithPolicy => "is omitted, but has another policy too",
                    CallError::NoPolicy => "has no policy",
                };
                write!(out, "event {seq} {problem}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// Validates a whole reply. Either all payloads are valid, or none is accepted.
///
/// # Errors
/// The first reason to reject it.
pub fn validate(context: &ValidationContext<'_>, proposal: Vec<Payload>) -> Result<Vec<Compaction>, Refusal> {
    if proposal.is_empty() {
        return Err(Refusal::Nothing);
    }
    if proposal.len() > COMPACTIONS_MAX {
        return Err(Refusal::TooMany(proposal.len()));
    }
    let mut compactions: Vec<Compaction> = Vec::with_capacity(proposal.len());
    for payload in proposal {
        let compaction = validate_payload(context, payload)?;
        if compaction.summary.is_some() {
            let range = compaction.range;
            let mut summaries = compactions.iter().filter(|earlier| earlier.summary.is_some());
            if let Some(earlier) = summaries.find(|earlier| earlier.range.overlaps(range)) {
                return Err(Refusal::SummariesOverlap(earlier.range, range));
            }
        }
        compactions.push(compaction);
    }
    Ok(compactions)
}

fn validate_payload(context: &ValidationContext<'_>, payload: Payload) -> Result<Compaction, Refusal> {
    let range = payload_range(context, &payload)?;
    let bounds = if payload.summary.is_some() { context.range } else { context.requested_range };
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
        kinds.iter().find(|(kind, _, present)| *present && !context.produces.contains(kind))
    {
        return Err(Refusal::NotProduced(name));
    }
    if let Some((request, response)) = context.pairs.split_by(context.stream, range) {
        return Err(Refusal::SplitsCall { range, request, response });
    }
    let summary =
        payload.summary.map(|summary| check_summary(context, range, summary.summary)).transpose()?;
    let tool_calls = payload.tool_calls.map(|policy| tool_policy(context, range, policy)).transpose()?;
    Ok(Compaction { range, summary, reasoning: payload.reasoning, tool_calls })
}

fn payload_range(context: &ValidationContext<'_>, payload: &Payload) -> Result<TurnRange, Refusal> {
    let from = Position { turn: payload.from_turn, step: payload.from_step };
    let to = Position { turn: payload.to_turn, step: payload.to_step };
    let range = TurnRange::between(from, to).ok_or(Refusal::Inverted { from, to })?;
    if range.has_steps() && !context.allows_steps {
        return Err(Refusal::Stepped);
    }
    let is_missing =
        |end: &Position| end.step.is_some_and(|step| step >= context.stream.steps().count(end.turn));
    match [from, to].into_iter().find(is_missing) {
        Some(missing) => Err(Refusal::NoSuchStep(missing)),
        None => Ok(range),
    }
}

fn check_summary(context: &ValidationContext<'_>, range: TurnRange, text: String) -> Result<String, Refusal> {
    if text.chars().all(char::is_whitespace) {
        return Err(Refusal::SummaryBlank);
    }
    if text.contains('\0') {
        return Err(Refusal::SummaryNul);
    }
    if text.len() as u64 > SUMMARY_BYTES_MAX {
        return Err(Refusal::SummaryTooLong(text.len()));
    }
    if !summary_range::may_begin(range.start()) {
        return Err(Refusal::SummaryInsideTurn(range));
    }
    let closed = summary_range::extend_over_summaries(
        range,
        context.stream,
        context.pairs,
        context.accepted,
        context.overlap,
    );
    if closed != range {
        return Err(Refusal::NotClosed { range, closed });
    }
    if summary_range::last_end(context.stream, context.pairs, range.end()) != Some(range.end()) {
        return Err(Refusal::SummaryBeforeThinking(range));
    }
    if context.written_by_model {
        let summary = text.chars().count() as u64;
        let raw = estimate::chars_in(context.stream, range, summary);
        if summary >= raw {
            return Err(Refusal::SummaryLarger { summary, raw });
        }
    }
    Ok(text)
}

fn tool_policy(
    context: &ValidationContext<'_>,
    range: TurnRange,
    policy: ToolCalls,
) -> Result<ToolPolicy, Refusal> {
    Ok(match policy {
        ToolCalls::Strip { request, response } => ToolPolicy::Strip {
            request,
            response,
            overrides: hints::overrides(
                context.stream,
                context.pairs,
                context.hints,
                range,
                (request, response),
            ),
        },
        ToolCalls::Omit => ToolPolicy::Omit,
        ToolCalls::Selective { calls } => {
            if calls.is_empty() {
                return Err(Refusal::SelectiveEmpty);
            }
            let halves = Halves::new(context.stream, context.pairs);
            let mut listed = BTreeSet::new();
            let mut stored = Vec::with_capacity(calls.len());
            for call in calls {
                let seq = call.seq;
                if !listed.insert(seq) {
                    return Err(Refusal::Call { seq, error: CallError::Twice });
                }
                let call = stored_call(context, &halves, range, call);
                stored.push(call.map_err(|error| Refusal::Call { seq, error })?);
            }
            ToolPolicy::Selective(stored.into())
        }
    })
}

fn stored_call(
    context: &ValidationContext<'_>,
    halves: &Halves<'_>,
    range: TurnRange,
    call: SelectiveCall,
) -> Result<StoredCall, CallError> {
    let element = context.stream.element(call.seq).ok_or(CallError::Missing)?;
    let event = &context.stream.events()[element];
    if !event.kind.is_tool() {
        return Err(CallError::NotToolCall);
    }
    if !context.stream.is_in(range, element) {
        return Err(CallError::Outside);
    }
    match (call.request.is_some(), call.response.is_some(), call.omit) {
        (false, false, false) => return Err(CallError::NoPolicy),
        (true, _, true) | (_, true, true) => return Err(CallError::OmitWithPolicy),
        (true, ..) if event.kind != Kind::ToolRequest => return Err(CallError::RequestOnResponse),
        (_, true, _) if event.kind == Kind::ToolRequest => return Err(CallError::ResponseOnRequest),
        _ => {}
    }
    let id = context.stream.text(event.id).into_owned();
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
