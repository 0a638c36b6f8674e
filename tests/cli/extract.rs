//! The `extract` strategy: it shortens old tool calls to the lines that introduce names.

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

/// Returns text without names.
fn prose() -> String {
    "the quick brown fox jumps over the lazy dog\n".repeat(40)
}

/// Adds a call whose result introduces one path.
fn add_read(conversation: Conversation, number: usize) -> Conversation {
    let content = format!("{0}uses lib/part{number}.rs here\n{0}end", prose());
    conversation.message("Next.").call("Read", json!({"path": format!("src/{number}.rs")}), &content)
}

fn with_reads(calls: usize) -> Conversation {
    (0..calls).fold(Conversation::new().turn("Look."), add_read)
}

/// Returns the events of the view with this type.
fn view(world: &World, kind: &str) -> Vec<Value> {
    let output = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let items: Vec<Value> = serde_json::from_str(output.text()).unwrap();
    items.into_iter().map(|item| item["event"].clone()).filter(|event| event["type"] == kind).collect()
}

fn seqs(transcript: &Transcript) -> Vec<Vec<u64>> {
    let call_seqs = |overlay: &Value| {
        let calls = overlay["tool_calls"]["calls"].as_array().unwrap();
        calls.iter().map(|call| call["seq"].as_u64().unwrap()).collect()
    };
    transcript.overlays().iter().map(call_seqs).collect()
}

#[test]
fn old_results_keep_lines_with_new_names() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &with_reads(5));
    let spec = r"extract:edge_lines=0,prose=0";
    world.run(&["conversation", "--strategy", spec, "--keep-last", "0"]).exits(0);
    let results = view(&world, "tool_call_response");
    let lengths: Vec<usize> =
        results.iter().map(|result| result["content"].as_str().unwrap().lines().count()).collect();
    assert_eq!(lengths, [3, 3, 82, 82, 82], "the newest three steps stay");
    assert_eq!(results[0]["content"], "[2/82 lines]\nuses lib/part0.rs here\nend");
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn long_arguments_move_into_the_result() {
    let world = World::new();
    let arguments = json!({"path": "src/lexer.rs", "content": prose()});
    let conversation = Conversation::new().turn("Write.").call("Write", arguments, "written");
    world.write_conversation("conversation", &conversation);
    world.run(&["conversation", "--strategy", "extract:keep_steps=0,prose=0", "--keep-last", "0"]).exits(0);
    assert_eq!(view(&world, "tool_call_request")[0]["arguments"], json!({}));
    let text = "[arguments: 1/41 lines]\nsrc/lexer.rs\n[output]\nwritten";
    assert_eq!(view(&world, "tool_call_response")[0]["content"], text);
}

#[test]
fn merged_calls_share_one_result() {
    let world = World::new();
    let calls = |conversation: Conversation, number: usize| {
        let content = format!("{0}uses lib/part{number}.rs here\n{0}end", prose());
        conversation.call("Read", json!({"path": format!("src/{number}.rs")}), &content)
    };
    let conversation = (0..5).fold(Conversation::new().turn("Look.").message("Next."), calls);
    let transcript = world.write_conversation("conversation", &conversation);
    let spec = "extract:edge_lines=0,keep_steps=0,prose=0,merge=3";
    world.run(&["conversation", "--strategy", spec, "--keep-last", "0"]).exits(0);
    let results = view(&world, "tool_call_response");
    let texts: Vec<&str> = results.iter().map(|result| result["content"].as_str().unwrap()).collect();
    let [first, second] = texts[..] else { panic!("{texts:?}") };
    assert!(first.starts_with("[3 calls, 9/249 lines]\n[Read]\nsrc/0.rs\n"), "{first}");
    assert!(second.contains("[Read]\nsrc/4.rs\nuses lib/part4.rs here\nend"), "{second}");
    assert_eq!(view(&world, "tool_call_request").len(), 2);
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn later_runs_shorten_only_newly_old_results() {
    let world = World::new();
    let run = || world.run(&["conversation", "--strategy", "extract", "--keep-last", "0"]).exits(0);
    let transcript = world.write_conversation("conversation", &with_reads(5));
    run();
    let first = seqs(&transcript);
    run().reports("declined: no call in the range is old enough, long enough, and not exempt");

    let elements: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
    let grown = elements.into_iter().fold(Conversation::new(), Conversation::element);
    let transcript = world.write_conversation("conversation", &add_read(grown, 5));
    run();
    let later = seqs(&transcript).concat();
    assert_eq!((first[0].len(), later.len()), (2, 1));
    assert!(!first[0].contains(&later[0]), "{first:?} {later:?}");
}

#[test]
fn results_hidden_by_another_strategy_stay_hidden() {
    let world = World::new();
    world.write_conversation("conversation", &with_reads(5));
    world.run(&["conversation", "--strategy", "strip-tools", "--keep-last", "0"]).exits(0);
    world
        .run(&["conversation", "--strategy", "extract:keep_steps=0", "--keep-last", "0"])
        .exits(0)
        .reports("declined");
}
