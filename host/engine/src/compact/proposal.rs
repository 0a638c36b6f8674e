//! The proposal of one strategy, and its validation. A proposal is validated when the strategy has replied, and again if
//! the transcript grows. A payload must not be appended without this.

use jp_compact_core::select::Selected;
use jp_compact_core::validate::{Refusal, ValidationContext};
use jp_compact_core::{Pairs, Stream, TurnRange};
use jp_compact_schema::Payload;

use super::receipt::summary_texts;
use super::strategy_error::StrategyRunError;
use super::{PreparedStrategy, RunSettings};

/// The proposal of a strategy. It is checked again if the transcript grows.
#[derive(Clone)]
pub(super) struct Proposal<'a> {
    pub(super) strategy: &'a PreparedStrategy,
    pub(super) selected: Selected,
    pub(super) payloads: Vec<Payload>,
    /// The number of merges for the receipt.
    pub(super) merges: Option<u32>,
    /// The index of its step in the report.
    pub(super) step_index: usize,
}

/// The host's verdict on a reply.
pub(super) enum Verdict {
    /// The run proposes its overlays.
    Accepted,
    /// The run proposes none of its overlays, with the reason.
    Unused(String),
}

/// Returns the request data that a proposal is validated against.
pub(super) fn validation_context<'a>(
    run: &'a RunSettings,
    stream: &'a Stream,
    pairs: &'a Pairs,
    strategy: &'a PreparedStrategy,
    selected: &Selected,
    accepted: &'a [TurnRange],
) -> ValidationContext<'a> {
    ValidationContext {
        requested_range: selected.requested,
        allows_steps: strategy.traits().accepts_steps,
        accepted,
        overlap: run.policy.overlap,
        hints: &run.policy.hints,
        written_by_model: strategy.needs_model(),
        ..ValidationContext::new(stream, pairs, selected.range, &strategy.described.description.produces)
    }
}

/// Returns the error for a rejected reply. It has the texts of the summaries if the user may have paid for them.
pub(super) fn refused(
    refusal: Refusal,
    strategy: &PreparedStrategy,
    payloads: &[Payload],
) -> StrategyRunError {
    // Before the host rejects a summary because of its range, it usually asks the strategy again with a wider range. A
    // strategy that needs no model of the host may have paid for both texts.
    let is_paid = strategy.needs_model() || matches!(refusal, Refusal::NotClosed { .. });
    let summaries = if is_paid { summary_texts(payloads).collect() } else { Vec::new() };
    StrategyRunError::Refused { refusal: Box::new(refusal), summaries }
}
