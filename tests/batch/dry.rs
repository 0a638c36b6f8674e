//! A dry run finds the same files and the same errors as the run itself, kind of trouble by kind of trouble, and writes
//! nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::bad_input::unprivileged;
use crate::support::{Conversation, Ran, World};

/// What is wrong in `set`, next to two good conversations. A lock is held while the file is.
type Trouble = fn(&World) -> Option<File>;
/// The code of the error, and a part of its message; none where it is no trouble.
type Failed = Option<(u64, &'static str)>;
/// What a command reports of each transcript: its path, and its error.
type Told = Vec<(String, Value)>;

const FOREIGN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/host/core/tests/formats/samples/claude-code.jsonl");
const ID: &str = ".jp/conversations/17738399468-talk";

fn mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn talk(world: &World, name: &str) {
    world.conversation(name, &Conversation::bulky(5));
}

fn session(world: &World) {
    fs::create_dir(world.path("set/x")).unwrap();
    fs::copy(FOREIGN, world.path("set/x/session.jsonl")).unwrap();
}

/// Every kind, the code of its error, and what the error says; none where it is no trouble.
const TROUBLES: &[(&str, Trouble, Failed)] = &[
    ("nothing", |_| None, None),
    ("broken", |world| drop_of(world.raw("set/x", b"[{")), Some((4, "failed to read"))),
    ("timeless", timeless, Some((4, "failed to append"))),
    ("symlink", link_to_events, Some((4, "is a symlink"))),
    ("read-only file", read_only_file, None),
    ("read-only folder", read_only_folder, Some((4, "failed to make a temporary file"))),
    ("unreadable file", unreadable_file, Some((4, "failed to"))),
    ("locked", locked, Some((5, "is locked by"))),
    ("locked by JP", locked_by_jp, Some((5, "is locked by"))),
    ("a link for a folder of locks", linked_locks, Some((4, "failed to lock"))),
    ("no place for locks", no_place_for_locks, Some((4, "failed to lock"))),
    ("two copies that disagree", two_copies, Some((5, "two copies of the conversation disagree"))),
    ("named twice", named_twice, None),
    ("another agent's", foreign, None),
    ("a read-only folder of another agent", foreign_read_only, Some((4, "failed to make a temporary file"))),
    ("overlays that are a link", foreign_linked, Some((4, "symlink"))),
];

fn forbid(path: impl AsRef<Path>, bits: u32) -> Option<File> {
    mode(path, bits);
    None
}

fn link(to: &str, path: impl AsRef<Path>) -> Option<File> {
    symlink(to, path).unwrap();
    None
}

fn drop_of<T>(_: T) -> Option<File> {
    None
}

fn timeless(world: &World) -> Option<File> {
    drop_of(world.conversation("set/x", &Conversation::bulky(5).element(json!({"type": "note"}))))
}

fn link_to_events(world: &World) -> Option<File> {
    talk(world, "real");
    fs::create_dir(world.path("set/x")).unwrap();
    link("../../real/events.json", world.path("set/x/events.json"))
}

fn read_only_file(world: &World) -> Option<File> {
    talk(world, "set/x");
    forbid(world.path("set/x/events.json"), 0o444)
}

fn read_only_folder(world: &World) -> Option<File> {
    talk(world, "set/x");
    forbid(world.path("set/x"), 0o555)
}

fn unreadable_file(world: &World) -> Option<File> {
    talk(world, "set/x");
    forbid(world.path("set/x/events.json"), 0o000)
}

fn locked(world: &World) -> Option<File> {
    talk(world, "set/x");
    held(&world.path("set/x"))
}

fn locked_by_jp(world: &World) -> Option<File> {
    talk(world, &format!("set/{ID}"));
    held(&world.file("set/.jp/locks/jp-c17738399468.lock", b""))
}

fn held(path: &Path) -> Option<File> {
    let file = File::open(path).unwrap();
    file.lock().unwrap();
    Some(file)
}

fn linked_locks(world: &World) -> Option<File> {
    talk(world, &format!("set/{ID}"));
    fs::create_dir(world.path("elsewhere")).unwrap();
    link("../../elsewhere", world.path("set/.jp/locks"))
}

fn no_place_for_locks(world: &World) -> Option<File> {
    talk(world, &format!("set/{ID}"));
    forbid(world.path("set/.jp"), 0o555)
}

fn two_copies(world: &World) -> Option<File> {
    talk(world, &format!("set/{ID}"));
    world.file("set/.jp/.id", b"otvo8\n");
    let other = world.home(".local/share/jp/workspace/set-otvo8/conversations/17738399468-talk");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("events.json"), Conversation::of(3).bytes()).unwrap();
    None
}

