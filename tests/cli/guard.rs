//! The guard before an append: what would make the view break a rule that it keeps is refused; what it broke
//! before is told. And what saves next to nothing is told too.

use serde_json::json;

use crate::support::{Conversation, Ran, STRIP, Transcript, World, grown};

/// Replaces the content of the first tool's response in the first turn.
fn replacing(text: &str) -> String {
    let calls = format!(r#"[{{"seq":4,"response":{{"replace":"{text}"}}}}]"#);
    let policy = format!(r#"{{"policy":"selective","calls":{calls}}}"#);
    let compaction = format!(r#"{{"from_turn":0,"to_turn":0,"tool_calls":{policy}}}"#);
    format!("cat <<'END'\n{{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[{compaction}]}}\nEND")
}

fn world(conversation: &Conversation, run: &str) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", conversation);
    world.plugin("odd", run);
    (world, transcript)
}

#[track_caller]
fn notes(ran: &Ran) -> Vec<String> {
    serde_json::from_value(ran.line()["notes"].clone()).unwrap()
}

const BLANK: &str = "the view now breaks G5 turn 0 event 4: the tool's response is blank";

#[test]
fn a_view_that_would_break_a_rule_is_refused() {
    let (world, transcript) = world(&Conversation::of(2), &replacing(" \\n"));
    for more in [&[][..], &["--dry-run"], &["--provider", "all"]] {
        let ran = world.run_plugin("odd", more).exits(17);
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.stderr, @r"
            error: nothing was appended to /here/conversation/events.json: its view would break a rule

            Caused by:
              G5 turn 0 event 4: the tool's response is blank

            hint: `--allow-invalid` appends it all the same
            ");
        }
        transcript.assert_untouched();
    }
    let failed = world.run_plugin("odd", &["--json"]).exits(17).line();
    assert_eq!(failed["error"]["causes"], json!(["G5 turn 0 event 4: the tool's response is blank"]));
}

#[test]
fn it_is_appended_when_that_is_allowed() {
    let (world, transcript) = world(&Conversation::of(2), &replacing(""));
    let dry = world.run_plugin("odd", &["--allow-invalid", "--dry-run", "--json"]).exits(0);
    assert_eq!(notes(&dry), [BLANK]);
    transcript.assert_untouched();
    world.run_plugin("odd", &["--allow-invalid"]).exits(0).says(BLANK);
    assert_eq!(transcript.overlays().len(), 1);
    world.run(&["lint", "conversation"]).exits(3);
}

#[test]
fn what_leaves_a_text_is_appended() {
    let (world, transcript) = world(&Conversation::of(2), &replacing("..."));
    assert_eq!(notes(&world.run_plugin("odd", &["--json", "--provider", "all"]).exits(0)), [""; 0]);
    assert_eq!(transcript.overlays().len(), 1);
    world.run(&["lint", "conversation", "--provider", "all"]).exits(0);
}

#[test]
fn a_view_that_was_broken_before_is_compacted_and_told() {
    let lost = json!({"id": "lost", "content": "", "is_error": false});
    let orphan = Conversation::of(2).event("tool_call_response", lost).message(" ");
    let (world, transcript) = world(&orphan, STRIP);
    let was = "the view breaks G1 turn 1 event 12: the tool response `lost` has no request (and 1 more), as it did \
               before; `jp-compact lint` lists all";
    assert_eq!(notes(&world.run_plugin("odd", &["-n", "--json"]).exits(0)), [was]);
    world.run_plugin("odd", &[]).exits(0).says(was);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn what_an_older_overlay_hid_is_the_historys_own_when_it_shows_again() {
    let answer = json!({"id": "call_2", "content": "", "is_error": false});
    let across = Conversation::of(1).turn("Look.").request("fs_read_file", json!({}));
    let across = across.turn("Well?").event("tool_call_response", answer).message("There.");
    let hidden = across.compaction(json!({"from_turn": 1, "to_turn": 2, "tool_calls": {"policy": "omit"}}));
    let strip = STRIP.replace(r#""from_turn":0,"to_turn":0"#, r#""from_turn":0,"to_turn":2"#);
    let (world, transcript) = world(&hidden, &strip);
    world.run(&["lint", "conversation"]).exits(0);
    world.run_plugin("odd", &[]).exits(0).says("the view breaks G2 turn 1 event 8");
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn what_came_meanwhile_is_looked_at_too() {
    // The turn that is compacted goes on: its call is open by the time of the append.
    let event = json!({"timestamp": "2026-03-18 13:00:00.0", "type": "tool_call_request", "id": "next",
                       "name": "fs_read_file", "arguments": {}});
    let bytes = Conversation::of(1).bytes();
    let (world, transcript) = world(&Conversation::of(1), "");
    let later = world.file("later.json", &grown(&bytes, &event));
    world.plugin("odd", &format!("cp {} {}\n{STRIP}", later.display(), transcript.path.display()));
    let ran = world.run_plugin("odd", &[]).exits(5).says("grew while it was being compacted");
    assert!(
        ran.stderr.contains("G3 turn 0: overlay 1, turn 0, covers turn 0, which is still open"),
        "{}",
        ran.stderr
    );
    assert!(transcript.now() == grown(&bytes, &event), "it was written to");
}

#[test]
fn what_saves_next_to_nothing_is_told() {
    let long = "All work and no play makes Jack a dull boy. ".repeat(200);
    let (world, transcript) = world(&Conversation::of(1).turn("Go on.").message(&long), STRIP);
    let low = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&low), ["the view would become smaller by 0.2 %, and 1 % is worth it"]);
    let line = low.line();
    let [before, after] = ["before", "after"].map(|when| line["tokens"][when].as_i64().unwrap());
    assert_eq!(line["saved"], json!({"tokens": before - after, "percent": 0.2}));
    assert!(before > after);
    transcript.assert_untouched();

    world.conversation("conversation", &Conversation::of(1));
    let high = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&high), [""; 0]);
    world.plugin("odd", &replacing(&long[..400]));
    let grew = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&grew), ["the view would not become smaller"]);
    let grown = world.run_plugin("odd", &["--json"]).exits(0);
    assert_eq!(notes(&grown), ["the view did not become smaller; `--reset=N` removes overlay N again"]);
    assert!(grew.line()["saved"]["tokens"].as_i64().unwrap() < 0);
}
