//! The `trim` strategy from the command line: its options, its presets, and its schema.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Writes a conversation with results of this many characters.
fn world(results: &[usize]) -> World {
    let add = |conversation: Conversation, &chars: &usize| {
        conversation.call("Read", json!({"path": "src/lib.rs"}), &"x".repeat(chars))
    };
    let world = World::new();
    world.write_conversation("conversation", &results.iter().fold(Conversation::new().turn("Look."), add));
    world
}

/// Returns the size of each result of the view after a run.
fn sizes(world: &World, spec: &str) -> Vec<usize> {
    world.run(&["conversation", "--strategy", spec, "--keep-last", "0"]).exits(0);
    let output = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let items: Vec<Value> = serde_json::from_str(output.text()).unwrap();
    let events = items.iter().map(|item| &item["event"]);
    let results = events.filter(|event| event["type"] == "tool_call_response");
    results.map(|result| result["content"].as_str().unwrap().chars().count()).collect()
}

#[test]
fn preset_clears_all_but_three_results() {
    let cleared = "[The result of this old call of Read was cleared]".len();
    let sizes = sizes(&world(&[900; 5]), "trim:preset=clear-tool-uses");
    assert_eq!(sizes, [cleared, cleared, 900, 900, 900]);
}

#[test]
fn options_override_the_preset() {
    let sizes = sizes(&world(&[900; 3]), "trim:preset=clear-tool-uses,keep_results=1,first=100");
    assert_eq!((sizes[0] > 100, sizes[0] < 200, sizes[2]), (true, true, 900), "{sizes:?}");
}

#[test]
fn cap_applies_to_every_result() {
    let sizes = sizes(&world(&[8_000, 20_000]), "trim:preset=cap-8000");
    assert_eq!((sizes[0], sizes[1] > 8_000, sizes[1] < 8_100), (8_000, true, true), "{sizes:?}");
}

#[test]
fn does_nothing_below_min_gain() {
    let world = world(&[900; 5]);
    world
        .run(&[
            "conversation",
            "--strategy",
            "trim:preset=opencode-prune,keep_turns=0,keep_tokens=0",
            "--keep-last",
            "0",
        ])
        .exits(0)
        .reports("and `min_gain` is 20001");
}

#[test]
fn unknown_preset_is_rejected() {
    let world = world(&[900; 5]);
    world
        .run(&["conversation", "--strategy", "trim:preset=unknown", "--keep-last", "0"])
        .exits(2)
        .reports("preset");
}
