//! `jp-compact fork`: the content of the copy, valid destinations, and a failing compaction of the copy.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

/// Returns six turns. Turns 0-1 are summarized, turns 1-4 stripped.
fn compacted_conversation() -> Conversation {
    Conversation::with_turns(6)
        .compaction(json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": "They said hello."}}))
        .compaction(json!({"from_turn": 1, "to_turn": 4, "reasoning": "strip"}))
}

fn events(folder: &Path) -> Vec<Value> {
    serde_json::from_slice(&fs::read(folder.join("events.json")).unwrap()).unwrap()
}

/// Returns the events of the view, without their turn numbers.
fn view(world: &World, transcript: &str) -> Vec<Value> {
    let output = world.run(&["print", transcript, "--compacted", "--json"]).exits(0);
    let view: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    view.into_iter().map(|event| event["event"].clone()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn copies_bytes_and_leaves_source_untouched() {
    let world = World::new();
    world.write_file("conversation/metadata.json", b"{\"title\": \"hello\"}");
    world.write_file("conversation/lock", b"");
    let source = world.write_conversation("conversation", &compacted_conversation());
    let output = world.run(&["fork", "conversation", "copy"]).exits(0);
    assert_eq!(output.text(), "");
    insta::assert_snapshot!(output.stderr, @"copy: 6 turns copied from conversation/events.json, 2 overlays");
    source.assert_untouched();
    let copy = world.path("copy");
    assert_eq!(names(&copy), ["base_config.json", "events.json", "metadata.json"]);
    for name in names(&copy) {
        let read = |folder: &Path| fs::read(folder.join(&name)).unwrap();
        assert!(read(&copy) == read(source.folder()), "{name}");
    }
}

#[test]
fn last_copies_turns_and_clips_overlays() {
    let world = World::new();
    let source = world.write_conversation("conversation", &compacted_conversation());
    let output = world.run(&["fork", "conversation", "copy", "--last", "3"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    copy: the last 3 of 6 turns copied from conversation/events.json, 1 overlay
      1 overlay clipped to the copied turns
    ");
    source.assert_untouched();
    let (old, new) = (events(source.folder()), events(&world.path("copy")));
    assert_eq!(new[..18], old[18..36]);
    assert_eq!((&new[18]["from_turn"], &new[18]["to_turn"]), (&json!(0), &json!(1)));
    assert_eq!(new.len(), 19);
    assert!(view(&world, "conversation").ends_with(&view(&world, "copy")));
}

#[test]
fn reports_dropped_partial_summary() {
    let world = World::new();
    world.write_conversation("conversation", &compacted_conversation());
    let output = world.run(&["fork", "conversation", "copy", "--last", "5"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    copy: the last 5 of 6 turns copied from conversation/events.json, 1 overlay
      note: dropped the summary of turns 0-1 (overlay 1), because not all of its turns are copied
    ");
    let json = world.run(&["fork", "conversation", "other", "--last", "5", "--json"]).exits(0).line();
    let overlays = json!({"kept": [2], "clipped": [], "gone": [], "summary_dropped": [1]});
    assert_eq!((&json["overlays"], &json["turns"], &json["cut"]), (&overlays, &json!(5), &json!(1)));
    assert_eq!(json["path"], world.path("other/events.json").to_str().unwrap());
}

#[test]
fn fork_keeps_view_and_receipts_and_can_be_reset() {
    let world = World::new();
    let summary = json!({"from_turn": 4, "to_turn": 5, "summary": {"summary": "They said goodbye."}});
    let source = world.write_conversation("conversation", &Conversation::with_turns(6).compaction(summary));
    world
        .run(&["conversation", "--strategy", "strip-reasoning", "--keep-first", "3", "--keep-last", "1"])
        .exits(0);
    world.run(&["conversation", "--strategy", "strip-tools", "--keep-last", "0"]).exits(0);
    world.run(&["fork", "conversation", "copy", "--last", "3"]).exits(0);
    assert!(view(&world, "conversation").ends_with(&view(&world, "copy")));
    let show_report = world.run(&["show", "copy", "--json"]).exits(0).line();
    let overlays = show_report["overlays"].as_array().unwrap().iter();
    let strategies: Vec<_> = overlays.map(|overlay| overlay["receipts"][0]["strategy"].as_str()).collect();
    assert_eq!(strategies, [None, Some("strip-reasoning"), Some("strip-tools")], "receipts must be kept");
    world.run(&["copy", "--reset"]).exits(0);
    let raw: Vec<Value> = serde_json::from_slice(source.original_bytes()).unwrap();
    assert_eq!(events(&world.path("copy")), raw[18..36]);
}

#[test]
fn compact_option_compacts_only_the_fork() {
    let world = World::new();
    let source = world.write_conversation("conversation", &Conversation::with_turns(6));
    world.write_file("set.toml", b"[conversation.compaction]\nkeep_last = 1\n");
    let options = ["--last", "4", "--compact=r", "--config", "set.toml"];
    let output = world.run(&[&["fork", "conversation", "copy"][..], &options].concat()).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    copy: the last 4 of 6 turns copied from conversation/events.json, 0 overlays
    copy/events.json: 1 overlay appended
      1  strip-reasoning [version]  turns 0-2: reasoning
      JP sends about 488 tokens instead of 573 (-15 %, estimated)
    ");
    source.assert_untouched();
    let last = &events(&world.path("copy"))[24];
    assert_eq!((&last["reasoning"], &last["to_turn"]), (&json!("strip"), &json!(2)));
    let json = world.run(&["fork", "conversation", "other", "--compact", "--json"]).exits(0).line();
    assert_eq!(
        json["report"]["overlays"].as_array().map(Vec::len),
        Some(2),
        "the default profile has two strategies"
    );
    assert_eq!(json["error"], Value::Null);
}

#[test]
fn rejects_a_focus_without_effect() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(6));
    world.write_file("s.jsonl", &crate::agent_formats::sample("claude-code.jsonl"));
    for source in ["conversation", "s.jsonl"] {
        let run =
            |extra: &[&str]| world.run(&[&["fork", source, "copy", "--focus=x"], extra].concat()).exits(2);
        run(&["--compact=default"]).reports("have no option `focus`");
        run(&[]).reports("--compact");
        assert_eq!(names(&world.path("")), ["conversation", "s.jsonl"]);
    }
}

#[test]
fn dry_run_creates_nothing() {
    let world = World::new();
    let source = world.write_conversation("conversation", &compacted_conversation());
    let output = world.run(&["fork", "conversation", "copy", "--last", "3", "--compact", "-n"]).exits(0);
    output.reports("copy: the last 3 of 6 turns would be copied").reports("copy/events.json:");
    source.assert_untouched();
    assert_eq!(names(&world.path("")), ["conversation"]);
}

#[test]
fn rejects_existing_destination() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    let other = world.write_conversation("other", &Conversation::with_turns(1));
    world.write_file("file", b"mine");
    fs::create_dir(world.path("empty")).unwrap();
    for dest in ["other", "file", "empty", "conversation", "missing/copy"] {
        world.run(&["fork", "conversation", dest]).exits(4);
        world.run(&["fork", "conversation", dest, "--dry-run"]).exits(4);
    }
    other.assert_untouched();
    assert_eq!(names(&world.path("")), ["conversation", "empty", "file", "other"]);
    assert_eq!(names(&world.path("empty")), Vec::<String>::new());
}

#[test]
fn fork_among_jp_conversations_requires_unused_id() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(3));
    let fork = |dest: &str| world.run(&["fork", "jp-c17738399468", dest, "--last", "1", "--compact=r"]);
    let conflict = fork(".jp/conversations/17738399468-copy").exits(4);
    conflict.reports("JP would confuse conversation 17738399468 with ");
    fork(".jp/conversations/copy").exits(4).reports("its name does not begin with a valid id");
    fork(".jp/conversations/17738399470-copy").exits(0);
    let line = world.run(&["show", "17738399470", "--json"]).exits(0).line();
    assert_eq!(line["conversation_id"], "17738399470");
    let folders = names(&world.path(".jp/conversations"));
    assert_eq!(folders, ["17738399468-review", "17738399470-copy"]);
}

#[test]
fn failed_copy_leaves_no_folder() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    fs::create_dir(world.path("conversation/metadata.json")).unwrap();
    world.run(&["fork", "conversation", "copy"]).exits(4).reports("it is a folder");
    let unloadable = world.write_events("unloadable", b"[{\"type\": \"turn_start\"}]\n");
    world.run(&["fork", "unloadable", "copy"]).exits(4);
    unloadable.assert_untouched();
    assert_eq!(names(&world.path("")), ["conversation", "unloadable"]);
}

#[test]
fn removes_leftovers_of_killed_process() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    // This process id is above the kernel's limit, so it cannot exist.
    world.write_file(".jpc-fork-2147483646-00/events.json", b"[");
    world.write_file(".jpc-fork-1-00/events.json", b"[");
    world.run(&["fork", "conversation", "copy"]).exits(0);
    assert_eq!(names(&world.path("")), [".jpc-fork-1-00", "conversation", "copy"]);
}

#[test]
fn fork_remains_when_its_compaction_fails() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(6));
    world.run(&["fork", "conversation", "copy", "--compact=nothing"]).exits(2);
    assert_eq!(
        names(&world.path("")),
        ["conversation"],
        "the unknown profile must be reported before the copy"
    );
    let output = world.run(&["fork", "conversation", "copy", "--compact=s", "--json"]).exits(18);
    let line = output.line();
    assert_eq!((&line["report"], &line["error"]["code"]), (&Value::Null, &json!(18)));
    Transcript::capture(world.path("copy/events.json"));
    assert_eq!(events(&world.path("copy")), events(&world.path("conversation")));
}

#[test]
fn rejects_empty_range_and_missing_arguments() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    world.run(&["fork", "conversation", "copy", "--last", "0"]).exits(2);
    world.run(&["fork", "conversation"]).exits(2);
    world.run(&["fork", "nothing", "copy"]).exits(4);
}
