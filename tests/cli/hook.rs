//! `auto --hook`: the input of an agent's hook. Without `--give-back`, no agent interprets the output as an answer.

use std::io::Write as _;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::json;

use crate::agent_formats::sample;
use crate::support::{CommandOutput, World};

/// An option that makes every session due.
const DUE: &str = "--set=conversation.compaction.auto.token_threshold=1";
const SESSION: &str = "home/.claude/projects/-garden/0a1b2c3d-1111-4222-8333-444455556666.jsonl";
const SIDECAR: &str =
    "../home/.claude/projects/-garden/.0a1b2c3d-1111-4222-8333-444455556666.jsonl.jp-compact";

fn session_world() -> World {
    let world = World::new();
    world.write_file(&format!("../{SESSION}"), &sample("claude-code.jsonl"));
    world
}

/// Runs a hook with the members that Claude Code writes.
#[track_caller]
fn hook(world: &World, path: &str, extra: &[&str]) -> CommandOutput {
    let input = json!({
        "session_id": "0a1b2c3d-1111-4222-8333-444455556666", "transcript_path": path, "cwd": "/garden",
        "hook_event_name": "PreCompact", "trigger": "auto",
    });
    world.run_with_stdin(&[&["auto", "--hook"], extra].concat(), input.to_string().as_bytes())
}

#[test]
fn compacts_the_session_of_the_hook_and_prints_nothing() {
    for path in [format!("../{SESSION}"), String::new()] {
        let world = session_world();
        let profile = "--set=conversation.compaction.profiles.p.strategies=[\"strip-tools\"]";
        let output = hook(&world, &path, &[DUE, profile, "--profile=p", "--keep-last=1"]).exits(0);
        assert_eq!((output.text(), output.stderr.as_str()), ("", ""));
        assert!(world.path(SIDECAR).exists());
    }
}

/// Runs the hook for the start of a session.
#[track_caller]
fn start(world: &World, source: &str) -> CommandOutput {
    let input = json!({
        "session_id": "0a1b2c3d-1111-4222-8333-444455556666", "hook_event_name": "SessionStart", "source": source,
    });
    world.run_with_stdin(&["auto", "--hook", "--give-back"], input.to_string().as_bytes()).exits(0)
}

