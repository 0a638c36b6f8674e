//! `--reset`, which removes overlays. It is the only edit other than appending.

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

fn compacted_world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    for strategy in ["strip-reasoning", "strip-tools"] {
        world.run(&["conversation", "--strategy", strategy]).exits(0).reports("1 overlay appended");
    }
    (world, transcript)
}

#[test]
fn restores_original_bytes() {
    let (world, transcript) = compacted_world();
    let output = world.run(&["conversation", "--reset"]).exits(0);
    assert_eq!(output.stderr, "2 overlays removed from conversation/events.json\n");
    transcript.assert_same_bytes();
    let second_reset = world.run(&["conversation", "--reset"]).exits(0);
    assert_eq!(second_reset.stderr, "no overlay to remove in conversation/events.json\n");
}

#[test]
fn removing_one_overlay_removes_its_receipt() {
    let (world, transcript) = compacted_world();
    world.run(&["conversation", "--reset=1"]).exits(0).reports("1 overlay removed");
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1);
    assert!(overlays[0]["reasoning"].is_null(), "{}", overlays[0]);
    world.run(&["conversation", "--reset=1"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn numbers_include_overlays_of_jp() {
    let world = World::new();
    let with_jp_overlay =
        Conversation::with_turns(5).compaction(json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip"}));
    let transcript = world.write_conversation("conversation", &with_jp_overlay);
    let output = world.run(&["conversation", "--strategy", "strip-tools", "--json"]).exits(0).line();
    assert_eq!(output["overlays"][0]["number"], 2);
    world.run(&["conversation", "--reset=2"]).exits(0);
    transcript.assert_same_bytes();
    world.run(&["conversation", "--reset=1"]).exits(0);
    assert_eq!(transcript.current_bytes(), Conversation::with_turns(5).bytes());
}

#[test]
fn rejects_invalid_numbers() {
    let (world, transcript) = compacted_world();
    let before = Transcript::capture(transcript.path);
    world.run(&["conversation", "--reset=3"]).exits(2).reports("has no overlay 3; it has 2 overlays");
    for number in ["0", "-1", "x", ""] {
        world.run(&["conversation", &format!("--reset={number}")]).exits(2);
    }
    before.assert_untouched();
}

#[test]
fn number_without_equals_sign_removes_nothing() {
    let (world, transcript) = compacted_world();
    let before = Transcript::capture(transcript.path);
    world.run(&["conversation", "--reset", "1"]).exits(2).reports("`--reset=1`");
    world.run(&["--reset", "1", "conversation"]).exits(2).reports("`--reset=1`");
    before.assert_untouched();
}

#[test]
fn rejects_strategy_and_range_options() {
    let (world, transcript) = compacted_world();
    let before = Transcript::capture(transcript.path);
    for options in [["--strategy", "strip-tools"], ["--to", "3"], ["--keep-last", "0"], ["--keep-first", "0"]]
    {
        world.run(&[&["conversation", "--reset"], &options[..]].concat()).exits(2);
    }
    before.assert_untouched();
}

#[test]
fn dry_run_changes_nothing() {
    let (world, transcript) = compacted_world();
    let before = Transcript::capture(transcript.path);
    world.run(&["conversation", "--reset", "--dry-run"]).exits(0).reports("2 overlays would be removed");
    let line = world.run(&["conversation", "--reset=2", "-n", "--json"]).exits(0).line();
    assert_eq!((&line["removed"], &line["dry_run"]), (&json!(1), &json!(true)));
    before.assert_untouched();
}

#[test]
fn removes_malformed_overlay_that_blocks_reading() {
    let valid = Conversation::with_turns(5);
    for kind in ["compaction", "jp_compact_overlay"] {
        let world = World::new();
        let malformed = valid.clone().event(kind, json!({"from_turn": "x"}));
        let transcript = world.write_conversation("conversation", &malformed);
        for arguments in [&["print", "conversation"][..], &["show", "conversation"], &["conversation"]] {
            let output = world.run(arguments).exits(4).reports("element 30 (byte ");
            assert!(output.stderr.contains(kind) && output.stderr.contains("`--reset`"), "{}", output.stderr);
        }
        transcript.assert_untouched();
        world.run(&["conversation", "--reset=1"]).exits(0);
        assert_eq!(transcript.current_bytes(), valid.bytes());
    }
}

#[test]
fn resets_several_transcripts_and_reports_each() {
    let world = World::new();
    let transcripts = ["one", "two"].map(|name| world.write_conversation(name, &Conversation::with_turns(5)));
    world.run(&["one", "two"]).exits(0);
    world.write_events("bad", b"{}");
    let lines = world.run(&["one", "bad", "two", "--reset", "--json"]).exits(19).lines();
    assert_eq!(
        lines.iter().map(|line| line["removed"].as_u64()).collect::<Vec<_>>(),
        [Some(1), None, Some(1)]
    );
    transcripts.iter().for_each(Transcript::assert_same_bytes);
}

#[test]
fn restores_other_layouts() {
    let events: Value = serde_json::from_slice(&Conversation::with_turns(5).bytes()).unwrap();
    for bytes in [events.to_string(), format!(" {events} \n\n"), format!("{events}\r\n")] {
        let world = World::new();
        let transcript = world.write_events("conversation", bytes.as_bytes());
        world.run(&["conversation"]).exits(0);
        assert_eq!(transcript.overlays().len(), 1);
        world.run(&["conversation", "--reset"]).exits(0);
        transcript.assert_same_bytes();
    }
}

#[test]
fn format_selects_the_sidecar_of_a_file_named_events_json() {
    let world = World::new();
    let call = json!({"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "a line\n".repeat(100)});
    let messages = json!([
        {"role": "user", "content": "Read it."}, {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]}, {"role": "assistant", "content": "Done."},
    ]);
    let body = json!({"model": "claude-x", "max_tokens": 10, "messages": messages}).to_string();
    let transcript = world.write_events("x", body.as_bytes());
    let format = ["x/events.json", "--format", "anthropic"];
    world.run(&[&format[..], &["-s", "strip-tools", "--keep-last", "0"]].concat()).exits(0);
    assert!(world.path("x/.events.json.jp-compact").exists());
    let line = world.run(&[&format[..], &["--reset", "--json"]].concat()).exits(0).line();
    assert_eq!((&line["removed"], line["tokens"].is_null()), (&json!(1), false), "{line}");
    assert!(!world.path("x/.events.json.jp-compact").exists());
    transcript.assert_same_bytes();
}
