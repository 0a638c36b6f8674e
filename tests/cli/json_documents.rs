//! The JSON documents of every command with `--json`, on success and on failure. Each has a schema, and no member that
//! the schema does not list. A command that is not in the table fails a test.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use jp_compact_schema::catalog;
use serde_json::{Map, Value, json};

use crate::agent_formats::sample;
use crate::support::{Agent, CommandOutput, Conversation, Model, World, close_schema, plugin_script};

/// A command, its schema, arguments with which it succeeds, and arguments with which it fails.
type Row = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Every command with `--json`. An empty name is `jp-compact` without a subcommand.
const COMMANDS: [Row; 34] = [
    ("", "compact-report", &["talk", "-s", "strip-tools", "--keep-last=1"], &["talk", "missing"]),
    ("", "compact-report", &["talk", "-s", "strip-reasoning", "-n"], &["talk", "-s", "unknown"]),
    ("", "reset-report", &["talk", "--reset=1"], &["talk", "--reset=99"]),
    ("auto", "auto-report", &["talk", "--context-window=1000"], &["missing"]),
    ("auto", "auto-report", &["talk", "--context-window=9000000"], &["talk", "--profile=unknown"]),
    ("batch", "batch-report", &["talk", "-s=strip-tools", "--require-saving=0"], &["missing"]),
    ("batch", "batch-report", &["empty", "--allow-empty"], &["empty"]),
    ("diff", "diff-report", &["talk"], &["talk", "--overlay=99"]),
    ("diff", "diff-report", &["talk", "--stat", "--turn=0"], &["talk", "--turn=99"]),
    ("diff", "diff-report", &["talk", "-s=strip-reasoning", "--sandbox=contained"], &["talk", "-s=unknown"]),
    ("eval", "eval-report", &["talk", "session.jsonl", "-s=strip-tools"], &["missing", "-s=strip-tools"]),
    ("fork", "fork-report", &["talk", "copy", "--compact=light"], &["talk", "talk"]),
    ("fork", "fork-report", &["opencode.json", "copy.json", "--compact"], &["opencode.json", "talk"]),
    ("list", "list-report", &[], &["--agent=unknown"]),
    ("resume", "fork-report", &["opencode.json", "--dry-run"], &["talk"]),
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
    (
        "config set",
        "config-settings-report",
        &["--conversation=talk", "llm.model=a/b"],
        &["--conversation=talk", "x=1"],
    ),
    (
        "config unset",
        "config-settings-report",
        &["--conversation=talk", "llm"],
        &["--conversation=talk", "llm"],
    ),
    ("config trust", "config-trust-report", &["shared", "--yes"], &["missing"]),
    ("config trust", "config-approvals-report", &["--list"], &["--list", "--yes"]),
    ("config untrust", "config-untrust-report", &["shared"], &["--nonsense"]),
    ("doctor", "doctor-report", &[], &["--plugin-dir=missing"]),
];

/// Returns a test environment with everything that the table names.
fn world() -> World {
    let world = World::new();
    world.write_conversation("talk", &Conversation::bulky(3).whole_turn().whole_turn().whole_turn());
    world.write_events("bad", b"{");
    fs::create_dir(world.path("empty")).unwrap();
    world.write_file("session.jsonl", b"{\"role\":\"user\",\"content\":\"hello there\"}\n");
    world.write_file("opencode.json", &sample("opencode.json"));
    world.write_script("plugin", &plugin_script("plugin", &json!({}), "echo no"));
    let profile = "[conversation.compaction.profiles.theirs]\nsummary.model = \"openai/theirs\"\n";
    world.write_file("shared/.jp-compact.toml", profile.as_bytes());
    world
}

