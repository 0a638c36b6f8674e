//! A death at any call of a command that makes or replaces files leaves what was there before, or what there is after, and
//! nothing else that the next run does not remove. And what ends a command is on disk with its name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::strace::{Call, Ran, Strace};
use crate::world::{NOW, PLUGINS, World, host};
use crate::{locks, tally};

/// A transcript that is not JP's, and its overlays by their new name and the one of version 0.1.0.
const SESSION: &str = "place/s.jsonl";
const BESIDE: &str = ".s.jsonl.jp-compact";
const OLD: &str = "s.jsonl.jp-compact.json";
/// How the names of files begin that a process makes before they have their own.
const IN_THE_MAKING: [&str; 3] = [".events.json.jpc-", ".jpc-fork-", ".new-"];

/// What lies in a folder: files by their paths, and none for a folder.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// A command, and the folder that it changes something in.
struct Scene {
    world: World,
    folder: PathBuf,
    words: Vec<String>,
}

impl Scene {
    /// A session of Claude Code's in a folder of its own, and these words; `place` stands for the folder.
    fn new(words: &str) -> Self {
        let world = World::new();
        let folder = world.root.join("place");
        fs::create_dir(&folder).unwrap();
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/core/tests/formats/samples");
        fs::copy(samples.join("claude-code.jsonl"), folder.join("s.jsonl")).unwrap();
        Self { world, folder, words: words.split(' ').map(str::to_owned).collect() }
    }

    /// Runs other words, which prepare the scene.
    fn with(self, words: &str) -> Self {
        let output = self.command(&words.split(' ').collect::<Vec<_>>()).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        self
    }

    fn command<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let mut command = Command::new(host());
        command.env_clear().args(words.iter().map(AsRef::as_ref));
        self.world.surround(&mut command);
        command
    }

    fn trace(&self, strace: &Strace, options: &[String]) -> Ran {
        strace.run(&self.world.root, options, |command| {
            command.arg(host()).args(&self.words);
            self.world.surround(command);
        })
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        gather(&self.folder, Path::new(""), &mut tree);
        tree
    }

    /// The files as they were; what is in the making stays.
    fn restore(&self, before: &Tree) {
        for (path, bytes) in self.tree().iter().rev().filter(|(path, _)| !is_in_the_making(path)) {
            match bytes {
                Some(_) => fs::remove_file(self.folder.join(path)).unwrap(),
                None => fs::remove_dir_all(self.folder.join(path)).unwrap(),
            }
        }
        for (path, bytes) in before {
            match bytes {
                Some(bytes) => fs::write(self.folder.join(path), bytes).unwrap(),
                None => fs::create_dir_all(self.folder.join(path)).unwrap(),
            }
        }
    }

    /// What an undisturbed run makes of it.
    #[track_caller]
    fn run(&self) -> Tree {
        let output = self.command(&self.words).output().unwrap();
        assert!(output.status.success(), "{:?}: {}", self.words, String::from_utf8_lossy(&output.stderr));
        self.tree()
    }

    /// Whether a call is the first by which something may change.
    fn begins(&self, call: &Call) -> bool {
        let makes = call.name.starts_with("mkdir") || call.has_flag("O_EXCL");
        locks(call)
            || makes && call.paths().iter().any(|path| self.world.root.join(path).starts_with(&self.folder))
    }

    /// Checks what a death left, and that the next run works and cleans up.
    #[track_caller]
    fn check(&self, ran: &Ran, before: &Tree, after: &Tree, is_between: &dyn Fn(&Tree) -> bool) -> bool {
        let died_at = || ran.text(ran.calls.len().saturating_sub(3));
        let (making, found): (Tree, Tree) =
            self.tree().into_iter().partition(|(path, _)| is_in_the_making(path));
        let is_whole = found == *before || found == *after || is_between(&found);
        assert!(is_whole, "neither before nor after: {:?}, killed at\n{}", found.keys(), died_at());
        let tops: BTreeSet<_> = making.keys().map(|path| path.components().next()).collect();
        assert!(tops.len() <= 1, "{tops:?}, killed at\n{}", died_at());
        self.restore(before);
        assert_eq!(self.run(), *after, "after a death at\n{}", died_at());
        self.restore(before);
        found == *after
    }

    /// Dies at each call from the first by which something changes to the exit. How often before, and how often behind.
    #[track_caller]
    fn walk(&self, is_between: &dyn Fn(&Tree, &Tree, &Tree) -> bool) -> Option<(usize, usize)> {
        let strace = Strace::find(host())?;
        let before = self.tree();
        let after = self.run();
        assert_ne!(before, after);
        self.restore(&before);
        // A run may come to something by other calls than the others, for its threads and strategies take their time.
        (0..5).find_map(|_| self.walk_as(&strace, &before, &after, is_between)).or_else(|| {
            panic!("no run came to its end by the same calls as others: {:?}", self.words);
        })
    }

    /// The same along the calls of one run; none where others go another way.
    #[track_caller]
    fn walk_as(
        &self,
        strace: &Strace,
        before: &Tree,
        after: &Tree,
        is_between: &dyn Fn(&Tree, &Tree, &Tree) -> bool,
    ) -> Option<(usize, usize)> {
        let whole = self.trace(strace, &[]);
        assert!(whole.status.success(), "{}", whole.stderr);
        self.restore(before);
        let start = whole.find(0, "call that changes something", |call| self.begins(call));
        let steps: Vec<&str> = whole.calls[start..].iter().map(|call| &*call.name).collect();
        let owned = |calls: &[Call]| -> HashMap<String, usize> {
            tally(calls).into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let mut earlier = owned(&whole.calls[..start]);
        let mut missing: BTreeSet<usize> = (0..steps.len()).collect();
        let (mut in_vain, mut old, mut new) = (0, 0, 0);
        while let Some(&step) = missing.first() {
            if in_vain > 12 {
                return None;
            }
            let name = steps[step];
            let inside = steps[..=step].iter().filter(|other| **other == name).count();
            let ordinal = earlier.get(name).copied().unwrap_or_default() + inside;
            let ran =
                self.trace(strace, &["-e".into(), format!("inject={name}:signal=SIGKILL:when={ordinal}")]);
            in_vain += 1;
            let mut is_new_place = false;
            // How many calls of a name go before differs with the timing of a strategy: each run says where it died.
            if let Some(start) = ran.calls.iter().position(|call| self.begins(call)) {
                earlier = owned(&ran.calls[..start]);
                let died: Vec<&str> = ran.calls[start..].iter().map(|call| &*call.name).collect();
                is_new_place = ran.status.signal() == Some(9)
                    && steps.starts_with(&died)
                    && missing.remove(&(died.len() - 1));
            }
            let is_new = self.check(&ran, before, after, &|found| is_between(found, before, after));
            if is_new_place {
                in_vain = 0;
                *(if is_new { &mut new } else { &mut old }) += 1;
            }
        }
        Some((old, new))
    }
}

