//! Resolution of arguments. All of them are resolved before anything runs, so a typo compacts nothing.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

fn world() -> (World, [Transcript; 2]) {
    let world = World::new();
    let transcripts = ["one", "two"].map(|name| world.write_conversation(name, &Conversation::with_turns(5)));
    (world, transcripts)
}

/// Checks that a run is rejected with this exit code and this part of its message, and changes nothing.
#[track_caller]
fn check_rejected(arguments: &[&str], code: i32, message: &str) {
    let (world, transcripts) = world();
    for extra in [&[][..], &["--dry-run"], &["--overlap", "union"]] {
        let output = world.run(&[arguments, extra].concat()).exits(code).reports(message);
        assert_eq!(output.text(), "");
    }
    transcripts.iter().for_each(Transcript::assert_untouched);
}

#[test]
fn unknown_word_suggests_command() {
    check_rejected(&["undo", "one"], 2, "`jp-compact one --reset` removes overlays");
    check_rejected(&["reset", "one"], 2, "`jp-compact one --reset` removes overlays");
    check_rejected(&["preview", "one"], 2, "`jp-compact one --dry-run` shows the effect without appending");
    check_rejected(&["compact", "one"], 2, "compacting needs no command: `jp-compact one`");
    check_rejected(&["shwo", "one"], 2, "did you mean `jp-compact show one`?");
    check_rejected(&["PRINT", "one"], 2, "did you mean `jp-compact print one`?");
    check_rejected(&["strtegy", "list"], 2, "did you mean `jp-compact strategy list`?");
    check_rejected(&["mam"], 2, "did you mean `jp-compact man`?");
    check_rejected(&["sho"], 2, "did you mean `jp-compact show TRANSCRIPT`?");
    check_rejected(&["17738399468-talk", "one"], 2, "`jp-compact 17738399468` compacts that conversation");
    check_rejected(&["frobnicate", "one"], 2, "`frobnicate` is not a command, an existing path, or an id");
}

#[test]
fn words_after_a_mistyped_command_are_not_transcripts() {
    let (world, transcripts) = world();
    let output = world.run(&["strtegy", "list"]).exits(2);
    assert!(!output.stderr.contains("`list` is not a command"), "{}", output.stderr);
    transcripts.iter().for_each(Transcript::assert_untouched);
}

#[test]
fn unknown_word_at_any_position_compacts_nothing() {
    check_rejected(&["one", "undo"], 2, "`undo` is not a command");
    check_rejected(
        &["one", "two", "undo"],
        2,
        "no transcript was changed: 1 of 3 transcripts cannot be used",
    );
    check_rejected(&["undo"], 2, "`jp-compact TRANSCRIPT --reset`");
    check_rejected(&["auto", "undo", "one"], 2, "`undo` is not a command");
}

#[test]
fn missing_path_compacts_nothing() {
    check_rejected(&["one", "sesion.jsonl"], 4, "failed to find a transcript at /here/sesion.jsonl");
    check_rejected(&["./undo", "one"], 4, "failed to find a transcript at /here/./undo");
    check_rejected(&["one", "17738399468"], 4, "17738399468");
    check_rejected(&["sesion.jsonl", "undo", "one"], 2, "2 of 3 transcripts cannot be used");
    check_rejected(&["auto", "one", "sesion.jsonl"], 4, "failed to find a transcript at");
}

#[test]
fn reset_removes_nothing_when_an_argument_is_wrong() {
    let (world, transcripts) = world();
    world.run(&["one", "two"]).exits(0);
    let lines = world.run(&["one", "undo", "two", "--reset", "--json"]).exits(2).lines();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&line["path"], &line["error"]["code"]), (&json!("undo"), &json!(2)), "{line}");
    assert!(transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn existing_path_wins_over_suggestions() {
    let (world, [one, _]) = world();
    let undo = world.write_conversation("undo", &Conversation::with_turns(5));
    world.run(&["undo", "one"]).exits(0);
    assert_eq!((undo.overlays().len(), one.overlays().len()), (1, 1));
    let show = world.write_conversation("show", &Conversation::with_turns(5));
    world.run(&["show"]).exits(2);
    show.assert_untouched();
    world.run(&["./show"]).exits(0);
    assert_eq!(show.overlays().len(), 1);
}

#[test]
fn path_without_transcript_stops_the_run() {
    let (world, transcripts) = world();
    fs::create_dir(world.path("undo")).unwrap();
    world.run(&["one", "undo"]).exits(4).reports("/here/undo");
    symlink("gone", world.path("preview")).unwrap();
    world.run(&["preview", "one"]).exits(4).reports("failed to find a transcript at /here/preview");
    transcripts.iter().for_each(Transcript::assert_untouched);
}

#[test]
fn unreadable_transcript_does_not_stop_others() {
    let (world, transcripts) = world();
    world.write_events("bad", b"{}");
    let lines = world.run(&["one", "bad", "two", "--json"]).exits(19).lines();
    let failed: Vec<_> = lines.iter().map(|line| line["error"].get("code").and_then(Value::as_u64)).collect();
    assert_eq!(failed, [None, Some(4), None]);
    assert!(transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}
