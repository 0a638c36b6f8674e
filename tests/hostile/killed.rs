//! Hosts that are killed, and end nothing themselves: what they leave.

use std::time::{Duration, Instant};

use crate::table::Tier;
use crate::world::{World, has_compiler};

/// The strategy, the children that it starts and theirs, and the host.
const FAMILY: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what comes by itself.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let patience = Instant::now();
    while !holds() {
        assert!(patience.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[track_caller]
fn leaves_no_process(mode: &str, tier: Tier, processes: usize) {
    let world = World::new(1);
    let mut host = world.start(mode, tier);
    until("it does not start", || world.processes().len() >= processes);
    host.kill().unwrap();
    host.wait().unwrap();
    until("processes are left", || world.processes().is_empty());
}

#[test]
fn a_strategy_that_may_start_no_process_dies_with_the_host() {
    if has_compiler() {
        leaves_no_process("hangs", Tier::Jailed, 2);
    }
}

#[test]
fn a_family_of_processes_dies_with_the_host() {
    if has_compiler() {
        leaves_no_process("starts-a-family-and-hangs", Tier::Granted, FAMILY);
    }
}

#[test]
fn the_next_run_removes_what_a_killed_one_left_and_nothing_of_one_that_lives() {
    if !has_compiler() {
        return;
    }
    let world = World::new(1);
    let mut host = world.start("hangs", Tier::Jailed);
    // The folder of events, and the private directory.
    until("it makes no folder", || world.left_in_temp() == 2);
    // It holds what it has made, whatever other runs begin and end.
    let another = || world.run("exit-1", Tier::Jailed, PATIENCE, &[]);
    assert_eq!((another().code, world.left_in_temp()), (Some(13), 2));
    host.kill().unwrap();
    host.wait().unwrap();
    until("processes are left", || world.processes().is_empty());
    assert_eq!(world.left_in_temp(), 2);
    let ran = another();
    assert_eq!((ran.code, world.left_in_temp()), (Some(13), 0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}