/// A session with a constraint, a failed command and many paths, before and after Claude Code wrote its compaction.
#[test]
fn gives_facts_back_after_a_compaction() {
    let record = |kind: &str, number: usize, content: serde_json::Value| {
        let message = json!({"role": kind, "content": content});
        let ids = json!({"type": kind, "uuid": number.to_string(), "parentUuid": (number > 0).then(|| (number - 1).to_string()),
            "sessionId": "0a1b2c3d-1111-4222-8333-444455556666", "timestamp": "2026-01-01T00:00:00Z", "message": message});
        format!("{ids}\n")
    };
    let paths: String = (0..4_000).map(|at| format!("src/module_{at}/file_{at}.rs\n")).collect();
    let mut session = [
        record("user", 0, json!("Never touch the folder vendor.")),
        record("assistant", 1, json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cargo test --lib"}}])),
        record("user", 2, json!([{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": format!("error[E0308]: mismatched types\n{paths}")}])),
        record("assistant", 3, json!([{"type": "text", "text": "The test fails."}])),
    ]
    .concat();
    for boundary in [
        "",
        "{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"4\",\"parentUuid\":null,\"sessionId\":\"0a1b2c3d-1111-4222-8333-444455556666\",\"timestamp\":\"2026-01-01T00:00:00Z\"}\n",
    ] {
        session.push_str(boundary);
        let world = World::new();
        world.write_file(&format!("../{SESSION}"), session.as_bytes());
        // The facts are those of the whole part, whatever a compaction would keep.
        world.write_file(
            "../home/.config/jp-compact/config.toml",
            b"conversation.compaction.keep_first = 1\n",
        );
        assert_eq!(start(&world, "resume").text(), "");
        let output = start(&world, "compact");
        assert_eq!(output.stderr, "");
        let answer: serde_json::Value = serde_json::from_str(output.text()).unwrap();
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "SessionStart");
        let context = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        for fact in [
            "Never touch the folder vendor.",
            "`cargo test --lib`",
            "Errors still open",
            "E0308",
            "src/module_3999/",
        ] {
            assert!(context.contains(fact), "{fact} is not in {context}");
        }
        assert!((2_000..16_000).contains(&context.len()), "{} bytes", context.len());
        assert!(!world.path(SIDECAR).exists());
    }
}

#[test]
fn gives_up_on_a_slow_strategy() {
    let world = session_world();
    // This strategy never ends by itself.
    world.write_plugin("slow", "exec tail -f /dev/null");
    let profile = "--set=conversation.compaction.profiles.p.strategies=[\"slow\"]";
    let extra = [DUE, profile, "--profile=p", "--keep-last=1", "--trust-dir=plugins", "--sandbox=contained"];
    let output = hook(&world, &format!("../{SESSION}"), &extra).exits(0);
    assert_eq!(output.text(), "");
    output.reports("warning: hook: gave up after 2 seconds");
    assert!(!world.path(SIDECAR).exists());
}

#[test]
fn gives_up_if_stdin_stays_open() {
    let world = World::new();
    let mut child = world.spawn(world.command(&["auto", "--hook"]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{").unwrap();
    let output = CommandOutput::new(&world, child.wait_with_output().unwrap()).exits(0);
    assert_eq!(output.text(), "");
    output.reports("gave up after 2 seconds");
    drop(stdin);
}

#[test]
fn failure_is_a_log_line_and_no_answer() {
    let world = World::new();
    let output = world.run_with_stdin(&["auto", "--hook"], b"not JSON").exits(0);
    assert_eq!(output.text(), "");
    output.reports(
        "warning: hook: failed to read the hook's JSON from stdin: expected ident at line 1 column 2",
    );
    let output = hook(&world, "/no/such/file.jsonl", &[]).exits(0);
    assert_eq!(output.text(), "");
    output.reports("warning: hook: no session has the id");
    for (input, warning) in [
        ("{}", "warning: hook: the hook's input names no session\n"),
        (
            r#"{"transcript_path":"/no/such/file"}"#,
            "warning: hook: failed to find a transcript at /no/such/file\n",
        ),
    ] {
        let output = world.run_with_stdin(&["auto", "--hook"], input.as_bytes()).exits(0);
        assert_eq!((output.text(), output.stderr.as_str()), ("", warning));
    }
}

/// For an agent, exit code 2 means that the hook forbids the agent's action.
#[test]
fn wrong_option_does_not_block_the_agent() {
    let world = session_world();
    for wrong in
        [&["--context-window", "200k"][..], &["--no-such-option"], &["--lock-timeout=x"], &["x.jsonl"]]
    {
        let output = hook(&world, "", wrong).exits(0);
        assert_eq!((output.text(), output.stderr.lines().count()), ("", 1), "{}", output.stderr);
        assert!(output.stderr.starts_with("warning: hook: "), "{}", output.stderr);
    }
    world.run(&["auto", "--context-window", "200k", "x.jsonl"]).exits(2);
}

#[test]
fn removed_folder_does_not_block_the_agent() {
    let world = World::new();
    std::fs::create_dir(world.path("gone")).unwrap();
    let mut shell = Command::new("sh");
    world.isolate(&mut shell).current_dir(world.path("gone"));
    shell.args(["-c", "rmdir ../gone; exec \"$0\" auto --hook"]).arg(cargo_bin!("jp-compact"));
    let output = world.finish(&mut shell).exits(0);
    assert_eq!(output.stderr, "warning: hook: failed to get the current folder\n");
}

#[test]
fn reports_a_failed_summary_and_an_unknown_window() {
    for (arguments, line) in [
        (&[DUE, "--profile=heavy", "--keep-last=0"][..], "warning: hook: "),
        (&["--model=openai/unknown"], "warning: hook: ../home/.claude/"),
    ] {
        let world = session_world();
        let output = hook(&world, &format!("../{SESSION}"), arguments).exits(0);
        assert_eq!(output.text(), "");
        let lines: Vec<_> = output.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with(line), "{arguments:?}: {}", output.stderr);
    }
}
