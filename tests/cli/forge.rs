//! A strategy that forges lines of the host in every text that it supplies: none of them stands on a line of its own.

use serde_json::{Value, json};

use crate::support::{Conversation, Ran, World, described};

/// What each text goes on with. A line that begins with the word is forged.
const FORGED: &str = "\nFORGED by the strategy: reviewed, signature valid\r\nFORGED\u{2028}FORGED\u{2029}FORGED\u{85}FORGED\u{b}FORGED";

fn forged(text: &str) -> String {
    format!("{text}{FORGED}")
}

/// Every line that shows a forged text begins with the host's own words.
#[track_caller]
fn is_honest(ran: &Ran) {
    assert!(ran.text().contains("FORGED") || ran.stderr.contains("FORGED"), "{}{}", ran.text(), ran.stderr);
    is_plain(ran);
}

/// The same, of a text that need not show any.
#[track_caller]
fn is_plain(ran: &Ran) {
    is_honest_text(ran.text());
    is_honest_text(&ran.stderr);
}

#[track_caller]
fn is_honest_text(text: &str) {
    let ends_a_line =
        |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    for line in text.split(ends_a_line) {
        assert!(!line.trim_start().starts_with("FORGED"), "{text}");
    }
}

/// A line of a reply, as shell. The JSON holds no quote of the shell.
fn says(line: &Value) -> String {
    format!("echo '{}'", line.to_string().replace('\\', "\\\\"))
}

/// A folder whose manifest and description forge, and which answers a request with `run`.
fn folder(world: &World, run: &str) {
    let more = json!({ "description": forged("d"), "version": forged("1"), "wants": [forged("w")],
        "features": [forged("f")],
        "options_schema": { "properties": { forged("o"): { "description": forged("p"), "default": forged("q") } } } });
    let script = described("forger", &more, run).replace("describe) cat", "describe) exec cat");
    world.script("plugins/forger/main.sh", &script);
    let manifest = format!(
        "manifest = 1\nname = \"forger\"\nversion = {}\ndescription = {}\nprotocols = [1]\n[run]\ncommand = [\"./main.sh\"]\n\
         [permissions]\nruntime = \"sh\"\n",
        json!(forged("1")),
        json!(forged("d"))
    );
    world.file("plugins/forger/plugin.toml", manifest.replace('\u{7f}', "").as_bytes());
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

/// A world with a conversation, and the folder of a strategy that runs this.
fn world(run: &str) -> World {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(2));
    folder(&world, run);
    world
}

#[test]
fn descriptions_forge_no_line() {
    let world = world("exit 1");
    let trusted = ["--trust-dir", "plugins", "--sandbox=contained"];
    is_honest(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    is_honest(&world.run(&[&["strategy", "show", "forger"][..], &trusted].concat()).exits(0));
    is_honest(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    is_plain(&world.run(&["strategy", "test", "plugins/forger"]));
    is_honest(&world.run(&["strategy", "trust", "plugins/forger"]).exits(0));
}

#[test]
fn a_broken_manifest_forges_no_line() {
    let world = world("exit 1");
    world.file("plugins/forger/plugin.toml", b"manifest = 1\nFORGED = 1\nFORGED\n");
    is_plain(&world.run(&["strategy", "list", "--plugin-dir", "plugins"]).exits(0));
    is_plain(&world.run(&["strategy", "test", "plugins/forger"]));
    is_honest(&world.run(&COMPACT));
}

/// A strategy that ends a request so forges nothing, in a run, with `-v`, or when it is tried out.
#[track_caller]
fn answer(run: &str, code: i32) {
    let world = world(run);
    for flags in [&[][..], &["-v"], &["-vv"]] {
        let ran = world.run(&[&COMPACT, flags].concat()).exits(code);
        is_honest(&ran);
    }
    is_honest(&world.run(&["strategy", "run", "plugins/forger", "conversation", "--keep-last=0"]));
    is_plain(&world.run(&["strategy", "test", "plugins/forger"]));
    is_plain(&world.run(&[&["batch", "."], &COMPACT[1..]].concat()));
}

#[test]
fn replies_forge_no_line() {
    answer(&says(&json!({ "type": "decline", "id": "c1", "reason": forged("r") })), 0);
    let error = json!({ "type": "error", "id": "c1", "code": forged("c"), "message": forged("m"), "hint": forged("h") });
    answer(&says(&error), 16);
    answer(&says(&json!({ "type": "decline", "id": forged("i"), "reason": "r" })), 15);
}

#[test]
fn log_lines_and_diagnostics_forge_no_line() {
    let log = json!({ "type": "log", "id": "c1", "level": "warn", "message": forged("l") });
    let strip = json!({ "from_turn": 0, "to_turn": 0, "tool_calls": { "policy": "strip", "request": true, "response": true } });
    let diagnostic = json!({ "severity": "warning", "code": forged("c"), "message": forged("m"), "turn": 0 });
    let result = json!({ "type": "result", "id": "c1", "compactions": [strip], "diagnostics": [diagnostic] });
    answer(&format!("{}; {}", says(&log), says(&result)), 0);
}

#[test]
fn last_words_forge_no_line() {
    answer("printf 'x\\nFORGED\\n  FORGED\\nhint: FORGED\\n' >&2; exit 3", 13);
}

#[test]
fn a_receipt_forges_no_line() {
    let world = world("exit 1");
    let bytes = Conversation::of(2).bytes();
    let mut events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let stamp = "2026-01-01 00:00:00.0";
    events.push(json!({ "timestamp": stamp, "type": "compaction", "from_turn": 0, "to_turn": 0, "reasoning": "strip" }));
    events.push(json!({ "timestamp": stamp, "type": "jp_compact_receipt", "from_turn": 0, "to_turn": 0,
        "strategy": forged("s"), "version": forged("v"), "tier": forged("t") }));
    world.raw("conversation", &serde_json::to_vec(&events).unwrap());
    is_honest(&world.run(&["show", "conversation"]).exits(0));
}
