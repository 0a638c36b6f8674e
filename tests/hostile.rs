//! One strategy with a behaviour for everything that a strategy could do to its host, through the executable, at
//! both tiers, as a process of its own and as a worker: each ends as `hostile/table.rs` says, in time, with one
//! message, with every byte of the conversation as it was, and with no process left.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "tests compile and start what users do")]

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
use table::{End, Row, TABLE, Tier};
use world::{Ran, World, has_compiler};

/// SIGTERM, two seconds, SIGKILL, and a quarter of a second for what holds the pipes.
const AFTER_DEADLINE: Duration = Duration::from_millis(2250);
/// A busy machine makes everything slower, the plain run as well.
const SLACK: u32 = 20;
/// Rows that run at once: most of their time they wait.
const AT_ONCE: usize = 4;

/// What is wrong with a run, if anything is.
type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl Fn() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

/// What has to hold however a run ended.
fn is_over(world: &World, ran: &Ran, row: &Row, plain: Duration) -> Verdict {
    let bound = Duration::from_secs(row.deadline) + AFTER_DEADLINE + plain * SLACK;
    ensure(ran.wall <= bound, || format!("it took {:?}, more than {bound:?}", ran.wall))?;
    // What was killed may take a moment to be gone.
    let patience = Instant::now();
    while !world.processes().is_empty() && patience.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    ensure(world.processes().is_empty(), || format!("left: {:?}", world.processes()))?;
    ensure(world.left_in_temp() == 0, || "a private directory is left".into())?;
    let is_harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    ensure(ran.stderr.chars().all(is_harmless), || format!("not escaped: {:?}", ran.stderr))
}

/// A process for each request.
fn alone(row: &Row, tier: Tier, plain: Duration) -> Verdict {
    let Some(end) = row.end(tier) else { return Ok(()) };
    let world = World::new(1);
    let ran = world.run(row.mode, tier, Duration::from_secs(row.deadline), &[]);
    let (code, says, errors) = match end {
        End::Good => (0, "1 overlay appended", 0),
        End::Bad(code, says) => (code, says, 1),
    };
    ensure(ran.code == Some(code) && ran.stderr.contains(says), || {
        format!("{:?}: {}", ran.code, ran.stderr)
    })?;
    let found = ran.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    ensure(found == errors, || format!("{found} messages: {}", ran.stderr))?;
    let (appended, unchanged) = (world.appended(), world.unchanged());
    ensure((appended, unchanged) == (1 - errors, errors), || {
        format!("{appended} appended, {unchanged} not")
    })?;
    is_over(&world, &ran, row, plain)
}

/// Two conversations, and workers for them.
fn as_worker(row: &Row, tier: Tier, plain: Duration) -> Verdict {
    let Some(end) = row.worker(tier) else { return Ok(()) };
    let world = World::new(2);
    let ran = world.run(row.mode, tier, Duration::from_secs(row.deadline), &["--json"]);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (appended, unchanged) = (world.appended(), world.unchanged());
    match end {
        End::Good => {
            ensure(ran.code == Some(0), || format!("{:?}: {}", ran.code, ran.stderr))?;
            ensure((appended, unchanged) == (2, 0), || format!("{appended} appended, {unchanged} not"))?;
        }
        End::Bad(code, says) => {
            ensure(ran.code == Some(19), || format!("{:?}: {}", ran.code, ran.stderr))?;
            let is_it = |line: &Value| {
                line["error"]["code"] == code && line["error"]["causes"].to_string().contains(says)
            };
            ensure(lines.len() == 2 && lines.iter().all(is_it), || format!("not {code} {says}: {lines:#?}"))?;
            ensure((appended, unchanged) == (0, 2), || format!("{appended} appended, {unchanged} not"))?;
        }
    }
    is_over(&world, &ran, row, plain)
}

/// Tries every row at every tier, and says all that is wrong.
#[track_caller]
fn every_row(attempt: fn(&Row, Tier, Duration) -> Verdict) {
    if !has_compiler() {
        return;
    }
    let plain = World::new(1).run("answers", Tier::Jailed, Duration::from_secs(60), &[]);
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    let tiers = [Tier::Contained, Tier::Jailed, Tier::Granted];
    let attempts = TABLE.iter().flat_map(|row| tiers.map(|tier| (row, tier)));
    let (waiting, wrong) = (Mutex::new(attempts), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((row, tier)) = waiting.lock().unwrap().next() else { return };
                    if let Err(what) = attempt(row, tier, plain.wall) {
                        wrong.lock().unwrap().push(format!("{} {tier:?}: {what}", row.mode));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_behaviour_ends_as_the_table_says() {
    every_row(alone);
}

#[test]
fn every_behaviour_of_a_worker_ends_as_the_table_says() {
    every_row(as_worker);
}

#[test]
fn what_lies_in_a_private_directory_or_was_removed_from_it_and_is_held_counts() {
    if !has_compiler() {
        return;
    }
    let limit = |bytes: &str| format!("limits.private_dir_bytes={bytes}");
    let jailed = Tier::Jailed;
    for (mode, tiers) in [
        ("fills-its-folder", [Tier::Contained, jailed]),
        ("fills-its-folder-and-answers", [Tier::Contained, jailed]),
        ("holds-what-it-removed", [Tier::Contained, jailed]),
        ("maps-what-it-removed", [Tier::Contained, jailed]),
    ] {
        for tier in tiers {
            let world = World::new(1);
            let ran = world.run(mode, tier, Duration::from_secs(30), &["--set", &limit("4_000_000")]);
            let says = "it put more than 4000000 bytes into its private directory";
            assert!(ran.code == Some(15) && ran.stderr.contains(says), "{mode} {tier:?}: {}", ran.stderr);
            assert_eq!((world.unchanged(), world.left_in_temp()), (1, 0), "{mode} {tier:?}");
        }
    }
    let world = World::new(1);
    let ran = world.run("fills-its-folder-and-answers", jailed, Duration::from_secs(30), &[]);
    assert_eq!((ran.code, world.appended()), (Some(0), 1), "{}", ran.stderr);
}

#[test]
fn one_that_changes_its_file_has_run_as_it_was() {
    if !has_compiler() {
        return;
    }
    let world = World::new(1);
    let own = world.install();
    let before = fs::read(&own).unwrap();
    let ran = world.run_own("changes-its-file", Tier::Jailed);
    assert_eq!((ran.code, world.appended()), (Some(0), 1), "{}", ran.stderr);
    assert_eq!(fs::read(&own).unwrap(), before, "it wrote outside of its jail");

    let world = World::new(1);
    let own = world.install();
    for run in 1..=2 {
        let ran = world.run_own("changes-its-file", Tier::Contained);
        assert_eq!(ran.code, Some(0), "{run}: {}", ran.stderr);
        assert_eq!(fs::read(&own).unwrap(), b"#!/bin/false\n");
        // It has changed the host's copy as well, which the host finds out.
        world.install();
    }
}

#[test]
fn a_process_that_is_left_can_be_seen() {
    let world = World::new(0);
    let mut command = std::process::Command::new("sleep");
    let mut left = command.arg("1000").env("TMPDIR", world.path("tmp")).spawn().unwrap();
    let patience = Instant::now();
    while world.processes().is_empty() {
        assert!(patience.elapsed() < Duration::from_secs(60), "it cannot be seen");
    }
    left.kill().unwrap();
    left.wait().unwrap();
}
