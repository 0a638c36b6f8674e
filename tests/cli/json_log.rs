//! `--log-format json`: each line of stderr is a message that contains no value, and each value is in a field.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::json_documents::check_schema;
use crate::support::{CommandOutput, Conversation, World, plugin_script};

const NOW: [&str; 4] = ["--now=2026-11-21T07:40:00Z", "--sandbox=contained", "--log-format=json", "-vv"];

/// Checks each line of stderr, and returns them.
#[track_caller]
fn parse_log(output: &CommandOutput) -> Vec<Value> {
    let lines: Vec<Value> = output
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        check_schema("log-line", line);
        let message = line["fields"]["message"].as_str().unwrap_or_else(|| panic!("{line}"));
        assert!(!message.bytes().any(|byte| byte.is_ascii_digit()), "the message has a number: {line}");
        assert!(!message.contains(['/', '`', '\n']), "the message has a value: {line}");
    }
    lines
}

fn world() -> World {
    let world = World::new();
    world.write_conversation("talk", &Conversation::bulky(6));
    world.write_events("bad", b"{");
    let script = r#"echo "3 lines of /its/own" >&2; sed -n 's/^{"type":"compact","id":"\([^"]*\)".*/{"type":"log","id":"\1","level":"warn","message":"7 of 9"}\n{"type":"decline","id":"\1","reason":"no"}/p'"#;
    world.write_script("plugins/loud", &plugin_script("loud", &json!({}), script));
    world
}

#[test]
fn every_line_has_a_constant_message() {
    let world = world();
    let mut messages = BTreeSet::new();
    for arguments in [
        &["talk", "-s", "strip-tools", "--keep-last=1"][..],
        &["talk", "bad", "--dry-run"],
        &["talk", "--strategy=loud", "--trust-dir=plugins"],
        &["talk", "missing"],
        &["talk", "--reset"],
        &["auto", "talk", "--context-window=1000"],
        &["auto", "talk", "--context-window=9000000"],
        &["batch", "talk", "bad", "--profile=light", "--require-saving=99", "--report=report.json"],
        &["fork", "talk", "copy"],
        &["fork", "missing", "other"],
        &["lint"],
    ] {
        let options = if arguments[0] == "lint" { &NOW[2..3] } else { &NOW[..] };
        let output = world.run(&[arguments, options].concat());
        let lines = parse_log(&output);
        assert!(!lines.is_empty(), "{arguments:?}");
        messages.extend(lines.iter().map(|line| line["fields"]["message"].as_str().unwrap().to_owned()));
    }
    for message in
        ["compacted", "failed", "reset", "some transcripts failed", "finished the batch", "gate not met"]
    {
        assert!(messages.contains(message), "`{message}` is not in {messages:?}");
    }
}

#[test]
fn result_is_the_json_document() {
    let world = world();
    let arguments = ["talk", "-s", "strip-tools", "--keep-last=1"];
    // The stderr of a test is normalized.
    let normalize = |document: &Value| world.normalize(&document.to_string());
    let dry_run_report = world.run(&[&arguments[..], &["-n", "--json"], &NOW[..2]].concat()).exits(0).line();
    let log = parse_log(&world.run(&[&arguments[..], &["-n"], &NOW[..]].concat()).exits(0));
    let result = log.iter().find(|line| line["fields"]["message"] == "compacted").unwrap();
    assert_eq!(normalize(&result["fields"]["report"]), normalize(&dry_run_report));
}

#[test]
fn output_of_strategy_is_a_field() {
    let world = world();
    let output =
        world.run(&[&["talk", "--strategy=loud", "--trust-dir=plugins"], &NOW[..]].concat()).exits(0);
    let lines = parse_log(&output);
    let has_line = |text: &str| {
        lines.iter().any(|line| line["fields"]["line"] == text && line["fields"]["strategy"] == "loud")
    };
    assert!(has_line("3 lines of /its/own") && has_line("7 of 9"), "{lines:#?}");
}
