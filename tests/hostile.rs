//! A strategy with one mode per attack on its host. Each mode of `hostile/table.rs` runs contained and jailed, as a
//! process per request and, if it can, as a worker. A mode that starts processes also runs with `subprocess`. Each run
//! must end as listed, in time and without a remaining process. A failure has one message and changes no conversation.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests start compilers and processes")]

#[path = "hostile/killed.rs"]
mod killed;
#[path = "hostile/replies.rs"]
mod replies;
#[path = "hostile/table.rs"]
mod table;
#[path = "hostile/world.rs"]
mod world;

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;
use table::{ExpectedEnd, Row, TABLE, Tier};
use world::{RunOutput, World, has_compiler};

/// Two seconds between SIGTERM and SIGKILL, and a quarter of a second for processes that hold the pipes.
const AFTER_DEADLINE: Duration = Duration::from_millis(2250);
/// Factor for the time of the baseline run, because a busy machine slows every run.
const SLACK: u32 = 20;
/// The time to write and remove the files of `makes-many-files`. It depends on the disk, which the baseline run hardly
/// uses.
const MANY_FILES_TIME: Duration = Duration::from_secs(120);
/// Number of rows that run in parallel. They mostly wait.
const PARALLEL_ROWS: usize = 4;

/// The error of a run, if any.
type Verdict = Result<(), String>;

fn ensure(condition: bool, message: impl Fn() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(message()) }
}

/// Measures a run that ends by itself.
#[track_caller]
fn baseline_elapsed() -> Duration {
    let baseline = World::new(1).run("answers", Tier::Jailed, Duration::from_secs(300), &[]);
    assert_eq!(baseline.code, Some(0), "{}", baseline.stderr);
    baseline.elapsed
}

/// Checks the conditions that hold after every run.
fn check_end(world: &World, output: &RunOutput, row: &Row, baseline: Duration) -> Verdict {
    let files_time = if row.mode == "makes-many-files" { MANY_FILES_TIME } else { Duration::ZERO };
    let limit_of =
        |baseline| Duration::from_secs(row.deadline) + AFTER_DEADLINE + files_time + baseline * SLACK;
    let mut limit = limit_of(baseline);
    if output.elapsed > limit {
        // The machine may have become busy since the first measurement.
        limit = limit_of(baseline_elapsed().max(baseline));
    }
    ensure(output.elapsed <= limit, || format!("it took {:?}, more than {limit:?}", output.elapsed))?;
    // A killed process may need a moment to disappear.
    let started = Instant::now();
    while !world.processes().is_empty() && started.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    ensure(world.processes().is_empty(), || format!("left: {:?}", world.processes()))?;
    ensure(world.folders_in_temp() == 0, || "a private directory is left".into())?;
    let is_harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    ensure(output.stderr.chars().all(is_harmless), || format!("not escaped: {:?}", output.stderr))
}

/// Runs a row with one process per request.
fn run_process(row: &Row, tier: Tier, baseline: Duration) -> Verdict {
    let Some(end) = row.end(tier) else { return Ok(()) };
    let world = World::new(1);
    let output = world.run(row.mode, tier, Duration::from_secs(row.deadline), &[]);
    let (code, message, errors) = match end {
        ExpectedEnd::Success => (0, "1 overlay appended", 0),
        ExpectedEnd::Failure(code, message) => (code, message, 1),
    };
    ensure(output.code == Some(code) && output.stderr.contains(message), || {
        format!("{:?}: {}", output.code, output.stderr)
    })?;
    let error_count = output.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    ensure(error_count == errors, || format!("{error_count} messages: {}", output.stderr))?;
    let (appended, unchanged) = (world.appended(), world.unchanged());
    ensure((appended, unchanged) == (1 - errors, errors), || {
        format!("{appended} appended, {unchanged} not")
    })?;
    check_end(&world, &output, row, baseline)
}

/// Runs a row with workers for two conversations.
fn run_worker(row: &Row, tier: Tier, baseline: Duration) -> Verdict {
    let Some(end) = row.worker(tier) else { return Ok(()) };
    let world = World::new(2);
    let output = world.run(row.mode, tier, Duration::from_secs(row.deadline), &["--json"]);
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (appended, unchanged) = (world.appended(), world.unchanged());
    match end {
        ExpectedEnd::Success => {
            ensure(output.code == Some(0), || format!("{:?}: {}", output.code, output.stderr))?;
            ensure((appended, unchanged) == (2, 0), || format!("{appended} appended, {unchanged} not"))?;
        }
        ExpectedEnd::Failure(code, message) => {
            ensure(output.code == Some(19), || format!("{:?}: {}", output.code, output.stderr))?;
            let is_expected = |line: &Value| {
                line["error"]["code"] == code && line["error"]["causes"].to_string().contains(message)
            };
            ensure(lines.len() == 2 && lines.iter().all(is_expected), || {
                format!("not {code} {message}: {lines:#?}")
            })?;
            ensure((appended, unchanged) == (0, 2), || format!("{appended} appended, {unchanged} not"))?;
        }
    }
    check_end(&world, &output, row, baseline)
}

