//! `jp-compact diff`: the events that overlays or a dry run remove, the equality of its figures with other commands,
//! and the marks of `print --compacted`.

use std::fs;

use serde_json::{Value, json};

use crate::agent_formats::{session, strip_tools};
use crate::goldens::each_case;
use crate::support::{CommandOutput, Conversation, Model, Transcript, World};

const NOW: &str = "--now=2026-11-21T07:40:00Z";

/// Returns a conversation with reasoning, and a tool result that a strategy can replace.
fn conversation() -> Conversation {
    Conversation::new()
        .turn("Read it.")
        .reasoning("I shall.")
        .call("fs_read_file", json!({"path": "a", "text": "x\ny"}), "one\ntwo\n\tthree\n")
        .message("Done.")
        .turn("Thanks!")
        .message("Welcome.")
}

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("talk", &conversation());
    (world, transcript)
}

/// Strips tool calls and then reasoning, in the first turn.
fn compact(world: &World) {
    // In one run, the two strategies would share an overlay.
    for strategy in ["strip-tools", "strip-reasoning"] {
        world.run(&["talk", "--to", "0", NOW, "-s", strategy, "--sandbox=contained"]).exits(0);
    }
}

#[test]
fn text_shows_removed_lines_and_the_overlay_of_each_event() {
    let (world, _) = world();
    compact(&world);
    let output = world.run(&["diff", "talk"]).exits(0);
    assert_eq!(output.stderr, "");
    insta::assert_snapshot!(world.normalize(output.text()), @r"
    step 0.0, reasoning (event 2): removed by overlay 2, 8 -> 0 characters, 19 -> 0 tokens
    @@ -1 +0,0 @@
    -I shall.
    step 0.0, call of fs_read_file (event 3): shortened by overlay 1, 21 -> 0 characters, 41 -> 31 tokens
    @@ -1,4 +0,0 @@
    -path: a
    -text:
    -  x
    -  y
    step 0.0, result of fs_read_file (event 4): replaced by overlay 1, 15 -> 33 characters, 33 -> 36 tokens
    @@ -1,3 +1 @@
    -one
    -two
    -    three
    +[compacted] fs_read_file: success

    overlay 1 by strip-tools [version], turn 0
      2 events, 74 -> 66 tokens
      36 -> 33 characters
    overlay 2 by strip-reasoning [version], turn 0
      1 event, 19 -> 0 tokens
      8 -> 0 characters
    3 events changed, 4 kept
      1 removed, 1 shortened, 1 replaced
    163 -> 137 tokens (-16 %, estimated)
    ");
}

#[test]
fn stat_is_a_table_with_sums() {
    let (world, _) = world();
    compact(&world);
    let output = world.run(&["diff", "talk", "--stat"]).exits(0);
    insta::assert_snapshot!(world.normalize(output.text()), @r"
    0.0     #2   reasoning                 19 ->        0 ------
    0.0     #1   call fs_read_file         41 ->       31 ----
    0.0     #1   result fs_read_fi…        33 ->       36 +

    overlay 1 by strip-tools [version], turn 0
      2 events, 74 -> 66 tokens
      36 -> 33 characters
    overlay 2 by strip-reasoning [version], turn 0
      1 event, 19 -> 0 tokens
      8 -> 0 characters
    3 events changed, 4 kept
      1 removed, 1 shortened, 1 replaced
    163 -> 137 tokens (-16 %, estimated)
    ");
}

#[test]
fn print_marks_changes_with_size_and_overlay() {
    let (world, _) = world();
    compact(&world);
    let output = world.run(&["print", "talk", "--compacted"]).exits(0);
    insta::assert_snapshot!(output.text(), @r"
    --- turn 0 ---
    user:
      Read it.
    [overlay 2: 1 event, 8 characters removed]
    tool call fs_read_file [overlay 1: 21 characters removed]:
      {}
    tool result [overlay 1: 18 characters added]:
      [compacted] fs_read_file: success
    assistant:
      Done.
    --- turn 1 ---
    user:
      Thanks!
    assistant:
      Welcome.
    ");
}

#[test]
fn dry_run_shows_what_a_strategy_would_remove() {
    let (world, transcript) = world();
    let planned =
        world.run(&["diff", "talk", "-s", "strip-tools", "--to", "0", NOW, "--json"]).exits(0).line();
    transcript.assert_untouched();
    assert_eq!(planned["dry_run"], true);
    assert_eq!(planned["overlays"][0]["strategy"], "strip-tools");
    world.run(&["talk", "-s", "strip-tools", "--to", "0", NOW]).exits(0);
    let made = world.run(&["diff", "talk", "--json"]).exits(0).line();
    assert_eq!(made["dry_run"], false);
    for member in ["tokens", "saved", "events", "overlays", "changes"] {
        assert_eq!(planned[member], made[member], "{member}");
    }
}

#[test]
fn dry_run_reports_declined_strategies_and_requests_to_models() {
    let (world, transcript) = world();
    world.run(&["diff", "talk", "-n", "--keep-last", "9", "--stat"]).exits(0);
    let model = Model::with_answer("Files were read.");
    let arguments = ["diff", "talk", "-s", "summarize", "--keep-last=0", "--model=openai/g"];
    let mut command = world.command(&arguments);
    let output = world.finish(model.configure(&mut command)).exits(0);
    assert!(output.text().contains("would summarize turns 0-1"), "{}", output.text());
    assert_eq!(model.requests().len(), 0);
    transcript.assert_untouched();
}

#[test]
fn recorded_answers_show_the_summary_that_a_run_would_append() {
    let world = World::new();
    let transcript = world.write_conversation("talk", &Conversation::bulky(3));
    let model = Model::with_answer("Files were read.");
    let selection = ["-s", "summarize", "--keep-last=1", "--model=openai/g", NOW];
    let record = ["talk", "--llm-record", "answers.jsonl", "--no-notes"];
    let mut command = world.command(&[&record[..], &selection].concat());
    world.finish(model.configure(&mut command)).exits(0);
    world.run(&["talk", "--reset"]).exits(0);
    let replay = ["diff", "talk", "--llm-replay", "answers.jsonl", "--json"];
    let report = world.run(&[&replay[..], &selection].concat()).exits(0).line();
    assert_eq!(report["dry_run"], true);
    assert_eq!(report["events"]["added"], 1, "{report:#}");
    let changes = report["changes"].as_array().unwrap();
    let added = changes.iter().find(|change| change["change"] == "added").unwrap();
    assert!(added["hunks"][0]["lines"].to_string().contains("Files were read."), "{added}");
    assert_eq!(report["events"]["summarized"], changes.len() - 1);
    transcript.assert_same_bytes();
}

#[test]
fn overlays_are_selected_by_number() {
    let (world, _) = world();
    compact(&world);
    let numbers = |arguments: &[&str]| -> Vec<u64> {
        let report = world.run(&[&["diff", "talk", "--json"], arguments].concat()).exits(0).line();
        let overlays = report["overlays"].as_array().unwrap().iter();
        overlays.map(|overlay| overlay["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&[]), [1, 2]);
    assert_eq!(numbers(&["--overlay", "1"]), [1]);
    assert_eq!(numbers(&["--overlay", "2"]), [2]);
    assert_eq!(numbers(&["--overlay", "1,2"]), [1, 2]);
    world.run(&["diff", "talk", "--overlay", "3"]).exits(2).reports("has no overlay 3; it has 2 overlays");
    world.run(&["diff", "talk", "--overlay", "0"]).exits(2).reports("1 or more");
    world
        .run(&["diff", "talk", "--overlay", "1", "-s", "strip-tools"])
        .exits(2)
        .reports("cannot be used with");
}

#[test]
fn turn_and_step_select_events() {
    let (world, _) = world();
    compact(&world);
    let events = |turn: &str| -> Vec<Value> {
        let report = world.run(&["diff", "talk", "--json", "--turn", turn]).exits(0).line();
        report["changes"].as_array().unwrap().iter().map(|change| change["event"].clone()).collect()
    };
    assert_eq!(events("0").len(), 3);
    assert_eq!(events("0.0"), events("0"));
    assert_eq!(events("0.1"), [] as [Value; 0]);
    assert_eq!(events("1"), [] as [Value; 0]);
    world.run(&["diff", "talk", "--turn", "2"]).exits(2).reports("the turns are 0 to 1");
    world.run(&["diff", "talk", "--turn", "0.2"]).exits(2).reports("the steps of turn 0 are 0 to 1");
}

#[test]
fn terminal_codes_of_transcripts_are_escaped() {
    let world = World::new();
    let conversation = Conversation::new()
        .turn("Read it.")
        .call(
            "fs_read_file",
            json!({"path": "a"}),
            "\u{1b}[2Jone\n@@ -1 +1 @@\n+++ x\u{202e}\nturn 9: forged",
        )
        .message("Done.");
    world.write_conversation("talk", &conversation);
    let arguments = ["diff", "talk", "-s", "strip-tools", "--keep-last=0"];
    let run = |variables: &[(&str, &str)]| {
        let mut command = world.command(&arguments);
        command.envs(variables.iter().copied());
        world.finish(&mut command).exits(0)
    };
    let plain = run(&[]);
    assert!(!plain.text().contains('\u{1b}') && !plain.text().contains('\u{202e}'), "{}", plain.text());
    assert!(
        plain.text().contains("\n-\\u{1b}[2Jone\n-@@ -1 +1 @@\n-+++ x\\u{202e}\n-turn 9: forged\n"),
        "{}",
        plain.text()
    );
    let colored = run(&[("CLICOLOR_FORCE", "1")]);
    assert!(colored.text().contains("\u{1b}[31m-\\u{1b}[2Jone\u{1b}[0m\n"), "{:?}", colored.text());
    let codes = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[36m", "\u{1b}[1m", "\u{1b}[0m"];
    let without_codes = codes.iter().fold(colored.text().to_owned(), |text, code| text.replace(code, ""));
    assert_eq!(without_codes, plain.text());
    assert_eq!(run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).text(), plain.text());
}

#[test]
fn sidecar_overlays_of_steps_are_compared() {
    let (world, transcript) = session();
    strip_tools(&world);
    world.run(&["s.jsonl", "-s", "strip-reasoning", "--from", "0.0", "--to", "0.1"]).exits(0);
    let shown = world.run(&["show", "s.jsonl", "--json"]).exits(0).line();
    let report = world.run(&["diff", "s.jsonl", "--json"]).exits(0).line();
    assert_eq!(report["format"], "claude-code");
    assert_eq!(report["tokens"]["view_before"], shown["tokens"]["raw"]);
    assert_eq!(report["tokens"]["view_after"], shown["tokens"]["view_after"]);
    assert!(!report["changes"].as_array().unwrap().is_empty());
    assert_shown_tokens_equal_compared(&world, "s.jsonl", &shown);
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
}

#[test]
fn stdin_is_compared_but_not_compacted() {
    let (world, transcript) = world();
    compact(&world);
    let bytes = transcript.current_bytes();
    let from_file = world.run(&["diff", "talk"]).exits(0);
    let from_stdin = world.run_with_stdin(&["diff", "-"], &bytes).exits(0);
    assert_eq!(from_stdin.text(), from_file.text());
    world.run_with_stdin(&["diff", "-", "-s", "strip-tools"], &bytes).exits(2);
}

/// Checks that `diff --overlay N` reports the same token counts as `show`, for each overlay.
#[track_caller]
fn assert_shown_tokens_equal_compared(world: &World, transcript: &str, shown: &Value) {
    for overlay in shown["overlays"].as_array().unwrap() {
        let number = overlay["number"].to_string();
        let report =
            world.run(&["diff", transcript, "--stat", "--json", "--overlay", &number]).exits(0).line();
        for member in ["view_before", "view_after"] {
            assert_eq!(report["tokens"][member], overlay["tokens"][member], "{transcript} {number} {member}");
        }
    }
}

fn tokens(output: CommandOutput) -> Value {
    output.exits(0).line()["tokens"].clone()
}

#[test]
fn diff_has_the_same_tokens_as_compact_and_show() {
    each_case(|case| {
        let world = World::new();
        world.write_events("talk", &fs::read(case.join("events.json")).unwrap());
        let run = ["-s", "strip-tools", "-s", "strip-reasoning", "--keep-last=0", "--json", NOW];
        let dry_run = world.run(&[&["talk", "-n"], &run[..]].concat());
        if dry_run.stderr.contains("so JP would move the conversation to its trash") {
            return;
        }
        let planned = tokens(world.run(&[&["diff", "talk", "--stat"], &run[..]].concat()));
        assert_eq!(planned, tokens(dry_run), "{}", case.display());
        let compacted = tokens(world.run(&[&["talk"], &run[..]].concat()));
        assert_eq!(planned, compacted, "{}", case.display());
        let shown = world.run(&["show", "talk", "--json"]).exits(0).line();
        let all = tokens(world.run(&["diff", "talk", "--stat", "--json"]));
        assert_eq!(all["view_before"], shown["tokens"]["raw"], "{}", case.display());
        assert_eq!(all["view_after"], shown["tokens"]["view_after"], "{}", case.display());
        assert_eq!(all["jp"]["view_after"], shown["tokens"]["jp"]["view_after"], "{}", case.display());
        assert_shown_tokens_equal_compared(&world, "talk", &shown);
    });
}

#[test]
fn errors_do_not_name_turns_that_do_not_exist() {
    let (world, _) = world();
    world.write_events("empty", b"[]");
    world.write_conversation("silent", &Conversation::new().turn("Hello?"));
    world.run(&["diff", "empty", "--turn", "0"]).exits(2).reports("hint: the transcript has no turns\n");
    world.run(&["diff", "silent", "--turn", "0.5"]).exits(2).reports("hint: turn 0 has no steps\n");
    world.run(&["diff", "talk", "--turn", "9.1"]).exits(2).reports("hint: the turns are 0 to 1\n");
    let output = world.run_with_stdin(&["diff", "-", "-n"], b"[]").exits(2);
    output.reports("error: cannot run strategies on stdin (`-`)");
}
