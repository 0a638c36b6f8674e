//! Commands and options that print information: `strategy`, `schema`, `completions`, `--help` and `--version`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::consent::TEAM;
use crate::support::{Conversation, DECLINE, World, plugin_script};

#[test]
fn strategy_list_prints_bundled_strategies() {
    let world = World::new();
    let output = world.run(&["strategy", "list"]).exits(0);
    assert_eq!(output.stderr, "");
    insta::assert_snapshot!(world.normalize(output.text()), @r"
    NAME             FROM     TRUST    DESCRIPTION
    collapse         bundled  trusted  Let a model summarize the oldest turns, and merge earlier summaries
    digest           bundled  trusted  Replace turns with a list of requests, files, commands and errors, without a model
    extract          bundled  trusted  Shorten old tool calls to the lines that introduce names
    micro            bundled  trusted  Replace old and long tool results with placeholders
    strip-reasoning  bundled  trusted  Remove reasoning from the view
    strip-tools      bundled  trusted  Strip or omit tool calls
    summarize        bundled  trusted  Let a model write a summary of the turns
    trim             bundled  trusted  Clear or cut old tool results by a fixed rule
    ");
    let line = world.run(&["strategy", "list", "--json"]).exits(0).line();
    let names: Vec<_> =
        line["strategies"].as_array().unwrap().iter().map(|strategy| &strategy["name"]).collect();
    assert_eq!(
        names,
        ["collapse", "digest", "extract", "micro", "strip-reasoning", "strip-tools", "summarize", "trim"]
    );
}

#[test]
fn listed_descriptions_equal_those_of_the_executables() {
    let world = World::new();
    let list = world.run(&["strategy", "list", "--json"]).exits(0).line();
    for row in list["strategies"].as_array().unwrap() {
        assert_eq!(row["described"], false, "{row}");
        let name = row["name"].as_str().unwrap();
        let shown = world.run(&["strategy", "show", name, "--json"]).exits(0).line();
        assert_eq!(row["description"], shown["description"]["description"], "{name}");
    }
}

#[test]
fn strategy_show_prints_description() {
    let world = World::new();
    let output = world.run(&["strategy", "show", "strip-tools"]).exits(0);
    let text: String = output
        .text()
        .lines()
        .filter(|line| !line.contains("sha256"))
        .map(|line| format!("{line}\n"))
        .collect();
    insta::assert_snapshot!(world.normalize(&text), @r#"
    strip-tools [version]: Strip or omit tool calls
      executable   [bin]/compact-strategy-strip-tools (bundled)
      produces     tool_calls
      input        none
      scope        range
      determinism  pure
      features     worker, pipeline, steps
      option       mode=strip|strip-requests|strip-responses|omit [default: strip]  parts to remove: arguments and output, one of them, or the whole call
    "#);
    let line = world.run(&["strategy", "show", "strip-tools", "--json"]).exits(0).line();
    assert_eq!(line["description"]["produces"], json!(["tool_calls"]));
    assert_eq!(line["executable_sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn strategy_list_executes_nothing() {
    let world = World::new();
    let started = world.path("started");
    world.write_script("plugins/mine", &format!("#!/bin/sh\n: > {}\n", started.display()));
    world.write_file("plugins/README.md", b"not a strategy\n");
    world.write_script("plugins/Not_A_Name", "#!/bin/sh\n");
    let output = world.run(&["strategy", "list", "--trust-dir", "plugins"]).exits(0);
    assert_eq!(output.text().lines().count(), 11, "{}", output.text());
    assert!(!started.exists());
}

#[test]
fn strategy_show_runs_trusted_plugin() {
    let world = World::new();
    let members = json!({"description": "a \u{1b}[31mred\nlie"});
    world.write_script("plugins/mine", &plugin_script("mine", &members, DECLINE));
    let arguments = ["strategy", "show", "mine", "--trust-dir", "plugins", "--sandbox=contained"];
    let output = world.run(&arguments).exits(0);
    assert!(output.text().starts_with("mine 1.0.0: a \\u{1b}[31mred"), "{}", output.text());
}

#[test]
fn schemas_match_committed_files() {
    let world = World::new();
    let folders = ["schema/v1", "schema/json"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    let files: Vec<_> = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).collect();
    let names = world.run(&["schema"]).exits(0);
    assert_eq!(names.text().lines().count(), files.len());
    for name in names.text().lines() {
        let printed = world.run(&["schema", name]).exits(0).stdout;
        let file = format!("{name}.schema.json");
        let committed = folders.iter().find_map(|folder| fs::read(folder.join(&file)).ok());
        assert!(Some(printed) == committed, "{name}");
    }
}

#[test]
fn unknown_schema_error_lists_known_schemas() {
    let world = World::new();
    let output = world.run(&["schema", "results"]).exits(2).reports("unknown schema `results`");
    for name in world.run(&["schema"]).text().lines() {
        assert!(output.stderr.contains(name), "{}", output.stderr);
    }
}

#[test]
fn examples_in_help_work() {
    let world = World::new();
    for command in ["fork", "print", "query", "show", "strategy", "schema", "completions"] {
        let help = world.run(&[command, "--help"]).exits(0);
        let (_, examples) = help
            .text()
            .split_once("Example")
            .unwrap_or_else(|| panic!("the help of `{command}` has no example"));
        for line in examples.lines().filter(|line| line.trim_start().starts_with("jp-compact ")) {
            let arguments: Vec<_> =
                line.split_whitespace().skip(1).take_while(|word| !["|", ">", "<"].contains(word)).collect();
            let output = world.run(&arguments);
            assert!(matches!(output.code, Some(0 | 4)), "{line}: {}", output.stderr);
        }
    }
}

#[test]
fn help_lists_every_exit_code() {
    let world = World::new();
    let help = world.run(&["--help"]).exits(0);
    let (_, codes) = help.text().split_once("Exit codes:\n").unwrap();
    let codes: Vec<i32> =
        codes.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 130]);
    let short_help = world.run(&["-h"]).exits(0);
    assert!(!short_help.text().contains("Exit codes"));
    assert!(short_help.text().lines().all(|line| line.len() <= 100));
}

#[test]
fn version_matches_package() {
    let world = World::new();
    for flag in ["--version", "-V"] {
        let output = world.run(&[flag]).exits(0);
        assert_eq!(output.text(), format!("jp-compact {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn prints_completions_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = world.run(&["completions", shell]).exits(0);
        assert!(
            output.text().contains("jp-compact") && output.text().contains("JP_COMPACT_COMPLETE"),
            "{shell}"
        );
    }
    world.run(&["completions", "cmd"]).exits(2);
    world.run(&["completions"]).exits(2);
}

#[test]
fn usage_errors_go_to_stderr() {
    let world = World::new();
    for arguments in [
        &["--nonsense"][..],
        &["print"],
        &["show"],
        &["print", "a", "b"],
        &["print", "a", "--as", "yaml"],
        &["print", "a", "--as", "text", "--json"],
        &["strategy", "shout"],
        &["strategy"],
        &["a", "-q", "-v"],
        &["--json", "print", "a"],
    ] {
        let output = world.run(arguments).exits(2);
        // With `--json` the error is also a document.
        let documents = usize::from(arguments.contains(&"--json"));
        assert_eq!(output.text().lines().count(), documents, "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn json_prints_one_line() {
    let world = World::new();
    for arguments in [&["strategy", "list", "--json"][..], &["strategy", "show", "strip-tools", "--json"]] {
        assert!(matches!(world.run(arguments).exits(0).line(), Value::Object(_)));
    }
}

#[test]
fn quiet_prints_only_errors() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(3));
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::bulky(14));
    world.write_file("project/.jp-compact.toml", TEAM.as_bytes());
    for arguments in [
        &["man", "--dir", "pages"][..],
        &["init", "--yes"],
        &["config", "trust", "project", "--yes"],
        &["config", "trust", "project"],
        &["config", "set", "--conversation", "conversation", "conversation.compaction.keep_last=5"],
        &["config", "unset", "--conversation", "conversation", "conversation.compaction.keep_last"],
        &["config", "trust", "--yes"],
        &["config", "untrust"],
        &["strategy", "new", "mine", "--lang", "sh"],
        &["strategy", "trust", "./mine"],
        &["strategy", "untrust", "mine"],
        &["strategy", "run", "./mine", "conversation", "--sandbox=contained"],
    ] {
        assert_eq!(world.run(&[&["-q"], arguments].concat()).exits(0).stderr, "", "{arguments:?}");
    }
}
