//! The handshake with JP. JP starts every `jp-*` executable on PATH without arguments, writes one line, and waits for
//! the answer.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{CommandOutput, World};

const DESCRIBE: &str = "{\"type\":\"describe\"}\n";

#[test]
fn answers_describe() {
    let world = World::new();
    for line in [DESCRIBE, DESCRIBE.trim_end()] {
        let output = world.run_with_stdin(&[], line.as_bytes()).exits(0);
        assert_eq!(output.stderr, "");
        let mut described = output.line();
        let help = described["help"].take();
        let expected = json!({
            "type": "describe", "name": "compact", "version": env!("CARGO_PKG_VERSION"),
            "description": "Compact conversations with language models without losing anything",
            "command": ["compact"], "author": "the maintainers of jp-compact", "help": null, "repository": null,
        });
        assert_eq!(described, expected);
        // JP prints this text for `jp compact --help`.
        for part in
            ["Usage: jp compact [OPTIONS]", "--keep-last <N>", "numbered from 0", "`@N` is turn N as JP"]
        {
            assert!(help.as_str().unwrap().contains(part), "`{part}` is not in the help:\n{help}");
        }
    }
}

#[test]
fn answers_before_stdin_is_closed() {
    use std::io::Write as _;
    let world = World::new();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(DESCRIBE.as_bytes()).unwrap();
    let output = CommandOutput::new(&world, child.wait_with_output().unwrap());
    assert_eq!(output.exits(0).line()["name"], "compact");
    drop(stdin);
}

#[test]
fn times_out_on_silent_pipe() {
    let world = World::new();
    let started = Instant::now();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let stdin = child.stdin.take().unwrap();
    let output = CommandOutput::new(&world, child.wait_with_output().unwrap());
    drop(stdin);
    assert_usage_error(output);
    assert!(started.elapsed() < Duration::from_secs(30), "the timeout is two seconds");
}

#[test]
fn times_out_on_incomplete_line() {
    use std::io::Write as _;
    let world = World::new();
    let mut child = world.spawn(world.command::<&str>(&[]).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"type\":\"desc").unwrap();
    let output = CommandOutput::new(&world, child.wait_with_output().unwrap());
    drop(stdin);
    assert_usage_error(output);
}

#[test]
fn empty_stdin_is_a_usage_error() {
    let world = World::new();
    assert_usage_error(world.run::<&str>(&[]));
    assert_usage_error(world.run_with_stdin(&[], b""));
}

#[test]
fn unknown_line_is_a_usage_error() {
    let world = World::new();
    for line in ["\n", "hello\n", "[]\n", "{}\n", "{\"type\":\"later\"}\n", "\u{fffd}\n"] {
        assert_usage_error(world.run_with_stdin(&[], line.as_bytes()));
    }
    assert_usage_error(world.run_with_stdin(&[], b"\xff\xfe\n"));
    assert_usage_error(world.run_with_stdin(&[], b"[\"describe\"]"));
}

#[track_caller]
fn assert_usage_error(output: CommandOutput) {
    let output = output.exits(2).reports("no TRANSCRIPT was given");
    assert_eq!(output.text(), "");
}
