//! The work of an author of strategies: errors name the next step, a path in a trusted folder runs, and `strategy dev`
//! shows the effect of every save.

use std::fs;
use std::io::{BufRead as _, BufReader};

use serde_json::json;

use crate::steps::session;
use crate::support::{Conversation, STRIP, TerminalSession, World, plugin_script};

fn world() -> World {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(3));
    world
}

#[test]
fn error_of_an_unbuilt_folder_names_the_command() {
    let world = world();
    world.run(&["strategy", "new", "rusty", "--lang", "rust"]).exits(0);
    for command in ["test", "run"] {
        let mut arguments = vec!["strategy", command, "rusty"];
        arguments.extend((command == "run").then_some("conversation"));
        let output = world.run(&arguments).exits(10).reports("`./rusty` is missing");
        assert_eq!(output.text(), "", "no check may run");
        output.reports("hint: build it first:\n  (cd rusty && cargo build --release --target-dir ");
    }
}

#[test]
fn missing_and_unknown_languages_are_answered_with_the_list() {
    let world = world();
    world.run(&["strategy", "new", "mine"]).exits(2).reports("--lang <rust|python|sh|node|c>");
    world.run(&["strategy", "new", "mine", "--lang", "ruby"]).exits(2).reports("rust, python, sh, node, c");
    assert!(!world.path("mine").exists());
}

#[test]
fn folder_without_manifest_is_not_a_strategy() {
    let world = world();
    fs::create_dir(world.path("empty")).unwrap();
    world.run(&["strategy", "test", "empty"]).exits(10).reports("it has no plugin.toml");
    fs::write(world.path("empty/plugin.toml"), "manifest = 1").unwrap();
    world.run(&["strategy", "test", "empty"]).exits(12).reports("plugin.toml: ");
}

#[test]
fn missing_interpreter_is_named() {
    let world = world();
    for (line, name) in [("#!/usr/bin/nothere -x", "/usr/bin/nothere"), ("#!/usr/bin/env nothere", "nothere")]
    {
        world.write_script("plugins/odd", &format!("{line}\n"));
        let message = format!("the interpreter `{name}` of its `#!` line is not installed");
        world.run(&["strategy", "test", "plugins/odd"]).exits(10).reports(&message);
    }
}

#[test]
fn debug_output_on_stdout_points_to_stderr() {
    let world = world();
    world.write_plugin("chatty", &format!("echo debug\n{STRIP}"));
    let hint = "hint: stdout is only for replies; print debug text to stderr";
    world.run_plugin("chatty", &[]).exits(15).reports(hint);
    let arguments =
        ["strategy", "run", "plugins/chatty", "conversation", "--sandbox=contained", "--keep-last=0"];
    world.run(&arguments).exits(15).reports(hint);
    world.run(&["strategy", "test", "plugins/chatty", "--sandbox=contained"]).exits(15).reports(hint);
}

#[test]
fn message_of_a_failing_script_names_the_file_of_its_author() {
    let world = world();
    world.write_plugin("failing", "echo \"$0: line 7: no\" >&2\nexit 1");
    let output = world.run_plugin("failing", &[]).exits(13).reports("| /here/plugins/failing: line 7: no");
    assert!(!output.stderr.contains("dropped") && !output.stderr.contains("/store/"), "{}", output.stderr);
}

#[test]
fn stderr_of_a_worker_names_the_file_of_its_author() {
    let world = world();
    world.write_conversation("other", &Conversation::with_turns(3));
    let script = plugin_script("failing", &json!({"features": ["worker"]}), "");
    // A worker is only started for several transcripts.
    let script = script.replace("run)\n", "run|worker)\nread -r line; echo \"$0: line 7: no\" >&2; exit 1\n");
    world.write_script("plugins/failing", &script);
    let output = world.run_plugin("failing", &["other", "-v"]).exits(19);
    let output = output
        .reports("| /here/plugins/failing: line 7: no")
        .reports("line=\"/here/plugins/failing: line 7: no\"");
    assert!(!output.stderr.contains("/store/"), "{}", output.stderr);
}

#[test]
fn tracebacks_of_interpreters_name_the_file_of_the_author() {
    let describe = plugin_script("x", &json!({}), "");
    let description =
        describe.lines().find(|line| line.starts_with('{')).unwrap().replace("\"x\"", "\"failing\"");
    let python =
        format!("import sys\nif sys.argv[1] == 'describe':\n    print('{description}')\nelse:\n    1 / 0\n");
    let node = format!(
        "if (process.argv[2] === 'describe') console.log('{description}'); else throw new Error('no');\n"
    );
    let bash = format!("if [ \"$1\" = describe ]; then echo '{description}'; else nothere; exit 1; fi\n");
    let cases = [
        ("/usr/bin/python3", python, "File \"/here/plugins/failing\", line 6"),
        ("/usr/bin/node", node, "/here/plugins/failing:2"),
        ("/bin/bash", bash, "/here/plugins/failing: line 2"),
    ];
    for (interpreter, script, place) in cases {
        if !std::path::Path::new(interpreter).exists() {
            continue;
        }
        let world = world();
        world.write_script("plugins/failing", &format!("#!{interpreter}\n{script}"));
        let output = world.run_plugin("failing", &[]).exits(13).reports(place);
        assert!(!output.stderr.contains("/store/"), "{}", output.stderr);
    }
}

