//! Statistics: the tokens of a stream and of its view, by content type and by tool. They can be summed over
//! transcripts.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::AddAssign;

use jp_compact_schema::document;
use serde::Serialize;

use crate::estimate::tokens;
use crate::event::Kind;
use crate::survey::Survey;
use crate::view::Part;

/// A size before and after compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// The size of the raw events.
    pub before: u64,
    /// The size of the view.
    pub after: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SizeChange {
    /// Tokens, as counted by the survey.
    pub tokens: Amount,
    /// Bytes of decoded text.
    pub bytes: Amount,
}

/// The sums over one or more streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub turns: u64,
    /// Conversation events.
    pub events: u64,
    pub overlays: u64,
    pub all: SizeChange,
    /// By content type: `user`, `assistant`, `reasoning`, `tool_requests`, `tool_responses`, `summaries`.
    pub by_type: BTreeMap<&'static str, SizeChange>,
    /// By tool. Arguments and content are summed.
    pub by_tool: BTreeMap<String, SizeChange>,
}

/// Computes the statistics of a stream and its view.
#[must_use]
pub fn stats(survey: &Survey<'_>) -> Stats {
    let stream = survey.stream;
    let mut sums = Stats {
        turns: stream.turns() as u64,
        events: stream.conversation_events() as u64,
        overlays: stream.overlays().len() as u64,
        ..Stats::default()
    };
    let mut add = |element: Option<usize>, kind: Kind, added: SizeChange| {
        let Some(name) = type_name(kind, element.is_none()) else { return };
        sums.all += added;
        *sums.by_type.entry(name).or_default() += added;
        if let Some(element) = element.filter(|_| kind.is_tool()) {
            let tool = survey.pairs.tool(stream, element).unwrap_or("unknown".into());
            match sums.by_tool.get_mut(&*tool) {
                Some(sizes) => *sizes += added,
                None => drop(sums.by_tool.insert(tool.into_owned(), added)),
            }
        }
    };
    for (element, event) in stream.events().iter().enumerate() {
        let amount = |raw| Amount { before: raw, after: 0 };
        let (weight, bytes) = (survey.estimate.weight(element), survey.estimate.bytes(element));
        add(Some(element), event.kind, SizeChange { tokens: amount(weight), bytes: amount(bytes) });
    }
    for item in survey.view.items() {
        let (element, kind) = match &item.part {
            Part::Kept(element)
            | Part::Short(element)
            | Part::Emptied(element)
            | Part::Replaced(element, _) => (Some(*element), stream.events()[*element].kind),
            Part::SummaryStart { .. } => (None, Kind::TurnStart),
            Part::SummaryRequest { .. } | Part::SummaryNote { .. } => (None, Kind::ChatRequest),
            Part::SummaryResponse { .. } => (None, Kind::Message),
        };
        let amount = |shown| Amount { before: 0, after: shown };
        let (weight, bytes) =
            (survey.estimate.part_weight(&item.part), survey.estimate.part_bytes(&item.part));
        add(element, kind, SizeChange { tokens: amount(weight), bytes: amount(bytes) });
    }
    // The sums are weights until here, so that each is rounded up only once.
    let all_sums = sums.by_type.values_mut().chain(sums.by_tool.values_mut()).chain([&mut sums.all]);
    for SizeChange { tokens: sum, .. } in all_sums {
        *sum = Amount { before: tokens(sum.before), after: tokens(sum.after) };
    }
    sums
}

impl From<Amount> for document::RawAndView {
    fn from(Amount { before, after }: Amount) -> Self {
        Self { raw: before, view_after: after }
    }
}

impl From<SizeChange> for document::Sizes {
    fn from(SizeChange { tokens, bytes }: SizeChange) -> Self {
        Self { tokens: tokens.into(), bytes: bytes.into() }
    }
}

impl AddAssign for SizeChange {
    fn add_assign(&mut self, other: Self) {
        for (sum, other) in [(&mut self.tokens, other.tokens), (&mut self.bytes, other.bytes)] {
            sum.before += other.before;
            sum.after += other.after;
        }
    }
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.turns += other.turns;
        self.events += other.events;
        self.overlays += other.overlays;
        self.all += other.all;
        for (name, sizes) in &other.by_type {
            *self.by_type.entry(name).or_default() += *sizes;
        }
        for (name, sizes) in &other.by_tool {
            *self.by_tool.entry(name.clone()).or_default() += *sizes;
        }
    }
}

impl<'a> Sum<&'a Self> for Stats {
    fn sum<I: Iterator<Item = &'a Self>>(items: I) -> Self {
        items.fold(Self::default(), |mut sum, other| {
            sum += other;
            sum
        })
    }
}

fn type_name(kind: Kind, is_synthetic: bool) -> Option<&'static str> {
    Some(match kind {
        Kind::ChatRequest | Kind::Message if is_synthetic => "summaries",
        Kind::ChatRequest => "user",
        Kind::Message | Kind::Data => "assistant",
        Kind::Reasoning => "reasoning",
        Kind::ToolRequest => "tool_requests",
        Kind::ToolResponse { .. } => "tool_responses",
        _ => return None,
    })
}
