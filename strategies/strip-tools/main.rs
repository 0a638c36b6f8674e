//! The strategy `strip-tools`: strips or omits the tool calls of the requested turns. It reads no events, only the turn
//! table and the older overlays.

use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, CompactionRef, ContentKind, Description, Determinism, Input, Kinds, Payload, Range,
    STEPS, ToolCalls, ToolCallsRef,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::json;

struct StripTools;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    mode: StripMode,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StripMode {
    #[default]
    Strip,
    StripRequests,
    StripResponses,
    Omit,
}

impl StripMode {
    fn policy(self) -> ToolCalls {
        match self {
            Self::Strip => ToolCalls::Strip { request: true, response: true },
            Self::StripRequests => ToolCalls::Strip { request: true, response: false },
            Self::StripResponses => ToolCalls::Strip { request: false, response: true },
            Self::Omit => ToolCalls::Omit,
        }
    }

    /// Returns whether an older overlay has the policy of this mode, with the same hints.
    fn equals(self, older: &CompactionRef) -> bool {
        let policy = match (self.policy(), &older.tool_calls) {
            (ToolCalls::Strip { request, response }, Some(older)) => {
                *older == ToolCallsRef::Strip { request, response }
            }
            (ToolCalls::Omit, Some(older)) => *older == ToolCallsRef::Omit,
            _ => false,
        };
        policy && !older.hints_changed
    }

    /// Returns whether the policy of this mode changes what an older overlay shows. A policy for single calls strips or
    /// omits only a part of the calls. The modes `strip` and `omit` hide the texts of that part, too.
    fn replaces(self, older: &CompactionRef) -> bool {
        match (self, &older.tool_calls) {
            (Self::Strip | Self::Omit, Some(ToolCallsRef::Selective { .. })) => false,
            _ => !self.equals(older),
        }
    }

    /// Returns whether this mode removes anything from a turn. `kinds` counts the events of the turn in the view.
    fn affects(self, kinds: &Kinds) -> bool {
        match self {
            Self::Strip => kinds.tool_request_tokens + kinds.tool_response_tokens > 0,
            Self::StripRequests => kinds.tool_request_tokens > 0,
            Self::StripResponses => kinds.tool_response_tokens > 0,
            Self::Omit => kinds.tool_calls > 0,
        }
    }
}

impl Strategy for StripTools {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::None,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned(), "pipeline".to_owned(), STEPS.to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "mode": {
                        "description": "parts to remove: arguments and output, one of them, or the whole call",
                        "enum": ["strip", "strip-requests", "strip-responses", "omit"],
                        "default": "strip",
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new("strip-tools", env!("CARGO_PKG_VERSION"), "Strip or omit tool calls")
        }
    }

    fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let Options { mode } = options(request)?;
        let range = request.requested_range;
        let shown: Vec<&CompactionRef> = request.shown(ContentKind::ToolCalls).collect();
        // The newest policy wins. Therefore, if another policy is shown, this strategy proposes its own, even if the
        // other one hides more.
        if !shown.iter().any(|older| mode.replaces(older)) {
            if shown.is_empty() && request.turns_in(range).all(|row| row.kinds.tool_calls == 0) {
                return Ok(Outcome::decline("the view shows no tool call in range"));
            }
            let has_policy =
                |turn| shown.iter().any(|older| mode.equals(older) && covers(older, &range, turn));
            if !request.turns_in(range).any(|row| mode.affects(&row.kinds) && !has_policy(row.turn)) {
                return Ok(Outcome::decline(match shown.as_slice() {
                    [] => "the view shows nothing to strip in range",
                    _ => "the view already has this policy in range",
                }));
            }
        }
        Ok(Outcome::propose(Payload { tool_calls: Some(mode.policy()), ..Payload::new(range) }))
    }
}

/// Returns whether an overlay covers the part of a turn that is in the range.
fn covers(older: &CompactionRef, range: &Range, turn: usize) -> bool {
    let part = Range {
        from_turn: turn,
        to_turn: turn,
        from_step: range.from_step.filter(|_| turn == range.from_turn),
        to_step: range.to_step.filter(|_| turn == range.to_turn),
    };
    older.range().covers(&part)
}