#[test]
fn typed_path_inside_a_trusted_folder_is_trusted() {
    let world = world();
    let plugin = world.write_plugin("mine", STRIP);
    fs::copy(&plugin, world.path("outside")).unwrap();
    let run = |path: &str, code: i32| {
        let options = ["--trust-dir", "plugins", "--sandbox=contained", "-n", "--keep-last=0"];
        world.run(&[&["conversation", "-s", path], &options[..]].concat()).exits(code)
    };
    run("./plugins/mine", 0);
    run("./outside", 11);
}

#[test]
fn folder_without_a_slash_is_suggested_as_a_path() {
    let world = world();
    fs::create_dir_all(world.path("my strategy")).unwrap();
    let hint = "hint: for the path, give `'./my strategy'`; ";
    world.run(&["strategy", "trust", "my strategy"]).exits(10).reports(hint);
    world.run(&["strategy", "trust", "absent"]).exits(10).reports("hint: the strategies are ");
}

#[test]
fn list_has_strategies_that_were_trusted_by_path() {
    let world = world();
    world.write_script("elsewhere/mine", &plugin_script("mine", &json!({}), STRIP));
    world.run(&["strategy", "trust", "./elsewhere/mine"]).exits(0);
    let list = world.run(&["strategy", "list"]).exits(0);
    assert!(
        list.text().contains("mine             path     trusted  trusted by its path\n  elsewhere/mine\n"),
        "{}",
        list.text()
    );
    world.write_script("elsewhere/mine", &plugin_script("mine", &json!({}), &format!("{STRIP}\n# changed")));
    let list = world.run(&["strategy", "list"]).exits(0);
    assert!(list.text().contains("mine             path     changed"), "{}", list.text());
    fs::remove_file(world.path("elsewhere/mine")).unwrap();
    let list = world.run(&["strategy", "list"]).exits(0);
    assert!(list.text().contains("mine             path     missing"), "{}", list.text());
}

#[test]
fn failures_of_a_test_come_first() {
    let world = world();
    world.write_plugin("chatty", &format!("echo debug\n{STRIP}"));
    let arguments = ["strategy", "test", "plugins/chatty", "--sandbox=contained"];
    let output = world.run(&arguments).exits(15);
    assert!(output.text().lines().next().unwrap().contains("  FAILED  "), "{}", output.text());
    assert!(!output.text().contains("  ok  ") && output.text().ends_with("`-v` lists all checks\n"));
    let verbose = world.run(&[&arguments[..], &["-v"]].concat()).exits(15);
    assert!(
        verbose.text().contains("  ok  ") && verbose.text().ends_with(" skipped\n"),
        "{}",
        verbose.text()
    );
}

#[test]
fn dev_shows_the_effect_again_after_a_save() {
    let world = world();
    world.write_plugin("mine", STRIP);
    let arguments =
        ["strategy", "dev", "plugins/mine", "conversation", "--keep-last=0", "--stat", "--sandbox=contained"];
    let mut child = world.spawn(&mut world.command(&arguments));
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next_wait = || {
        let mut before = Vec::new();
        loop {
            let line = stderr.next().expect("the command has ended").unwrap();
            if line.starts_with("waiting for a change of plugins/mine") {
                return before;
            }
            before.push(line);
        }
    };
    assert_eq!(next_wait(), Vec::<String>::new());
    // Each save is a rename, as editors do it. A half-written file would be one more change, with another effect.
    let save = |run: &str| {
        let saved = world.write_script("saved", &plugin_script("mine", &json!({}), run));
        fs::rename(saved, world.path("plugins/mine")).unwrap();
    };
    // The new script is longer, so its size differs.
    save("echo broken >&2\nexit 3");
    let errors = next_wait().join("\n");
    assert!(errors.contains("strategy `mine` failed") && errors.contains("broken"), "{errors}");
    save(STRIP);
    assert_eq!(next_wait(), Vec::<String>::new());
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("events changed").count(), 2, "{text}");
    assert!(!world.home(".local/state/jp-compact/trust/records").exists(), "nothing is trusted");
}

