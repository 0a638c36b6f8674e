//! Tests of a strategy as a real process: verbs, exit status, and stray output. If
//! the variable `NOISY` is set, this executable is the strategy. Otherwise, it runs the tests.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "a test starts processes")]
#![expect(
    clippy::print_stdout,
    reason = "a test prints to stdout on purpose, and the list of tests is for people"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Output, Stdio};

use jp_compact_strategy::schema::{CompactRequest, Description, Reply, from_line, to_line};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve, testing};

struct Noisy;

impl Strategy for Noisy {
    fn describe(&self) -> Description {
        println!("a stray print in describe");
        Description::new("noisy", "1.0.0", "Print to stdout")
    }

    fn compact(&self, _: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        println!("a stray print in compact");
        Command::new("/bin/echo").arg("a stray print of a child").status()?;
        Ok(Outcome::decline("printed"))
    }
}

fn main() -> ExitCode {
    if std::env::var_os("NOISY").is_some() {
        return serve(Noisy);
    }
    let checks: [(&str, fn()); 7] = [
        ("describe_is_one_line", describe_is_one_line),
        ("output_to_stdout_goes_to_stderr", output_to_stdout_goes_to_stderr),
        ("worker_serves_until_stdin_closes", worker_serves_until_stdin_closes),
        ("prints_usage_without_a_host", prints_usage_without_a_host),
        ("unknown_verb_exits_with_64", unknown_verb_exits_with_64),
        ("closed_pipe_exits_with_1", closed_pipe_exits_with_1),
        ("invalid_message_exits_with_1", invalid_message_exits_with_1),
    ];
    for (name, check) in checks {
        check();
        println!("{name} ... ok");
    }
    ExitCode::SUCCESS
}

fn strategy(verb: Option<&str>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env_clear().env("NOISY", "1").env("JP_COMPACT_PROTOCOL", "1").args(verb);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn request() -> Vec<u8> {
    to_line(&testing::request(0, 0, &[])).unwrap()
}

fn describe_is_one_line() {
    let output = finish(strategy(Some("describe")), b"");
    assert!(output.status.success());
    assert_eq!(from_line::<Description>(&output.stdout).unwrap().name, "noisy");
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

fn output_to_stdout_goes_to_stderr() {
    let output = finish(strategy(Some("run")), &request());
    assert!(output.status.success());
    assert_eq!(output.stdout, b"{\"type\":\"decline\",\"id\":\"c1\",\"reason\":\"printed\"}\n");
    assert_eq!(output.stderr, b"a stray print in compact\na stray print of a child\n");
}

fn worker_serves_until_stdin_closes() {
    let mut child = strategy(Some("worker")).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut replies = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        input.write_all(&request()).unwrap();
        let mut line = String::new();
        replies.read_line(&mut line).unwrap();
        assert!(Reply::parse(&line).unwrap().is_terminal());
    }
    drop(input);
    let mut rest = Vec::new();
    replies.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert!(child.wait().unwrap().success());
}

fn prints_usage_without_a_host() {
    for version in [None, Some("")] {
        let mut command = strategy(Some("run"));
        command.env_remove("JP_COMPACT_PROTOCOL").envs(version.map(|v| ("JP_COMPACT_PROTOCOL", v)));
        command.stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(64));
        assert!(String::from_utf8(output.stderr).unwrap().contains("noisy 1.0.0: Print to stdout"));
    }
}

fn unknown_verb_exits_with_64() {
    for verb in [None, Some("--help"), Some("compact")] {
        let mut command = strategy(verb);
        command.stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{verb:?}");
    }
}

fn closed_pipe_exits_with_1() {
    let mut child = strategy(Some("worker")).spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(&request()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"a stray print in compact\na stray print of a child\n");
}

fn invalid_message_exits_with_1() {
    let output = finish(strategy(Some("worker")), b"hello\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("noisy: a message must be a JSON object"));
}
