//! `--reset`: the one edit beside appending.

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

fn compacted() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(5));
    world.run(&["conversation"]).exits(0).says("2 overlays appended");
    (world, transcript)
}

#[test]
fn a_reset_restores_the_very_bytes() {
    let (world, transcript) = compacted();
    let ran = world.run(&["conversation", "--reset"]).exits(0);
    assert_eq!(ran.stderr, "2 overlays removed from conversation/events.json\n");
    transcript.assert_same_bytes();
    let again = world.run(&["conversation", "--reset"]).exits(0);
    assert_eq!(again.stderr, "no overlay to remove in conversation/events.json\n");
}

#[test]
fn a_reset_of_one_takes_its_receipt_along() {
    let (world, transcript) = compacted();
    world.run(&["conversation", "--reset=1"]).exits(0).says("1 overlay removed");
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1);
    assert!(overlays[0]["reasoning"].is_null(), "{}", overlays[0]);
    world.run(&["conversation", "--reset=1"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn numbers_count_jps_own_overlays() {
    let world = World::new();
    let own = Conversation::of(5).compaction(json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip"}));
    let transcript = world.conversation("conversation", &own);
    let ran = world.run(&["conversation", "--strategy", "strip-tools", "--json"]).exits(0).line();
    assert_eq!(ran["overlays"][0]["number"], 2);
    world.run(&["conversation", "--reset=2"]).exits(0);
    transcript.assert_same_bytes();
    world.run(&["conversation", "--reset=1"]).exits(0);
    assert_eq!(transcript.now(), Conversation::of(5).bytes());
}

#[test]
fn a_number_that_is_none_is_wrong_usage() {
    let (world, transcript) = compacted();
    let before = Transcript::at(transcript.path);
    world.run(&["conversation", "--reset=3"]).exits(2).says("has no overlay 3, it has 2");
    for wrong in ["0", "-1", "x", ""] {
        world.run(&["conversation", &format!("--reset={wrong}")]).exits(2);
    }
    before.assert_untouched();
}

#[test]
fn a_number_without_its_equals_sign_does_not_remove_all() {
    let (world, transcript) = compacted();
    let before = Transcript::at(transcript.path);
    world.run(&["conversation", "--reset", "1"]).exits(2).says("`--reset=1`");
    world.run(&["--reset", "1", "conversation"]).exits(2).says("`--reset=1`");
    before.assert_untouched();
}

#[test]
fn a_reset_runs_no_strategy() {
    let (world, transcript) = compacted();
    let before = Transcript::at(transcript.path);
    for more in [["--strategy", "strip-tools"], ["--to", "3"], ["--keep-last", "0"], ["--keep-first", "0"]] {
        world.run(&[&["conversation", "--reset"], &more[..]].concat()).exits(2);
    }
    before.assert_untouched();
}

#[test]
fn a_dry_reset_changes_nothing() {
    let (world, transcript) = compacted();
    let before = Transcript::at(transcript.path);
    world.run(&["conversation", "--reset", "--dry-run"]).exits(0).says("2 overlays would be removed");
    let line = world.run(&["conversation", "--reset=2", "-n", "--json"]).exits(0).line();
    assert_eq!((&line["removed"], &line["dry_run"]), (&json!(1), &json!(true)));
    before.assert_untouched();
}

#[test]
fn a_malformed_overlay_stops_whoever_reads_and_goes_with_a_reset() {
    let valid = Conversation::of(5);
    for kind in ["compaction", "jp_compact_overlay"] {
        let world = World::new();
        let malformed = valid.clone().event(kind, json!({"from_turn": "x"}));
        let transcript = world.conversation("conversation", &malformed);
        for arguments in [&["print", "conversation"][..], &["show", "conversation"], &["conversation"]] {
            let ran = world.run(arguments).exits(4).says("element 30 (byte ");
            assert!(ran.stderr.contains(kind) && ran.stderr.contains("`--reset`"), "{}", ran.stderr);
        }
        transcript.assert_untouched();
        world.run(&["conversation", "--reset=1"]).exits(0);
        assert_eq!(transcript.now(), valid.bytes());
    }
}

#[test]
fn several_transcripts_are_reset_and_each_is_told() {
    let world = World::new();
    let transcripts = ["one", "two"].map(|name| world.conversation(name, &Conversation::of(5)));
    world.run(&["one", "two"]).exits(0);
    world.raw("bad", b"{}");
    let lines = world.run(&["one", "bad", "two", "--reset", "--json"]).exits(19).lines();
    assert_eq!(
        lines.iter().map(|line| line["removed"].as_u64()).collect::<Vec<_>>(),
        [Some(2), None, Some(2)]
    );
    transcripts.iter().for_each(Transcript::assert_same_bytes);
}

#[test]
fn layouts_that_are_not_jps_are_restored_too() {
    let pretty: Value = serde_json::from_slice(&Conversation::of(5).bytes()).unwrap();
    for bytes in [pretty.to_string(), format!(" {pretty} \n\n"), format!("{pretty}\r\n")] {
        let world = World::new();
        let transcript = world.raw("conversation", bytes.as_bytes());
        world.run(&["conversation"]).exits(0);
        assert_eq!(transcript.overlays().len(), 2);
        world.run(&["conversation", "--reset"]).exits(0);
        transcript.assert_same_bytes();
    }
}
