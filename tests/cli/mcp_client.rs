//! Complete sessions with an independent client, the Python SDK of the Model Context Protocol. These tests are ignored
//! by default. CI runs them: it sets `JP_COMPACT_TEST_MCP` to a Python with the SDK.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::mcp_sessions::write_session;
use crate::support::{Conversation, Model, World};

pub(crate) const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
const SESSION: &str = "01a1fd18-25ed-7671-90cc-5ecb92e14c45";
const FOCUS: &str = "Current status of feature X, steps completed so far";

/// Returns the Python that has the SDK.
pub(crate) fn python() -> String {
    let python = std::env::var("JP_COMPACT_TEST_MCP")
        .expect("JP_COMPACT_TEST_MCP is not set to a Python with the SDK");
    assert!(Path::new(&python).is_file(), "{python} is missing");
    python
}

/// Runs a session with these calls. Returns the client's report on the tools, and on each call.
fn session(mode: &str, world: &World, model: &Model, calls: &[(&str, Value)]) -> Vec<Value> {
    let lines: Vec<_> =
        calls.iter().map(|(tool, arguments)| format!("{}\n", json!([tool, arguments]))).collect();
    let stdin = world.write_file("calls", lines.concat().as_bytes());
    let mut client = Command::new(python());
    world.isolate(&mut client).args([CLIENT, mode]).arg(cargo_bin!("jp-compact"));
    client.args(["mcp", "project", "--allow-model", "--model", "openai/g", "--sandbox=contained"]);
    model.configure(&mut client).stdin(fs::File::open(stdin).unwrap());
    world.finish(&mut client).exits(0).lines()
}

/// Checks J-CLI's third layer. An agent lists the tools, reads the size of its conversation, and compacts it. It names
/// the information to preserve.
#[track_caller]
fn check(mode: &str, protocol: &str) {
    let world = World::new();
    let conversation = (0..4).fold(Conversation::bulky(2), |conversation, _| conversation.whole_turn());
    let transcript = world.write_conversation("project/talk", &conversation);
    let model = Model::with_answer("Feature X: step 2 of 5 is done.");
    let arguments_with = |members: Value| {
        let mut arguments = json!({"transcript": "talk"});
        arguments.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        arguments
    };
    let calls = [
        ("stats", arguments_with(json!({}))),
        ("compact", arguments_with(json!({"profile": "auto-summarize", "focus": FOCUS}))),
        ("show", arguments_with(json!({}))),
        ("print", arguments_with(json!({"compacted": true, "as": "text"}))),
        ("compact", json!({"transcript": "../elsewhere"})),
        ("diff", arguments_with(json!({}))),
        ("search", arguments_with(json!({"query": "no importance", "max": 1}))),
        ("expand", arguments_with(json!({"event": 0}))),
        ("list", json!({})),
        ("fork", json!({"transcript": SESSION, "profile": "light"})),
        ("reset", arguments_with(json!({"number": 1}))),
    ];
    let source = write_session(&world, SESSION, "project");
    let reports = session(mode, &world, &model, &calls);
    let [tools, stats, compacted, shown, printed, rejected, diff, found, expanded, listed, forked, reset] =
        reports.as_slice()
    else {
        panic!("{reports:#?}")
    };
    let names = ["list", "compact", "fork", "stats", "show", "diff", "print", "search", "expand", "reset"];
    assert_eq!(tools, &json!({"protocol": protocol, "tools": names}));
    let failed: Vec<_> = reports[1..].iter().map(|call| call["failed"] == true).collect();
    assert_eq!(failed.iter().filter(|failed| **failed).count(), 1, "{reports:#?}");
    let called: BTreeSet<_> = calls.iter().map(|(tool, _)| *tool).collect();
    assert_eq!(called, BTreeSet::from(names), "every tool is called");

    let tokens = &compacted["structured"]["tokens"];
    assert_eq!(stats["structured"]["tokens"]["view_after"], tokens["view_before"]);
    assert!(tokens["view_after"].as_u64() < tokens["view_before"].as_u64(), "{tokens}");
    assert!(model.requests()[0].to_string().contains(FOCUS));
    assert_eq!(shown["structured"]["overlays"].as_array().map(Vec::len), Some(1));
    let text = printed["text"].as_str().unwrap();
    assert!(text.contains("Feature X: step 2 of 5 is done.") && !text.contains("no importance"), "{text}");
    assert_eq!(rejected["structured"]["error"]["code"], 4);
    assert!(diff["structured"]["changes"].as_array().is_some_and(|changes| !changes.is_empty()), "{diff}");
    assert!(found["structured"]["matches"][0]["excerpt"].as_str().unwrap().contains("no importance"));
    assert_eq!(expanded["structured"]["text"], expanded["text"]);
    assert!(listed["structured"]["sessions"].as_array().unwrap().iter().any(|row| row["id"] == SESSION));
    assert!(forked["structured"]["session"]["resume"].as_str().unwrap().contains("claude --resume "));
    assert_eq!(source.current_bytes(), source.original_bytes());
    assert_eq!(reset["structured"]["removed"], 1);
    transcript.assert_same_bytes();
}

#[test]
#[ignore = "needs Python and the SDK; CI runs it"]
fn python_sdk_client_compacts_its_conversation() {
    check("auto", "2026-07-28");
}

#[test]
#[ignore = "needs Python and the SDK; CI runs it"]
fn python_sdk_client_works_with_older_protocol() {
    check("legacy", "2025-11-25");
}
