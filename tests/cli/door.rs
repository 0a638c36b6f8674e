//! What JP meets: it starts every `jp-*` on PATH without arguments, writes one line, and waits.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Ran, World};

const DESCRIBE: &str = "{\"type\":\"describe\"}\n";

#[test]
fn describe_is_answered_in_jps_form() {
    let world = World::new();
    for line in [DESCRIBE, DESCRIBE.trim_end()] {
        let ran = world.pipe(&[], line.as_bytes()).exits(0);
        assert_eq!(ran.stderr, "");
        let description = "Compact conversations with language models without destroying anything";
        let version = env!("CARGO_PKG_VERSION");
        let expect =
            json!({"type": "describe", "name": "compact", "version": version, "description": description});
        assert_eq!(ran.line(), expect);
    }
}

#[test]
fn init_is_answered_by_ending() {
    let world = World::new();
    let init = json!({"type": "init", "version": 1, "workspace": {"root": "/", "storage": "/.jp", "id": "otvo8"},
                      "config": {}, "args": ["x"], "log_level": 0});
    let ran = world.pipe(&[], format!("{init}\n").as_bytes()).exits(0);
    assert_eq!(
        ran.lines(),
        [json!({"type": "ready"}), json!({"type": "exit", "code": 2, "reason": "run jp-compact itself"})]
    );
}

#[test]
fn an_answer_does_not_wait_for_the_pipe_to_be_closed() {
    use std::io::Write as _;
    let world = World::new();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(DESCRIBE.as_bytes()).unwrap();
    let ran = Ran::of(&world, child.wait_with_output().unwrap());
    assert_eq!(ran.exits(0).line()["name"], "compact");
    drop(stdin);
}

#[test]
fn a_silent_pipe_is_not_waited_for() {
    let world = World::new();
    let started = Instant::now();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let stdin = child.stdin.take().unwrap();
    let ran = Ran::of(&world, child.wait_with_output().unwrap());
    drop(stdin);
    usage(ran);
    assert!(started.elapsed() < Duration::from_secs(30), "it is half a second");
}

#[test]
fn half_a_line_is_not_waited_for() {
    use std::io::Write as _;
    let world = World::new();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"type\":\"desc").unwrap();
    let ran = Ran::of(&world, child.wait_with_output().unwrap());
    drop(stdin);
    usage(ran);
}

#[test]
fn nothing_on_stdin_is_wrong_usage() {
    let world = World::new();
    usage(world.run::<&str>(&[]));
    usage(world.pipe(&[], b""));
}

#[test]
fn a_line_that_jp_does_not_write_is_wrong_usage() {
    let world = World::new();
    for line in ["\n", "hello\n", "[]\n", "{}\n", "{\"type\":\"later\"}\n", "\u{fffd}\n"] {
        usage(world.pipe(&[], line.as_bytes()));
    }
    usage(world.pipe(&[], b"\xff\xfe\n"));
    usage(world.pipe(&[], b"[\"describe\"]"));
}

#[track_caller]
fn usage(ran: Ran) {
    let ran = ran.exits(2).says("there is no TRANSCRIPT to compact");
    assert_eq!(ran.text(), "");
}
