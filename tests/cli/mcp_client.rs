//! A client of somebody else's make: the Python SDK of the Model Context Protocol, in one session from the first word to
//! the last. It runs where `JP_COMPACT_TEST_MCP` names a Python that has the SDK, and CI sees to that.

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::support::{Conversation, Model, World};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
const FOCUS: &str = "Current status of feature X, steps completed so far";

/// A session of these calls: what the client says of the tools, and of each call.
fn session(mode: &str, world: &World, model: &Model, calls: &[(&str, Value)]) -> Vec<Value> {
    let python =
        std::env::var("JP_COMPACT_TEST_MCP").expect("JP_COMPACT_TEST_MCP names a Python with the SDK");
    assert!(Path::new(&python).is_file(), "{python} is not there");
    let lines: Vec<_> =
        calls.iter().map(|(tool, arguments)| format!("{}\n", json!([tool, arguments]))).collect();
    let stdin = world.file("calls", lines.concat().as_bytes());
    let mut client = Command::new(python);
    world.enter(&mut client).args([CLIENT, mode]).arg(cargo_bin!("jp-compact"));
    client.args(["mcp", "house", "--allow-model", "--model", "openai/g", "--sandbox=contained"]);
    model.of(&mut client).stdin(fs::File::open(stdin).unwrap());
    world.finish(&mut client).exits(0).lines()
}

/// An agent lists the tools, sees that its conversation is large, compacts it by itself and says what to preserve (J-CLI's third layer).
#[track_caller]
fn check(mode: &str, protocol: &str) {
    let world = World::new();
    let talk = (0..4).fold(Conversation::bulky(2), |talk, _| talk.whole_turn());
    let transcript = world.conversation("house/talk", &talk);
    let model = Model::saying("Feature X: step 2 of 5 is done.");
    let of = |more: Value| {
        let mut arguments = json!({"transcript": "talk"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let calls = [
        ("stats", of(json!({}))),
        ("compact", of(json!({"profile": "auto-summarize", "focus": FOCUS}))),
        ("show", of(json!({}))),
        ("print", of(json!({"compacted": true, "as": "text"}))),
        ("compact", json!({"transcript": "../elsewhere"})),
        ("reset", of(json!({"number": 1}))),
    ];
    let said = session(mode, &world, &model, &calls);
    let [listed, stats, compacted, shown, printed, outside, reset] = said.as_slice() else {
        panic!("{said:#?}")
    };
    assert_eq!(
        listed,
        &json!({"protocol": protocol, "tools": ["compact", "stats", "show", "print", "reset"]})
    );
    let failed: Vec<_> = said[1..].iter().map(|called| called["failed"] == true).collect();
    assert_eq!(failed, [false, false, false, false, true, false], "{said:#?}");

    let tokens = &compacted["structured"]["tokens"];
    assert_eq!(stats["structured"]["stats"]["all"]["tokens"]["after"], tokens["before"]);
    assert!(tokens["after"].as_u64() < tokens["before"].as_u64(), "{tokens}");
    assert!(model.asked()[0].to_string().contains(FOCUS));
    assert_eq!(shown["structured"]["overlays"].as_array().map(Vec::len), Some(1));
    let text = printed["text"].as_str().unwrap();
    assert!(text.contains("Feature X: step 2 of 5 is done.") && !text.contains("no importance"), "{text}");
    assert_eq!(outside["structured"]["error"]["code"], 4);
    assert_eq!(reset["structured"]["removed"], 1);
    transcript.assert_same_bytes();
}

#[test]
#[ignore = "needs Python and the SDK; a step of CI"]
fn an_agent_of_somebody_elses_make_compacts_its_own_conversation() {
    check("auto", "2026-07-28");
}

#[test]
#[ignore = "needs Python and the SDK; a step of CI"]
fn one_that_speaks_the_older_protocol_does_too() {
    check("legacy", "2025-11-25");
}