fn named_twice(world: &World) -> Option<File> {
    talk(world, "set/x");
    link("x", world.path("set/y"))
}

fn foreign(world: &World) -> Option<File> {
    session(world);
    None
}

fn foreign_read_only(world: &World) -> Option<File> {
    session(world);
    forbid(world.path("set/x"), 0o555)
}

fn foreign_linked(world: &World) -> Option<File> {
    session(world);
    world.file("elsewhere.json", b"{}");
    link("../../elsewhere.json", world.path("set/x/.session.jsonl.jp-compact"))
}

/// A world with this trouble in it, and what was to be freed afterwards.
fn world(trouble: Trouble) -> (World, Option<File>) {
    let world = World::new();
    talk(&world, "set/a");
    talk(&world, "set/b");
    let held = trouble(&world);
    (world, held)
}

/// Runs unprivileged, so that permissions mean something; None where that cannot be had.
fn run(world: &World, words: &[&str]) -> Option<Ran> {
    let ran = world.finish(&mut unprivileged(words, world)?);
    Some(ran)
}

/// Every file below the current folder and the home, and what is in it. What cannot be read counts by its name.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for root in [world.path(""), world.home("")] {
        walk(&root, &mut found);
    }
    found.retain(|path, _| !path.contains("/.cache/") && !path.contains("/.local/state/"));
    found
}

fn walk(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            walk(&path, found);
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap_or_default());
        }
    }
}

const STRIP: [&str; 6] = ["-s", "strip-tools", "--keep-last", "1", "--lock-timeout", "0s"];

/// What a batch reports of each transcript: its path, and the code, the message and the causes of its error.
fn of_batch(ran: &Ran, world: &World) -> Told {
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let one = |told: &Value| (told["path"].as_str().unwrap().to_owned(), plain(&told["error"], world));
    report["transcripts"].as_array().unwrap().iter().map(one).collect()
}

/// The same of a command that was given single transcripts.
fn of_each(ran: &Ran, world: &World) -> Told {
    let one = |line: &Value| (world.plain(line["path"].as_str().unwrap()), plain(&line["error"], world));
    ran.lines().iter().map(one).collect()
}

/// Worlds differ in their paths, and runs in the process that holds a lock.
fn plain(error: &Value, world: &World) -> Value {
    serde_json::from_str(&world.plain(&error.to_string())).unwrap()
}

#[track_caller]
fn check(name: &str, trouble: Trouble, expect: Failed, words: &[&str], told: fn(&Ran, &World) -> Told) {
    let [dry, real] = [&["-n"][..], &[]].map(|more| {
        let (world, held) = world(trouble);
        let before = files(&world);
        let ran = run(&world, &[words, &STRIP, &["--json"], more].concat());
        drop(held);
        // A folder that cannot be written to is not removed with the others.
        for folder in ["set/x", "set/.jp"].map(|folder| world.path(folder)) {
            if folder.is_dir() {
                mode(folder, 0o755);
            }
        }
        let ran = ran?;
        assert!(more.is_empty() || files(&world) == before, "{name}: a dry run wrote something");
        Some((ran.code, told(&ran, &world), ran.stderr))
    });
    // Nothing can be forbidden to root.
    let (Some(dry), Some(real)) = (dry, real) else { return };
    assert_eq!((dry.0, &dry.1), (real.0, &real.1), "{name}: {words:?}\n{}\n{}", dry.2, real.2);
    let failed: Vec<_> = dry.1.iter().filter(|(_, error)| !error.is_null()).collect();
    match (expect, failed.as_slice()) {
        (None, []) => {}
        (Some((code, says)), [(_, error)]) => {
            assert_eq!(error["code"], code, "{name}: {error}");
            assert!(error["message"].as_str().unwrap().contains(says), "{name}: {error}");
        }
        (_, failed) => panic!("{name}: {failed:?}"),
    }
}

