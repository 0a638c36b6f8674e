//! `config`: the files that are read, their precedence, and the errors for invalid files.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{Conversation, World};

const KEEP_LAST: &str = "/config/conversation/compaction/keep_last";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[track_caller]
fn config_json(world: &World, arguments: &[&str]) -> Value {
    world.run(&[&["config", "--json"], arguments].concat()).exits(0).line()
}

/// Writes a conversation to a workspace with JP's configuration.
fn write_conversation(world: &World) {
    world.write_file(
        "space/.jp/config.toml",
        b"[assistant.model]\nid = { provider = \"p\", name = \"first\" }\n",
    );
    let delta = json!({ "delta": { "assistant": { "model": { "id": { "name": "second" } } } } });
    let conversation = Conversation::with_turns(1).event("config_delta", delta);
    world.write_conversation("space/.jp/conversations/17738399468-x", &conversation);
}

const TRANSCRIPT: &str = "space/.jp/conversations/17738399468-x";

#[test]
fn later_layers_override_earlier_ones() {
    let world = World::new();
    let keep_last_and_origin = |arguments: &[&str]| {
        let line = config_json(&world, arguments);
        let origin = &line["origins"]["conversation.compaction.keep_last"];
        (line.pointer(KEEP_LAST).unwrap().as_u64().unwrap(), world.normalize(origin.as_str().unwrap()))
    };
    assert_eq!(keep_last_and_origin(&[]), (3, "built in".into()));
    write(&world.home(".config/jp-compact/config.toml"), "[conversation.compaction]\nkeep_last = 4\n");
    assert_eq!(keep_last_and_origin(&[]), (4, "/home/.config/jp-compact/config.toml:2".into()));
    world.write_file(".jp-compact.toml", b"conversation.compaction.keep_last = 5\n");
    assert_eq!(keep_last_and_origin(&[]), (5, "/here/.jp-compact.toml:1".into()));
    world.write_file("mine.toml", b"conversation.compaction.keep_last = 6\n");
    assert_eq!(keep_last_and_origin(&["--config", "mine.toml"]), (6, "/here/mine.toml:1".into()));
    let set = "conversation.compaction.keep_last=7";
    assert_eq!(keep_last_and_origin(&["--config", "mine.toml", "--set", set]), (7, format!("--set {set}")));
    assert_eq!(keep_last_and_origin(&["--cfg", set]).0, 7);
}

#[test]
fn printed_configuration_is_valid_with_invisible_characters() {
    let world = World::new();
    let file = "[conversation.compaction.profiles.\"\u{ad}p\"]\n\
                strategies = [{ name = \"x\", options = { text = '\u{200b}\"', size = 1 } }]\n\
                [conversation.compaction.profiles.heavy.summary]\ninstructions = \"a\u{200e}b\u{e0041}\u{2028}\"\n";
    world.write_file("mine.toml", file.as_bytes());
    let expected = config_json(&world, &["--config", "mine.toml"]);
    for extra in [&[][..], &["--explain"]] {
        let printed = world.run(&[&["config", "--config", "mine.toml"], extra].concat()).exits(0);
        assert!(printed.text().is_ascii(), "{}", printed.text());
        world.write_file("printed.toml", printed.text().as_bytes());
        assert_eq!(config_json(&world, &["--config", "printed.toml"])["config"], expected["config"]);
    }
    let get =
        |key: &str| world.run(&["config", "get", key, "--config", "mine.toml"]).exits(0).text().to_owned();
    let instructions = "\"a\\u200eb\\U000e0041\\u2028\"\n";
    assert_eq!(get("conversation.compaction.profiles.heavy.summary.instructions"), instructions);
    let table = get("conversation.compaction.profiles.heavy.summary");
    assert!(table.starts_with(&format!("instructions = {instructions}")), "{table}");
}

#[test]
fn user_configuration_follows_xdg() {
    let world = World::new();
    write(&world.home("own/jp-compact/config.toml"), "conversation.compaction.keep_last = 8\n");
    write(&world.home(".config/jp-compact/config.toml"), "conversation.compaction.keep_last = 9\n");
    let mut command = world.command(&["config", "--json"]);
    let line = world.finish(command.env("XDG_CONFIG_HOME", world.home("own"))).exits(0).line();
    assert_eq!(line.pointer(KEEP_LAST), Some(&json!(8)));
}

