//! A folder with one file of each kind of bad input. Each bad file is reported on one line. The others are
//! compacted. `JP_COMPACT_TEST_BATCH=10000` sets the size of the folder.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use serde_json::json;

use crate::set::{Set, folder_name};
use crate::support::{Conversation, World, is_root};

fn folder_size() -> usize {
    std::env::var("JP_COMPACT_TEST_BATCH").map_or(200, |count| count.parse().unwrap())
}

/// Adds one bad file of each kind. Returns the expected error text by folder name.
fn add_bad_files(set: &Set) -> BTreeMap<&'static str, &'static str> {
    let conversation = Conversation::bulky(6);
    let bytes = conversation.bytes();
    let mut expected = BTreeMap::new();
    let mut add_events = |folder: &'static str, bytes: &[u8], message: &'static str| {
        set.world.write_events(&format!("set/{folder}"), bytes);
        expected.insert(folder, message);
    };
    add_events("bad-binary", b"\x00\xff\x7fELF\x01\x02", "byte 0");
    add_events("bad-empty", b"", "the file is empty");
    add_events("bad-text", b"not JSON\n", "not a JSON value");
    add_events("bad-object", b"{}\n", "expected a JSON array");
    add_events("bad-truncated", &bytes[..bytes.len() / 2], "the input ends");
    add_events("bad-deep", &[&b"[".repeat(200)[..], &b"]".repeat(200)].concat(), "nest deeper");
    add_events("bad-huge", &[b"[\"", &b"x".repeat(8 << 20)[..]].concat(), "the input ends");
    let text = String::from_utf8(bytes.clone()).unwrap();
    let (head, tail) = text.split_once("It is read.").unwrap();
    add_events("bad-utf-8", &[head.as_bytes(), b"\xff", tail.as_bytes()].concat(), "UTF-8");
    let invalid_overlay = conversation.clone().compaction(json!({"from_turn": "zero", "to_turn": 1}));
    add_events("bad-overlay", &invalid_overlay.bytes(), "a malformed `compaction`");
    fs::create_dir_all(set.path("set/bad-folder/events.json")).unwrap();
    expected.insert("bad-folder", "is not a conversation");
    fs::create_dir(set.path("set/bad-loop")).unwrap();
    symlink("events.json", set.path("set/bad-loop/events.json")).unwrap();
    expected.insert("bad-loop", "symbolic links");
    fs::create_dir(set.path("set/bad-link")).unwrap();
    symlink("../a0/events.json", set.path("set/bad-link/events.json")).unwrap();
    expected.insert("bad-link", "symlink");
    fs::create_dir(set.path("set/bad-nowhere")).unwrap();
    symlink("gone.json", set.path("set/bad-nowhere/events.json")).unwrap();
    expected.insert("bad-nowhere", "failed to find a transcript");
    fs::create_dir(set.path("set/bad-pipe")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, set.path("set/bad-pipe/events.json"), 0o600.into()).unwrap();
    expected.insert("bad-pipe", "a named pipe");
    fs::create_dir(set.path("set/bad-socket")).unwrap();
    drop(UnixListener::bind(set.path("set/bad-socket/events.json")).unwrap());
    expected.insert("bad-socket", "failed to open");
    symlink(".", set.path("set/here")).unwrap();
    set.world.write_events("set/bad-mode", &bytes);
    fs::set_permissions(set.path("set/bad-mode/events.json"), Permissions::from_mode(0o0)).unwrap();
    expected.insert("bad-mode", "denied");
    expected
}

/// Returns the command without the capabilities that let root read every file.
pub(crate) fn unprivileged(args: &[&str], world: &World) -> Option<Command> {
    if !is_root() {
        return Some(world.command(args));
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search", "--inh-caps=-all"]);
    command.arg(assert_cmd::cargo::cargo_bin!("jp-compact")).args(args);
    world.isolate(&mut command);
    Command::new("setpriv").arg("--version").output().is_ok().then_some(command)
}

#[test]
fn each_bad_file_is_reported_and_the_others_are_compacted() {
    let set = Set::new(folder_size());
    let mut expected = add_bad_files(&set);
    let args = Set::arguments(&["--report", "r.json", "--junit", "j.xml"]);
    let mut command = unprivileged(&args, &set.world).unwrap_or_else(|| {
        // Root can read the file, so it would be compacted.
        fs::remove_dir_all(set.path("set/bad-mode")).unwrap();
        expected.remove("bad-mode");
        set.world.command(&args)
    });
    let before = set.files("set");
    let output = set.world.finish(&mut command).exits(19);
    assert_eq!(set.files("set"), before, "a file was left in the folder");
    let report = set.report("r.json");
    let (good_count, bad_count) = (set.transcripts.len() as u64, expected.len() as u64);
    assert_eq!((report.total.compacted, report.total.failed), (good_count, bad_count), "{}", output.stderr);
    let failed: Vec<_> = report.transcripts.iter().filter(|entry| entry.error.is_some()).collect();
    assert_eq!(
        failed.iter().map(|entry| folder_name(entry)).collect::<Vec<_>>(),
        expected.keys().copied().collect::<Vec<_>>()
    );
    for entry in failed {
        let error = entry.error.as_ref().unwrap();
        let text = format!("{} {:?}", error.message, error.causes);
        assert!(text.contains(expected[folder_name(entry)]), "{}: {text}", entry.path);
        assert_eq!(error.code, 4);
        let lines: Vec<_> = output.stderr.lines().filter(|line| line.contains(&entry.path)).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    assert_eq!(output.stderr.lines().count() as u64, bad_count + 1);
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
    let junit = fs::read_to_string(set.path("j.xml")).unwrap();
    assert_eq!(junit.matches("<error ").count() as u64, bad_count);
    assert_eq!(junit.matches("<testcase ").count() as u64, bad_count + good_count);
}
