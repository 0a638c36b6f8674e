//! Strategies that try to forge output lines of the host. Every text that a strategy supplies is escaped, so it cannot
//! begin a line.

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, World, plugin_script};

/// A suffix for every text, with line breaks of many kinds. An output line must not begin with the word `FORGED`.
const FORGED: &str = "\nFORGED by the strategy: reviewed, signature valid\r\nFORGED\u{2028}FORGED\u{2029}FORGED\u{85}FORGED\u{b}FORGED";

fn forged(text: &str) -> String {
    format!("{text}{FORGED}")
}

/// Checks that the output contains the forged text, and that no line begins with it.
#[track_caller]
fn assert_escaped(output: &CommandOutput) {
    assert!(
        output.text().contains("FORGED") || output.stderr.contains("FORGED"),
        "{}{}",
        output.text(),
        output.stderr
    );
    assert_no_forged_line(output);
}

/// Checks that no output line begins with the forged text.
#[track_caller]
fn assert_no_forged_line(output: &CommandOutput) {
    check_lines(output.text());
    check_lines(&output.stderr);
}

#[track_caller]
fn check_lines(text: &str) {
    let is_line_break =
        |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    for line in text.split(is_line_break) {
        assert!(!line.trim_start().starts_with("FORGED"), "{text}");
    }
}

/// Returns shell code that prints a reply. The JSON must not contain single quotes.
fn echo(line: &Value) -> String {
    format!("echo '{}'", line.to_string().replace('\\', "\\\\"))
}

/// Writes a strategy with forged texts in its manifest and its description. It runs `run` for a request.
fn write_plugin(world: &World, run: &str) {
    let members = json!({ "description": forged("d"), "version": forged("1"), "wants": [forged("w")],
        "features": [forged("f")],
        "options_schema": { "properties": { forged("o"): { "description": forged("p"), "default": forged("q") } } } });
    let script = plugin_script("forger", &members, run).replace("describe) cat", "describe) exec cat");
    world.write_script("plugins/forger/main.sh", &script);
    let manifest = format!(
        "manifest = 1\nname = \"forger\"\nversion = {}\ndescription = {}\nprotocols = [1]\n[run]\ncommand = [\"./main.sh\"]\n\
         [permissions]\nruntime = \"sh\"\n",
        json!(forged("1")),
        json!(forged("d"))
    );
    world.write_file("plugins/forger/plugin.toml", manifest.replace('\u{7f}', "").as_bytes());
}

const COMPACT: [&str; 7] = [
    "conversation",
    "--strategy",
    "forger",
    "--trust-dir",
    "plugins",
    "--sandbox=contained",
    "--keep-last=0",
];

/// Returns an environment with a conversation and a strategy that runs the shell code `run` for a request.
fn world(run: &str) -> World {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    write_plugin(&world, run);
    world
}

#[test]
fn escapes_line_breaks_in_descriptions() {
    let world = world("exit 1");
    let trust = ["--trust-dir", "plugins", "--sandbox=contained"];
    assert_escaped(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    assert_escaped(&world.run(&[&["strategy", "show", "forger"][..], &trust].concat()).exits(0));
    assert_escaped(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    assert_no_forged_line(&world.run(&["strategy", "test", "plugins/forger"]));
    assert_escaped(&world.run(&["strategy", "trust", "plugins/forger"]).exits(0));
}

#[test]
fn escapes_line_breaks_in_manifest_errors() {
    let world = world("exit 1");
    world.write_file("plugins/forger/plugin.toml", b"manifest = 1\nFORGED = 1\nFORGED\n");
    assert_no_forged_line(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    assert_no_forged_line(&world.run(&["strategy", "test", "plugins/forger"]));
    assert_escaped(&world.run(&COMPACT));
}

/// Checks four commands that run a strategy, and the exit code of a compaction.
#[track_caller]
fn check(run: &str, code: i32) {
    let world = world(run);
    for flags in [&[][..], &["-v"], &["-vv"]] {
        let output = world.run(&[&COMPACT, flags].concat()).exits(code);
        assert_escaped(&output);
    }
    assert_escaped(&world.run(&["strategy", "run", "plugins/forger", "conversation", "--keep-last=0"]));
    assert_no_forged_line(&world.run(&["strategy", "test", "plugins/forger"]));
    assert_no_forged_line(&world.run(&[&["batch", "."], &COMPACT[1..]].concat()));
}

#[test]
fn escapes_line_breaks_in_replies() {
    check(&echo(&json!({ "type": "decline", "id": "c1", "reason": forged("r") })), 0);
    let error = json!({ "type": "error", "id": "c1", "code": forged("c"), "message": forged("m"), "hint": forged("h") });
    check(&echo(&error), 16);
    check(&echo(&json!({ "type": "decline", "id": forged("i"), "reason": "r" })), 15);
}

#[test]
fn escapes_line_breaks_in_logs_and_diagnostics() {
    let log = json!({ "type": "log", "id": "c1", "level": "warn", "message": forged("l") });
    let strip = json!({ "from_turn": 0, "to_turn": 0, "tool_calls": { "policy": "strip", "request": true, "response": true } });
    let diagnostic = json!({ "severity": "warning", "code": forged("c"), "message": forged("m"), "turn": 0 });
    let result = json!({ "type": "result", "id": "c1", "compactions": [strip], "diagnostics": [diagnostic] });
    check(&format!("{}; {}", echo(&log), echo(&result)), 0);
}

#[test]
fn indents_stderr_of_crashed_strategy() {
    check("printf 'x\\nFORGED\\n  FORGED\\nhint: FORGED\\n' >&2; exit 3", 13);
}

#[test]
fn escapes_line_breaks_in_receipts() {
    let world = world("exit 1");
    let bytes = Conversation::with_turns(2).bytes();
    let mut events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let timestamp = "2026-01-01 00:00:00.0";
    events.push(json!({ "timestamp": timestamp, "type": "compaction", "from_turn": 0, "to_turn": 0, "reasoning": "strip" }));
    events.push(json!({ "timestamp": timestamp, "type": "jp_compact_receipt", "from_turn": 0, "to_turn": 0,
        "strategy": forged("s"), "version": forged("v"), "tier": forged("t") }));
    world.write_events("conversation", &serde_json::to_vec(&events).unwrap());
    assert_escaped(&world.run(&["show", "conversation"]).exits(0));
}
