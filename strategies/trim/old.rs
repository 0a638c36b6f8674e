//! The calls with an old result that the view still shows.

use jp_compact_strategy::calls::{CallHistory, CallPair, CallResult};
use jp_compact_strategy::schema::Range;

use crate::rule::TrimRule;

/// A call with an old result.
#[derive(Debug)]
pub(crate) struct OldCall<'a> {
    pub(crate) call: &'a CallPair,
    pub(crate) result: &'a CallResult,
}

/// Returns the calls in range with an old result, in order. A result is old if no rule keeps it.
pub(crate) fn find<'a>(
    conversation: &'a CallHistory,
    turns: usize,
    range: Range,
    rule: &TrimRule,
) -> Vec<OldCall<'a>> {
    let steps_after = conversation.steps_after();
    let mut old = Vec::new();
    let (mut results_after, mut tokens) = (0, 0);
    for (index, call) in conversation.calls.iter().enumerate().rev() {
        let Some(result) = &call.result else { continue };
        let is_newest = results_after < rule.keep_results;
        results_after += 1;
        let is_exempt = rule.exempt.contains(&call.tool) || (rule.keep_errors && result.is_error);
        let is_recent =
            steps_after[index] < rule.keep_steps || call.turn.saturating_add(rule.keep_turns) >= turns;
        if is_newest || is_exempt || is_recent || result.hidden {
            continue;
        }
        tokens += result.tokens;
        let is_in_range = range.contains_step(call.turn, call.step) && range.contains(result.turn);
        if tokens > rule.keep_tokens && is_in_range {
            old.push(OldCall { call, result });
        }
    }
    old.reverse();
    old
}