#[test]
fn uses_workspace_of_transcript_not_current_folder() {
    let world = World::new();
    write_conversation(&world);
    world.write_file(".jp-compact.toml", b"conversation.compaction.keep_last = 8\n");
    world.write_file("space/.jp-compact.toml", b"conversation.compaction.keep_last = 9\n");
    assert_eq!(config_json(&world, &[]).pointer(KEEP_LAST), Some(&json!(8)));
    assert_eq!(config_json(&world, &[TRANSCRIPT]).pointer(KEEP_LAST), Some(&json!(9)));
}

#[test]
fn reads_only_model_and_rules_from_jp_files() {
    let world = World::new();
    write_conversation(&world);
    let jp_config = config_json(&world, &[TRANSCRIPT]);
    assert_eq!(jp_config["assistant_model"], "p/second");
    assert_eq!(jp_config["default_profile"], "default");
    let base = json!({ "conversation": { "compaction": { "rules": ["t=o:2.."], "keep_last": 9 } } });
    world.write_file(&format!("{TRANSCRIPT}/base_config.json"), base.to_string().as_bytes());
    let output = world.run(&["config", "--json", TRANSCRIPT]).exits(0);
    assert_eq!(output.line()["default_profile"], "rules");
    assert_eq!(output.line().pointer(KEEP_LAST), Some(&json!(3)));
    assert_eq!(output.line()["profiles"]["rules"]["calls"][0]["options"]["mode"], "omit");
    output.reports("warning: ignored `conversation.compaction.keep_last` in /here/space/.jp/conversations");
    world.write_file("space/.jp/config.toml", b"[assistant\n");
    world.run(&["config", TRANSCRIPT]).exits(0).reports("/.jp/config.toml: ");
}