#[test]
fn dev_works_in_a_folder_with_a_colon() {
    let world = world();
    world.write_script("a:b/mine", &plugin_script("mine", &json!({}), STRIP));
    let options = ["--once", "--keep-last=0", "--stat", "--sandbox=contained"];
    let mut command =
        world.command(&[&["strategy", "dev", "mine", "../conversation"][..], &options].concat());
    let output = world.finish(command.current_dir(world.path("a:b"))).exits(0);
    assert!(output.text().contains("events changed"), "{}", output.text());
}

#[test]
fn init_writes_the_best_profile_for_the_users_sessions() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::bulky(14));
    world.run(&["init"]).exits(2).reports("`jp-compact init --yes` writes it without asking");
    assert!(!world.path(".jp-compact.toml").exists());
    let preview = world.run(&["init", "-n"]).exits(0);
    preview.reports("would write ").reports("  | ");
    assert!(!world.path(".jp-compact.toml").exists());
    let output = world.run(&["init", "--yes"]).exits(0).reports("jp-compact auto --hook");
    assert!(output.text().starts_with("STRATEGY           SAVED      KEPT\n"), "{}", output.text());
    let config = world.run(&["config", "--json"]).exits(0).line();
    assert_eq!(config["config"]["conversation"]["compaction"]["default_profile"], "measured", "{config:#}");
    let report = world.run(&["17738399468", "--json"]).exits(0).line();
    assert!(report["tokens"]["view_after"].as_u64() < report["tokens"]["raw"].as_u64(), "{report:#}");
    world.run(&["init", "--yes"]).exits(2).reports(".jp-compact.toml exists");
}

#[test]
fn init_for_sessions_of_agents_compacts_one_long_turn_as_before() {
    let world = World::new();
    let measured = world.home(".claude/projects/-w/0a1b2c3d-1111-4222-8333-444455556666.jsonl");
    fs::create_dir_all(measured.parent().unwrap()).unwrap();
    fs::write(measured, session()).unwrap();
    world.write_file("s.jsonl", &session());
    let saved = || {
        let report = world.run(&["s.jsonl", "--dry-run", "--json"]).exits(0).line();
        report["saved"]["tokens"].as_i64().unwrap()
    };
    let is_due = || {
        let auto = ["auto", "s.jsonl", "--context-window", "2000", "--dry-run", "--json"];
        world.run(&auto).exits(0).line()["due"].clone()
    };
    let before = (saved(), is_due());
    assert!(before.0 > 0);
    world.run(&["init", "--yes"]).exits(0);
    let config = world.run(&["config", "s.jsonl", "--json"]).exits(0).line();
    assert_eq!(config["default_profile"], "measured", "{config:#}");
    let after = (saved(), is_due());
    assert!(after.0 >= before.0 && after.1 == before.1, "{before:?} and {after:?}: {config:#}");
}

#[test]
fn init_keeps_a_configuration_that_appears_during_its_question() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::bulky(14));
    let mut terminal = TerminalSession::start(&world, &["init"], 100);
    terminal.wait_for(&["Make it the default? [y/N]"]);
    let config = world.write_file(".jp-compact.toml", b"# mine\n");
    terminal.press("y\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(2), "{screen}");
    assert!(screen.contains(".jp-compact.toml: it exists"), "{screen}");
    assert_eq!(fs::read(config).unwrap(), b"# mine\n");
}

#[test]
fn dev_of_a_missing_path_does_not_wait() {
    let output = world().run(&["strategy", "dev", "nope", "conversation"]).exits(10);
    output
        .reports("failed to find a strategy at nope")
        .reports("hint: `jp-compact strategy new NAME --lang sh`");
}

/// Removes a trusted plugin, and then its trust by a path with `..`.
#[track_caller]
fn check_untrust(options: &[&str]) {
    let world = world();
    let plugin = world.write_plugin("mine", STRIP);
    world.run(&[&["strategy", "trust", "./plugins/mine"], options].concat()).exits(0);
    fs::remove_file(plugin).unwrap();
    let mut command = world.command(&[&["strategy", "untrust", "../plugins/mine"], options].concat());
    world.finish(command.current_dir(world.path("conversation"))).exits(0).reports("revoked the trust in");
}

#[test]
fn trust_in_a_removed_plugin_can_be_revoked_by_a_relative_path() {
    check_untrust(&[]);
}

#[test]
fn lock_entry_of_a_removed_plugin_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("trust.lock");
    check_untrust(&["--trust-lock", lock.to_str().unwrap()]);
}

#[test]
fn interrupt_at_a_question_ends_init() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::bulky(14));
    let mut terminal = TerminalSession::start(&world, &["init"], 100);
    terminal.wait_for(&["Make it the default? [y/N]"]);
    terminal.press("\u{3}");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(130), "{screen}");
    assert!(!world.path(".jp-compact.toml").exists());
}
