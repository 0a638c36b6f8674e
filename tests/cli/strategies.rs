//! Which strategies run, and which do not: discovery, permission to run, descriptions, versions.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Conversation, DECLINE, Ran, STRIP, Transcript, World, described};

const CONTAINED: &str = "--sandbox=contained";

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    (world, transcript)
}

/// A plugin that consists of this text does not run, with this code and these words.
#[track_caller]
fn refused(text: &str, code: i32, says: &str) {
    let (world, transcript) = world();
    world.script("plugins/odd", text);
    let ran = world.run_plugin("odd", &[]).exits(code).says(says);
    assert!(ran.stderr.starts_with("error: strategy `odd` "), "{}", ran.stderr);
    transcript.assert_untouched();
}

#[test]
fn an_unknown_strategy_is_not_found() {
    let (world, transcript) = world();
    let ran = world.run(&["conversation", "--strategy", "strip-tolls"]).exits(10);
    assert!(ran.stderr.contains("`strip-reasoning`, `strip-tools`"), "{}", ran.stderr);
    world.run(&["conversation", "--strategy", "../strip-tools"]).exits(10);
    world.run(&["strategy", "show", "strip-tolls"]).exits(10);
    transcript.assert_untouched();
}

#[test]
fn strategies_are_found_before_a_transcript_is_read() {
    let (world, _) = world();
    world.raw("bad", b"{}");
    world.run(&["bad", "--strategy", "strip-tolls"]).exits(10);
}

/// On a machine without Landlock.
#[track_caller]
fn without_a_jail(world: &World, words: &[&str]) -> Ran {
    world.finish(world.command(words).env("JP_COMPACT_TEST_LANDLOCK", "0"))
}

#[test]
fn without_a_jail_a_plugin_runs_only_where_that_is_said() {
    let (world, transcript) = world();
    let started = world.path("started");
    world.script("plugins/mine", &format!("#!/bin/sh\n: > {}\n", started.display()));
    let arguments = ["conversation", "--strategy", "mine", "--trust-dir", "plugins"];
    without_a_jail(&world, &arguments).exits(11).says("`--sandbox=contained`");
    without_a_jail(&world, &[&arguments[..], &["--sandbox=require"]].concat()).exits(11);
    without_a_jail(&world, &["strategy", "show", "mine", "--trust-dir", "plugins"]).exits(11);
    assert!(!started.exists(), "it ran");
    transcript.assert_untouched();
}

#[test]
fn a_folder_that_is_typed_is_searched_and_only_one_that_is_vouched_for_is_trusted() {
    let (world, transcript) = world();
    let started = world.path("started");
    world.plugin("mine", &format!(": > {}; {STRIP}", started.display()));
    let arguments = ["conversation", "--strategy", "mine", "--keep-last", "0", "--json"];
    for tier in [&[][..], &["--sandbox=require"], &[CONTAINED]] {
        let typed = [&arguments[..], &["--plugin-dir", "plugins"], tier].concat();
        world.run(&typed).exits(11).says("strategy `mine` is not trusted");
    }
    assert!(!started.exists(), "it ran");
    transcript.assert_untouched();
    let typed = [&arguments[..], &["--trust-dir", "plugins", CONTAINED]].concat();
    let line = world.run(&typed).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
}

#[test]
fn a_plugin_is_jailed_where_nothing_is_said() {
    let (world, _) = world();
    let outside = world.path("outside");
    // The shell's own words alone: in the jail it starts nothing else.
    let describe = r#"{"type":"describe","protocols":[1],"name":"mine","version":"1.0.0","description":"d","produces":["tool_calls"],"input":"none"}"#;
    let run = format!("echo x 2>/dev/null >{}; {STRIP}", outside.display());
    let text = format!("#!/bin/sh\ncase \"$1\" in\ndescribe) echo '{describe}' ;;\nrun) {run} ;;\nesac\n");
    world.script("plugins/mine", &text);
    let arguments = ["conversation", "--strategy", "mine", "--trust-dir", "plugins", "--keep-last", "0"];
    let line = world.run(&[&arguments[..], &["--json", "--sandbox=require"]].concat()).exits(0).line();
    assert_eq!(line["tier"], "isolated", "{line}");
    assert!(!outside.exists(), "it wrote outside its jail");
    let line = world.run(&[&arguments[..], &["--json", CONTAINED]].concat()).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
    assert!(outside.exists(), "it was confined where that was given up");
}

