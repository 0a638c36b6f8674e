//! Helpers for the tests of a strategy: requests, and a way to run them without a process.

use std::collections::BTreeMap;
use std::io;

use jp_compact_schema::version::{COMPACT_DEADLINE_MS, RESULT_BYTES_MAX};
use jp_compact_schema::{
    CompactRequest, CompactTag, Context, Conversation, EventLine, Events, EventsEnd, Kinds, Limits, PROTOCOL,
    Range, Tokens, Turn, to_line,
};

use crate::exchange::Exchange;
use crate::outcome::{Outcome, StrategyError};
use crate::strategy::Strategy;

/// Returns a request for `from_turn..=to_turn` of a conversation with these turns, without options, outline, and events.
#[must_use]
pub fn request(from_turn: usize, to_turn: usize, turns: &[Kinds]) -> CompactRequest {
    let range = Range::turns(from_turn, to_turn);
    CompactRequest {
        r#type: CompactTag::Compact,
        id: "c1".to_owned(),
        protocol: PROTOCOL,
        strategy: "under-test".to_owned(),
        conversation: Conversation {
            id: None,
            format: "jp".to_owned(),
            turns: turns.len(),
            events: 0,
            bytes: 0,
            digest: None,
        },
        range,
        requested_range: range,
        range_exact: false,
        reason: None,
        options: serde_json::Map::new(),
        context: Context {
            now: "2026-01-01T00:00:00Z".to_owned(),
            estimator: "pieces".to_owned(),
            tokens: Tokens::default(),
            context_window: None,
            target_tokens: None,
            llm: None,
            turns: turns.iter().enumerate().map(row).collect(),
            compactions: Vec::new(),
            tool_hints: BTreeMap::new(),
            previous_summaries: None,
        },
        outline: None,
        events: None,
        limits: Limits {
            deadline_ms: COMPACT_DEADLINE_MS,
            result_bytes_max: RESULT_BYTES_MAX,
            needs_many: false,
        },
        answers: BTreeMap::new(),
        state: None,
        dry_run: false,
    }
}

fn row((turn, kinds): (usize, &Kinds)) -> Turn {
    Turn { turn, events: 0, tokens: 0, view_tokens: 0, complete: true, steps: None, kinds: *kinds }
}

/// Sends the request and its events to the strategy, and returns the outcome.
///
/// # Errors
///
/// The error of the strategy.
pub fn ask(
    strategy: &impl Strategy,
    request: &CompactRequest,
    events: &[EventLine],
) -> Result<Outcome, StrategyError> {
    exchange_with(request, events, |request, exchange| strategy.compact(request, exchange))
}

/// Calls a function with the request and an exchange that has these events.
///
/// # Errors
///
/// The error of the function.
pub fn exchange_with<T>(
    request: &CompactRequest,
    events: &[EventLine],
    run: impl FnOnce(&CompactRequest, &mut Exchange<'_>) -> Result<T, StrategyError>,
) -> Result<T, StrategyError> {
    let count = events.len() as u64;
    let mut request = request.clone();
    let mut lines = Vec::new();
    if count > 0 {
        request.events = Some(Events::Inline { count });
        for event in events {
            lines.extend(to_line(event).map_err(StrategyError::internal)?);
        }
        let end = EventsEnd::new(&request.id, count);
        lines.extend(to_line(&end).map_err(StrategyError::internal)?);
    }
    let mut input = lines.as_slice();
    run(&request, &mut Exchange::open(&request, &mut input, &mut io::sink())?)
}
