//! Examples in `PROTOCOL.md`: each is valid in both directions, each message has one, and the limits equal
//! the constants.

#![expect(clippy::disallowed_methods, reason = "the test runs the strategy in the text")]

mod both;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use both::{accepts, through_schema};
use jp_compact_schema::version::{
    COMPACT_DEADLINE_MS, COMPACTIONS_MAX, DESCRIBE_DEADLINE_MS, DIAGNOSTICS_MAX, ENV_PROTOCOL, LOGS_MAX,
    NEEDS_MANY_ROUNDS_MAX, NEEDS_MAX, NEEDS_ROUNDS_MAX, RESULT_BYTES_MAX, STATE_BYTES_MAX,
    STATE_MANY_BYTES_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX, VERSION_BYTES_MAX,
};
use jp_compact_schema::{Answer, CompactRequest, Completion, Manifest, Program, from_line};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Value, json};

const TEXT: &str = include_str!("../PROTOCOL.md");

/// Returns the contents of the fenced blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let after_fences = TEXT.match_indices(&fence).map(|(index, _)| &TEXT[index + fence.len()..]);
    after_fences.map(|text| text.split_once("```").expect("a fence is closed").0).collect()
}

fn examples() -> Vec<Box<RawValue>> {
    let values = blocks("json").into_iter().flat_map(|block| Deserializer::from_str(block).into_iter());
    values.map(|value| value.expect("an example is JSON")).collect()
}

/// Returns the name of the schema that an example belongs to.
fn schema_of(value: &Value) -> &'static str {
    match value["type"].as_str() {
        Some("describe") if value.get("host").is_some() => "describe-request",
        Some("describe") => "description",
        Some("compact") => "compact",
        Some("event") => "event",
        Some("events_end") => "events-end",
        Some(_) => "reply",
        None => "compaction",
    }
}

#[test]
fn every_example_round_trips_through_types_and_schema() {
    for example in examples() {
        let value: Value = serde_json::from_str(example.get()).unwrap();
        let serialized = accepts(schema_of(&value), example.get());
        assert_eq!(
            without_defaults(serialized),
            without_defaults(value),
            "an example has a key that its type lacks"
        );
    }
}

/// Removes defaults that one side writes and the other omits.
fn without_defaults(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|key, value| !(key == "transient" && *value == json!(false)) && *value != json!([]));
    }
    value
}

#[test]
fn every_message_and_policy_has_an_example() {
    let mut words = BTreeSet::new();
    for example in examples() {
        let value: Value = serde_json::from_str(example.get()).unwrap();
        words.insert(schema_of(&value).to_owned());
        words.extend(value["type"].as_str().map(str::to_owned));
        words.extend(value["tool_calls"]["policy"].as_str().map(str::to_owned));
        words.extend(value["events"]["mode"].as_str().map(str::to_owned));
        words.extend(value.as_object().into_iter().flatten().map(|(key, _)| key.clone()));
    }
    let expected = "describe-request description compact event events-end events_end reply compaction progress log \
                    result decline needs error strip omit selective inline file summary reasoning tool_calls";
    for word in expected.split_whitespace() {
        assert!(words.contains(word), "{word} has no example");
    }
}

#[test]
fn answers_have_the_types_of_their_kinds() {
    let requests = examples()
        .into_iter()
        .filter_map(|example| from_line::<CompactRequest>(example.get().as_bytes()).ok());
    let answers: Vec<Answer> = requests.flat_map(|request| request.answers.into_values()).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].as_type::<Completion>().unwrap().text, "They said hello.");
    assert_eq!(answers[1].as_type::<Completion>().unwrap_err().code, "need_unknown");
}

#[test]
fn manifest_example_is_valid() {
    let [text] = blocks("toml")[..] else { panic!("expected one manifest") };
    let manifest: Manifest = toml::from_str(text).unwrap();
    assert_eq!(manifest.name.as_str(), "tool-dedupe");
    assert_eq!(manifest.run.program, Program::Command(vec!["./tool-dedupe".to_owned()]));
    assert_eq!(manifest.run.timeout_ms, Some(60_000));
    through_schema("manifest", &toml::from_str(text).unwrap()).unwrap();
    through_schema("manifest", &serde_json::to_value(&manifest).unwrap()).unwrap();
}

#[test]
fn documented_limits_equal_the_constants() {
    #[track_caller]
    fn check(row: &str, limit: impl std::fmt::Display, unit: &str) {
        let line = format!("| {row} | {limit}{unit}");
        assert!(TEXT.contains(&line), "PROTOCOL.md has no line: {line}");
    }
    check("`describe`", DESCRIBE_DEADLINE_MS / 1000, " s |");
    check("`compact`, each round", COMPACT_DEADLINE_MS / 1000, " s");
    check("a whole reply", RESULT_BYTES_MAX, " bytes |");
    check("compactions of a reply", COMPACTIONS_MAX, " |");
    check("diagnostics of a reply", DIAGNOSTICS_MAX, " are kept");
    check("`log` messages of a reply", LOGS_MAX, " are kept");
    check("a text for people: `message`, `reason`, `code`, `hint`", TEXT_BYTES_MAX, " bytes;");
    check(
        "`description`, `version` of a description",
        TEXT_BYTES_MAX,
        &format!(" bytes, {VERSION_BYTES_MAX} bytes |"),
    );
    check("a summary", SUMMARY_BYTES_MAX, " bytes |");
    check("`state`", STATE_BYTES_MAX, " bytes |");
    check("`state` with `needs.many`", STATE_MANY_BYTES_MAX, " bytes |");
    check("rounds of `needs`", NEEDS_ROUNDS_MAX, " |");
    check("rounds of `needs` with `needs.many`", NEEDS_MANY_ROUNDS_MAX, " |");
    check("requests in all rounds of `needs`", NEEDS_MAX, " |");
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn smallest_strategy_replies_correctly() {
    if Command::new("jq").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: jq is not installed");
        return;
    }
    let description = run_strategy("describe", "");
    accepts("description", &description);
    let request = examples().into_iter().find(|example| example.get().contains("\"id\":\"c1\"")).unwrap();
    let reply = accepts("reply", &run_strategy("run", request.get()));
    let strip = json!({"policy": "strip", "request": false, "response": true});
    assert_eq!(
        reply,
        json!({"type": "result", "id": "c1", "compactions": [{"from_turn": 5, "to_turn": 37, "tool_calls": strip}]})
    );
}

/// Runs the script in PROTOCOL.md, and returns its output.
fn run_strategy(verb: &str, input: &str) -> String {
    let [script] = blocks("sh")[..] else { panic!("expected one script") };
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", verb]).env(ENV_PROTOCOL, "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh starts");
    // A strategy need not read its input.
    let _ = child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("sh ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}
