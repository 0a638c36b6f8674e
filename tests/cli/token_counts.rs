//! Token counts in reports. JP applies only its own kinds of compactions. A report on a conversation of JP therefore has
//! two counts: the tokens that JP sends, and the tokens of jp-compact's own view.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Agent, CommandOutput, Conversation, World};

/// Returns three turns, each with a long result of `Read`.
fn conversation() -> Conversation {
    let output = "x".repeat(4000);
    (0..3).fold(Conversation::new(), |conversation, _| {
        conversation.turn("Read it.").call("Read", json!({"path": "a.rs"}), &output).message("It is read.")
    })
}

fn world() -> World {
    let world = World::new();
    world.write_conversation("project/talk", &conversation());
    world
}

const MICRO: [&str; 4] = ["--strategy", "micro:keep_recent=0", "--keep-last", "0"];
/// The tokens of the history, which JP sends in full.
const ALL_TOKENS: u64 = 6397;

fn run_micro(world: &World, extra: &[&str]) -> CommandOutput {
    world.run(&[&["project/talk"], &MICRO[..], extra].concat()).exits(0)
}

/// Asserts that JP sends the whole history and that the view is small.
#[track_caller]
fn assert_jp_unchanged(tokens: &Value) {
    let unchanged = json!({"raw": ALL_TOKENS, "view_before": ALL_TOKENS, "view_after": ALL_TOKENS});
    assert_eq!(tokens["jp"], unchanged, "{tokens}");
    let after = tokens["view_after"].as_u64().unwrap();
    assert!(tokens["raw"] == ALL_TOKENS && after < ALL_TOKENS / 10, "{tokens}");
}

/// Asserts that the line on JP precedes the line on our view, and that the second line names the overlay.
#[track_caller]
fn assert_jp_first(text: &str, jp: &str, overlay: &str) {
    let (before, after) = text.split_once(jp).unwrap_or_else(|| panic!("`{jp}` is not in:\n{text}"));
    assert!(!before.contains("jp-compact's own view"), "{text}");
    let own_view_line =
        after.lines().find(|line| line.contains("jp-compact's own view")).unwrap_or_else(|| panic!("{text}"));
    assert!(own_view_line.contains(overlay), "{text}");
}

#[test]
fn reports_that_jp_sends_unchanged_tokens() {
    let world = world();
    let dry_run = run_micro(&world, &["--dry-run"]).stderr;
    let unchanged = "JP would send about 6,397 tokens, as before (estimated)\n";
    assert_jp_first(&dry_run, unchanged, "JP does not apply overlay 1");
    assert_jp_unchanged(&run_micro(&world, &["--dry-run", "--json"]).line()["tokens"]);
    let report = run_micro(&world, &["--json"]).line();
    assert_jp_unchanged(&report["tokens"]);
    assert_eq!(report["overlays"][0]["applied_by_jp"], false);
}

#[test]
fn counts_overlays_that_jp_applies() {
    let world = world();
    run_micro(&world, &[]);
    let line =
        world.run(&["project/talk", "-s", "strip-tools", "--keep-last", "0", "--json"]).exits(0).line();
    let jp_tokens = &line["tokens"]["jp"];
    assert_eq!(jp_tokens["view_before"], ALL_TOKENS);
    assert!(jp_tokens["view_after"].as_u64().unwrap() < ALL_TOKENS / 10, "{line}");
    let fresh_world = World::new();
    fresh_world.write_conversation("project/talk", &conversation());
    let output = fresh_world.run(&["project/talk", "-s", "strip-tools", "--keep-last", "0"]).exits(0);
    assert!(
        output.stderr.contains("  JP sends about ") && !output.stderr.contains("own view"),
        "{}",
        output.stderr
    );
}

#[test]
fn show_and_stats_report_jp_first() {
    let world = world();
    run_micro(&world, &[]);
    let jp = "JP sends about 6,397 of 6,397 tokens\n";
    for command in ["show", "stats"] {
        let output = world.run(&[command, "project/talk"]).exits(0);
        assert_jp_first(output.text(), jp, "JP does not apply overlay 1");
        assert_jp_unchanged(&world.run(&[command, "project/talk", "--json"]).exits(0).line()["tokens"]);
    }
    world.write_conversation("project/other", &Conversation::with_turns(1));
    let total = world.run(&["stats", "project", "--json"]).exits(0).lines().pop().unwrap();
    let total_tokens = ALL_TOKENS + 144;
    let unchanged = json!({"raw": total_tokens, "view_before": total_tokens, "view_after": total_tokens});
    assert_eq!(total["tokens"]["jp"], unchanged);
    let output = world.run(&["stats", "project"]).exits(0);
    assert_jp_first(
        output.text(),
        "JP sends about 6,541 of 6,541 tokens\n",
        "JP does not apply every overlay",
    );
}

