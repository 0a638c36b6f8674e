//! Discovery, trust, descriptions and protocol versions of strategies.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, DECLINE, STRIP, Transcript, World, plugin_script};

const CONTAINED: &str = "--sandbox=contained";

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    (world, transcript)
}

/// Checks that a plugin with this text is rejected with this exit code and message.
#[track_caller]
fn check_rejected(text: &str, code: i32, message: &str) {
    let (world, transcript) = world();
    world.write_script("plugins/odd", text);
    let output = world.run_plugin("odd", &[]).exits(code).reports(message);
    assert!(output.stderr.starts_with("error: strategy `odd` "), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn reports_unknown_strategy() {
    let (world, transcript) = world();
    let output = world.run(&["conversation", "--strategy", "strip-tolls"]).exits(10);
    assert!(output.stderr.contains("did you mean `strip-tools`?"), "{}", output.stderr);
    world.run(&["conversation", "--strategy", "../strip-tools"]).exits(10);
    world.run(&["strategy", "show", "strip-tolls"]).exits(10);
    transcript.assert_untouched();
}

#[test]
fn resolves_strategies_before_reading_transcripts() {
    let (world, _) = world();
    world.write_events("bad", b"{}");
    world.run(&["bad", "--strategy", "strip-tolls"]).exits(10);
}

/// Runs a command on a machine without Landlock.
#[track_caller]
fn run_without_landlock(world: &World, arguments: &[&str]) -> CommandOutput {
    world.finish(world.command(arguments).env("JP_COMPACT_TEST_LANDLOCK", "0"))
}

#[test]
fn plugin_without_jail_requires_contained_tier() {
    let (world, transcript) = world();
    let started = world.path("started");
    world.write_script("plugins/mine", &format!("#!/bin/sh\n: > {}\n", started.display()));
    let arguments = ["conversation", "--strategy", "mine", "--trust-dir", "plugins"];
    run_without_landlock(&world, &arguments).exits(11).reports("`--sandbox=contained`");
    run_without_landlock(&world, &[&arguments[..], &["--sandbox=require"]].concat()).exits(11);
    run_without_landlock(&world, &["strategy", "show", "mine", "--trust-dir", "plugins"]).exits(11);
    assert!(!started.exists(), "the plugin ran");
    transcript.assert_untouched();
}

#[test]
fn trusts_plugins_of_trust_dir_but_not_of_plugin_dir() {
    let (world, transcript) = world();
    let started = world.path("started");
    world.write_plugin("mine", &format!(": > {}; {STRIP}", started.display()));
    let arguments = ["conversation", "--strategy", "mine", "--keep-last", "0", "--json"];
    for tier in [&[][..], &["--sandbox=require"], &[CONTAINED]] {
        let arguments = [&arguments[..], &["--plugin-dir", "plugins"], tier].concat();
        world.run(&arguments).exits(11).reports("strategy `mine` is not trusted");
    }
    assert!(!started.exists(), "the plugin ran");
    transcript.assert_untouched();
    let arguments = [&arguments[..], &["--trust-dir", "plugins", CONTAINED]].concat();
    let line = world.run(&arguments).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
}

#[test]
fn jails_plugins_by_default() {
    let (world, _) = world();
    let outside = world.path("outside");
    // Only shell builtins, because the jail allows no other programs.
    let describe = r#"{"type":"describe","protocols":[1],"name":"mine","version":"1.0.0","description":"d","produces":["tool_calls"],"input":"none"}"#;
    let run = format!("echo x 2>/dev/null >{}; {STRIP}", outside.display());
    let text = format!("#!/bin/sh\ncase \"$1\" in\ndescribe) echo '{describe}' ;;\nrun) {run} ;;\nesac\n");
    world.write_script("plugins/mine", &text);
    let arguments = ["conversation", "--strategy", "mine", "--trust-dir", "plugins", "--keep-last", "0"];
    let line = world.run(&[&arguments[..], &["--json"]].concat()).exits(0).line();
    assert_eq!(line["tier"], "isolated", "{line}");
    assert!(!outside.exists(), "the plugin wrote outside its jail");
    let line = world.run(&[&arguments[..], &["--json", CONTAINED]].concat()).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
    assert!(outside.exists(), "the plugin was confined despite --sandbox=contained");
}

#[test]
fn missing_required_jail_stops_bundled_strategies() {
    let (world, transcript) = world();
    run_without_landlock(&world, &["conversation", "--sandbox=require"])
        .exits(11)
        .reports("this machine lacks Landlock");
    transcript.assert_untouched();
    let line = run_without_landlock(&world, &["conversation", "--keep-last", "0", "--json"]).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
}

#[test]
fn rejects_missing_grant_before_running() {
    let (world, transcript) = world();
    world.write_script("plugins/asks", &plugin_script("asks", &json!({"needs": ["llm"]}), STRIP));
    world.run_plugin("asks", &[]).exits(11).reports("it needs `llm`");
    transcript.assert_untouched();
}

#[test]
fn plugin_cannot_replace_bundled_strategy() {
    let (world, transcript) = world();
    let plugin = world.write_plugin("strip-tools", DECLINE);
    let output =
        world.run_plugin("strip-tools", &[]).exits(10).reports(&world.normalize(plugin.to_str().unwrap()));
    assert!(output.stderr.contains("[bin]/compact-strategy-strip-tools"), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn first_folder_wins_for_same_name() {
    let (world, transcript) = world();
    world.write_plugin("mine", STRIP);
    world.write_script("others/mine.sh", &plugin_script("mine", &json!({}), DECLINE));
    let folders = |first, second| ["--trust-dir", first, "--trust-dir", second];
    let run = ["conversation", "--strategy", "mine", CONTAINED, "--keep-last", "0", "--dry-run"];
    world.run(&[&run[..], &folders("plugins", "others")].concat()).exits(0).reports("1 overlay");
    world.run(&[&run[..], &folders("others", "plugins")].concat()).exits(0).reports("declined: not today");
    transcript.assert_untouched();

    let list = world.run(&[&["strategy", "list"][..], &folders("plugins", "others")].concat()).exits(0);
    insta::assert_snapshot!(world.normalize(list.text()), @r"
    NAME             FROM       TRUST    DESCRIPTION
    mine             trust-dir  trusted  a test
      plugins/mine
    mine             shadowed   trusted  a test
      others/mine.sh
    collapse         bundled    trusted  Let a model summarize the oldest turns, and merge earlier summaries
    digest           bundled    trusted  Replace turns with a list of requests, files, commands and errors, without a model
    extract          bundled    trusted  Shorten old tool calls to the lines that introduce names
    micro            bundled    trusted  Replace old and long tool results with placeholders
    strip-reasoning  bundled    trusted  Remove reasoning from the view
    strip-tools      bundled    trusted  Strip or omit tool calls
    summarize        bundled    trusted  Let a model write a summary of the turns
    trim             bundled    trusted  Clear or cut old tool results by a fixed rule
    ");
    let list =
        world.run(&[&["strategy", "list", "--json"][..], &folders("others", "plugins")].concat()).line();
    let origins: Vec<_> =
        list["strategies"].as_array().unwrap().iter().map(|strategy| &strategy["origin"]).collect();
    assert_eq!(origins, [&["trust-dir", "shadowed"][..], &["bundled"; 8]].concat());
}

#[test]
fn lists_plugin_once_for_repeated_folders() {
    let (world, _) = world();
    world.write_plugin("mine", DECLINE);
    symlink("plugins", world.path("linked")).unwrap();
    let folders = ["--trust-dir", "plugins", "--trust-dir", "linked", "--trust-dir", "plugins"];
    let list = world.run(&[&["strategy", "list", "--json"][..], &folders].concat()).exits(0).line();
    assert_eq!(list["strategies"].as_array().unwrap().len(), 9, "{list}");
}

#[test]
fn plugin_name_is_file_stem() {
    let (world, _) = world();
    world.write_script("plugins/my_own.sh", &plugin_script("my-own", &json!({}), DECLINE));
    world.run_plugin("my-own", &[]).exits(0).reports("my-own 1.0.0  declined");
    world.run_plugin("my_own", &[]).exits(10);
}

#[test]
fn reports_plugin_that_is_not_executable() {
    let (world, transcript) = world();
    world.write_file("plugins/mine", plugin_script("mine", &json!({}), STRIP).as_bytes());
    let output = world.run_plugin("mine", &[]).exits(10);
    assert!(output.stderr.contains("/here/plugins/mine is not executable"), "{}", output.stderr);
    assert!(output.stderr.contains("chmod +x"), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn rejects_missing_plugin_folder() {
    let (world, transcript) = world();
    world.run(&["conversation", "--plugin-dir", "nowhere"]).exits(2).reports("/here/nowhere");
    world.run(&["strategy", "list", "--plugin-dir", "conversation/events.json"]).exits(2);
    transcript.assert_untouched();
}

#[test]
fn reports_plugin_that_cannot_start() {
    check_rejected("echo no shebang\n", 13, "failed to start /here/plugins/odd");
    check_rejected("#!/no/such/interpreter\n", 13, "failed to start /here/plugins/odd");
    check_rejected("\u{7f}ELF, but not really\n", 13, "failed to start /here/plugins/odd");
    check_rejected("", 13, "failed to start /here/plugins/odd");
}

#[test]
fn failing_describe_is_a_crash() {
    check_rejected("#!/bin/sh\necho bad luck >&2; exit 3\n", 13, "bad luck");
    check_rejected("#!/bin/sh\nkill -9 $$\n", 13, "it ended with signal 9");
}

#[test]
fn rejects_invalid_description() {
    check_rejected("#!/bin/sh\n", 12, "it returned no description");
    check_rejected("#!/bin/sh\necho hello\n", 12, "its description is invalid");
    check_rejected("#!/bin/sh\necho '{}'\n", 12, "its description is invalid");
    check_rejected("#!/bin/sh\necho '[]'\n", 12, "its description is invalid");
    check_rejected("#!/bin/sh\necho '{}'; echo '{}'\n", 12, "more than one line");
    check_rejected("#!/bin/sh\nprintf '\\377\\n'\n", 12, "is not UTF-8");
    check_rejected(&plugin_script("odd", &json!({"produces": ["magic"]}), STRIP), 12, "magic");
    check_rejected(&plugin_script("odd", &json!({"produces": []}), STRIP), 12, "`produces` is empty");
    check_rejected(&plugin_script("odd", &json!({"input": "everything"}), STRIP), 12, "everything");
}

#[test]
fn rejects_description_with_other_name() {
    check_rejected(&plugin_script("even", &json!({}), STRIP), 12, "it describes itself as `even`");
}

#[test]
fn version_mismatch_reports_the_older_side() {
    check_rejected(&plugin_script("odd", &json!({"protocols": [0]}), STRIP), 20, "update the strategy");
    check_rejected(&plugin_script("odd", &json!({"protocols": []}), STRIP), 20, "update the strategy");
    check_rejected(&plugin_script("odd", &json!({"protocols": [2, 3]}), STRIP), 21, "update jp-compact");
}

#[test]
fn accepts_additional_protocols_and_unknown_members() {
    let (world, transcript) = world();
    let members = json!({"protocols": [1, 2], "features": ["flying"], "wants": ["gold"], "color": "red"});
    world.write_script("plugins/newer", &plugin_script("newer", &members, STRIP));
    world.run_plugin("newer", &[]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn slow_describe_misses_deadline() {
    check_rejected("#!/bin/sh\nexec sleep 1000\n", 14, "it did not end within 2s");
}

#[test]
fn strategy_environment_is_minimal() {
    let (world, _) = world();
    let report_path = world.path("seen");
    let run = format!("env > {0}; pwd >> {0}; echo \"$@\" >> {0}\n{DECLINE}", report_path.display());
    world.write_plugin("looks", &run);
    let arguments = ["conversation", "--strategy", "looks", "--trust-dir", "plugins", CONTAINED, "--to", "0"];
    world.finish(world.command(&arguments).env("SECRET_TOKEN", "x")).exits(0);
    let report = fs::read_to_string(report_path).unwrap();
    let mut names: Vec<_> = report.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(names, ["HOME", "JP_COMPACT_PROTOCOL", "LANG", "PATH", "TMPDIR", "TZ"]);
    assert!(report.ends_with("\nrun\n"), "{report}");
    assert!(
        !report.contains(world.path("").to_str().unwrap()),
        "the strategy runs in the user's folder:\n{report}"
    );
}

#[test]
fn sends_declared_amount_of_input() {
    let (world, _) = world();
    let sent_lines = |input: &str| -> Vec<Value> {
        let path = world.path("sent");
        let run = format!("cat > {}\n{DECLINE}", path.display());
        world.write_script("plugins/reads", &plugin_script("reads", &json!({"input": input}), &run));
        world.run_plugin("reads", &[]).exits(0);
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(sent_lines("none").len(), 1);
    assert_eq!(sent_lines("outline")[0]["outline"]["tools"], json!(["fs_read_file"]));
    let full = sent_lines("full");
    assert_eq!(full[0]["events"], json!({"mode": "inline", "count": 12}));
    assert_eq!(full.len(), 14);
    assert_eq!(full[4]["event"]["arguments"], json!({"path": "src/main.rs"}), "arguments must be decoded");
    assert_eq!(full[13], json!({"type": "events_end", "id": "c1", "count": 12}));
}
