//! The JSON documents: every command with `--json` prints documents that have a schema and no other member, on success
//! and on failure. A command that is not in the table fails a test.

use std::collections::BTreeSet;
use std::fs;

use jp_compact_schema::catalog;
use serde_json::{Map, Value, json};

use crate::support::{Agent, CommandOutput, Conversation, Model, World, plugin_script};

/// A command with its schema, arguments that succeed and arguments that fail. The last ones follow the command.
type Row = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Every command with `--json`. The empty name is the command without a name. An empty list is not run.
const COMMANDS: [Row; 25] = [
    ("", "compact-report", &["talk", "-s", "strip-tools", "--keep-last=1"], &["talk", "missing"]),
    ("", "compact-report", &["talk", "-s", "strip-reasoning", "-n"], &["talk", "-s", "unknown"]),
    ("", "reset-report", &["talk", "--reset=1"], &["talk", "--reset=99"]),
    ("auto", "auto-report", &["talk", "--context-window=1000"], &["missing"]),
    ("auto", "auto-report", &["talk", "--context-window=9000000"], &["talk", "--profile=unknown"]),
    ("batch", "batch-report", &["talk", "-s=strip-tools", "--require-saving=0"], &["missing"]),
    ("batch", "batch-report", &["empty", "--allow-empty"], &["empty"]),
    ("fork", "fork-report", &["talk", "copy", "--compact=light"], &["talk", "talk"]),
    ("import", "import-report", &["session.jsonl", "--to", "imported"], &["talk", "--to", "other"]),
    ("print", "print-report", &["talk", "--compacted"], &["missing"]),
    ("query", "query-report", &["talk", "--compact", "--", "Why?"], &["missing", "--", "Why?"]),
    ("show", "show-report", &["talk"], &["missing"]),
    ("stats", "stats-report", &["talk"], &["missing"]),
    ("stats", "stats-report", &["session.jsonl"], &["bad"]),
    ("lint", "lint-report", &["talk", "--provider=all"], &["bad"]),
    ("strategy list", "strategy-list-report", &[], &["--plugin-dir=missing"]),
    ("strategy show", "strategy-show-report", &["strip-tools"], &["unknown"]),
    ("strategy trust", "strategy-trust-report", &["./plugin"], &["strip-tools"]),
    ("strategy test", "strategy-test-report", &["./plugin", "--only=D01"], &["missing"]),
    ("strategy untrust", "strategy-untrust-report", &["./plugin"], &["./plugin", "--nonsense"]),
    ("config", "config-report", &["talk"], &["--set=no.such=1"]),
    ("config trust", "config-trust-report", &["shared", "--yes"], &["missing"]),
    ("config trust", "config-approvals-report", &["--list"], &["--list", "--yes"]),
    ("config untrust", "config-untrust-report", &["shared"], &["--nonsense"]),
    ("doctor", "doctor-report", &[], &["--plugin-dir=missing"]),
];

/// A test environment with everything that the table names.
fn world() -> World {
    let world = World::new();
    world.write_conversation("talk", &Conversation::bulky(3).whole_turn().whole_turn().whole_turn());
    world.write_events("bad", b"{");
    fs::create_dir(world.path("empty")).unwrap();
    world.write_file("session.jsonl", b"{\"role\":\"user\",\"content\":\"hello there\"}\n");
    world.write_script("plugin", &plugin_script("plugin", &json!({}), "echo no"));
    let profile = "[conversation.compaction.profiles.theirs]\nsummary.model = \"openai/theirs\"\n";
    world.write_file("shared/.jp-compact.toml", profile.as_bytes());
    world
}

