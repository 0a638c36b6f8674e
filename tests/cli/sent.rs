//! Every report that counts what a model is sent names who sends it: JP applies its own compactions, and no overlay of ours.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Agent, Conversation, Ran, World};

/// Large results of `Read` in each turn.
fn conversation() -> Conversation {
    let read =
        |this: Conversation| this.turn("Read it.").call("Read", json!({"path": "a.rs"}), &"x".repeat(4000));
    (0..3).fold(Conversation::new(), |this, _| read(this).message("It is read."))
}

fn world() -> World {
    let world = World::new();
    world.conversation("house/talk", &conversation());
    world
}

const MICRO: [&str; 4] = ["--strategy", "micro:keep_recent=0", "--keep-last", "0"];
/// What JP goes on sending, in tokens.
const WHOLE: u64 = 3020;

fn micro(world: &World, more: &[&str]) -> Ran {
    world.run(&[&["house/talk"], &MICRO[..], more].concat()).exits(0)
}

/// What JP sends did not change, and the view did.
#[track_caller]
fn assert_whole(tokens: &Value) {
    assert_eq!(tokens["jp"], json!({"before": WHOLE, "after": WHOLE}), "{tokens}");
    let after = tokens["after"].as_u64().unwrap();
    assert!(tokens["before"] == WHOLE && after < WHOLE / 10, "{tokens}");
}

/// The line that names JP comes before the one on our view, which says why.
#[track_caller]
fn assert_names_jp(text: &str, jp: &str, overlay: &str) {
    let (before, after) = text.split_once(jp).unwrap_or_else(|| panic!("`{jp}` is not in:\n{text}"));
    assert!(!before.contains("jp-compact's own view"), "{text}");
    let ours =
        after.lines().find(|line| line.contains("jp-compact's own view")).unwrap_or_else(|| panic!("{text}"));
    assert!(ours.contains(overlay), "{text}");
}

#[test]
fn a_run_that_saves_nothing_for_jp_says_so() {
    let world = world();
    let dry = micro(&world, &["--dry-run"]).stderr;
    let unchanged = "JP would send a model about 3,020 tokens, was 3,020 (unchanged, chars/4)\n";
    assert_names_jp(&dry, unchanged, "JP does not apply overlay 1");
    assert_whole(&micro(&world, &["--dry-run", "--json"]).line()["tokens"]);
    let done = micro(&world, &["--json"]).line();
    assert_whole(&done["tokens"]);
    assert_eq!(done["overlays"][0]["applied_by_jp"], false);
}

#[test]
fn an_overlay_of_jps_own_kind_counts_for_jp() {
    let world = world();
    micro(&world, &[]);
    let line = world.run(&["house/talk", "-s", "strip-tools", "--keep-last", "0", "--json"]).exits(0).line();
    let of_jp = &line["tokens"]["jp"];
    assert_eq!(of_jp["before"], WHOLE);
    assert!(of_jp["after"].as_u64().unwrap() < WHOLE / 10, "{line}");
    let alone = World::new();
    alone.conversation("house/talk", &conversation());
    let ran = alone.run(&["house/talk", "-s", "strip-tools", "--keep-last", "0"]).exits(0);
    assert!(
        ran.stderr.contains("  JP sends a model about ") && !ran.stderr.contains("own view"),
        "{}",
        ran.stderr
    );
}

#[test]
fn show_and_stats_name_jp_first() {
    let world = world();
    micro(&world, &[]);
    let jp = "JP sends a model about 3,020 of 3,020 tokens\n";
    for command in ["show", "stats"] {
        let ran = world.run(&[command, "house/talk"]).exits(0);
        assert_names_jp(ran.text(), jp, "JP does not apply overlay 1");
        assert_whole(&world.run(&[command, "house/talk", "--json"]).exits(0).line()["tokens"]);
    }
    world.conversation("house/other", &Conversation::of(1));
    let total = world.run(&["stats", "house", "--json"]).exits(0).lines().pop().unwrap();
    assert_eq!(total["tokens"]["jp"], json!({"before": WHOLE + 35, "after": WHOLE + 35}));
    let ran = world.run(&["stats", "house"]).exits(0);
    assert_names_jp(
        ran.text(),
        "JP sends a model about 3,055 of 3,055 tokens\n",
        "JP does not apply every overlay",
    );
}

#[test]
fn an_agent_is_told_the_same() {
    let world = world();
    let micro = json!({"transcript": "talk", "profile": "micro"});
    let set = "conversation.compaction.profiles.micro.strategies=[{name=\"micro\",options={keep_recent=0}}]";
    let mut agent = Agent::of(&world, &["--set", set]);
    let compacted = agent.call("compact", micro);
    assert_whole(&compacted.0["structuredContent"]["tokens"]);
    assert_names_jp(compacted.text(), "JP sends a model about 3,020 tokens", "JP does not apply overlay 1");
    for tool in ["show", "stats"] {
        assert_whole(&agent.call(tool, json!({"transcript": "talk"})).0["structuredContent"]["tokens"]);
    }
    agent.leave().exits(0);
}

