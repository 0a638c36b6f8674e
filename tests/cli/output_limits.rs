//! Limits on large amounts of output. The text output fits on a screen, and `--json` has everything that is kept.

use std::fs::File;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// The maximum number of lines that the text output may have.
const SCREEN: usize = 100;

#[test]
fn truncates_printed_logs_and_diagnostics() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    let log = r#"{"type":"log","id":"c1","level":"info","message":"l"}"#;
    let diagnostic = r#"{"severity":"warning","code":"c","message":"m"}"#;
    let strip =
        r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"strip","request":true,"response":true}}"#;
    let run = format!(
        "awk 'BEGIN {{ for (i = 0; i < 20000; i++) print {log:?};\n\
         printf \"%s\", {:?}; for (i = 0; i < 20000; i++) printf \"%s%s\", i ? \",\" : \"\", {diagnostic:?}; print \"]}}\" }}'",
        format!(r#"{{"type":"result","id":"c1","compactions":[{strip}],"diagnostics":["#)
    );
    world.write_plugin("floods", &run);
    let output = world.run_plugin("floods", &["--dry-run"]).exits(0);
    assert!(output.stderr.lines().count() < SCREEN, "{}", output.stderr);
    assert_eq!(
        output.stderr.matches("... and 961 more; the JSON output lists all").count(),
        2,
        "{}",
        output.stderr
    );
    let line = world.run_plugin("floods", &["--dry-run", "--json"]).exits(0).line();
    let [logs, diagnostics] = ["logs", "diagnostics"].map(|key| line[key].as_array().unwrap().clone());
    assert_eq!((logs.len(), diagnostics.len()), (1_001, 1_001));
    assert_eq!(logs[1_000]["message"], "19000 more log lines");
    assert_eq!(diagnostics[1_000]["found"]["message"], "19000 more diagnostics");
    let output = world.run_plugin("floods", &["--dry-run", "-v"]).exits(0);
    assert_eq!(output.stderr.matches("INFO log strategy=").count(), 1_000);
}

#[test]
fn rejects_too_many_compactions() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    let strip = r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"omit"}}"#;
    let run = format!(
        "awk 'BEGIN {{ printf \"%s\", {:?}; for (i = 0; i < 100000; i++) printf \"%s%s\", i ? \",\" : \"\", {strip:?}; print \"]}}\" }}'",
        r#"{"type":"result","id":"c1","compactions":["#
    );
    world.write_plugin("floods", &run);
    world
        .run_plugin("floods", &[])
        .exits(17)
        .reports("the result has 100000 compactions; at most 1024 are allowed");
    transcript.assert_untouched();
}

#[test]
fn show_truncates_long_overlay_list() {
    let world = World::new();
    let mut events: Vec<Value> = serde_json::from_slice(&Conversation::with_turns(4).bytes()).unwrap();
    for number in 0..5_000 {
        let timestamp =
            format!("2026-02-01 {:02}:{:02}:{:02}.0", number / 3600, number / 60 % 60, number % 60);
        let (from, to) = (number % 3, 3);
        events.push(json!({ "timestamp": timestamp, "type": "compaction", "from_turn": from, "to_turn": to, "reasoning": "strip" }));
        events.push(
            json!({ "timestamp": timestamp, "type": "jp_compact_receipt", "from_turn": from, "to_turn": to,
            "strategy": format!("s{number}"), "version": "1", "tier": "isolated" }),
        );
    }
    world.write_events("conversation", &serde_json::to_vec(&events).unwrap());
    let output = world.run(&["show", "conversation"]).exits(0);
    assert!(output.text().lines().count() < SCREEN, "{}", output.text());
    assert!(
        output.text().contains("... and 4960 earlier overlays; the JSON output lists all"),
        "{}",
        output.text()
    );
    assert!(output.text().contains("by s4999 1, isolated"), "{}", output.text());
    let line = world.run(&["show", "conversation", "--json"]).exits(0).line();
    let overlays = line["overlays"].as_array().unwrap();
    assert_eq!(overlays.len(), 5_000);
    assert_eq!(overlays[17]["receipts"][0]["strategy"], "s17");
}

#[test]
fn result_that_cannot_be_printed_has_a_hint() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let threshold = "--set=conversation.compaction.auto.token_threshold=1";
    for arguments in
        [&["conversation", "--json", "--quiet"][..], &["auto", "conversation", threshold, "--json"]]
    {
        let mut command = world.command(arguments);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = world.finish(command.stdout(full)).exits(4).reports("No space left on device");
        output.reports(
            "hint: everything that was appended before is kept; `jp-compact show` lists the overlays",
        );
        assert_eq!(transcript.overlays().len(), 1);
    }
}
