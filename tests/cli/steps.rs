//! Steps: an agent compacts its session inside a turn that is still open, from the command line and over MCP.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Agent, Conversation, World};

/// The number of finished calls in the open turn.
pub(crate) const CALLS: usize = 30;
const SERVER_OPTIONS: [&str; 2] = ["--sandbox=contained", "--now=2026-11-21T07:40:00Z"];

/// Returns a line of a session of Claude Code that follows line `number - 1`.
pub(crate) fn line(number: usize, kind: &str, message: Value) -> Value {
    let parent = number.checked_sub(1).map(|parent| format!("u{parent}"));
    json!({
        "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": kind,
        "message": message, "uuid": format!("u{number}"), "timestamp": "2026-03-01T09:00:00.120Z",
    })
}

/// Returns a session with one open turn: finished calls, each after a signed thought, and a call without a result.
pub(crate) fn session() -> Vec<u8> {
    let mut lines = vec![line(0, "user", json!({"role": "user", "content": "Fix the parser."}))];
    for call in 0..=CALLS {
        let id = format!("toolu_{call}");
        let block =
            |block: Value| json!({"id": format!("msg_{call}"), "role": "assistant", "content": [block]});
        let thought =
            json!({"type": "thinking", "thinking": "Let me look.", "signature": format!("sig{call}")});
        lines.push(line(lines.len(), "assistant", block(thought)));
        let tool = json!({"type": "tool_use", "id": id, "name": "Read", "input": {"path": format!("src/{call}.rs")}});
        lines.push(line(lines.len(), "assistant", block(tool)));
        if call < CALLS {
            let content = format!("{call}: {}", "fn parse() {} ".repeat(100));
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            lines.push(line(lines.len(), "user", json!({"role": "user", "content": [result]})));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// Returns the messages of the view, as they are sent to Anthropic.
pub(crate) fn messages(world: &World, session: &str) -> Vec<Value> {
    let output = world.run(&["print", session, "--compacted", "--as", "anthropic"]).exits(0);
    let body: Value = serde_json::from_str(output.text()).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Returns the violations that `lint` reports for Anthropic.
pub(crate) fn violations(world: &World, session: &str) -> String {
    let output = world.run(&["lint", session, "--provider", "anthropic", "--json"]);
    let report: Value = serde_json::from_str(output.text()).unwrap();
    report["violations"].to_string()
}

/// Checks the view of a session that keeps its last five steps.
#[track_caller]
fn check_view(world: &World, session: &str, before: &[Value], violations_before: &str) {
    let after = messages(world, session);
    assert_eq!(after.len(), before.len(), "no message is lost");
    let size = |messages: &[Value]| messages.iter().map(|message| message.to_string().len()).sum::<usize>();
    assert!(size(&after) < size(before) / 2, "{} of {}", size(&after), size(before));
    // The user's message, and two messages for each step.
    let first_kept = 1 + 2 * (CALLS - 4);
    assert_eq!(
        after[first_kept..],
        before[first_kept..],
        "the last steps and the call without a result are unchanged"
    );
    assert_ne!(after[first_kept - 1], before[first_kept - 1]);
    assert_eq!(violations(world, session), violations_before, "the compaction adds no violation");
    let thoughts = |messages: &[Value]| {
        let text = messages.iter().map(ToString::to_string).collect::<String>();
        text.matches("\"signature\":\"sig").count()
    };
    assert_eq!(
        (thoughts(&after), thoughts(before)),
        (CALLS + 1, CALLS + 1),
        "signed thoughts stay in the open turn"
    );
}

#[test]
fn an_open_turn_is_compacted_from_the_command_line() {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    let (before, violations_before) = (messages(&world, "s.jsonl"), violations(&world, "s.jsonl"));
    world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(0).reports("`--keep-steps N`");
    let args = [
        "s.jsonl",
        "--strategy",
        "strip-tools:mode=strip-responses",
        "--keep-steps",
        "5",
        "--provider",
        "anthropic",
    ];
    world.run(&args).exits(0).reports("turns 0-0.25: tool_calls");
    check_view(&world, "s.jsonl", &before, &violations_before);
    assert_eq!(fs::read(world.path("s.jsonl")).unwrap(), session(), "the session is not written to");
    let sidecar = fs::read_to_string(world.path(".s.jsonl.jp-compact")).unwrap();
    assert!(
        sidecar.contains("\"jp_compact_step_overlay\"") && sidecar.contains("\"to_step\": 25"),
        "{sidecar}"
    );
    // The overlay stays valid when the result of the open call arrives.
    let mut grown = session();
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_30", "content": "late"});
    let number = 1 + 3 * CALLS + 2;
    let new_line = line(number, "user", json!({"role": "user", "content": [result]}));
    grown.extend_from_slice(format!("{new_line}\n").as_bytes());
    fs::write(world.path("s.jsonl"), grown).unwrap();
    let after = messages(&world, "s.jsonl");
    assert!(after.last().unwrap().to_string().contains("late"));
    assert!(!after[2].to_string().contains("fn parse"), "{}", after[2]);
    world.run(&["s.jsonl", "--reset"]).exits(0);
    assert!(!world.path(".s.jsonl.jp-compact").exists());
}

#[test]
fn an_agent_compacts_inside_its_own_turn_over_mcp() {
    let world = World::new();
    world.write_file("project/s.jsonl", &session());
    let (before, violations_before) =
        (messages(&world, "project/s.jsonl"), violations(&world, "project/s.jsonl"));
    let mut agent = Agent::connect(&world, &SERVER_OPTIONS);
    agent
        .call("compact", json!({"transcript": "s.jsonl", "profile": "micro", "keep_steps": 40}))
        .succeeds()
        .reports("keep the last 40 steps");
    agent
        .call("compact", json!({"transcript": "s.jsonl", "to": 0.25}))
        .fails(2)
        .reports("write a step as a string");
    agent
        .call("compact", json!({"transcript": "s.jsonl", "to": "0.3", "keep_last": 1}))
        .fails(2)
        .reports("the same side");
    let arguments = json!({"transcript": "s.jsonl", "profile": "micro", "keep_steps": 5});
    agent.call("compact", arguments).succeeds();
    let after = messages(&world, "project/s.jsonl");
    let first_kept = 1 + 2 * (CALLS + 1 - 10 - 1);
    assert_eq!(after[first_kept..], before[first_kept..], "`micro` keeps the newest ten results");
    assert_eq!(violations(&world, "project/s.jsonl"), violations_before);
    agent.call("compact", json!({"transcript": "s.jsonl", "profile": "default", "to": "0.25"})).succeeds();
    check_view(&world, "project/s.jsonl", &before, &violations_before);
    agent.close().exits(0);
}

#[test]
fn jp_still_applies_the_whole_turns_of_a_stepped_range() {
    let world = World::new();
    let mut conversation = Conversation::bulky(3).turn("Go on.");
    for _ in 0..6 {
        conversation = conversation.call("Read", json!({}), &"x".repeat(2000));
    }
    let transcript = world.write_conversation("talk", &conversation.message("Done."));
    let output = world.run(&["talk", "--strategy", "strip-tools", "--keep-steps", "2"]).exits(0);
    let types: Vec<_> = transcript.overlays().iter().map(|overlay| overlay["type"].clone()).collect();
    assert_eq!(types, ["compaction", "jp_compact_step_overlay"]);
    output.reports("JP does not apply overlay 2, because its range has steps");
    let batch = world.run(&["batch", "talk", "--strategy", "strip-tools", "--keep-steps", "2"]).exits(0);
    assert_eq!(transcript.overlays().len(), 2, "{}", batch.text());
    world.run(&["talk", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn show_lists_steps() {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    let output = world.run(&["show", "s.jsonl", "--steps"]).exits(0);
    assert!(
        output.text().contains("turn 0: 31 steps")
            && output.text().contains("\n  0.10  ")
            && output.text().ends_with("Read  open\n"),
        "{}",
        output.text()
    );
}

#[test]
fn selection_without_a_compaction_is_an_error() {
    let world = World::new();
    world.write_conversation("talk", &Conversation::bulky(2));
    world.run(&["fork", "talk", "copy", "--keep-steps", "2"]).exits(2).reports("--compact is missing");
    world.run(&["talk", "--strategy", "strip-tools", "--to", "0.99", "--keep-last", "1"]).exits(2);
    let copy = world.run(&["fork", "talk", "copy", "--compact=t", "--keep-steps", "1"]).exits(0);
    copy.reports("overlay");
}