/// Makes a schema reject every member that it does not list.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The errors of a document, by the closed schema of this name.
fn errors(name: &str, document: &Value) -> Vec<String> {
    let mut schema = catalog::get(name).unwrap_or_else(|| panic!("there is no schema `{name}`")).json();
    close(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[track_caller]
pub(crate) fn check(name: &str, document: &Value) {
    let errors = errors(name, document);
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{document:#}");
}

/// The documents on stdout: one, or one for each line.
#[track_caller]
fn documents(output: &CommandOutput) -> Vec<Value> {
    match serde_json::from_slice(&output.stdout) {
        Ok(one) => vec![one],
        Err(_) => output.lines(),
    }
}

fn run(world: &World, model: &Model, command: &str, more: &[&str]) -> CommandOutput {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    words.push("--json");
    if ["auto", "fork", "query"].contains(&command) {
        words.push("--model=openai/g");
    }
    if ["", "auto", "fork", "query"].contains(&command) {
        words.extend(["--now=2026-11-21T07:40:00Z", "--sandbox=contained"]);
    }
    if command == "strategy test" && world.path(more[0]).exists() {
        words.push("--sandbox=contained");
    }
    words.extend(more);
    let mut command = world.command(&words);
    world.finish(model.configure(&mut command))
}

#[test]
fn every_command_prints_its_document_and_its_failure() {
    let (world, model) = (world(), Model::with_answer("Because."));
    for (command, schema, succeeds, fails) in COMMANDS {
        let output = run(&world, &model, command, succeeds);
        let found = documents(&output);
        assert!(!found.is_empty(), "{command} {succeeds:?}: {}", output.stderr);
        for document in &found {
            let errors = errors(schema, document);
            assert!(
                errors.is_empty(),
                "{command} {succeeds:?}: {errors:#?}\n{document:#}\n{}",
                output.stderr
            );
        }
        let output = run(&world, &model, command, fails);
        let found = documents(&output);
        let failed = found.iter().find(|document| document.get("error").is_some_and(Value::is_object));
        let in_batch = command == "batch" && found.len() == 1;
        if in_batch {
            check(schema, &found[0]);
            continue;
        }
        let failed = failed.unwrap_or_else(|| panic!("{command} {fails:?}: {found:#?}\n{}", output.stderr));
        check("failure", failed);
        if found.len() == 1 {
            assert_eq!(failed["error"]["code"], json!(output.code), "{command} {fails:?}: {failed}");
        }
        for document in found.iter().filter(|document| *document != failed) {
            let error = errors("failure", document);
            assert!(error.is_empty() || errors(schema, document).is_empty(), "{document:#}");
        }
    }
}

/// The commands below a command whose help has `--json`.
fn commands_with_json(world: &World, command: &str, found: &mut BTreeSet<String>) {
    let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let output = world.run(&words).exits(0);
    let has_json = output.text().lines().any(|line| line.trim_start().starts_with("--json"));
    found.extend(has_json.then(|| command.to_owned()));
    let commands = output.text().lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in commands.take_while(|line| !line.is_empty()) {
        let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) else {
            continue;
        };
        if name != "help" && !line.starts_with("   ") {
            commands_with_json(world, format!("{command} {name}").trim(), found);
        }
    }
}

#[test]
fn table_has_every_command_with_json() {
    let mut found = BTreeSet::new();
    commands_with_json(&World::new(), "", &mut found);
    let table: BTreeSet<String> = COMMANDS.iter().map(|(command, ..)| (*command).to_owned()).collect();
    assert_eq!(found, table);
}

#[test]
fn total_of_several_conversations_has_a_schema() {
    let world = world();
    let lines = world.run(&["stats", "talk", "session.jsonl", "bad", "--json"]).exits(19).lines();
    check("stats-report", &lines[0]);
    check("failure", &lines[2]);
    check("stats-total", &lines[3]);
    assert_eq!(lines[3]["transcripts"], 2);
}

#[test]
fn records_and_tools_have_the_same_errors() {
    let world = world();
    let records = b"{\"id\":1,\"path\":\"talk\"}\n{\"id\":2,\"path\":\"bad\"}\n";
    let answers = world.run_with_stdin(&["batch", "--ndjson", "--profile=light"], records).exits(0).lines();
    answers.iter().for_each(|answer| check("batch-answer", answer));
    world.write_conversation("project/talk", &Conversation::bulky(6));
    world.write_events("project/bad", b"{");
    let mut agent = Agent::connect(&world, &["--now=2026-11-21T07:40:00Z", "--sandbox=contained"]);
    for tool in ["compact", "show", "stats", "reset"] {
        let done = agent.call(tool, json!({ "transcript": "talk" })).succeeds();
        check(&format!("{tool}-report"), &done.0["structuredContent"]);
        let failed = agent.call(tool, json!({ "transcript": "bad" })).fails(4);
        check("failure", &failed.0["structuredContent"]);
        let error = &failed.0["structuredContent"]["error"];
        assert_eq!(
            (&error["code"], &error["kind"]),
            (&answers[1]["error"]["code"], &answers[1]["error"]["kind"])
        );
    }
}

#[test]
fn failed_batch_is_one_document_with_its_error() {
    let world = world();
    let report = world.run(&["batch", "empty", "--json"]).exits(4);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    check("batch-report", &report);
    assert_eq!(
        (&report["error"]["code"], &report["error"]["kind"]),
        (&json!(4), &json!("transcript_invalid"))
    );
}

#[test]
fn closed_schema_rejects_another_member() {
    let mut document = Map::new();
    document.insert(
        "error".to_owned(),
        json!({"code": 1, "kind": "bug", "message": "m", "causes": [], "hint": null, "retryable": false}),
    );
    check("failure", &Value::Object(document.clone()));
    document.insert("extra".to_owned(), json!(1));
    assert_eq!(errors("failure", &Value::Object(document)).len(), 1);
}