#[test]
fn mcp_reports_tokens_sent_by_jp() {
    let world = world();
    let arguments = json!({"transcript": "talk", "profile": "micro"});
    let set = "conversation.compaction.profiles.micro.strategies=[{name=\"micro\",options={keep_recent=0}}]";
    let mut agent = Agent::connect(&world, &["--set", set]);
    let compacted = agent.call("compact", arguments);
    assert_jp_unchanged(&compacted.0["structuredContent"]["tokens"]);
    assert_jp_first(compacted.text(), "JP sends about 6,397 tokens", "JP does not apply overlay 1");
    for tool in ["show", "stats"] {
        assert_jp_unchanged(
            &agent.call(tool, json!({"transcript": "talk"})).0["structuredContent"]["tokens"],
        );
    }
    agent.close().exits(0);
}

#[test]
fn batch_gate_uses_tokens_sent_by_jp() {
    let world = world();
    let arguments = [&["batch", "project", "--json"], &MICRO[..]].concat();
    let run_batch = |extra: &[&str], code: i32| world.run(&[&arguments[..], extra].concat()).exits(code);
    let output = run_batch(&["-n"], 0);
    assert!(output.stderr.contains("; JP sends 6,397 of 6,397 tokens"), "{}", output.stderr);
    assert!(output.stderr.contains("jp-compact's own views have"), "{}", output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_jp_unchanged(&report["transcripts"][0]["tokens"]);
    assert_jp_unchanged(&report["total"]["tokens"]);
    assert_eq!(report["total"]["saved"], json!({"tokens": 0, "percent": 0.0, "of": "raw"}));
    run_batch(&["-n", "--require-saving", "30"], 3).reports("found 0.0 %: the views save 9");
    // A model receives the written view, so the report has no separate count for JP.
    let output = run_batch(&["--out", "views", "--require-saving", "30"], 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["total"]["tokens"]["jp"], Value::Null);
}

#[test]
fn ndjson_reports_tokens_sent_by_jp() {
    let world = world();
    let events: Value = serde_json::from_slice(&conversation().bytes()).unwrap();
    let record = format!("{}\n", json!({"id": 1, "transcript": events}));
    let arguments = [&["batch", "--ndjson"], &MICRO[..]].concat();
    assert_jp_unchanged(&world.run_with_stdin(&arguments, record.as_bytes()).exits(0).line()["tokens"]);
    let view =
        world.run_with_stdin(&[&arguments[..], &["--view"]].concat(), record.as_bytes()).exits(0).line();
    assert_eq!(view["tokens"]["jp"], Value::Null, "a returned view must have no count for JP");
}

#[test]
fn other_formats_have_no_count_for_jp() {
    let world = World::new();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/host/transcripts/tests/formats/samples");
    fs::copy(format!("{samples}/claude-code.jsonl"), world.path("session.jsonl")).unwrap();
    let arguments = ["session.jsonl", "-s", "strip-tools", "--keep-last", "0"];
    let output = world.run(&[&arguments[..], &["-n"]].concat()).exits(0);
    assert!(output.stderr.contains("the view has about "), "{}", output.stderr);
    assert_eq!(
        world.run(&[&arguments[..], &["--json"]].concat()).exits(0).line()["tokens"]["jp"],
        Value::Null
    );
    for command in ["show", "stats"] {
        let output = world.run(&[command, "session.jsonl"]).exits(0);
        assert!(output.text().contains("the view has about "), "{}", output.text());
    }
}

#[test]
fn show_prints_number_of_overlay_in_jp() {
    let world = world();
    run_micro(&world, &[]);
    world.run(&["project/talk", "-s", "strip-tools", "--keep-last", "0"]).exits(0);
    let output = world.run(&["show", "project/talk"]).exits(0);
    assert!(
        output.text().contains("note: JP numbers it 1: `jp conversation compact --reset=1`"),
        "{}",
        output.text()
    );
    let overlays = world.run(&["show", "project/talk", "--json"]).exits(0).line()["overlays"].clone();
    let numbers = |name: &str| {
        overlays.as_array().unwrap().iter().map(|overlay| overlay[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (numbers("number"), numbers("jp_number")),
        (vec![json!(1), json!(2)], vec![json!(null), json!(1)])
    );
}

#[test]
fn show_reports_that_over_is_not_implemented() {
    let world = World::new();
    let policy = json!({"policy": "omit", "over": 100});
    let conversation = conversation().compaction(json!({"from_turn": 0, "to_turn": 2, "tool_calls": policy}));
    let transcript = world.write_conversation("talk", &conversation);
    let output = world.run(&["show", "talk"]).exits(0);
    let note =
        "no effect, because its condition `over` is not implemented; JP ignores `over` and applies the rest";
    assert!(output.text().contains(note), "{}", output.text());
    assert_jp_first(
        output.text(),
        "JP sends about 113 of 6,397 tokens",
        "JP applies overlay 1 without `over`",
    );
    assert!(output.text().contains("6,397 -> 6,397  unchanged"), "{}", output.text());
    let printed = world.run(&["print", "talk", "--compacted"]).exits(0);
    assert!(printed.text().contains("xxxx"), "{}", printed.text());
    transcript.assert_untouched();
}
