//! Leftovers of a killed host: processes and folders.

use std::time::{Duration, Instant};

use crate::table::Tier;
use crate::world::{World, has_compiler};

/// The number of processes: the host, the strategy, its children and their children.
const PROCESSES: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
fn wait_until(failure: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{failure}");
        std::thread::yield_now();
    }
}

#[track_caller]
fn check_no_process_remains(mode: &str, tier: Tier, processes: usize) {
    let world = World::new(1);
    let mut host = world.start(mode, tier);
    wait_until("the strategy did not start", || world.processes().len() >= processes);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until("processes remain", || world.processes().is_empty());
}

#[test]
fn strategy_without_children_dies_with_the_host() {
    if has_compiler() {
        check_no_process_remains("hangs", Tier::Jailed, 2);
    }
}

#[test]
fn process_tree_of_a_strategy_dies_with_the_host() {
    if has_compiler() {
        check_no_process_remains("starts-processes-and-hangs", Tier::Granted, PROCESSES);
        check_no_process_remains("starts-processes-and-hangs", Tier::Contained, PROCESSES);
    }
}

#[test]
fn next_run_removes_leftovers_of_killed_runs_only() {
    if !has_compiler() {
        return;
    }
    let world = World::new(1);
    let mut host = world.start("hangs", Tier::Jailed);
    wait_until("the host created no private directory", || world.folders_in_temp() == 1);
    // The running host keeps its folder while other runs start and end. If the other run locks and removes a new folder
    // before the host locks it, the host creates another one.
    let run_another = || world.run("exit-1", Tier::Jailed, PATIENCE, &[]);
    assert_eq!(run_another().code, Some(13));
    wait_until("the host lost its folder", || world.folders_in_temp() == 1);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until("processes remain", || world.processes().is_empty());
    assert_eq!(world.folders_in_temp(), 1);
    let output = run_another();
    assert_eq!((output.code, world.folders_in_temp()), (Some(13), 0), "{}", output.stderr);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);
}