#[test]
fn a_jail_that_is_required_and_missing_stops_bundled_strategies_too() {
    let (world, transcript) = world();
    without_a_jail(&world, &["conversation", "--sandbox=require"])
        .exits(11)
        .says("this machine lacks Landlock");
    transcript.assert_untouched();
    let line = without_a_jail(&world, &["conversation", "--keep-last", "0", "--json"]).exits(0).line();
    assert_eq!(line["tier"], "contained", "{line}");
}

#[test]
fn a_need_that_is_not_granted_is_refused_before_it_runs() {
    let (world, transcript) = world();
    world.script("plugins/asks", &described("asks", &json!({"needs": ["llm"]}), STRIP));
    world.run_plugin("asks", &[]).exits(11).says("it needs `llm`");
    transcript.assert_untouched();
}

#[test]
fn the_name_of_a_bundled_strategy_cannot_be_taken() {
    let (world, transcript) = world();
    let plugin = world.plugin("strip-tools", DECLINE);
    let ran = world.run_plugin("strip-tools", &[]).exits(10).says(&world.plain(plugin.to_str().unwrap()));
    assert!(ran.stderr.contains("[bin]/compact-strategy-strip-tools"), "{}", ran.stderr);
    transcript.assert_untouched();
}

#[test]
fn of_two_plugins_with_one_name_the_first_folder_wins() {
    let (world, transcript) = world();
    world.plugin("mine", STRIP);
    world.script("others/mine.sh", &described("mine", &json!({}), DECLINE));
    let folders = |first, second| ["--trust-dir", first, "--trust-dir", second];
    let run = ["conversation", "--strategy", "mine", CONTAINED, "--keep-last", "0", "--dry-run"];
    world.run(&[&run[..], &folders("plugins", "others")].concat()).exits(0).says("1 overlay");
    world.run(&[&run[..], &folders("others", "plugins")].concat()).exits(0).says("declined: not today");
    transcript.assert_untouched();

    let list = world.run(&[&["strategy", "list"][..], &folders("plugins", "others")].concat()).exits(0);
    insta::assert_snapshot!(world.plain(list.text()), @r"
    mine             trust-dir    trusted    a test  (/here/plugins/mine)
    mine             shadowed     trusted    a test  (/here/others/mine.sh)
    collapse         bundled      trusted    not described yet  ([bin]/compact-strategy-collapse)
    digest           bundled      trusted    not described yet  ([bin]/compact-strategy-digest)
    micro            bundled      trusted    not described yet  ([bin]/compact-strategy-micro)
    strip-reasoning  bundled      trusted    not described yet  ([bin]/compact-strategy-strip-reasoning)
    strip-tools      bundled      trusted    not described yet  ([bin]/compact-strategy-strip-tools)
    summarize        bundled      trusted    not described yet  ([bin]/compact-strategy-summarize)
    ");
    let list =
        world.run(&[&["strategy", "list", "--json"][..], &folders("others", "plugins")].concat()).line();
    let origins: Vec<_> = list["strategies"].as_array().unwrap().iter().map(|one| &one["origin"]).collect();
    assert_eq!(
        origins,
        ["trust-dir", "shadowed", "bundled", "bundled", "bundled", "bundled", "bundled", "bundled"]
    );
}

#[test]
fn one_file_reached_twice_is_one_plugin() {
    let (world, _) = world();
    world.plugin("mine", DECLINE);
    symlink("plugins", world.path("linked")).unwrap();
    let folders = ["--trust-dir", "plugins", "--trust-dir", "linked", "--trust-dir", "plugins"];
    let list = world.run(&[&["strategy", "list", "--json"][..], &folders].concat()).exits(0).line();
    assert_eq!(list["strategies"].as_array().unwrap().len(), 7, "{list}");
}

#[test]
fn a_plugin_is_named_by_its_files_stem() {
    let (world, _) = world();
    world.script("plugins/my_own.sh", &described("my-own", &json!({}), DECLINE));
    world.run_plugin("my-own", &[]).exits(0).says("my-own 1.0.0  declined");
    world.run_plugin("my_own", &[]).exits(10);
}

#[test]
fn a_plugin_that_is_not_executable_is_no_strategy_and_that_is_said() {
    let (world, transcript) = world();
    world.file("plugins/mine", described("mine", &json!({}), STRIP).as_bytes());
    let ran = world.run_plugin("mine", &[]).exits(10);
    assert!(ran.stderr.contains("/here/plugins/mine is not executable"), "{}", ran.stderr);
    assert!(ran.stderr.contains("chmod +x"), "{}", ran.stderr);
    transcript.assert_untouched();
}

#[test]
fn a_plugin_folder_that_is_none_is_wrong_usage() {
    let (world, transcript) = world();
    world.run(&["conversation", "--plugin-dir", "nowhere"]).exits(2).says("/here/nowhere");
    world.run(&["strategy", "list", "--plugin-dir", "conversation/events.json"]).exits(2);
    transcript.assert_untouched();
}

#[test]
fn what_cannot_start_is_said_so() {
    refused("echo no shebang\n", 13, "/here/plugins/odd could not be started");
    refused("#!/no/such/interpreter\n", 13, "/here/plugins/odd could not be started");
    refused("\u{7f}ELF, but not really\n", 13, "/here/plugins/odd could not be started");
    refused("", 13, "/here/plugins/odd could not be started");
}

#[test]
fn a_description_that_fails_is_a_crash() {
    refused("#!/bin/sh\necho bad luck >&2; exit 3\n", 13, "bad luck");
    refused("#!/bin/sh\nkill -9 $$\n", 13, "it ended with signal 9");
}

#[test]
fn a_description_that_is_none_is_refused() {
    refused("#!/bin/sh\n", 12, "it described nothing");
    refused("#!/bin/sh\necho hello\n", 12, "its description cannot be read");
    refused("#!/bin/sh\necho '{}'\n", 12, "its description cannot be read");
    refused("#!/bin/sh\necho '[]'\n", 12, "its description cannot be read");
    refused("#!/bin/sh\necho '{}'; echo '{}'\n", 12, "more than one line");
    refused("#!/bin/sh\nprintf '\\377\\n'\n", 12, "is not UTF-8");
    refused(&described("odd", &json!({"produces": ["magic"]}), STRIP), 12, "magic");
    refused(&described("odd", &json!({"produces": []}), STRIP), 12, "`produces` is empty");
    refused(&described("odd", &json!({"input": "everything"}), STRIP), 12, "everything");
}

#[test]
fn a_description_under_another_name_is_refused() {
    refused(&described("even", &json!({}), STRIP), 12, "it calls itself `even`");
}

#[test]
fn versions_without_a_common_one_say_which_side_is_behind() {
    refused(&described("odd", &json!({"protocols": [0]}), STRIP), 20, "update the strategy");
    refused(&described("odd", &json!({"protocols": []}), STRIP), 20, "update the strategy");
    refused(&described("odd", &json!({"protocols": [2, 3]}), STRIP), 21, "update jp-compact");
}

#[test]
fn a_later_protocol_beside_ours_and_unknown_members_are_fine() {
    let (world, transcript) = world();
    let more = json!({"protocols": [1, 2], "features": ["flying"], "wants": ["gold"], "colour": "red"});
    world.script("plugins/newer", &described("newer", &more, STRIP));
    world.run_plugin("newer", &[]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn a_description_that_does_not_come_is_a_missed_deadline() {
    refused("#!/bin/sh\nexec sleep 1000\n", 14, "it did not end within 2s");
}

#[test]
fn a_strategy_starts_with_nothing_but_what_the_protocol_names() {
    let (world, _) = world();
    let seen = world.path("seen");
    let run = format!("env > {0}; pwd >> {0}; echo \"$@\" >> {0}\n{DECLINE}", seen.display());
    world.plugin("looks", &run);
    let arguments = ["conversation", "--strategy", "looks", "--trust-dir", "plugins", CONTAINED, "--to", "0"];
    world.finish(world.command(&arguments).env("SECRET_TOKEN", "x")).exits(0);
    let seen = fs::read_to_string(seen).unwrap();
    let mut names: Vec<_> = seen.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(names, ["HOME", "JP_COMPACT_PROTOCOL", "LANG", "PATH", "TMPDIR", "TZ"]);
    assert!(seen.ends_with("\nrun\n"), "{seen}");
    assert!(!seen.contains(world.path("").to_str().unwrap()), "it is not where the user is:\n{seen}");
}

#[test]
fn a_strategy_is_sent_as_much_as_it_asks_for() {
    let (world, _) = world();
    let sent = |input: &str| -> Vec<Value> {
        let path = world.path("sent");
        let run = format!("cat > {}\n{DECLINE}", path.display());
        world.script("plugins/reads", &described("reads", &json!({"input": input}), &run));
        world.run_plugin("reads", &[]).exits(0);
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(sent("none").len(), 1);
    assert_eq!(sent("outline")[0]["outline"]["tools"], json!(["fs_read_file"]));
    let full = sent("full");
    assert_eq!(full[0]["events"], json!({"mode": "inline", "count": 12}));
    assert_eq!(full.len(), 14);
    assert_eq!(full[4]["event"]["arguments"], json!({"path": "src/main.rs"}), "base64 is undone");
    assert_eq!(full[13], json!({"type": "events_end", "id": "c1", "count": 12}));
}
