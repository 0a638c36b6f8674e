//! What strategies need, and who answers.

use std::sync::Arc;

use jp_compact_engine::StrategyFailure;
use jp_compact_engine::session::{Recorded, Sessions};
use jp_compact_schema::{Answer as Given, Message, NeedRequest, Role};
use serde_json::{Map, json};

use crate::world::{NEVER, World, block_on, both, both_fail, failed, reason, starter};

#[test]
fn what_is_needed_is_given_round_by_round() {
    both("needs-once", |answer| assert_eq!(reason(answer), "was answered"));
    both("needs-twice", |answer| assert_eq!(reason(answer), "was answered"));
    both("needs-something-new", |answer| assert_eq!(reason(answer), "was not answered"));
}

#[test]
fn needs_end() {
    both_fail("needs-for-ever", "it answered `needs` more than 8 times");
    both_fail("needs-the-same-again", "it needs `s0`, a key that it has used before");
    both_fail("needs-to-keep-much", "its `state` has 65537 bytes, 65536 are allowed");
    let world = World::new(1);
    failed(block_on(world.ask("needs-for-ever")));
    world.arrived(&[(0, "c1"); 9]);
}

#[test]
fn a_model_answers_whom_it_was_granted() {
    both_fail("needs-a-model", "it needs `llm`, which was not granted");
    let question = NeedRequest::LlmComplete {
        model: None,
        system: None,
        messages: vec![Message { role: Role::User, content: "hello".into() }],
        max_tokens: None,
    };
    let text = Map::from_iter([("text".to_owned(), json!("hi there")), ("model".to_owned(), json!("m"))]);
    let recorded = Recorded::default().with(&question, Given::Ok(text));
    for workers_max in [0, 1] {
        let ask = |recorded: &Recorded| {
            let world = World::new(workers_max);
            let sessions = Sessions::new(starter(world.folder.path(), None), NEVER)
                .answered_by(Arc::new(recorded.clone()));
            let world =
                World { sessions: sessions.with_workers(workers_max), needs: vec!["llm".into()], ..world };
            block_on(world.ask("needs-a-model"))
        };
        assert_eq!(reason(ask(&recorded)), "was answered");
        // That it gives up then is the model's doing, not the strategy's decision.
        match ask(&Recorded::default()) {
            Err(StrategyFailure::Model { answer, said }) => {
                assert_eq!((answer.code.as_str(), said.as_str()), ("llm_unavailable", "was not answered"));
            }
            other => panic!("{other:?}"),
        }
    }
}
