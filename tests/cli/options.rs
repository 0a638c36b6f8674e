//! The options of strategies, as typed and as they arrive.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Conversation, DECLINE, Ran, Transcript, World, described};

/// A conversation, and a strategy that writes down what it was asked.
fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    let schema = json!({"options_schema": {"type": "object", "additionalProperties": false, "properties": {
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "names": {"type": "array", "items": {"type": "string"}},
        "text": {"type": "string"},
        "flag": {"type": "boolean", "default": false},
        "mode": {"enum": ["soft", "hard"]},
    }}});
    let run = format!("cat > {}\n{DECLINE}", world.path("asked.json").display());
    world.script("plugins/asks", &described("asks", &schema, &run));
    (world, transcript)
}

fn run(world: &World, spec: &str) -> Ran {
    world.run_plugin(spec, &[])
}

#[track_caller]
fn check(spec: &str, expect: Value) {
    let (world, _) = world();
    world.file("options.json", br#"{"count": 7, "names": ["a,b"]}"#);
    run(&world, spec).exits(0);
    let asked: Value = serde_json::from_slice(&fs::read(world.path("asked.json")).unwrap()).unwrap();
    assert_eq!(asked["options"], expect);
}

#[track_caller]
fn refused(spec: &str, says: &str) {
    let (world, transcript) = world();
    world.file("list.json", b"[1]");
    let ran = run(&world, spec).exits(2).says(says);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    assert!(!world.path("asked.json").exists(), "it ran");
    transcript.assert_untouched();
}

#[test]
fn defaults_are_filled_in() {
    check("asks", json!({"count": 1, "flag": false}));
}

#[test]
fn a_value_is_json_where_the_schema_wants_more_than_text() {
    check("asks:count=3,flag=true", json!({"count": 3, "flag": true}));
    check("asks:text=3", json!({"text": "3", "count": 1, "flag": false}));
    check("asks:text=true,mode=hard", json!({"text": "true", "mode": "hard", "count": 1, "flag": false}));
}

#[test]
fn a_comma_in_brackets_or_quotes_ends_no_value() {
    check(r#"asks:names=["a","b"],count=2"#, json!({"names": ["a", "b"], "count": 2, "flag": false}));
    check(r#"asks:names=["a,]b"],count=2"#, json!({"names": ["a,]b"], "count": 2, "flag": false}));
    check("asks:text=f(a,b),count=2", json!({"text": "f(a,b)", "count": 2, "flag": false}));
}

#[test]
fn a_value_may_hold_what_options_are_made_of() {
    check("asks:text=a=b:c@d", json!({"text": "a=b:c@d", "count": 1, "flag": false}));
    check("asks:text=", json!({"text": "", "count": 1, "flag": false}));
}

#[test]
fn all_options_are_given_at_once_as_json_or_in_a_file() {
    check(r#"asks:{"count":3,"text":"x"}"#, json!({"count": 3, "text": "x", "flag": false}));
    check("asks:{}", json!({"count": 1, "flag": false}));
    check("asks:@options.json", json!({"count": 7, "names": ["a,b"], "flag": false}));
}

#[test]
fn an_option_twice_is_refused() {
    refused("asks:count=1,count=2", "option `count` is given twice");
    refused(r#"asks:{"count":1,"count":2}"#, "option `count` is given twice");
}

#[test]
fn an_unknown_option_is_refused_with_those_there_are() {
    refused(
        "asks:cuont=1",
        "option `cuont` is unknown; the strategy knows `count`, `names`, `text`, `flag`, `mode`",
    );
    refused(r#"asks:{"cuont":1}"#, "option `cuont` is unknown");
}

#[test]
fn a_wrong_value_is_refused_with_what_was_expected() {
    refused("asks:count=0", "option `/count`: 0 is less than the minimum of 1");
    refused("asks:count=many", "option `/count`: expected JSON, not `many`");
    refused("asks:names=[1]", "option `/names/0`: 1 is not of type \"string\"");
    refused("asks:mode=medium", "option `/mode`: \"medium\" is not one of \"soft\", \"hard\"");
}

#[test]
fn an_option_that_has_to_be_given_is_asked_for() {
    let (world, transcript) = world();
    let schema = json!({"options_schema": {"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"}, "count": {"type": "integer", "default": 1},
    }}});
    world.script("plugins/asks", &described("asks", &schema, DECLINE));
    run(&world, "asks").exits(2).says("\"text\" is a required property");
    run(&world, "asks:count=2").exits(2).says("\"text\" is a required property");
    run(&world, "asks:text=x").exits(0);
    transcript.assert_untouched();
}

#[test]
fn a_schema_may_leave_the_names_of_options_open() {
    let (world, _) = world();
    let schema = json!({"options_schema": {"type": "object", "additionalProperties": {"type": "integer"}}});
    world.script("plugins/asks", &described("asks", &schema, DECLINE));
    run(&world, r#"asks:{"any":3}"#).exits(0);
    run(&world, "asks:any=3").exits(0);
    run(&world, r#"asks:{"any":"x"}"#).exits(2).says("option `/any`: \"x\" is not of type \"integer\"");
}

#[test]
fn a_schema_that_is_none_is_a_wrong_description() {
    let (world, transcript) = world();
    world.script("plugins/asks", &described("asks", &json!({"options_schema": {"type": "objekt"}}), DECLINE));
    run(&world, "asks").exits(12).says("its `options_schema` is no JSON Schema");
    transcript.assert_untouched();
}

#[test]
fn what_is_no_option_is_refused() {
    refused("asks:count", "expected `key=value`, not `count`");
    refused("asks:", "expected `key=value`");
    refused(":count=1", "expected NAME");
    refused(r#"asks:{"count""#, "asks:{");
    refused("asks:@", "`@` without a file");
    refused("asks:@missing.json", "/here/missing.json");
    refused("asks:@list.json", "/here/list.json");
}

#[test]
fn a_bundled_strategy_without_options_says_so() {
    let (world, transcript) = world();
    world.run(&["conversation", "--strategy", "strip-reasoning:mode=hard"]).exits(2).says("has no options");
    world.run(&["conversation", "--strategy", "strip-tools:mode=hard"]).exits(2).says(
        "option `/mode`: \"hard\" is not one of \"strip\", \"strip-requests\", \"strip-responses\", \"omit\"",
    );
    transcript.assert_untouched();
}

#[test]
fn one_strategy_with_two_sets_of_options_runs_twice() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(5));
    let specs = ["-s", "strip-tools:mode=strip-requests", "-s", "strip-tools:mode=strip-responses"];
    world.run(&[&["conversation"], &specs[..]].concat()).exits(0);
    let policies: Vec<_> =
        transcript.overlays().iter().map(|overlay| overlay["tool_calls"].clone()).collect();
    let strip = |request, response| json!({"policy": "strip", "request": request, "response": response});
    assert_eq!(policies, [strip(true, false), strip(false, true)]);
}
