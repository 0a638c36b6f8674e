//! Writes to two copies of a conversation: the copy that JP does not load is written first. A crash between
//! the writes leaves two valid copies, and JP loads the same copy at every moment.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::crash_walk::crash_walk;
use crate::is_transcript_lock;
use crate::strace::Strace;
use crate::world::{APPEND, ORPHAN, RESET, World, host, turns};

/// A conversation whose workspace copy is newer than the user's copy (`other`).
struct Copies {
    world: World,
    other: PathBuf,
}

impl Copies {
    fn new() -> Self {
        let world = World::at("ws/.jp/conversations/17738399468-review", &turns(5, 200));
        fs::write(world.root.join("ws/.jp/.id"), "otvo8\n").unwrap();
        let folder = world.root.join("data/workspace/ws-otvo8/conversations/17738399468-review");
        fs::create_dir_all(&folder).unwrap();
        let copies = Self { other: folder.join("events.json"), world };
        copies.restore();
        copies
    }

    fn restore(&self) {
        self.world.restore();
        for entry in fs::read_dir(self.other.parent().unwrap()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(&self.other, &self.world.before).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        File::options().append(true).open(&self.other).unwrap().set_modified(long_ago).unwrap();
    }

    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        (self.world.bytes(), fs::read(&self.other).unwrap())
    }

    /// JP loads the newer copy, or the user's copy if both have the same time.
    fn workspace_copy_is_loaded(&self) -> bool {
        let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        modified(self.world.events()) > modified(self.other.clone())
    }
}

/// Kills a run at each call that names a file, from the lock to the end.
fn crash_at_every_call(mut copies: Copies, args: &[&str]) {
    let Some(strace) = Strace::find(host()) else { return };
    (copies.world.before, _) = copies.bytes();
    copies.restore();
    copies.world.succeeds(args);
    let (after, other_after) = copies.bytes();
    assert!(after == other_after && after != copies.world.before);
    assert!(copies.workspace_copy_is_loaded());
    copies.restore();
    let (mut neither_written, mut one_written, mut both_written) = (0, 0, 0);
    let run = |options: &[String]| {
        copies.restore();
        copies.world.trace(&strace, options, args)
    };
    crash_walk(is_transcript_lock, run, |traced, is_new_step| {
        let killed_at = traced.text(traced.calls.len().saturating_sub(3));
        let (loaded, other) = copies.bytes();
        let count = match (loaded == after, other == after) {
            (false, false) => &mut neither_written,
            (false, true) => &mut one_written,
            (true, true) => &mut both_written,
            (true, false) => panic!("the loaded copy was written first, killed at\n{killed_at}"),
        };
        *count += usize::from(is_new_step);
        for bytes in [&loaded, &other] {
            assert!(*bytes == after || *bytes == copies.world.before, "killed at\n{killed_at}");
        }
        assert!(copies.workspace_copy_is_loaded(), "killed at\n{killed_at}");
        copies.world.succeeds(args);
        // The strategy proposes the same overlay again, so a repeated append adds a second one.
        let history = loaded.strip_suffix(b"\n]\n").unwrap();
        let (loaded_now, other) = copies.bytes();
        assert!(loaded_now == other, "killed at\n{killed_at}");
        assert!(loaded_now == after || loaded_now.starts_with(history), "killed at\n{killed_at}");
        assert!(copies.workspace_copy_is_loaded());
        for folder in [copies.other.parent().unwrap(), &copies.world.folder] {
            let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with(ORPHAN)));
        }
    });
    assert!(
        neither_written > 5 && one_written >= 2 && both_written >= 2,
        "{neither_written} neither, {one_written} one, {both_written} both"
    );
}

#[test]
fn crash_at_any_call_of_an_append_leaves_two_valid_copies() {
    crash_at_every_call(Copies::new(), &APPEND);
}

#[test]
fn crash_at_any_call_of_a_reset_leaves_two_valid_copies() {
    let copies = Copies::new();
    copies.world.succeeds(&APPEND);
    crash_at_every_call(copies, &RESET);
}
