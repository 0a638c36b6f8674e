//! Needs of strategies, and the answers to them.

use std::sync::Arc;

use jp_compact_runtime::session::Error;
use jp_compact_runtime::session::{Recorded, Sessions};
use jp_compact_schema::{Answer as RecordedAnswer, Message, NeedRequest, Role};
use serde_json::{Map, json};

use crate::world::{
    NEVER, World, block_on, check_error, error_text, reason, starter, with_and_without_worker,
};

#[test]
fn needs_are_answered_in_rounds() {
    with_and_without_worker("needs-once", |answer| assert_eq!(reason(answer), "was answered"));
    with_and_without_worker("needs-twice", |answer| assert_eq!(reason(answer), "was answered"));
    with_and_without_worker("needs-an-unknown-kind", |answer| assert_eq!(reason(answer), "was not answered"));
}

#[test]
fn needs_are_limited() {
    check_error("needs-for-ever", "it replied `needs` more than 8 times");
    check_error("needs-the-same-again", "its `needs` reuse the key `s0` of an earlier round");
    check_error("needs-to-keep-much", "its `state` has 65537 bytes; at most 65536 are allowed");
    let world = World::new(1);
    error_text(block_on(world.ask("needs-for-ever")));
    world.check_arrivals(&[(0, "c1"); 9]);
}

#[test]
fn model_answers_only_with_permission() {
    check_error("needs-a-model", "it needs `llm`, which was not granted");
    let question = NeedRequest::LlmComplete {
        model: None,
        system: None,
        messages: vec![Message { role: Role::User, content: "hello".into() }],
        max_tokens: None,
        note: false,
    };
    let text = Map::from_iter([("text".to_owned(), json!("hi there")), ("model".to_owned(), json!("m"))]);
    let recorded = Recorded::default().with(&question, RecordedAnswer::Ok(text));
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
        // Declining after a failed model call is reported as an error of the model.
        match ask(&Recorded::default()) {
            Err(Error::Model { answer, reason }) => {
                assert_eq!((answer.code.as_str(), reason.as_str()), ("llm_unavailable", "was not answered"));
            }
            other => panic!("{other:?}"),
        }
    }
}
