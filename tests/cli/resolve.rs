//! Every argument is resolved before anything runs: a slip of the user's compacts nothing.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

fn world() -> (World, [Transcript; 2]) {
    let world = World::new();
    let transcripts = ["one", "two"].map(|name| world.conversation(name, &Conversation::of(5)));
    (world, transcripts)
}

/// Nothing is done: the exit code, and a part of the hint or the message.
#[track_caller]
fn refused(words: &[&str], code: i32, says: &str) {
    let (world, transcripts) = world();
    for more in [&[][..], &["--dry-run"], &["--overlap", "union"]] {
        let ran = world.run(&[words, more].concat()).exits(code).says(says);
        assert_eq!(ran.text(), "");
    }
    transcripts.iter().for_each(Transcript::assert_untouched);
}

#[test]
fn an_unknown_word_compacts_nothing_and_names_what_was_meant() {
    refused(&["undo", "one"], 2, "`jp-compact one --reset` removes overlays");
    refused(&["reset", "one"], 2, "`jp-compact one --reset` removes overlays");
    refused(&["preview", "one"], 2, "`jp-compact one --dry-run` shows what would be done");
    refused(&["diff", "one"], 2, "`jp-compact one --dry-run` shows what would be done");
    refused(&["compact", "one"], 2, "`jp-compact one` compacts");
    refused(&["shwo", "one"], 2, "`jp-compact show one` is a command");
    refused(&["PRINT", "one"], 2, "`jp-compact print one` is a command");
    refused(&["17738399468-talk", "one"], 2, "`jp-compact 17738399468` is that conversation");
    refused(&["frobnicate", "one"], 2, "`frobnicate` is neither a command, nor an existing path, nor an id");
}

#[test]
fn a_word_in_any_place_compacts_nothing() {
    refused(&["one", "undo"], 2, "`undo` is neither");
    refused(&["one", "two", "undo"], 2, "nothing was done: 1 of 3 transcripts cannot be used");
    refused(&["undo"], 2, "`jp-compact TRANSCRIPT --reset`");
    refused(&["auto", "undo", "one"], 2, "`undo` is neither");
}

#[test]
fn a_path_that_is_not_there_compacts_nothing() {
    refused(&["one", "sesion.jsonl"], 4, "there is no transcript at /here/sesion.jsonl");
    refused(&["./undo", "one"], 4, "there is no transcript at /here/./undo");
    refused(&["one", "17738399468"], 4, "17738399468");
    refused(&["sesion.jsonl", "undo", "one"], 2, "2 of 3 transcripts cannot be used");
    refused(&["auto", "one", "sesion.jsonl"], 4, "there is no transcript at");
}

#[test]
fn a_reset_removes_nothing_where_an_argument_is_wrong() {
    let (world, transcripts) = world();
    world.run(&["one", "two"]).exits(0);
    let lines = world.run(&["one", "undo", "two", "--reset", "--json"]).exits(2).lines();
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&line["path"], &line["error"]["code"]), (&json!("undo"), &json!(2)), "{line}");
    assert!(transcripts.iter().all(|transcript| transcript.overlays().len() == 2));
}

#[test]
fn an_existing_path_is_a_path_whatever_it_is_called() {
    let (world, [one, _]) = world();
    let undo = world.conversation("undo", &Conversation::of(5));
    world.run(&["undo", "one"]).exits(0);
    assert_eq!((undo.overlays().len(), one.overlays().len()), (2, 2));
    let show = world.conversation("show", &Conversation::of(5));
    world.run(&["show"]).exits(2);
    show.assert_untouched();
    world.run(&["./show"]).exits(0);
    assert_eq!(show.overlays().len(), 2);
}

#[test]
fn an_existing_path_that_is_not_a_transcript_stops_the_others() {
    let (world, transcripts) = world();
    fs::create_dir(world.path("undo")).unwrap();
    world.run(&["one", "undo"]).exits(4).says("/here/undo");
    symlink("gone", world.path("preview")).unwrap();
    world.run(&["preview", "one"]).exits(4).says("there is no transcript at /here/preview");
    transcripts.iter().for_each(Transcript::assert_untouched);
}

#[test]
fn a_transcript_that_cannot_be_read_stops_no_other() {
    let (world, transcripts) = world();
    world.raw("bad", b"{}");
    let lines = world.run(&["one", "bad", "two", "--json"]).exits(19).lines();
    let failed: Vec<_> = lines.iter().map(|line| line["error"].get("code").and_then(Value::as_u64)).collect();
    assert_eq!(failed, [None, Some(4), None]);
    assert!(transcripts.iter().all(|transcript| transcript.overlays().len() == 2));
}
