//! The part of a tool policy with hints that JP's grammar can hold. JP has one policy for all calls of a turn, so JP
//! gets the policy that all calls of the turn have in common. It must never strip a call that a hint keeps.

use std::collections::BTreeMap;

use jp_compact_schema::{Hint, ToolHint};

use crate::event::Kind;
use crate::overlay::ToolPolicy;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// The answers for one turn: whether requests and responses are stripped. `None` if the turn has no such half of a
/// call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Answers {
    request: Option<bool>,
    response: Option<bool>,
}

impl Answers {
    /// Adds the answer for one half of a call. A half is stripped only if the answer is yes for all halves of its kind.
    fn add(&mut self, kind: Kind, strips: bool) {
        let answer = if kind == Kind::ToolRequest { &mut self.request } else { &mut self.response };
        *answer = Some(answer.unwrap_or(true) && strips);
    }

    /// Returns the answers of both turns, if one policy can give them.
    fn merge(self, other: Self) -> Option<Self> {
        let merge = |left: Option<bool>, right: Option<bool>| match (left, right) {
            (Some(left), Some(right)) if left != right => None,
            _ => Some(left.or(right)),
        };
        Some(Self {
            request: merge(self.request, other.request)?,
            response: merge(self.response, other.response)?,
        })
    }
}

/// Returns the policies that JP can apply in place of a `strip` with hints, each with its range of turns. A turn in
/// which nothing can be stripped is left out, unless an older policy would apply there.
pub(crate) fn readable_parts(
    stream: &Stream,
    range: TurnRange,
    (request, response): (bool, bool),
    overrides: &BTreeMap<String, ToolHint>,
) -> Vec<(TurnRange, ToolPolicy)> {
    let turns = turn_answers(stream, range, (request, response), overrides);
    let mut runs: Vec<(TurnRange, Answers)> = Vec::new();
    for (turn, answers) in (range.from()..).zip(turns) {
        match runs.last_mut().and_then(|(run, last)| Some((run, last.merge(answers)?, last))) {
            Some((run, merged, last)) => {
                *last = merged;
                *run = TurnRange::new(run.from(), turn).unwrap_or(*run);
            }
            None => runs.extend(TurnRange::new(turn, turn).map(|run| (run, answers))),
        }
    }
    let mut parts = Vec::new();
    for (run, answers) in runs {
        let request = answers.request.unwrap_or(request);
        let response = answers.response.unwrap_or(response);
        if request || response || has_older_policy(stream, run) {
            parts.push((run, ToolPolicy::Strip { request, response, overrides: BTreeMap::new() }));
        }
    }
    parts
}

/// Returns the answers for each turn of a range.
fn turn_answers(
    stream: &Stream,
    range: TurnRange,
    (request, response): (bool, bool),
    overrides: &BTreeMap<String, ToolHint>,
) -> Vec<Answers> {
    let last = range.to().min(stream.turns().saturating_sub(1));
    let mut turns = vec![Answers::default(); (last + 1).saturating_sub(range.from())];
    let pairs = Pairs::new(stream);
    for (element, event) in stream.events().iter().enumerate() {
        let Some(index) = event.turn.checked_sub(range.from()) else { continue };
        let Some(answers) = turns.get_mut(index).filter(|_| event.kind.is_tool()) else { continue };
        let name = pairs.tool(stream, element).or_else(|| pairs.name_by_id(stream, element));
        let hint = name.and_then(|name| overrides.get(&*name));
        let strips = |policy: bool, hint: Option<Hint>| hint.map_or(policy, |hint| hint == Hint::Strip);
        answers.add(
            event.kind,
            match event.kind {
                Kind::ToolRequest => strips(request, hint.and_then(|hint| hint.request)),
                _ => strips(response, hint.and_then(|hint| hint.response)),
            },
        );
    }
    turns
}

/// Returns whether an older policy that JP applies strips or omits calls in a turn of the range.
fn has_older_policy(stream: &Stream, range: TurnRange) -> bool {
    stream.overlays().iter().any(|overlay| {
        let is_in_range = overlay.range().is_some_and(|older| older.overlaps(range));
        let has_effect = match &overlay.tool_calls {
            Some(ToolPolicy::Strip { request, response, .. }) => *request || *response,
            other => other.is_some(),
        };
        overlay.applied_by_jp && is_in_range && has_effect
    })
}