/// Runs each row at its tiers, and collects all errors.
#[track_caller]
fn check_all_rows(attempt: fn(&Row, Tier, Duration) -> Verdict) {
    if !has_compiler() {
        return;
    }
    let baseline = baseline_elapsed();
    let tiers = [Tier::Contained, Tier::Jailed, Tier::Granted];
    let attempts = TABLE.iter().flat_map(|row| tiers.map(|tier| (row, tier)));
    let (attempts, failures) = (Mutex::new(attempts), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_ROWS {
            scope.spawn(|| {
                loop {
                    let Some((row, tier)) = attempts.lock().unwrap().next() else { return };
                    if let Err(error) = attempt(row, tier, baseline) {
                        failures.lock().unwrap().push(format!("{} {tier:?}: {error}", row.mode));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_mode_of_a_process_ends_as_listed_in_the_table() {
    check_all_rows(run_process);
}

#[test]
fn every_mode_of_a_worker_ends_as_listed_in_the_table() {
    check_all_rows(run_worker);
}

#[test]
fn private_directory_limit_counts_files_that_were_removed() {
    if !has_compiler() {
        return;
    }
    let limit_option = |bytes: &str| format!("limits.private_dir_bytes={bytes}");
    let jailed = Tier::Jailed;
    for (mode, tiers) in [
        ("fills-its-folder", [Tier::Contained, jailed]),
        ("fills-its-folder-and-answers", [Tier::Contained, jailed]),
        ("holds-what-it-removed", [Tier::Contained, jailed]),
        ("maps-what-it-removed", [Tier::Contained, jailed]),
    ] {
        for tier in tiers {
            let world = World::new(1);
            let output =
                world.run(mode, tier, Duration::from_secs(30), &["--set", &limit_option("4_000_000")]);
            let message = "it put more than 4000000 bytes into its private directory";
            assert!(
                output.code == Some(15) && output.stderr.contains(message),
                "{mode} {tier:?}: {}",
                output.stderr
            );
            assert_eq!((world.unchanged(), world.folders_in_temp()), (1, 0), "{mode} {tier:?}");
        }
    }
    let world = World::new(1);
    let output = world.run("fills-its-folder-and-answers", jailed, Duration::from_secs(30), &[]);
    assert_eq!((output.code, world.appended()), (Some(0), 1), "{}", output.stderr);
}

#[test]
fn private_directory_limit_counts_files_in_sockets() {
    if !has_compiler() {
        return;
    }
    let world = World::new(1);
    let output = world.run_with_permission("sends-what-it-removed", "network");
    let message = "bytes into its private directory";
    assert!(output.code == Some(15) && output.stderr.contains(message), "{}", output.stderr);
    let output = world.run_with_permission("sends-what-it-removed", "subprocess");
    assert!(output.stderr.contains("Operation not permitted"), "{}", output.stderr);
    assert_eq!((world.unchanged(), world.folders_in_temp()), (1, 0));
}

#[test]
fn memory_limit_counts_data_that_became_read_only() {
    if !has_compiler() {
        return;
    }
    let modes = ["hides-memory", "hides-a-thread"];
    for (mode, tier) in modes.iter().flat_map(|mode| [(mode, Tier::Contained), (mode, Tier::Jailed)]) {
        let world = World::new(1);
        let output = world.run(mode, tier, Duration::from_secs(30), &[]);
        let message = "it used more than 1073741824 bytes of memory";
        assert!(
            output.code == Some(15) && output.stderr.contains(message),
            "{mode} {tier:?}: {}",
            output.stderr
        );
    }
}

#[test]
fn strategy_that_changes_its_file_runs_as_it_was_started() {
    if !has_compiler() {
        return;
    }
    let world = World::new(1);
    let executable = world.install();
    let before = fs::read(&executable).unwrap();
    let output = world.run_own("changes-its-file", Tier::Jailed);
    assert_eq!((output.code, world.appended()), (Some(0), 1), "{}", output.stderr);
    assert_eq!(fs::read(&executable).unwrap(), before, "the strategy wrote outside of its jail");

    let world = World::new(1);
    let executable = world.install();
    for run in 1..=2 {
        let output = world.run_own("changes-its-file", Tier::Contained);
        assert_eq!(output.code, Some(0), "{run}: {}", output.stderr);
        assert_eq!(fs::read(&executable).unwrap(), b"#!/bin/false\n");
        // The strategy has also changed the host's copy. The host detects that.
        world.install();
    }
}

#[test]
fn remaining_process_is_detected() {
    let world = World::new(0);
    let mut command = std::process::Command::new("sleep");
    let mut child = command.arg("1000").env("TMPDIR", world.path("tmp")).spawn().unwrap();
    let started = Instant::now();
    while world.processes().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "the process was not found");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
