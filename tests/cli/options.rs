//! Options of strategies: how they are parsed, and how strategies receive them.

use std::fs;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, DECLINE, Transcript, World, plugin_script};

/// Returns a conversation, and writes a strategy that saves its request to a file.
fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    let schema = json!({"options_schema": {"type": "object", "additionalProperties": false, "properties": {
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "names": {"type": "array", "items": {"type": "string"}},
        "text": {"type": "string"},
        "flag": {"type": "boolean", "default": false},
        "mode": {"enum": ["soft", "hard"]},
    }}});
    let run = format!("cat > {}\n{DECLINE}", world.path("request.json").display());
    world.write_script("plugins/asks", &plugin_script("asks", &schema, &run));
    (world, transcript)
}

fn run(world: &World, spec: &str) -> CommandOutput {
    world.run_plugin(spec, &[])
}

/// Checks the options that the strategy receives.
#[track_caller]
fn check(spec: &str, expect: Value) {
    let (world, _) = world();
    world.write_file("options.json", br#"{"count": 7, "names": ["a,b"]}"#);
    run(&world, spec).exits(0);
    let request: Value = serde_json::from_slice(&fs::read(world.path("request.json")).unwrap()).unwrap();
    assert_eq!(request["options"], expect);
}

/// Checks that this strategy argument is a usage error with this message.
#[track_caller]
fn check_rejected(spec: &str, message: &str) {
    let (world, transcript) = world();
    world.write_file("list.json", b"[1]");
    let output = run(&world, spec).exits(2).reports(message);
    assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
    assert!(!world.path("request.json").exists(), "the strategy ran");
    transcript.assert_untouched();
}

#[test]
fn fills_in_defaults() {
    check("asks", json!({"count": 1, "flag": false}));
}

#[test]
fn parses_value_as_json_unless_schema_wants_string() {
    check("asks:count=3,flag=true", json!({"count": 3, "flag": true}));
    check("asks:text=3", json!({"text": "3", "count": 1, "flag": false}));
    check("asks:text=true,mode=hard", json!({"text": "true", "mode": "hard", "count": 1, "flag": false}));
}

#[test]
fn comma_in_brackets_or_quotes_is_part_of_value() {
    check(r#"asks:names=["a","b"],count=2"#, json!({"names": ["a", "b"], "count": 2, "flag": false}));
    check(r#"asks:names=["a,]b"],count=2"#, json!({"names": ["a,]b"], "count": 2, "flag": false}));
    check("asks:text=f(a,b),count=2", json!({"text": "f(a,b)", "count": 2, "flag": false}));
}

#[test]
fn value_may_contain_separators() {
    check("asks:text=a=b:c@d", json!({"text": "a=b:c@d", "count": 1, "flag": false}));
    check("asks:text=", json!({"text": "", "count": 1, "flag": false}));
}

#[test]
fn accepts_all_options_as_json_or_file() {
    check(r#"asks:{"count":3,"text":"x"}"#, json!({"count": 3, "text": "x", "flag": false}));
    check("asks:{}", json!({"count": 1, "flag": false}));
    check("asks:@options.json", json!({"count": 7, "names": ["a,b"], "flag": false}));
}

#[test]
fn rejects_duplicate_option() {
    check_rejected("asks:count=1,count=2", "option `count` is given twice");
    check_rejected(r#"asks:{"count":1,"count":2}"#, "option `count` is given twice");
}

#[test]
fn unknown_option_error_lists_known_options() {
    check_rejected(
        "asks:cuont=1",
        "option `cuont` is unknown; known options: `count`, `names`, `text`, `flag`, `mode`",
    );
    check_rejected(r#"asks:{"cuont":1}"#, "option `cuont` is unknown");
}

#[test]
fn invalid_value_error_states_expectation() {
    check_rejected("asks:count=0", "option `/count`: 0 is less than the minimum of 1");
    check_rejected("asks:count=many", "option `/count`: expected JSON, not `many`");
    check_rejected("asks:names=[1]", "option `/names/0`: 1 is not of type \"string\"");
    check_rejected("asks:mode=medium", "option `/mode`: \"medium\" is not one of \"soft\", \"hard\"");
}

#[test]
fn rejects_missing_required_option() {
    let (world, transcript) = world();
    let schema = json!({"options_schema": {"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"}, "count": {"type": "integer", "default": 1},
    }}});
    world.write_script("plugins/asks", &plugin_script("asks", &schema, DECLINE));
    run(&world, "asks").exits(2).reports("\"text\" is a required property");
    run(&world, "asks:count=2").exits(2).reports("\"text\" is a required property");
    run(&world, "asks:text=x").exits(0);
    transcript.assert_untouched();
}

#[test]
fn schema_may_allow_additional_options() {
    let (world, _) = world();
    let schema = json!({"options_schema": {"type": "object", "additionalProperties": {"type": "integer"}}});
    world.write_script("plugins/asks", &plugin_script("asks", &schema, DECLINE));
    run(&world, r#"asks:{"any":3}"#).exits(0);
    run(&world, "asks:any=3").exits(0);
    run(&world, r#"asks:{"any":"x"}"#).exits(2).reports("option `/any`: \"x\" is not of type \"integer\"");
}

#[test]
fn rejects_invalid_options_schema() {
    let (world, transcript) = world();
    world.write_script(
        "plugins/asks",
        &plugin_script("asks", &json!({"options_schema": {"type": "objekt"}}), DECLINE),
    );
    run(&world, "asks").exits(12).reports("its `options_schema` is not a valid JSON Schema");
    transcript.assert_untouched();
}

#[test]
fn rejects_malformed_options() {
    check_rejected("asks:count", "expected `key=value`, not `count`");
    check_rejected("asks:", "expected `key=value`");
    check_rejected(":count=1", "expected NAME");
    check_rejected(r#"asks:{"count""#, "asks:{");
    check_rejected("asks:@", "expected a file name after `@`");
    check_rejected("asks:@missing.json", "/here/missing.json");
    check_rejected("asks:@list.json", "/here/list.json");
}

#[test]
fn options_of_bundled_strategies_are_checked() {
    let (world, transcript) = world();
    world
        .run(&["conversation", "--strategy", "strip-reasoning:mode=hard"])
        .exits(2)
        .reports("has no options");
    world.run(&["conversation", "--strategy", "strip-tools:mode=hard"]).exits(2).reports(
        "option `/mode`: \"hard\" is not one of \"strip\", \"strip-requests\", \"strip-responses\", \"omit\"",
    );
    transcript.assert_untouched();
}

#[test]
fn strategy_runs_once_per_set_of_options() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let specs = ["-s", "strip-tools:mode=strip-requests", "-s", "strip-tools:mode=strip-responses"];
    world.run(&[&["conversation"], &specs[..]].concat()).exits(0);
    let policies: Vec<_> =
        transcript.overlays().iter().map(|overlay| overlay["tool_calls"].clone()).collect();
    let strip = |request, response| json!({"policy": "strip", "request": request, "response": response});
    assert_eq!(policies, [strip(true, false), strip(false, true)]);
}
