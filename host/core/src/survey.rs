//! The survey: the calls, the view, and the sizes of a stream, turn by turn. It is made from a stream alone, once for
//! all strategies of a run.

use jp_compact_schema::{Kinds, Turn};

use crate::estimate::{Estimate, Estimator, tokens};
use crate::event::Kind;
use crate::open;
use crate::pairs::Pairs;
use crate::projection::project;
use crate::stream::Stream;
use crate::turn::TurnRange;
use crate::view::{Part, View};

/// A stream and the data derived from it.
#[derive(Debug, Clone)]
pub struct Survey<'a> {
    pub stream: &'a Stream,
    pub pairs: Pairs,
    /// The current view.
    pub view: View,
    pub estimate: Estimate,
    /// One entry per turn.
    pub turns: Vec<Turn>,
}

/// Sums of weights, before conversion to tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    raw: u64,
    view: u64,
    reasoning: u64,
    requests: u64,
    responses: u64,
}

impl<'a> Survey<'a> {
    /// Surveys a stream with estimated tokens.
    #[must_use]
    pub fn new(stream: &'a Stream) -> Self {
        Self::with_estimator(stream, Estimator::Pieces)
    }

    /// Surveys a stream with this estimator.
    #[must_use]
    pub fn with_estimator(stream: &'a Stream, estimator: Estimator) -> Self {
        Self::with_estimate(stream, Estimate::new(stream, estimator))
    }

    /// Surveys a stream whose texts were measured before.
    #[must_use]
    pub fn with_estimate(stream: &'a Stream, estimate: Estimate) -> Self {
        let pairs = Pairs::new(stream);
        let view = project(stream);
        let mut turns = rows(stream, &view, &estimate, None);
        if let Some(last) = turns.last_mut() {
            last.complete = open::open_reason(stream, &pairs, true).is_none();
        }
        Self { stream, pairs, view, estimate, turns }
    }

    /// Makes the turn table of the events in a range only.
    #[must_use]
    pub fn turn_table_in(&self, range: TurnRange) -> Vec<Turn> {
        let Self { stream, view, estimate, .. } = self;
        let mut turns = rows(stream, view, estimate, Some(range));
        turns.iter_mut().zip(&self.turns).for_each(|(partial, turn)| partial.complete = turn.complete);
        turns
    }

    /// Counts the tokens of another view of the stream, by turn.
    #[must_use]
    pub fn view_tokens_by_turn(&self, view: &View) -> Vec<u64> {
        let mut weights = vec![0; self.stream.turns()];
        for item in view.items() {
            if let Some(weight) = weights.get_mut(item.origin.turn()) {
                *weight += self.estimate.part_weight(&item.part);
            }
        }
        weights.into_iter().map(tokens).collect()
    }

    /// Counts the tokens of the raw events of a range.
    #[must_use]
    pub fn raw_tokens_in(&self, range: TurnRange) -> u64 {
        let elements = (0..self.stream.events().len()).filter(|element| self.stream.is_in(range, *element));
        tokens(elements.map(|element| self.estimate.weight(element)).sum())
    }
}

/// Makes the rows of a request's turn table. The tokens in `kinds` include only unchanged events that no strip applies
/// to, and only their content. A stripped half counts 0 tokens, so strategies recognize it.
fn rows(stream: &Stream, view: &View, estimate: &Estimate, range: Option<TurnRange>) -> Vec<Turn> {
    let includes = |element| range.is_none_or(|range| stream.is_in(range, element));
    let mut weights = vec![Weights::default(); stream.turns()];
    let empty_turn = |turn| Turn {
        turn,
        events: 0,
        tokens: 0,
        view_tokens: 0,
        complete: true,
        steps: None,
        kinds: Kinds::default(),
    };
    let mut turns: Vec<Turn> = (0..stream.turns()).map(empty_turn).collect();
    for (element, event) in stream.events().iter().enumerate() {
        if event.kind.is_conversation() && includes(element) {
            turns[event.turn].events += 1;
            weights[event.turn].raw += estimate.weight(element);
        }
    }
    for item in view.items() {
        let turn = item.origin.turn();
        let (Some(weights), Some(entry)) = (weights.get_mut(turn), turns.get_mut(turn)) else { continue };
        if item.part.element().is_some_and(|element| !includes(element))
            || range.zip(item.origin.summarized()).is_some_and(|(range, summary)| !range.overlaps(summary))
        {
            continue;
        }
        let shown = estimate.part_weight(&item.part);
        weights.view += shown;
        let Some(element) = item.part.element() else { continue };
        let unchanged_weight =
            if matches!(item.part, Part::Kept(_)) { estimate.content_weight(element) } else { 0 };
        match stream.events()[element].kind {
            Kind::Reasoning => {
                entry.kinds.reasoning += 1;
                weights.reasoning += unchanged_weight;
            }
            Kind::ToolRequest => {
                entry.kinds.tool_calls += 1;
                weights.requests += unchanged_weight;
            }
            Kind::ToolResponse { is_error } => {
                entry.kinds.tool_errors += u64::from(is_error);
                weights.responses += unchanged_weight;
            }
            _ => {}
        }
    }
    for (entry, weights) in turns.iter_mut().zip(weights) {
        entry.tokens = tokens(weights.raw);
        entry.view_tokens = tokens(weights.view);
        entry.kinds.reasoning_tokens = tokens(weights.reasoning);
        entry.kinds.tool_request_tokens = tokens(weights.requests);
        entry.kinds.tool_response_tokens = tokens(weights.responses);
    }
    turns
}