fn gather(folder: &Path, below: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let path = below.join(entry.unwrap().file_name());
        if folder.join(&path).is_dir() {
            gather(folder, &path, tree);
            tree.insert(path, None);
        } else {
            let bytes = fs::read(folder.join(&path)).unwrap();
            tree.insert(path, Some(bytes));
        }
    }
}

fn is_in_the_making(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().to_str().unwrap();
        IN_THE_MAKING.iter().any(|prefix| name.starts_with(prefix))
    })
}

fn append() -> String {
    format!("{SESSION} --strategy quick --keep-last 0 --sandbox=contained --trust-dir {PLUGINS} --now {NOW}")
}

#[track_caller]
fn check(scene: &Scene, least: (usize, usize)) {
    let Some((old, new)) = scene.walk(&|_, _, _| false) else { return };
    assert!(old >= least.0 && new >= least.1, "{old} before, {new} after");
}

#[test]
fn a_death_at_any_call_leaves_the_old_or_the_new_sidecar() {
    check(&Scene::new(&append()), (10, 4));
    check(&Scene::new(&append()).with(&append()), (10, 4));
}

#[test]
fn a_death_at_any_call_leaves_the_old_name_of_a_sidecar_or_the_new_one_that_counts() {
    let scene = Scene::new(&append()).with(&append());
    fs::rename(scene.folder.join(BESIDE), scene.folder.join(OLD)).unwrap();
    let walked = scene.walk(&|found, before, after| {
        // Both: the new one, which counts, is whole, and the other one is as it was.
        let at = |tree: &Tree, name: &str| tree.get(Path::new(name)).cloned();
        at(found, BESIDE) == at(after, BESIDE) && at(found, OLD) == at(before, OLD) && found.len() == 3
    });
    let Some((old, new)) = walked else { return };
    assert!(old >= 10 && new >= 3, "{old} before, {new} after");
}

#[test]
fn a_death_at_any_call_of_a_reset_leaves_the_sidecar_or_none() {
    check(&Scene::new(&format!("{SESSION} --reset")).with(&append()), (5, 2));
    let half = Scene::new(&format!("{SESSION} --reset=1")).with(&append()).with(&append());
    check(&half, (10, 4));
}

#[test]
fn a_death_at_any_call_of_a_reset_brings_no_older_overlays_back() {
    let scene = Scene::new(&format!("{SESSION} --reset")).with(&append());
    fs::copy(scene.folder.join(BESIDE), scene.folder.join(OLD)).unwrap();
    // The old name goes first.
    let walked = scene.walk(&|found, before, _| {
        let at = |tree: &Tree, name: &str| tree.get(Path::new(name)).cloned();
        at(found, BESIDE) == at(before, BESIDE) && at(found, OLD).is_none()
    });
    assert!(walked.is_none_or(|(old, new)| old >= 5 && new >= 1));
}