#[test]
fn a_batch_meets_the_same_trouble() {
    for (name, trouble, expect) in TROUBLES {
        check(name, *trouble, *expect, &["batch", "set"], of_batch);
    }
}

#[test]
fn single_transcripts_meet_the_same_trouble() {
    for (name, trouble, expect) in TROUBLES {
        let (probe, _held) = world(*trouble);
        let names = ["set/x", &format!("set/{ID}"), "set/x/session.jsonl"];
        let third = names.into_iter().rfind(|name| {
            let path = probe.path(name);
            path.is_file() || path.join("events.json").symlink_metadata().is_ok()
        });
        mode_back(&probe);
        let third = third.map(str::to_owned);
        let words: Vec<&str> = ["set/a"].into_iter().chain(third.as_deref()).chain(["set/b"]).collect();
        check(name, *trouble, *expect, &words, of_each);
    }
}

fn mode_back(world: &World) {
    for folder in ["set/x", "set/.jp"].map(|folder| world.path(folder)) {
        if folder.is_dir() {
            mode(folder, 0o755);
        }
    }
}

#[test]
fn views_for_another_folder_meet_the_same_trouble() {
    let troubles: [(&str, Trouble, Failed); 6] = [
        ("nothing", |_| None, None),
        ("a symlink is read", link_to_events, None),
        ("a lock is not needed", locked, None),
        (
            "a view is there",
            |world| drop_of(world.file("views/a/events.json", b"mine")),
            Some((4, "there is something at")),
        ),
        (
            "a file is in the way",
            |world| drop_of(world.file("views/a", b"mine")),
            Some((4, "failed to write the view")),
        ),
        ("broken", |world| drop_of(world.raw("set/x", b"[{")), Some((4, "failed to read"))),
    ];
    for (name, trouble, expect) in troubles {
        check(name, trouble, expect, &["batch", "set", "--out", "views"], of_batch);
    }
    let read_only = |world: &World| {
        fs::create_dir(world.path("views")).unwrap();
        forbid(world.path("views"), 0o555)
    };
    let (world, _) = self::world(read_only);
    for more in [&["-n"][..], &[]] {
        let Some(ran) =
            run(&world, &[&["batch", "set", "--out", "views", "--json"][..], &STRIP, more].concat())
        else {
            break;
        };
        let told = of_batch(&ran.exits(19), &world);
        assert!(told.iter().all(|(_, error)| error["code"] == 4), "{told:?}");
    }
    mode(world.path("views"), 0o755);
}

#[test]
fn a_reset_meets_the_same_trouble() {
    let over = |world: &World| {
        let policy = json!({"policy": "omit"});
        let compaction = json!({"from_turn": 0, "to_turn": 1, "tool_calls": policy});
        world.conversation("talk", &Conversation::bulky(5).compaction(compaction));
    };
    let troubles: [(Trouble, i32); 4] = [
        (|_| None, 0),
        (|world| held(&world.path("talk")), 5),
        (|world| forbid(world.path("talk"), 0o555), 4),
        (
            |world| {
                fs::rename(world.path("talk/events.json"), world.path("events.json")).unwrap();
                link("../events.json", world.path("talk/events.json"))
            },
            4,
        ),
    ];
    for (number, (trouble, code)) in troubles.into_iter().enumerate() {
        for more in [&["--dry-run"][..], &[]] {
            let world = World::new();
            over(&world);
            let held = trouble(&world);
            let before = files(&world);
            let ran = run(&world, &[&["talk", "--reset", "--lock-timeout", "0s"], more].concat());
            drop(held);
            mode(world.path("talk"), 0o755);
            let Some(ran) = ran else { return };
            assert_eq!(ran.code, Some(code), "{number} {more:?}: {}", ran.stderr);
            assert!(more.is_empty() || files(&world) == before);
        }
    }
}
