//! One overlay for a whole run: the strategies of a profile with one range share a `compaction`, and each has a receipt
//! (RFD 064, "The `Compaction` Type").

use std::fs;

use serde_json::{Value, json};

use crate::agent_formats::session;
use crate::newest_wins::transcript_report;
use crate::support::{CommandOutput, Conversation, Transcript, World, plugin_script};

const SHARED: &str = "strip-reasoning=reasoning strip-tools=tool_calls";
const KEEP_READ: &str = "--set=conversation.tools.fs_read_file.compaction=keep";

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(6));
    (world, transcript)
}

#[track_caller]
fn compact(world: &World, arguments: &[&str]) -> CommandOutput {
    world.run(&[&["conversation"], arguments].concat()).exits(0)
}

/// Returns the strategy and the kinds of each receipt.
fn makers(receipts: &[Value]) -> String {
    let maker = |receipt: &Value| {
        let kinds = receipt["kinds"].as_array().map_or("all".to_owned(), |kinds| {
            kinds.iter().map(|kind| kind.as_str().unwrap()).collect::<Vec<_>>().join("+")
        });
        format!("{}={kinds}", receipt["strategy"].as_str().unwrap())
    };
    receipts.iter().map(maker).collect::<Vec<_>>().join(" ")
}

/// Returns the makers of each appended overlay.
fn appended_makers(transcript: &Transcript) -> Vec<String> {
    transcript.overlays_with_receipts().iter().map(|(_, receipts)| makers(receipts)).collect()
}

#[test]
fn default_profile_appends_one_compaction_with_both_policies() {
    let (world, transcript) = world();
    let output = compact(&world, &[]);
    output.reports("1 overlay appended\n  1  strip-reasoning").reports("\n  1  strip-tools");
    let overlays = transcript.overlays_with_receipts();
    let (overlay, receipts) = &overlays[0];
    assert_eq!((overlays.len(), makers(receipts).as_str()), (1, SHARED));
    assert_eq!((&overlay["type"], &overlay["reasoning"]), (&json!("compaction"), &json!("strip")));
    assert_eq!(overlay["tool_calls"], json!({"policy": "strip", "request": true, "response": true}));
}

#[test]
fn report_has_an_entry_for_each_strategy() {
    let (world, _) = world();
    let line = compact(&world, &["--json"]).line();
    let overlays = line["overlays"].as_array().unwrap().iter();
    let entries: Vec<_> =
        overlays.map(|overlay| (&overlay["number"], &overlay["strategy"], &overlay["kinds"])).collect();
    assert_eq!(
        entries,
        [
            (&json!(1), &json!("strip-reasoning"), &json!(["reasoning"])),
            (&json!(1), &json!("strip-tools"), &json!(["tool_calls"])),
        ]
    );
    let shown = world.run(&["show", "conversation", "--json"]).exits(0).line();
    let overlays = shown["overlays"].as_array().unwrap();
    assert_eq!((overlays.len(), makers(overlays[0]["receipts"].as_array().unwrap()).as_str()), (1, SHARED));
    let text = world.run(&["show", "conversation"]).exits(0);
    assert!(text.text().contains("by strip-reasoning "), "{}", text.text());
    assert!(text.text().contains("; by strip-tools "), "{}", text.text());
}

#[test]
fn other_ranges_and_policies_that_jp_cannot_read_stay_separate() {
    let (world, transcript) = world();
    compact(&world, &[KEEP_READ, "--set=conversation.tools.fs_read_file.compaction.response=strip"]);
    // The second overlay of `strip-tools` has the hints, which JP does not apply.
    assert_eq!(appended_makers(&transcript), ["strip-reasoning=all", "strip-tools=all", "strip-tools=all"]);
    let (world, transcript) = self::world();
    let rules = json!({"conversation": {"compaction": {"rules": ["t=o:2..", {"reasoning": "strip"}]}}});
    world.write_file("conversation/base_config.json", rules.to_string().as_bytes());
    compact(&world, &[]);
    assert_eq!(appended_makers(&transcript), ["strip-tools=all", "strip-reasoning=all"]);
    let (world, transcript) = self::world();
    compact(&world, &["--strategy", "strip-reasoning", "--strategy", "micro:keep_recent=0,min_bytes=1"]);
    assert_eq!(appended_makers(&transcript), ["strip-reasoning=all", "micro=all"]);
}

