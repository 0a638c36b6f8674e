//! Summaries of steps: the bundled summarizers on a session with one long turn that is still open, and strategies
//! without the feature `steps`.

use serde_json::{Value, json};

use crate::steps::{CALLS, line, messages, session, violations};
use crate::support::{Conversation, Model, World, plugin_script};

const SUMMARY: &str = "The first files were read; the parser is in src/3.rs.";

/// Runs a summarizer on all but the last five steps of the session. Returns stderr.
#[track_caller]
fn run(world: &World, model: &Model, strategy: &str) -> String {
    let arguments = ["s.jsonl", "--strategy", strategy, "--keep-steps", "5", "--provider", "anthropic"];
    let arguments = [&arguments[..], &["--model", "openai/g", "--context-window", "200000"]].concat();
    let mut command = world.command(&arguments);
    world.finish(model.configure(&mut command)).exits(0).stderr
}

/// Checks that the session's view is a summary, the user's request, and the last steps.
#[track_caller]
fn check_view(world: &World, kept_steps: usize, summary: &str, before: &[Value], violations_before: &str) {
    let after = messages(world, "s.jsonl");
    assert_eq!(after.len(), 2 + 1 + 2 * kept_steps, "{after:#?}");
    assert!(after[1].to_string().contains(summary), "{}", after[1]);
    assert_eq!(after[2]["content"][0], before[0]["content"][0], "the user's request follows the summary");
    assert_eq!(after[3..], before[before.len() - 2 * kept_steps..], "the last steps are unchanged");
    assert_eq!(after[3]["content"][0]["type"], "thinking");
    assert_eq!(
        rules(&violations(world, "s.jsonl")),
        rules(violations_before),
        "the compaction adds no violation"
    );
}

/// Returns the violated rules and their events. The message numbers are left out, because a summary changes them.
fn rules(json: &str) -> Vec<(Value, Value)> {
    let violations: Vec<Value> = serde_json::from_str(json).unwrap();
    violations.into_iter().map(|violation| (violation["rule"].clone(), violation["event"].clone())).collect()
}

#[test]
fn summarize_replaces_the_closed_steps_of_an_open_turn() {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    let (before, violations_before) = (messages(&world, "s.jsonl"), violations(&world, "s.jsonl"));
    let model = Model::with_answer(SUMMARY);
    let stderr = run(&world, &model, "summarize");
    assert!(stderr.contains("turns 0-0.25: summary"), "{stderr}");
    let request = model.requests().remove(0).to_string();
    assert!(request.contains("Fix the parser.") && request.contains("25: fn parse()"), "{request}");
    assert!(!request.contains("26: fn parse()"), "{request}");
    // The five last steps, one of which waits for its result.
    check_view(&world, CALLS - 25, SUMMARY, &before, &violations_before);
    let sidecar = std::fs::read_to_string(world.path(".s.jsonl.jp-compact")).unwrap();
    assert!(
        sidecar.contains("\"jp_compact_step_overlay\"") && sidecar.contains("\"to_step\": 25"),
        "{sidecar}"
    );
    // The next summary replaces this one.
    let stderr = run_keeping(&world, &model, "summarize", "2");
    assert!(stderr.contains("turns 0-0.28: summary"), "{stderr}");
    check_view(&world, CALLS - 28, SUMMARY, &before, &violations_before);
    world.run(&["s.jsonl", "--reset"]).exits(0);
    assert_eq!(messages(&world, "s.jsonl"), before);
}

#[track_caller]
fn run_keeping(world: &World, model: &Model, strategy: &str, steps: &str) -> String {
    let arguments = ["s.jsonl", "--strategy", strategy, "--keep-steps", steps, "--model", "openai/g"];
    let mut command = world.command(&arguments);
    world.finish(model.configure(&mut command)).exits(0).stderr
}

#[test]
fn collapse_and_digest_compact_steps_too() {
    let world = World::new();
    let model = Model::with_answer(SUMMARY);
    world.write_file("s.jsonl", &session());
    let (before, violations_before) = (messages(&world, "s.jsonl"), violations(&world, "s.jsonl"));
    let stderr = run(&world, &model, "collapse");
    // The oldest of the 26 steps in range, until they have 70 % of the tokens of all 26.
    assert!(stderr.contains("turns 0-0.18: summary"), "{stderr}");
    check_view(&world, CALLS - 18, SUMMARY, &before, &violations_before);
    world.run(&["s.jsonl", "--reset"]).exits(0);
    let stderr = run(&world, &model, "digest");
    assert!(stderr.contains("turns 0-0.25: summary"), "{stderr}");
    let after = messages(&world, "s.jsonl");
    assert!(after[1].to_string().contains("Turns 0 to 0.25 of this conversation"), "{}", after[1]);
    assert!(!after[1].to_string().contains("Fix the parser."), "the user's request stays: {}", after[1]);
    check_view(&world, CALLS - 25, "Files read", &before, &violations_before);
}