/// Returns the violations of the closed schema with this name.
fn schema_errors(name: &str, document: &Value) -> Vec<String> {
    let mut schema = catalog::get(name).unwrap_or_else(|| panic!("there is no schema `{name}`")).json();
    close_schema(&mut schema);
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[track_caller]
pub(crate) fn check_schema(name: &str, document: &Value) {
    let violations = schema_errors(name, document);
    assert!(violations.is_empty(), "{name}: {violations:#?}\n{document:#}");
}

/// Parses stdout as one document, or as one document for each line.
#[track_caller]
fn parse_documents(output: &CommandOutput) -> Vec<Value> {
    match serde_json::from_slice(&output.stdout) {
        Ok(document) => vec![document],
        Err(_) => output.lines(),
    }
}

fn run(world: &World, model: &Model, command: &str, extra: &[&str]) -> CommandOutput {
    let mut arguments: Vec<&str> = command.split_whitespace().collect();
    arguments.push("--json");
    if ["auto", "fork", "query"].contains(&command) {
        arguments.push("--model=openai/g");
    }
    if ["", "auto", "fork", "query"].contains(&command) {
        arguments.extend(["--now=2026-11-21T07:40:00Z", "--sandbox=contained"]);
    }
    if command == "strategy test" && world.path(extra[0]).exists() {
        arguments.push("--sandbox=contained");
    }
    arguments.extend(extra);
    let mut command = world.command(&arguments);
    world.finish(model.configure(&mut command))
}

#[test]
fn documents_and_failures_of_every_command_match_their_schemas() {
    let (world, model) = (world(), Model::with_answer("Because."));
    for (command, schema, successful_arguments, failing_arguments) in COMMANDS {
        let output = run(&world, &model, command, successful_arguments);
        let documents = parse_documents(&output);
        assert!(!documents.is_empty(), "{command} {successful_arguments:?}: {}", output.stderr);
        for document in &documents {
            let violations = schema_errors(schema, document);
            assert!(
                violations.is_empty(),
                "{command} {successful_arguments:?}: {violations:#?}\n{document:#}\n{}",
                output.stderr
            );
        }
        let output = run(&world, &model, command, failing_arguments);
        let documents = parse_documents(&output);
        let failure = documents.iter().find(|document| document.get("error").is_some_and(Value::is_object));
        let is_batch_report = command == "batch" && documents.len() == 1;
        if is_batch_report {
            check_schema(schema, &documents[0]);
            continue;
        }
        let failure = failure
            .unwrap_or_else(|| panic!("{command} {failing_arguments:?}: {documents:#?}\n{}", output.stderr));
        check_schema("failure", failure);
        if documents.len() == 1 {
            assert_eq!(
                failure["error"]["code"],
                json!(output.code),
                "{command} {failing_arguments:?}: {failure}"
            );
        }
        for document in documents.iter().filter(|document| *document != failure) {
            let violations = schema_errors("failure", document);
            assert!(violations.is_empty() || schema_errors(schema, document).is_empty(), "{document:#}");
        }
    }
}

/// Adds this command and the commands below it, each if its help has `--json`.
fn collect_commands_with_json(world: &World, command: &str, commands: &mut BTreeSet<String>) {
    let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let output = world.run(&arguments).exits(0);
    let has_json = output.text().lines().any(|line| line.trim_start().starts_with("--json"));
    commands.extend(has_json.then(|| command.to_owned()));
    let command_lines = output.text().lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in command_lines.take_while(|line| !line.is_empty()) {
        let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) else {
            continue;
        };
        if name != "help" && !line.starts_with("   ") {
            collect_commands_with_json(world, format!("{command} {name}").trim(), commands);
        }
    }
}

#[test]
fn table_has_every_command_with_json() {
    let mut commands = BTreeSet::new();
    collect_commands_with_json(&World::new(), "", &mut commands);
    let table: BTreeSet<String> = COMMANDS.iter().map(|(command, ..)| (*command).to_owned()).collect();
    assert_eq!(commands, table);
}

#[test]
fn total_of_several_conversations_has_a_schema() {
    let world = world();
    let lines = world.run(&["stats", "talk", "session.jsonl", "bad", "--json"]).exits(19).lines();
    check_schema("stats-report", &lines[0]);
    check_schema("failure", &lines[2]);
    check_schema("stats-total", &lines[3]);
    assert_eq!(lines[3]["transcripts"], 2);
}

