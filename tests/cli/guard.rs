//! The check before an append. An overlay that makes the view break a rule is rejected. Violations that
//! existed before are only reported, and so are small savings.

use serde_json::json;

use crate::support::{CommandOutput, Conversation, STRIP, Transcript, World, append_event};

/// Returns shell code for a result that replaces the first tool response of the first turn.
fn replacement(text: &str) -> String {
    let calls = format!(r#"[{{"seq":4,"response":{{"replace":"{text}"}}}}]"#);
    let policy = format!(r#"{{"policy":"selective","calls":{calls}}}"#);
    let compaction = format!(r#"{{"from_turn":0,"to_turn":0,"tool_calls":{policy}}}"#);
    format!("cat <<'END'\n{{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[{compaction}]}}\nEND")
}

fn world(conversation: &Conversation, run: &str) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", conversation);
    world.write_plugin("odd", run);
    (world, transcript)
}

#[track_caller]
fn notes(output: &CommandOutput) -> Vec<String> {
    serde_json::from_value(output.line()["notes"].clone()).unwrap()
}

const BLANK: &str = "the view now violates G5 turn 0 event 4: the tool's response is blank";

#[test]
fn rejects_view_that_breaks_a_rule() {
    let (world, transcript) = world(&Conversation::with_turns(2), &replacement(" \\n"));
    for extra in [&[][..], &["--dry-run"], &["--provider", "all"]] {
        let output = world.run_plugin("odd", extra).exits(17);
        insta::allow_duplicates! {
            insta::assert_snapshot!(output.stderr, @r"
            error: failed to append to /here/conversation/events.json: the view would violate a lint rule

            Caused by:
              G5 turn 0 event 4: the tool's response is blank

            hint: `--allow-invalid` appends the overlays anyway
            ");
        }
        transcript.assert_untouched();
    }
    let failed = world.run_plugin("odd", &["--json"]).exits(17).line();
    assert_eq!(failed["error"]["causes"], json!(["G5 turn 0 event 4: the tool's response is blank"]));
}

#[test]
fn allow_invalid_appends_anyway() {
    let (world, transcript) = world(&Conversation::with_turns(2), &replacement(""));
    let dry_run = world.run_plugin("odd", &["--allow-invalid", "--dry-run", "--json"]).exits(0);
    assert_eq!(notes(&dry_run), [BLANK]);
    transcript.assert_untouched();
    world.run_plugin("odd", &["--allow-invalid"]).exits(0).reports(BLANK);
    assert_eq!(transcript.overlays().len(), 1);
    world.run(&["lint", "conversation"]).exits(3);
}

#[test]
fn accepts_replacement_text() {
    let (world, transcript) = world(&Conversation::with_turns(2), &replacement("..."));
    assert_eq!(notes(&world.run_plugin("odd", &["--json", "--provider", "all"]).exits(0)), [""; 0]);
    assert_eq!(transcript.overlays().len(), 1);
    world.run(&["lint", "conversation", "--provider", "all"]).exits(0);
}

#[test]
fn existing_violation_is_reported_and_compaction_continues() {
    let orphan_response = json!({"id": "lost", "content": "", "is_error": false});
    let orphan = Conversation::with_turns(2).event("tool_call_response", orphan_response).message(" ");
    let (world, transcript) = world(&orphan, STRIP);
    let warning = "the view still violates G1 turn 1 event 12: the tool response `lost` has no request (and 1 more); \
               `jp-compact lint` lists all violations";
    assert_eq!(notes(&world.run_plugin("odd", &["-n", "--json"]).exits(0)), [warning]);
    world.run_plugin("odd", &[]).exits(0).reports(warning);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn uncovered_violation_of_history_is_only_reported() {
    let response = json!({"id": "call_2", "content": "", "is_error": false});
    let split_call = Conversation::with_turns(1).turn("Look.").request("fs_read_file", json!({}));
    let split_call = split_call.turn("Well?").event("tool_call_response", response).message("There.");
    let hidden_call =
        split_call.compaction(json!({"from_turn": 1, "to_turn": 2, "tool_calls": {"policy": "omit"}}));
    let strip = STRIP.replace(r#""from_turn":0,"to_turn":0"#, r#""from_turn":0,"to_turn":2"#);
    let (world, transcript) = world(&hidden_call, &strip);
    world.run(&["lint", "conversation"]).exits(0);
    world.run_plugin("odd", &[]).exits(0).reports("the view still violates G2 turn 1 event 8");
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn checks_events_added_during_run() {
    // Another process adds a tool call to the compacted turn. The turn is open at the time of the append.
    let event = json!({"timestamp": "2026-03-18 13:00:00.0", "type": "tool_call_request", "id": "next",
                       "name": "fs_read_file", "arguments": {}});
    let bytes = Conversation::with_turns(1).bytes();
    let (world, transcript) = world(&Conversation::with_turns(1), "");
    let grown_file = world.write_file("later.json", &append_event(&bytes, &event));
    world.write_plugin("odd", &format!("cp {} {}\n{STRIP}", grown_file.display(), transcript.path.display()));
    let output = world.run_plugin("odd", &[]).exits(5).reports("changed while it was being compacted");
    assert!(
        output
            .stderr
            .contains("G3 turn 0: overlay 1 (turn 0) covers turn 0, which is open: one of its tool calls"),
        "{}",
        output.stderr
    );
    assert!(transcript.current_bytes() == append_event(&bytes, &event), "the transcript was written to");
}

#[test]
fn reports_small_savings() {
    let long_text = "All work and no play makes Jack a dull boy. ".repeat(200);
    let (world, transcript) = world(&Conversation::with_turns(1).turn("Go on.").message(&long_text), STRIP);
    let small_saving = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&small_saving), ["the view would shrink by only 0.4 %, less than 1 % (min_saving)"]);
    let line = small_saving.line();
    let [before, after] = ["view_before", "view_after"].map(|key| line["tokens"][key].as_i64().unwrap());
    assert_eq!(line["saved"], json!({"tokens": before - after, "percent": 0.4, "of": "view_before"}));
    assert!(before > after);
    transcript.assert_untouched();

    world.write_conversation("conversation", &Conversation::with_turns(1));
    let large_saving = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&large_saving), [""; 0]);
    world.write_plugin("odd", &replacement(&long_text[..400]));
    let preview = world.run_plugin("odd", &["-n", "--json"]).exits(0);
    assert_eq!(notes(&preview), ["the view would not shrink"]);
    let output = world.run_plugin("odd", &["--json"]).exits(0);
    assert_eq!(notes(&output), ["the view did not shrink; `--reset=N` removes overlay N"]);
    assert!(preview.line()["saved"]["tokens"].as_i64().unwrap() < 0);
}
