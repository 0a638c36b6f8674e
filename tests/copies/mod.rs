//! Two copies of one conversation are written together: the copy that JP would not load first. A death between the two
//! leaves two valid copies, and JP's choice is the same at every moment.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::strace::Strace;
use crate::world::{APPEND, ORPHAN, RESET, World, host, turns};

/// The user's copy of a conversation whose copy in the workspace is the newer one.
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

    /// JP loads the newer copy, and the user's one of two that are equally new.
    fn loads_the_workspace(&self) -> bool {
        let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        modified(self.world.events()) > modified(self.other.clone())
    }
}

/// Kills a run before each call from the lock to the end.
fn walk(mut copies: Copies, words: &[&str]) {
    let Some(strace) = Strace::find(host()) else { return };
    (copies.world.before, _) = copies.bytes();
    copies.restore();
    copies.world.succeeds(words);
    let (after, same) = copies.bytes();
    assert!(after == same && after != copies.world.before);
    assert!(copies.loads_the_workspace());
    copies.restore();
    let whole = copies.world.trace(&strace, &[], words);
    let first = whole.find(0, "lock", crate::locks);
    let (mut neither, mut one, mut both) = (0, 0, 0);
    for at in first..whole.calls.len() {
        copies.restore();
        let name = &whole.calls[at].name;
        let ordinal = whole.calls[..=at].iter().filter(|call| call.name == *name).count();
        let options = ["-e".into(), format!("inject={name}:signal=SIGKILL:when={ordinal}")];
        let ran = copies.world.trace(&strace, &options, words);
        let died_at = ran.text(ran.calls.len().saturating_sub(3));
        let (loaded, other) = copies.bytes();
        match (loaded == after, other == after) {
            (false, false) => neither += 1,
            (false, true) => one += 1,
            (true, true) => both += 1,
            (true, false) => panic!("the loaded copy was written first, killed at\n{died_at}"),
        }
        for bytes in [&loaded, &other] {
            assert!(*bytes == after || *bytes == copies.world.before, "killed at\n{died_at}");
        }
        assert!(copies.loads_the_workspace(), "killed at\n{died_at}");
        copies.world.succeeds(words);
        let (loaded, other) = copies.bytes();
        assert!(loaded == other, "killed at\n{died_at}");
        assert!(copies.loads_the_workspace());
        for folder in [copies.other.parent().unwrap(), &copies.world.folder] {
            let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| !name.to_str().unwrap().starts_with(ORPHAN)));
        }
    }
    assert!(neither > 5 && one >= 2 && both >= 2, "{neither} neither, {one} one, {both} both");
}

#[test]
fn a_death_at_any_call_of_a_reset_leaves_two_valid_copies() {
    let copies = Copies::new();
    copies.world.succeeds(&APPEND);
    walk(copies, &RESET);
}