#[test]
fn a_death_at_any_call_of_an_import_leaves_all_of_it_or_nothing() {
    check(&Scene::new(&format!("import {SESSION} --to place/imported")), (10, 2));
}

#[test]
fn a_death_at_any_call_of_a_print_leaves_all_of_it_or_nothing() {
    let words = format!("print {SESSION} --compacted --as source -o place/small.jsonl");
    check(&Scene::new(&words).with(&append()), (5, 2));
}

/// A batch of two transcripts of which nothing is left out, so that no strategy works.
fn batch() -> Scene {
    let words = "batch place/in --out place/out --report place/report.json --junit place/junit.xml --keep-last 99 \
                 --sandbox=contained --now";
    let scene = Scene::new(&format!("{words} {NOW}"));
    fs::create_dir_all(scene.folder.join("in/deep")).unwrap();
    for name in ["in/a.jsonl", "in/deep/b.jsonl"] {
        fs::copy(scene.folder.join("s.jsonl"), scene.folder.join(name)).unwrap();
    }
    scene
}

/// Threads are killed by the calls that only they make: no other thread's are counted then.
#[test]
fn a_death_of_a_batch_leaves_every_view_whole_or_none() {
    let Some(strace) = Strace::find(host()) else { return };
    let scene = batch();
    let before = scene.tree();
    let whole = scene.trace(&strace, &["-f".into()]);
    assert!(whole.status.success(), "{}", whole.stderr);
    let after = scene.tree();
    let views = |tree: &Tree| -> Tree {
        tree.iter()
            .filter(|(path, _)| path.starts_with("out"))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    };
    let expected = views(&after);
    assert_eq!(expected.values().flatten().count(), 2, "{:?}", after.keys());
    let names = ["mkdir", "fsync", "fchmod", "rename", "renameat2", "linkat", "unlink", "flock"];
    let mut deaths = 0;
    for name in names.into_iter().filter(|name| whole.of_all.iter().any(|call| call.name == *name)) {
        for ordinal in 1.. {
            scene.restore(&before);
            let inject = format!("inject={name}:signal=SIGKILL:when={ordinal}");
            let ran = scene.trace(&strace, &["-f".into(), "-e".into(), inject]);
            if ran.status.signal() != Some(9) {
                break;
            }
            deaths += 1;
            for (path, bytes) in views(&scene.tree()).iter().filter(|(path, _)| !is_in_the_making(path)) {
                assert_eq!(expected.get(path), Some(bytes), "{} after {name} {ordinal}", path.display());
            }
            let report = scene.folder.join("report.json");
            let text = fs::read_to_string(&report).unwrap_or_else(|_| "{}".into());
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    }
    assert!(deaths >= 10, "{deaths}");
    scene.restore(&before);
    let last = scene.run();
    assert_eq!(views(&last), expected, "what was in the making is gone");
    assert!(!last.keys().any(|path| is_in_the_making(path)), "{:?}", last.keys());
}

/// Checks that a file got its name after its bytes were on disk, and that its folder was synced behind that.
#[track_caller]
fn check_synced(calls: &[Call], path: &Path) {
    let text = || calls.iter().map(|call| format!("  {call:?}\n")).collect::<String>();
    let named = calls.iter().position(|call| {
        let names = call.name.starts_with("rename") || call.name == "linkat";
        names && call.paths().last().is_some_and(|last| last == path)
    });
    let named = named.unwrap_or_else(|| panic!("{} was never named:\n{}", path.display(), text()));
    let made = calls[named].paths()[0].clone();
    let synced = |call: &Call, file: &Path| call.name == "fsync" && call.file(0) == Some(file);
    assert!(calls[..named].iter().any(|call| synced(call, &made)), "{}:\n{}", made.display(), text());
    let folder = path.parent().unwrap();
    assert!(calls[named..].iter().any(|call| synced(call, folder)), "{}:\n{}", folder.display(), text());
}

#[test]
fn what_a_command_wrote_is_on_disk_with_its_name() {
    let Some(strace) = Strace::find(host()) else { return };
    let print = Scene::new(&format!("print {SESSION} --as source -o place/copy.jsonl"));
    let ran = print.trace(&strace, &["-f".into()]);
    assert!(ran.status.success(), "{}", ran.stderr);
    check_synced(&ran.of_all, &print.folder.join("copy.jsonl"));
    let batch = batch();
    let ran = batch.trace(&strace, &["-f".into()]);
    assert!(ran.status.success(), "{}", ran.stderr);
    for name in ["out/a.jsonl", "out/deep/b.jsonl", "report.json", "junit.xml"] {
        check_synced(&ran.of_all, &batch.folder.join(name));
    }
    // The folders that were made for them, too.
    for folder in ["", "out"] {
        let folder = batch.folder.join(folder);
        let is_synced = |call: &Call| {
            call.name == "fsync" && call.file(0).is_some_and(|file| file.components().eq(folder.components()))
        };
        assert!(ran.of_all.iter().any(is_synced), "{}", folder.display());
    }
}
