//! A strategy that removes reasoning from the view.

use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, Reasoning,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve};

struct MyStrip;

impl Strategy for MyStrip {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Reasoning],
            // The turn table in the header has enough data, so no events are requested.
            input: Input::None,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned()],
            ..Description::new("my-strip", "1.0.0", "Strip reasoning")
        }
    }

    fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let range = request.requested_range;
        if request.turns_in(range).all(|turn| turn.kinds.reasoning == 0) {
            return Ok(Outcome::decline("no reasoning in range"));
        }
        Ok(Outcome::propose(Payload { reasoning: Some(Reasoning::Strip), ..Payload::new(range) }))
    }
}

fn main() -> ExitCode {
    serve(MyStrip)
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::schema::Kinds;
    use jp_compact_strategy::testing::{ask, request};

    use super::*;

    #[test]
    fn declines_without_reasoning() {
        let request = request(0, 0, &[Kinds::default()]);
        assert_eq!(ask(&MyStrip, &request, &[]), Ok(Outcome::decline("no reasoning in range")));
    }

    #[test]
    fn strips_the_requested_range() {
        let reasoning = Kinds { reasoning: 1, reasoning_tokens: 40, ..Kinds::default() };
        let outcome = ask(&MyStrip, &request(0, 1, &[Kinds::default(), reasoning]), &[]);
        assert!(matches!(outcome, Ok(Outcome::Result { compactions, .. }) if compactions[0].to_turn == 1));
    }
}