#[test]
fn reset_removes_the_shared_overlay_and_its_receipts() {
    let (world, transcript) = world();
    compact(&world, &[]);
    assert_eq!(appended_makers(&transcript), [SHARED]);
    compact(&world, &["--reset=1"]).reports("1 overlay removed");
    transcript.assert_same_bytes();
}

#[test]
fn batch_skips_the_strategies_of_a_shared_overlay() {
    let (world, transcript) = world();
    let status = |extra: &[&str]| {
        let output = world.run(&[&["batch", "conversation", "--json"], extra].concat());
        transcript_report(&output)["status"].clone()
    };
    assert_eq!(status(&[]), "compacted");
    for extra in
        [&[][..], &["--profile", "light"], &["--strategy", "strip-tools"], &["--strategy", "strip-reasoning"]]
    {
        assert_eq!(status(extra), "skipped", "{extra:?}");
    }
    assert_eq!(status(&["--strategy", "strip-tools:mode=omit"]), "compacted");
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn batch_compares_only_the_kinds_of_a_receipt() {
    // The plugin reads the same events, and strips reasoning. Without `kinds`, its overlay would differ from the shared
    // overlay.
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(1));
    let policy = r#""from_turn":0,"to_turn":0,"reasoning":"strip""#;
    let reply = format!(r#"{{"type":"result","id":"c1","compactions":[{{{policy}}}]}}"#);
    let description = json!({"produces": ["reasoning"]});
    world.write_script(
        "plugins/odd",
        &plugin_script("odd", &description, &format!("cat <<'END'\n{reply}\nEND")),
    );
    let odd = ["--trust-dir", "plugins", "--sandbox=contained", "--keep-last", "0", "--strategy", "odd"];
    let batch = [&["batch", "conversation", "--json"], &odd[..], &["--strategy", "strip-tools"]].concat();
    let status = |arguments: &[&str]| transcript_report(&world.run(arguments))["status"].clone();
    assert_eq!(status(&batch), "compacted");
    assert_eq!(appended_makers(&transcript), ["odd=reasoning strip-tools=tool_calls"]);
    assert_eq!(status(&batch), "skipped");
    assert_eq!(status(&batch[..batch.len() - 2]), "skipped");
}

#[test]
fn fork_copies_a_shared_overlay() {
    let (world, _) = world();
    compact(&world, &[]);
    world.run(&["fork", "conversation", "copy", "--last", "5"]).exits(0);
    let shown = world.run(&["show", "copy", "--json"]).exits(0).line();
    let overlay = &shown["overlays"][0];
    assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(0), &json!(1)));
    assert_eq!(makers(overlay["receipts"].as_array().unwrap()), SHARED);
}

#[test]
fn edited_transcript_disables_a_shared_overlay() {
    let (world, transcript) = session();
    world.run(&["s.jsonl", "--profile", "default", "--keep-last", "1"]).exits(0);
    let sidecar: Value =
        serde_json::from_slice(&fs::read(world.path(".s.jsonl.jp-compact")).unwrap()).unwrap();
    let elements = sidecar["overlays"].as_array().unwrap();
    let types: Vec<_> = elements.iter().map(|element| element["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["compaction", "jp_compact_receipt", "jp_compact_receipt"]);
    assert!(elements[1..].iter().all(|receipt| receipt["range_xxh3"] == elements[1]["range_xxh3"]));
    assert!(elements[1]["range_xxh3"].is_string());
    let remarks =
        || world.run(&["show", "s.jsonl", "--json"]).exits(0).line()["overlays"][0]["remarks"].clone();
    assert_eq!(remarks(), json!([]));
    let edited = String::from_utf8(transcript.original_bytes().to_vec()).unwrap();
    world.write_file("s.jsonl", edited.replace("ls: no such file", "ls: nothing").as_bytes());
    assert_eq!(remarks(), json!(["not applied, because the events in its range have changed"]));
}

#[test]
fn jp_sends_the_view_of_a_shared_overlay() {
    let (world, _) = world();
    let line = compact(&world, &["--json"]).line();
    assert_eq!(line["tokens"]["jp"]["view_after"], line["tokens"]["view_after"]);
    assert!(line["overlays"].as_array().unwrap().iter().all(|overlay| overlay["applied_by_jp"] == true));
}