fn main() -> ExitCode {
    serve(StripTools)
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::testing::{ask, request};
    use serde_json::Value;

    use super::*;

    const UNSTRIPPED: Kinds =
        Kinds { tool_calls: 2, tool_request_tokens: 30, tool_response_tokens: 900, ..NOTHING };
    const STRIPPED: Kinds = Kinds { tool_calls: 2, ..NOTHING };
    const NOTHING: Kinds = Kinds {
        reasoning: 0,
        reasoning_tokens: 0,
        tool_calls: 0,
        tool_errors: 0,
        tool_request_tokens: 0,
        tool_response_tokens: 0,
    };

    #[track_caller]
    fn check(mode: &str, turns: &[Kinds], expect: &Outcome) {
        let mut request = request(0, turns.len() - 1, turns);
        request.options.insert("mode".to_owned(), Value::from(mode));
        assert_eq!(ask(&StripTools, &request, &[]).as_ref(), Ok(expect));
    }

    fn proposes(to_turn: usize, tool_calls: ToolCalls) -> Outcome {
        let range = jp_compact_strategy::schema::Range::turns(0, to_turn);
        Outcome::propose(Payload { tool_calls: Some(tool_calls), ..Payload::new(range) })
    }

    #[test]
    fn every_mode_proposes_its_policy() {
        check("strip", &[UNSTRIPPED], &proposes(0, ToolCalls::Strip { request: true, response: true }));
        check(
            "strip-requests",
            &[UNSTRIPPED],
            &proposes(0, ToolCalls::Strip { request: true, response: false }),
        );
        check(
            "strip-responses",
            &[UNSTRIPPED],
            &proposes(0, ToolCalls::Strip { request: false, response: true }),
        );
        check("omit", &[UNSTRIPPED], &proposes(0, ToolCalls::Omit));
    }

    #[test]
    fn one_affected_turn_is_enough() {
        let strip = ToolCalls::Strip { request: true, response: true };
        check("strip", &[NOTHING, STRIPPED, UNSTRIPPED], &proposes(2, strip));
    }

    #[test]
    fn stripped_calls_can_only_be_omitted() {
        let declined = Outcome::decline("the view shows nothing to strip in range");
        let requests_stripped = Kinds { tool_request_tokens: 0, ..UNSTRIPPED };
        let responses_stripped = Kinds { tool_response_tokens: 0, ..UNSTRIPPED };
        check("strip", &[STRIPPED], &declined);
        check("strip-requests", &[requests_stripped], &declined);
        check("strip-responses", &[responses_stripped], &declined);
        check("omit", &[STRIPPED], &proposes(0, ToolCalls::Omit));
    }

    /// Returns an overlay of turns 0 to `to_turn` that the view shows.
    fn shown(to_turn: usize, policy: ToolCallsRef) -> CompactionRef {
        let shown = vec!["tool_calls".to_owned()];
        CompactionRef { to_turn, tool_calls: Some(policy), shown, ..CompactionRef::default() }
    }

    #[track_caller]
    fn check_over(mode: &str, turns: &[Kinds], older: &[CompactionRef], expect: Result<(), &str>) {
        let mut request = request(0, turns.len() - 1, turns);
        request.options.insert("mode".to_owned(), Value::from(mode));
        request.context.compactions = older.to_vec();
        match (ask(&StripTools, &request, &[]).unwrap(), expect) {
            (Outcome::Decline(reason), Err(expected)) => assert_eq!(reason, expected),
            (Outcome::Result { .. }, Ok(())) => {}
            (outcome, _) => panic!("{mode}: {outcome:?}"),
        }
    }

    const STRIP: ToolCallsRef = ToolCallsRef::Strip { request: true, response: true };
    const SAME: &str = "the view already has this policy in range";

    #[test]
    fn another_shown_policy_is_replaced_even_if_it_hides_more() {
        check_over("strip-responses", &[STRIPPED], &[shown(0, STRIP)], Ok(()));
        check_over("strip", &[NOTHING], &[shown(0, ToolCallsRef::Omit)], Ok(()));
        check_over("strip", &[STRIPPED], &[shown(0, STRIP)], Err(SAME));
        check_over("omit", &[NOTHING], &[shown(0, ToolCallsRef::Omit)], Err(SAME));
        let hidden = CompactionRef { shown: Vec::new(), ..shown(0, STRIP) };
        check_over(
            "strip-responses",
            &[STRIPPED],
            &[hidden],
            Err("the view shows nothing to strip in range"),
        );
    }

    #[test]
    fn other_hints_are_another_policy() {
        let older = CompactionRef { hints_changed: true, ..shown(0, STRIP) };
        check_over("strip", &[STRIPPED], &[older], Ok(()));
        // A hint keeps the calls of turn 0. Their tokens must not lead to the same proposal again.
        check_over("strip", &[UNSTRIPPED], &[shown(0, STRIP)], Err(SAME));
        check_over("strip", &[UNSTRIPPED, UNSTRIPPED], &[shown(0, STRIP)], Ok(()));
    }

    #[test]
    fn weaker_modes_replace_policies_for_single_calls() {
        let listed = shown(0, ToolCallsRef::Selective { seqs: vec![3] });
        check_over("strip", &[STRIPPED], std::slice::from_ref(&listed), Err(SAME));
        check_over("strip", &[UNSTRIPPED], std::slice::from_ref(&listed), Ok(()));
        check_over("strip-requests", &[STRIPPED], &[listed], Ok(()));
    }

    #[test]
    fn declines_without_calls() {
        let declined = Outcome::decline("the view shows no tool call in range");
        check("strip", &[NOTHING, NOTHING], &declined);
        check("omit", &[NOTHING], &declined);
    }

    #[test]
    fn ignores_calls_outside_the_range() {
        let request = request(1, 1, &[UNSTRIPPED, NOTHING, UNSTRIPPED]);
        let declined = Outcome::decline("the view shows no tool call in range");
        assert_eq!(ask(&StripTools, &request, &[]), Ok(declined));
    }

    #[test]
    fn rejects_unknown_options_and_modes() {
        for (key, value) in [("mode", "shred"), ("modus", "strip")] {
            let mut request = request(0, 0, &[UNSTRIPPED]);
            request.options.insert(key.to_owned(), Value::from(value));
            assert_eq!(ask(&StripTools, &request, &[]).unwrap_err().code, "options_invalid");
        }
    }
}