#[test]
fn a_batch_reports_what_jp_sends_and_its_gate_counts_that() {
    let world = world();
    let words = [&["batch", "house", "--json"], &MICRO[..]].concat();
    let batch = |more: &[&str], code: i32| world.run(&[&words[..], more].concat()).exits(code);
    let ran = batch(&["-n"], 0);
    assert!(ran.stderr.contains("; JP sends a model 3,020 of 3,020 tokens"), "{}", ran.stderr);
    assert!(ran.stderr.contains("jp-compact's own views have"), "{}", ran.stderr);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_whole(&report["transcripts"][0]["tokens"]);
    assert_whole(&report["total"]["tokens"]);
    assert_eq!(report["total"]["saved_percent"], 0.0);
    batch(&["-n", "--require-saving", "30"], 3).says("found 0.0 %: the views save 9");
    // A view that is written is what is sent.
    let ran = batch(&["--out", "views", "--require-saving", "30"], 0);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["total"]["tokens"].get("jp"), None);
}

#[test]
fn a_record_is_answered_with_what_jp_sends() {
    let world = world();
    let events: Value = serde_json::from_slice(&conversation().bytes()).unwrap();
    let record = format!("{}\n", json!({"id": 1, "transcript": events}));
    let words = [&["batch", "--ndjson"], &MICRO[..]].concat();
    assert_whole(&world.pipe(&words, record.as_bytes()).exits(0).line()["saved"]["tokens"]);
    let view = world.pipe(&[&words[..], &["--view"]].concat(), record.as_bytes()).exits(0).line();
    assert_eq!(view["saved"]["tokens"].get("jp"), None, "what is sent is the view");
}

#[test]
fn of_another_agents_transcript_nobody_is_said_to_send_the_view() {
    let world = World::new();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/host/core/tests/formats/samples");
    fs::copy(format!("{samples}/claude-code.jsonl"), world.path("session.jsonl")).unwrap();
    let words = ["session.jsonl", "-s", "strip-tools", "--keep-last", "0"];
    let ran = world.run(&[&words[..], &["-n"]].concat()).exits(0);
    assert!(ran.stderr.contains("the view that `print --compacted` prints has about "), "{}", ran.stderr);
    assert_eq!(world.run(&[&words[..], &["--json"]].concat()).exits(0).line()["tokens"]["jp"], Value::Null);
    for command in ["show", "stats"] {
        let ran = world.run(&[command, "session.jsonl"]).exits(0);
        assert!(ran.text().contains("the view that `print --compacted` prints has about "), "{}", ran.text());
    }
}

#[test]
fn show_prints_the_number_that_jp_gives_a_compaction() {
    let world = world();
    micro(&world, &[]);
    world.run(&["house/talk", "-s", "strip-tools", "--keep-last", "0"]).exits(0);
    let ran = world.run(&["show", "house/talk"]).exits(0);
    assert!(
        ran.text().contains("note: JP counts it as 1: `jp conversation compact --reset=1`"),
        "{}",
        ran.text()
    );
    let overlays = world.run(&["show", "house/talk", "--json"]).exits(0).line()["overlays"].clone();
    let numbers =
        |name: &str| overlays.as_array().unwrap().iter().map(|one| one[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (numbers("number"), numbers("jp_number")),
        (vec![json!(1), json!(2)], vec![json!(null), json!(1)])
    );
}

#[test]
fn a_compaction_with_a_threshold_has_no_effect_and_show_says_so() {
    let world = World::new();
    let policy = json!({"policy": "omit", "over": 100});
    let over = conversation().compaction(json!({"from_turn": 0, "to_turn": 2, "tool_calls": policy}));
    let transcript = world.conversation("talk", &over);
    let ran = world.run(&["show", "talk"]).exits(0);
    let note = "it has an `over`, which is not implemented: it has no effect; JP ignores `over`, and applies the rest";
    assert!(ran.text().contains(note), "{}", ran.text());
    assert_names_jp(
        ran.text(),
        "JP sends a model about 14 of 3,020 tokens",
        "JP applies overlay 1 without `over`",
    );
    assert!(ran.text().contains("3,020 -> 3,020 tokens (unchanged)"), "{}", ran.text());
    let printed = world.run(&["print", "talk", "--compacted"]).exits(0);
    assert!(printed.text().contains("xxxx"), "{}", printed.text());
    transcript.assert_untouched();
}
