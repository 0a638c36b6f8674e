//! The strategy `strip-reasoning`: removes the reasoning of the requested turns from the view. It reads only the turn
//! table.

use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, Reasoning, STEPS,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve};

struct StripReasoning;

impl Strategy for StripReasoning {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Reasoning],
            input: Input::None,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned(), "pipeline".to_owned(), STEPS.to_owned()],
            ..Description::new("strip-reasoning", env!("CARGO_PKG_VERSION"), "Remove reasoning from the view")
        }
    }

    fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let range = request.requested_range;
        if request.turns_in(range).all(|row| row.kinds.reasoning == 0) {
            return Ok(Outcome::decline("the view shows no reasoning in range"));
        }
        Ok(Outcome::propose(Payload { reasoning: Some(Reasoning::Strip), ..Payload::new(range) }))
    }
}

fn main() -> ExitCode {
    serve(StripReasoning)
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::schema::{Kinds, Range};
    use jp_compact_strategy::testing::{ask, request};

    use super::*;

    #[track_caller]
    fn check(reasoning: [u64; 3], expect: &Outcome) {
        let turns = reasoning.map(|reasoning| Kinds { reasoning, ..Kinds::default() });
        assert_eq!(ask(&StripReasoning, &request(1, 2, &turns), &[]).as_ref(), Ok(expect));
    }

    #[test]
    fn strips_the_whole_range() {
        let range = Range::turns(1, 2);
        let proposed = Outcome::propose(Payload { reasoning: Some(Reasoning::Strip), ..Payload::new(range) });
        check([0, 0, 1], &proposed);
        check([9, 1, 0], &proposed);
    }

    #[test]
    fn ignores_reasoning_outside_the_range() {
        check([9, 0, 0], &Outcome::decline("the view shows no reasoning in range"));
    }
}