#[test]
fn batch_records_and_mcp_tools_report_the_same_errors() {
    let world = world();
    let records = b"{\"id\":1,\"path\":\"talk\"}\n{\"id\":2,\"path\":\"bad\"}\n";
    let answers = world.run_with_stdin(&["batch", "--ndjson", "--profile=light"], records).exits(0).lines();
    answers.iter().for_each(|answer| check_schema("batch-answer", answer));
    world.write_conversation("project/talk", &Conversation::bulky(6));
    world.write_events("project/bad", b"{");
    let mut agent = Agent::connect(&world, &["--now=2026-11-21T07:40:00Z", "--sandbox=contained"]);
    for tool in ["compact", "show", "stats", "reset"] {
        let result = agent.call(tool, json!({ "transcript": "talk" })).succeeds();
        let mut document = result.0["structuredContent"].clone();
        assert_eq!(document.as_object_mut().unwrap().remove("takes_effect").is_some(), tool == "compact");
        check_schema(&format!("{tool}-report"), &document);
        let failed = agent.call(tool, json!({ "transcript": "bad" })).fails(4);
        check_schema("failure", &failed.0["structuredContent"]);
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
    check_schema("batch-report", &report);
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
    check_schema("failure", &Value::Object(document.clone()));
    document.insert("extra".to_owned(), json!(1));
    assert_eq!(schema_errors("failure", &Value::Object(document)).len(), 1);
}

/// Collects the names of all members in a schema, and the values of its enumerations.
fn collect_names(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(properties) = members.get("properties").and_then(Value::as_object) {
                names.extend(properties.keys().cloned());
            }
            names.extend(members.get("const").and_then(Value::as_str).map(str::to_owned));
            let values = members.get("enum").and_then(Value::as_array).into_iter().flatten();
            names.extend(values.filter_map(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| collect_names(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn documents_do_not_use_the_old_names() {
    let old = ["why", "what", "small", "short", "typed", "before", "after", "totals", "view_tokens_before"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/json");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let schema = serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        collect_names(&schema, &mut names);
    }
    assert!(names.contains("reason") && names.contains("below_threshold"), "{names:?}");
    let found: Vec<_> = old.into_iter().filter(|name| names.contains(*name)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn every_surface_reports_failed_runs_with_the_same_kind() {
    let world = World::new();
    world.write_conversation("project/talk", &Conversation::bulky(3));
    world.write_events("project/bad", b"{");
    let profiles = "conversation.compaction.profiles.crash.strategies = [\"crashes\"]\n";
    world.write_file("project/.jp-compact.toml", profiles.as_bytes());
    world.write_plugin("crashes", "exit 3");
    let plugins = world.path("plugins");
    let options = ["--trust-dir", plugins.to_str().unwrap(), "--sandbox=contained"];
    let mut agent = Agent::connect(&world, &options);
    for (transcript, profile, kind) in
        [("bad", "light", "transcript_invalid"), ("talk", "crash", "strategy_crashed")]
    {
        let run = |arguments: &[&str], input: &str| {
            let arguments = [arguments, &options, &["--profile", profile, "--keep-last=0"]].concat();
            let mut command = world.command(&arguments);
            let mut child = world.spawn(command.current_dir(world.path("project")).stdin(Stdio::piped()));
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            serde_json::from_slice::<Value>(&output.stdout)
                .unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
        };
        let command = run(&[transcript, "--json"], "");
        let batch = run(&["batch", transcript, "--json"], "");
        check_schema("batch-report", &batch);
        let record = json!({"id": 1, "path": transcript});
        let answer = run(&["batch", "--ndjson"], &format!("{record}\n"));
        check_schema("batch-answer", &answer);
        let arguments = json!({"transcript": transcript, "profile": profile, "keep_last": 0});
        let tool = agent.call("compact", arguments).0["structuredContent"].clone();
        check_schema("failure", &tool);
        let error = &command["error"];
        assert_eq!(error["kind"], kind, "{command}");
        for other in [&batch["transcripts"][0]["error"], &answer["error"], &tool["error"]] {
            assert!(other.is_object(), "{transcript} {profile}: {batch} {answer} {tool}");
            for member in ["code", "kind", "retryable"] {
                assert_eq!(error[member], other[member], "{transcript} {profile}: {other}");
            }
            let members = |error: &Value| error.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(members(error), members(other));
        }
    }
    agent.close().exits(0);
}