#[test]
fn explain_prints_toml_with_origins() {
    let world = World::new();
    world.write_file(".jp-compact.toml", b"[conversation.tools.t]\ncompaction = \"strip-responses\"\n");
    let output = world.run(&["config", "--explain"]).exits(0);
    assert_snapshot!(world.normalize(output.text()), @r#"
    [conversation.compaction]
    default_profile = "default"  # built in
    keep_first = 0  # built in
    keep_last = 3  # built in
    min_saving = 0.01  # built in
    overlap = "partial"  # built in

    [conversation.compaction.auto]
    always = []  # built in
    cost = "ignore"  # built in
    enabled = false  # built in
    min_turns = 5  # built in
    on_failure = "continue"  # built in
    profile = "default"  # built in
    trigger_ratio = 0.75  # built in

    [conversation.compaction.profiles.agent]
    keep_steps = 3  # built in
    strategies = ["strip-reasoning", { name = "extract", options = { keep_steps = 0 } }]  # built in

    [conversation.compaction.profiles.auto-summarize]
    keep_last = 0  # built in
    strategies = [{ name = "summarize", options = { instructions = """
    The conversation is to be continued from your summary. Write briefly, and keep every important detail:

    1. What has been done so far.
    2. The current state.
    3. What was decided, and why.
    4. If a skill or a workflow was being followed: its steps, those that matter in full, which of them are done, and which one comes next, so that it can be followed to its end.""", max_tokens = 20000 } }]  # built in

    [conversation.compaction.profiles.collapse]
    keep_last = 0  # built in
    strategies = ["collapse"]  # built in
    trigger_ratio = 0.85  # built in

    [conversation.compaction.profiles.default]
    reasoning = "strip"  # built in
    tool_calls = "strip"  # built in

    [conversation.compaction.profiles.heavy.summary]
    policy = "summarize"  # built in

    [conversation.compaction.profiles.light]
    reasoning = "strip"  # built in

    [conversation.compaction.profiles.micro]
    keep_last = 0  # built in
    strategies = ["micro"]  # built in

    [conversation.compaction.profiles.offline]
    strategies = ["digest"]  # built in

    [conversation.tools.t.compaction]
    request = "keep"  # /here/.jp-compact.toml:2
    response = "strip"  # /here/.jp-compact.toml:2

    [limits]
    private_dir_bytes = 268435456  # built in
    "#);
    let without_origins = world.run(&["config"]).exits(0);
    assert!(!without_origins.text().contains('#'), "{}", without_origins.text());
}

#[test]
fn every_layer_accepts_printed_example() {
    let world = World::new();
    let example = world.run(&["config", "--example"]).exits(0);
    world.write_file(".jp-compact.toml", &example.stdout);
    let line = config_json(&world, &["--config", ".jp-compact.toml"]);
    let compaction = &line["config"]["conversation"]["compaction"];
    assert_eq!(compaction["profiles"]["offline"]["strategies"], json!(["digest"]));
    assert_eq!(line["config"]["conversation"]["tools"], Value::Null, "the example must contain no hints");
}

#[test]
fn reports_position_of_unknown_key() {
    let world = World::new();
    world.write_file(".jp-compact.toml", b"[conversation.compaction.auto]\nenabld = true\n");
    let output = world.run(&["config"]).exits(2);
    assert_snapshot!(output.stderr, @r"
    error: failed to read the configuration /here/.jp-compact.toml

    Caused by:
      line 2, column 1: unknown field `enabld`, expected one of `enabled`, `trigger_ratio`, `profile`, `fallback_profile`, `min_turns`, `token_threshold`, `always`, `on_failure`, `cost`

    hint: did you mean `enabled`? `jp-compact config --example` prints an example with every key
    ");
}

#[test]
fn rejects_provider_settings_in_workspace_file() {
    let world = World::new();
    let text = b"[llm.providers.openai]\nbase_url = \"https://evil.example/v1\"\n";
    world.write_file(".jp-compact.toml", text);
    let output = world.run(&["config"]).exits(2);
    assert_snapshot!(output.stderr, @r"
    error: failed to read the configuration /here/.jp-compact.toml

    Caused by:
      line 1, column 6: `llm.providers` is not allowed in a workspace file; only `llm.model` is, because other settings could send your API key to another address

    hint: set it in your own configuration: ~/.config/jp-compact/config.toml, `--config` or `--set`
    ");
    fs::rename(world.path(".jp-compact.toml"), world.path("mine.toml")).unwrap();
    let line = config_json(&world, &["--config", "mine.toml"]);
    assert_eq!(line["config"]["llm"]["providers"]["openai"]["base_url"], "https://evil.example/v1");
}

#[test]
fn rejects_unreadable_files() {
    let world = World::new();
    world
        .run(&["config", "--config", "nope.toml"])
        .exits(2)
        .reports("configuration /here/nope.toml")
        .reports("No such file");
    world.write_file("binary.toml", b"\xff\xfe");
    world.run(&["config", "--config", "binary.toml"]).exits(2).reports("valid UTF-8");
    world.write_file("long.toml", &vec![b'#'; (1 << 20) + 1]);
    world.run(&["config", "--config", "long.toml"]).exits(2).reports("it has more than 1048576 bytes");
    fs::create_dir(world.path(".jp-compact.toml")).unwrap();
    world.run(&["config"]).exits(2).reports("it is a folder");
}

#[test]
fn rejects_invalid_set_option() {
    let world = World::new();
    world.run(&["config", "--set", "keep"]).exits(2).reports("expected `key=value`");
    let output = world.run(&["config", "--set", "conversation.compaction.default_profile=x"]).exits(2);
    output
        .reports("configuration --set conversation.compaction.default_profile=x")
        .reports("known profiles: agent, auto-summarize, collapse, default, heavy");
}

#[test]
fn get_prints_a_value_or_a_table() {
    let world = World::new();
    let get = |arguments: &[&str]| world.run(&[&["config", "get"], arguments].concat()).exits(0);
    let key = "conversation.compaction.keep_last";
    assert_eq!(get(&[key]).text(), "3\n");
    assert_eq!(get(&[key, "--set", &format!("{key}=7")]).text(), "7\n");
    assert_eq!(get(&["conversation.compaction.overlap"]).text(), "\"partial\"\n");
    assert_eq!(get(&["conversation.compaction.profiles.light"]).text(), "reasoning = \"strip\"\n");
    write_conversation(&world);
    let set = format!("{key}=5");
    world.run(&["config", "set", "--conversation", TRANSCRIPT, &set]).exits(0);
    assert_eq!(get(&[key, "--conversation", TRANSCRIPT]).text(), "5\n");
}

#[test]
fn unknown_key_suggests_the_nearest_one() {
    let world = World::new();
    for typed in ["conversation.compaction.keep_lst", "keep_last"] {
        let output = world.run(&["config", "get", typed]).exits(2);
        output.reports(&format!("the configuration has no value for `{typed}`")).reports(
            "hint: did you mean `conversation.compaction.keep_last`? `jp-compact config` prints all values",
        );
    }
    for typed in ["x", "", "a..b", "="] {
        world
            .run(&["config", "get", typed])
            .exits(2)
            .reports("`jp-compact config --example` prints an example");
    }
    world
        .run(&["config", "--set", "conversation.compaction.keep_lst=3"])
        .exits(2)
        .reports("hint: did you mean `keep_last`? `jp-compact config --example`");
}