#[test]
fn a_summary_from_the_first_step_is_one_message_after_the_request() {
    let world = World::new();
    let model = Model::with_answer(SUMMARY);
    world.write_file("s.jsonl", &session());
    let before = messages(&world, "s.jsonl");
    let arguments =
        ["s.jsonl", "--strategy", "summarize", "--from", "0.3", "--to", "0.9", "--model", "openai/g"];
    let mut command = world.command(&arguments);
    let ran = world.finish(model.configure(&mut command)).exits(0);
    ran.reports(
        "extended steps 0.3-0.9 to steps 0.0-0.9: a summary begins with a turn or a turn's first step",
    );
    let after = messages(&world, "s.jsonl");
    assert_eq!(after.len(), before.len() - 20);
    let blocks = after[0]["content"].as_array().unwrap();
    assert_eq!(blocks[0], before[0]["content"][0]);
    let note = blocks[1]["text"].as_str().unwrap();
    assert!(note.starts_with("[A summary of the steps that were here."), "{note}");
    let section = "\n\n    ## Kept verbatim\n\n    Paths:\n    - src/0.rs\n";
    assert!(note.contains(&format!("\n    {SUMMARY}{section}")) && note.ends_with("- src/9.rs"), "{note}");
    // A fork has the same turn. The note is marked, so that a summarizer does not treat it as the user's words.
    let source = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    world.write_file("fork.jsonl", source.text().as_bytes());
    assert!(source.text().contains("\"isMeta\":true"), "{}", source.text());
    let show = world.run(&["show", "fork.jsonl", "--steps"]).exits(0);
    assert!(show.text().contains("turn 0: 21 steps") && !show.text().contains("turn 1"), "{}", show.text());
}

#[test]
fn the_range_ends_before_a_step_that_begins_with_thinking() {
    let world = World::new();
    let text = String::from_utf8(session()).unwrap();
    // Only steps 0 to 9 begin with thinking.
    let thinks = |number: usize| number <= 1 + 3 * 10;
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut number = 0;
    lines.retain(|line| {
        number += 1;
        thinks(number) || !line.to_string().contains("\"thinking\"")
    });
    let lines: Vec<Value> = lines
        .into_iter()
        .enumerate()
        .map(|(number, old)| line(number, old["type"].as_str().unwrap(), old["message"].clone()))
        .collect();
    world.write_file("s.jsonl", lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes());
    let model = Model::with_answer(SUMMARY);
    let stderr = run(&world, &model, "summarize");
    assert!(
        stderr.contains("reduced turns 0-0.25 to turns 0-0.8: turn 0 is open")
            && stderr.contains("turns 0-0.8: summary"),
        "{stderr}"
    );
}

/// Writes a plugin that summarizes the whole range, does not have the feature `steps`, and fails if it gets a member
/// about steps.
fn write_old_strategy(world: &World) {
    let run = "input=$(cat)\ncase $input in *'\"step\"'*|*'_step\"'*|*'\"steps\"'*) exit 3;; esac\n\
               to=$(printf '%s' \"$input\" | sed -n 's/.*\"range\":{\"from_turn\":0,\"to_turn\":\\([0-9]*\\)}.*/\\1/p' | head -n 1)\n\
               id=$(printf '%s' \"$input\" | sed -n 's/^{\"type\":\"compact\",\"id\":\"\\([^\"]*\\)\".*/\\1/p' | head -n 1)\n\
               printf '{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[{\"from_turn\":0,\"to_turn\":%s,\"summary\":{\"summary\":\"Old.\"}}]}\\n' \"$id\" \"$to\"";
    let described = json!({"produces": ["summary"], "input": "full"});
    world.write_script("plugins/old", &plugin_script("old", &described, run));
}

#[test]
fn a_strategy_without_the_feature_gets_whole_turns() {
    let world = World::new();
    write_old_strategy(&world);
    let add_calls =
        |talk: Conversation| (0..6).fold(talk, |talk, _| talk.call("Read", json!({}), &"x".repeat(2000)));
    let talk = add_calls(Conversation::bulky(2).turn("Go on."));
    let transcript = world.write_conversation("talk", &talk);
    let trusted = ["--trust-dir", "plugins", "--sandbox=contained"];
    let run = |arguments: &[&str]| world.run(&[arguments, &trusted].concat());
    let ran = run(&["talk", "--strategy", "old", "--keep-steps", "2"]).exits(0);
    ran.reports("reduced turns 0-2.3 to turns 0-1: the strategy compacts whole turns only");
    let overlays = transcript.overlays();
    assert_eq!((&overlays[0]["type"], &overlays[0]["to_turn"]), (&json!("compaction"), &json!(1)));
    // The host does not send this strategy the summary of steps that a newer strategy wrote.
    let model = Model::with_answer(SUMMARY);
    let mut newer =
        world.command(&["talk", "--strategy", "summarize", "--keep-steps", "3", "--model", "openai/g"]);
    world.finish(model.configure(&mut newer)).exits(0).reports("turns 0-2.2: summary");
    let again = run(&["talk", "--strategy", "old", "--keep-steps", "2"]);
    again.exits(0).reports("the summary of turns 0-1 is inside the summary of turns 0-2.2");
    // A range inside one open turn contains no whole turn.
    world.write_file("s.jsonl", &session());
    let nothing = run(&["s.jsonl", "--strategy", "old", "--keep-steps", "5"]).exits(0);
    nothing.reports(
        "nothing to compact: the strategy compacts whole turns only, and there are none in turns 0-0.25",
    );
}
