//! Order of records and answers, and the end of the input or output.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{CommandOutput, World};
use crate::{STRIP, lines, parse_answer, processes, record, run_records};

fn start(world: &World, arguments: &[&str]) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let mut child = world.spawn(world.command(arguments).stdin(Stdio::piped()));
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, BufReader::new(stdout))
}

#[track_caller]
fn next_answer(stdout: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    parse_answer(&line);
    serde_json::from_str(&line).unwrap()
}

/// Installs a strategy whose first run waits for `gate`. Each run reports its progress in `progress`.
fn install_slow_strategy(world: &World) -> (PathBuf, File) {
    let (gate, progress, first) = (world.path("gate"), world.path("progress"), world.path("first"));
    for fifo in [&gate, &progress] {
        rustix::fs::mkfifoat(rustix::fs::CWD, fifo, 0o600.into()).unwrap();
    }
    let run = format!(
        "read -r line\nif mkdir '{}' 2>/dev/null; then echo started >'{progress}'; read -r x <'{}'; else echo done >'{progress}'; \
         fi\necho \"$line\" | sed -n \
         's/^{{\"type\":\"compact\",\"id\":\"\\([^\"]*\\)\".*/{{\"type\":\"decline\",\"id\":\"\\1\",\"reason\":\"no\"}}/p'",
        first.display(),
        gate.display(),
        progress = progress.display(),
    );
    world.write_plugin("slow", &run);
    let progress = File::options().read(true).write(true).open(progress).unwrap();
    (gate, progress)
}

const SLOW: [&str; 7] = [
    "batch",
    "--ndjson",
    "--strategy=slow",
    "--trust-dir",
    "plugins",
    "--sandbox=contained",
    "--keep-last=0",
];

fn open_gate(gate: &Path) {
    File::options().write(true).open(gate).unwrap().write_all(b"go\n").unwrap();
}

#[test]
fn answer_is_written_before_the_next_record_arrives() {
    let world = World::new();
    let (mut child, mut stdin, mut stdout) = start(&world, &STRIP);
    for id in 0..5 {
        stdin.write_all(&lines(&[record(&json!(id), 2)])).unwrap();
        let answer = next_answer(&mut stdout);
        assert_eq!((&answer["id"], &answer["ok"]), (&json!(id), &json!(true)));
        // A record may arrive in two parts.
        stdin.write_all(b"{\"id\":\"half\",").unwrap();
        stdin.write_all(b"\"path\":3}\n").unwrap();
        assert_eq!(next_answer(&mut stdout)["id"], "half");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn answers_keep_the_order_of_their_records() {
    let world = World::new();
    let (gate, progress) = install_slow_strategy(&world);
    let (mut child, mut stdin, mut stdout) = start(&world, &SLOW);
    let mut progress = BufReader::new(progress).lines().map(Result::unwrap);
    stdin.write_all(&lines(&[record(&json!("slow"), 1)])).unwrap();
    assert_eq!(progress.next().unwrap(), "started");
    stdin.write_all(&lines(&[record(&json!("b"), 1), record(&json!("c"), 1)])).unwrap();
    // Later records are processed while the first one waits.
    assert_eq!((progress.next().unwrap(), progress.next().unwrap()), ("done".into(), "done".into()));
    open_gate(&gate);
    let ids: Vec<_> = (0..3).map(|_| next_answer(&mut stdout)["id"].clone()).collect();
    assert_eq!(ids, ["slow", "b", "c"]);
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn interrupt_stops_reading_and_answers_records_in_progress() {
    let world = World::new();
    let (gate, progress) = install_slow_strategy(&world);
    let (mut child, mut stdin, mut stdout) = start(&world, &SLOW);
    let mut progress = BufReader::new(progress).lines().map(Result::unwrap);
    stdin.write_all(&lines(&[record(&json!("in progress"), 1)])).unwrap();
    assert_eq!(progress.next().unwrap(), "started");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    open_gate(&gate);
    assert_eq!(next_answer(&mut stdout)["id"], "in progress");
    // Stdin is still open.
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn second_interrupt_stops_immediately() {
    let world = World::new();
    let (_gate, progress) = install_slow_strategy(&world);
    let (mut child, stdin, mut stdout) = start(&world, &SLOW);
    let mut progress = BufReader::new(progress).lines().map(Result::unwrap);
    (&stdin).write_all(&lines(&[record(&json!("in progress"), 1)])).unwrap();
    assert_eq!(progress.next().unwrap(), "started");
    // The system may merge two early signals into one, so send until the process ends.
    while child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "no answer may be written");
}

#[test]
fn closed_stdout_ends_the_batch_without_an_error() {
    let world = World::new();
    let (child, mut stdin, stdout) = start(&world, &STRIP);
    drop(stdout);
    // Stdin stays open: the write of the answer ends the batch.
    stdin.write_all(&lines(&[record(&json!(1), 2)])).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    drop(stdin);
}

#[test]
fn failed_write_of_an_answer_is_an_error() {
    let world = World::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = world.spawn(world.command(&STRIP).stdin(Stdio::piped()).stdout(full));
    // Stdin stays open.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&lines(&[record(&json!(1), 2)])).unwrap();
    let output = CommandOutput::new(&world, child.wait_with_output().unwrap()).exits(4);
    output.reports("failed to write the output").reports("No space left on device");
    assert_eq!(processes::running_below(&world.path("")), Vec::<String>::new());
    drop(stdin);
}

#[test]
fn closed_stdout_leaves_no_process() {
    let world = World::new();
    for fifo in ["gate", "progress", "never"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, world.path(fifo), 0o600.into()).unwrap();
    }
    // A record with one turn waits for the gate, and a record with two turns waits forever.
    let folder = world.path("");
    let run = format!(
        "cd '{}'; read -r line; echo started >progress; case $line in *'\"to_turn\":0'*) read -r x <gate ;; *) exec cat never ;; esac\n\
         echo what",
        folder.display()
    );
    world.write_plugin("stuck", &run);
    let progress = File::options().read(true).write(true).open(world.path("progress")).unwrap();
    let mut progress = BufReader::new(progress).lines().map(Result::unwrap);
    let arguments = [&STRIP[..3], &["strip-tools", "--strategy=stuck"], &SLOW[3..]].concat();
    let (mut child, mut stdin, stdout) = start(&world, &arguments);
    stdin.write_all(&lines(&[record(&json!(1), 1), record(&json!(2), 2)])).unwrap();
    assert_eq!((progress.next().unwrap(), progress.next().unwrap()), ("started".into(), "started".into()));
    assert!(
        processes::running_below(&folder).len() > 3,
        "expected the batch, a worker and a process per record"
    );
    drop(stdout);
    open_gate(&world.path("gate"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(processes::running_below(&folder), Vec::<String>::new());
    drop(stdin);
}

#[test]
fn same_records_get_the_same_bytes() {
    let world = World::new();
    let mut records: Vec<_> = (0..40).map(|id| record(&json!(id), 1 + id % 5)).collect();
    records.insert(7, json!({ "id": "bad" }));
    let input = lines(&records);
    let first = run_records(&world, &STRIP, &input).exits(0);
    assert_eq!(first.lines().len(), 41);
    assert_eq!(first.stdout, run_records(&world, &STRIP, &input).exits(0).stdout);
}
