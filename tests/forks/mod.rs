//! Durability of forks: a fork is complete or absent, and is on disk before it is reported.

use std::collections::BTreeMap;
use std::fs;

use crate::crash_walk::crash_walk;
use crate::strace::{Call, Strace, TracedRun};
use crate::world::{World, host};

const ORPHAN: &str = ".jpc-fork-";

fn trace_fork(world: &World, strace: &Strace, options: &[String]) -> TracedRun {
    strace.run(&world.root, options, |command| {
        command.arg(host()).args(["fork", "conversation", "copy", "--last", "3"]);
        world.set_environment(command);
    })
}

/// Returns a conversation with all files that JP stores next to the events.
fn world_with_all_files() -> World {
    let world = World::new();
    for name in ["base_config.json", "metadata.json"] {
        fs::write(world.folder.join(name), "{}\n").unwrap();
    }
    world
}

/// Returns the files of the fork, or `None` without a fork.
fn files(world: &World) -> Option<BTreeMap<String, Vec<u8>>> {
    let entries = fs::read_dir(world.root.join("copy")).ok()?;
    let mut files = BTreeMap::new();
    for entry in entries.map(Result::unwrap) {
        files.insert(entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    }
    Some(files)
}

fn orphans(world: &World) -> usize {
    let entries = fs::read_dir(&world.root).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(ORPHAN)).count()
}

#[test]
fn fork_is_on_disk_before_it_is_reported() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = world_with_all_files();
    let traced = trace_fork(&world, &strace, &[]);
    assert!(traced.status.success(), "{}", traced.stderr);
    let mut index = traced.find(0, "creation of a folder", |call| call.name.starts_with("mkdir"));
    for _ in 0..3 {
        let created = traced.find(index, "exclusive create", |call| call.has_flag("O_EXCL"));
        let file = traced.calls[created].opened().unwrap().to_owned();
        index = traced
            .find(created, "fsync of the file", |call| call.name == "fsync" && call.file(0) == Some(&file));
    }
    index = traced.find(index + 1, "fsync of the folder", |call| call.name == "fsync");
    index = traced.find(index, "rename", |call| call.name.starts_with("rename"));
    index = traced.find(index, "fsync of the parent folder", |call| {
        call.name == "fsync" && call.file(0) == Some(&*world.root)
    });
    let report = world.root.join("stderr");
    traced.find(index, "report", |call| call.writes() && call.file(0) == Some(&report));
}

#[test]
fn crash_at_any_call_of_a_fork_leaves_all_or_nothing() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = world_with_all_files();
    assert!(trace_fork(&world, &strace, &[]).status.success());
    let expected = files(&world);
    assert_eq!(expected.as_ref().map(BTreeMap::len), Some(3));
    let (mut without_fork, mut with_fork) = (0, 0);
    let run = |options: &[String]| {
        let _ = fs::remove_dir_all(world.root.join("copy"));
        trace_fork(&world, &strace, options)
    };
    let creates_a_folder = |call: &Call| call.name.starts_with("mkdir");
    crash_walk(creates_a_folder, run, |traced, is_new_step| {
        match files(&world) {
            None => {
                without_fork += usize::from(is_new_step);
                assert!(!traced.status.success());
            }
            found => {
                with_fork += usize::from(is_new_step);
                assert!(
                    found == expected,
                    "killed at\n{}",
                    traced.text(traced.calls.len().saturating_sub(3))
                );
            }
        }
        let _ = fs::remove_dir_all(world.root.join("copy"));
        assert!(trace_fork(&world, &strace, &[]).status.success());
        assert!(files(&world) == expected);
        assert_eq!(orphans(&world), 0, "the next run must remove leftovers");
        assert_eq!(world.bytes(), world.before);
    });
    assert!(
        without_fork > 5 && with_fork > 1,
        "died {without_fork} times before the rename, {with_fork} times after it"
    );
}
