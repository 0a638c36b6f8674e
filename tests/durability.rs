//! Durability of writes: a write is complete or absent, and is on disk before it is reported. The tests run
//! the real executable under strace. They check the order of its system calls, kill it before each one
//! that names a file, and make calls fail.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests start processes")]

mod copies;
mod crash_walk;
mod crashes;
mod forks;
mod strace;
mod world;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crash_walk::crash_walk;
use serde_json::{Value, json};
use strace::{Call, Strace, TracedRun, report_skipped};
use world::{APPEND, BUNDLED, ORPHAN, PLUGINS, RESET, World, host, turns};

/// Returns whether a call locks a transcript. A strategy's private directory is locked as well, and is excluded.
fn is_transcript_lock(call: &Call) -> bool {
    let other_locks = ["/tmp/jp-compact-", "/.new-"];
    let is_private =
        call.file(0).is_some_and(|file| other_locks.iter().any(|part| file.to_str().unwrap().contains(part)));
    call.name == "flock" && !is_private
}

/// Returns the index of the call that took the lock.
fn lock_call(traced: &TracedRun) -> Option<usize> {
    traced.calls.iter().position(|call| is_transcript_lock(call) && call.returned() == Some(0))
}

/// Checks the order of an undisturbed write. `lock` is the locked path, and `report` is the stream of the
/// report.
#[track_caller]
fn check_order(world: &World, traced: &TracedRun, lock: &Path, report: &str) {
    assert!(traced.status.success(), "{}", traced.stderr);
    let (events, report) = (world.events(), world.root.join(report));

    let locked = traced.find(0, "lock", is_transcript_lock);
    assert_eq!(traced.calls[locked].file(0), Some(lock));
    assert!(traced.calls[locked].has_flag("LOCK_EX") && traced.calls[locked].returned() == Some(0));
    let descriptor = &traced.calls[locked].args[0];

    let created = traced.find(locked, "exclusive create", |call| call.has_flag("O_EXCL"));
    let temporary = traced.calls[created].opened().unwrap();
    assert_eq!(temporary.parent(), Some(&*world.folder));
    let name = temporary.file_name().unwrap().to_str().unwrap();
    let (pid, random) = name.strip_prefix(ORPHAN).unwrap().split_once('-').unwrap();
    assert_eq!(pid.parse(), Ok(traced.calls[0].pid), "{name}");
    assert!(random.len() >= 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");

    let synced = traced.find(created, "fsync of the temporary file", |call| {
        call.name == "fsync" && call.file(0) == Some(temporary)
    });
    let written: usize = traced.calls[created..synced]
        .iter()
        .filter(|call| call.writes() && call.file(0) == Some(temporary))
        .map(|call| call.returned().unwrap())
        .sum();
    assert_eq!(written, world.bytes().len());

    let renamed = traced.find(synced, "rename", |call| call.name.starts_with("rename"));
    assert_eq!(traced.calls[renamed].paths(), [temporary, &*events]);
    let folder_synced = traced.find(renamed, "fsync of the folder", |call| call.name == "fsync");
    assert_eq!(traced.calls[folder_synced].file(0), Some(&*world.folder));

    traced.find(folder_synced, "release of the lock", |call| {
        call.name == "close" && call.args[0] == *descriptor
    });
    let is_report = |call: &Call| call.writes() && call.file(0) == Some(&*report);
    let reported = traced.find(0, "report", is_report);
    assert!(reported > folder_synced, "reported before the sync:\n{}", traced.text(locked));

    // Nothing else happens: each step occurs once, no other file of the folder is opened for writing, no file
    // is removed, and no process is started under the lock.
    assert_eq!(traced.count(|call| call.name == "fsync"), 2);
    assert_eq!(traced.count(|call| call.name.starts_with("rename")), 1);
    assert_eq!(traced.count(|call| call.writes() && call.file(0) == Some(temporary)), {
        let written = &traced.calls[created..synced];
        written.iter().filter(|call| call.writes()).count()
    });
    for call in &traced.calls {
        let writable = call.has_flag("O_WRONLY") || call.has_flag("O_RDWR");
        let is_in_folder = call.opened().is_some_and(|path| path.parent() == Some(&*world.folder));
        assert!(!(writable && is_in_folder) || call.opened() == Some(temporary), "{call:?}");
        let is_removal = ["unlink", "unlinkat", "truncate", "ftruncate"].contains(&&*call.name);
        assert!(
            !is_removal || call.paths().iter().all(|path| path.parent() != Some(&*world.folder)),
            "{call:?}"
        );
    }
    let starts_process = |call: &&Call| {
        let is_thread = call.has_flag("CLONE_THREAD");
        ["clone", "clone3", "fork", "vfork"].contains(&&*call.name) && !is_thread
    };
    assert_eq!(
        traced.calls[locked..].iter().find(starts_process),
        None,
        "a process was started under the lock"
    );
}

fn follow_children() -> Vec<String> {
    vec!["-f".into()]
}

#[test]
fn append_is_on_disk_before_it_is_reported() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let traced = world.trace(&strace, &follow_children(), &BUNDLED);
    assert!(traced.stderr.contains("1 overlay appended"), "{}", traced.stderr);
    check_order(&world, &traced, &world.folder, "stderr");
}

#[test]
fn append_is_on_disk_before_it_is_reported_as_json() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let traced = world.trace(&strace, &follow_children(), &[&APPEND[..], &["--json"]].concat());
    let line: Value = serde_json::from_str(&traced.stdout).unwrap();
    assert_eq!(line["overlays"].as_array().unwrap().len(), 1);
    check_order(&world, &traced, &world.folder, "stdout");
}

#[test]
fn write_in_a_workspace_takes_jps_lock() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::at("ws/.jp/conversations/17738399468-review", &turns(5, 200));
    let traced = world.trace(&strace, &follow_children(), &APPEND);
    check_order(&world, &traced, &world.root.join("ws/.jp/locks/jp-c17738399468.lock"), "stderr");
}

#[test]
fn large_conversation_is_written_in_the_same_order() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::at("conversation", &turns(5, 700_000));
    let traced = world.trace(&strace, &follow_children(), &APPEND);
    check_order(&world, &traced, &world.folder, "stderr");
    assert!(
        traced.count(|call| call.writes() && call.file(0).is_some_and(|path| world.is_temporary(path))) > 1
    );
}

#[test]
fn reset_is_on_disk_before_it_is_reported() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    world.succeeds(&APPEND);
    let traced = world.trace(&strace, &follow_children(), &RESET);
    assert!(traced.stderr.contains("1 overlay removed"), "{}", traced.stderr);
    check_order(&world, &traced, &world.folder, "stderr");
    assert_eq!(world.bytes(), world.before);
}

#[test]
fn dry_run_creates_and_writes_no_file() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let traced = world.trace(&strace, &follow_children(), &[&APPEND[..], &["--dry-run"]].concat());
    assert!(traced.status.success(), "{}", traced.stderr);
    assert_eq!(traced.count(|call| call.name == "fsync" || call.name.starts_with("rename")), 0);
    assert_eq!(traced.count(|call| call.has_flag("O_EXCL")), 0);
    assert_eq!(world.bytes(), world.before);
}

/// Kills the executable before the call with this name and ordinal.
fn kill(world: &World, strace: &Strace, args: &[&str], name: &str, ordinal: usize) -> TracedRun {
    world.trace(strace, &["-e".into(), format!("inject={name}:signal=SIGKILL:when={ordinal}")], args)
}

/// Checks the state after a crash: the old or the new file exists, and the next run succeeds and cleans up.
#[track_caller]
fn check_survived(world: &World, traced: &TracedRun, args: &[&str], after: &[u8]) {
    let bytes = world.bytes();
    let killed_at = || traced.text(traced.calls.len().saturating_sub(3));
    assert!(
        bytes == world.before || bytes == after,
        "the file is neither the old nor the new one, killed at\n{}",
        killed_at()
    );
    serde_json::from_slice::<Value>(&bytes).unwrap();
    assert!(world.orphans() <= 1, "killed at\n{}", killed_at());
    world.succeeds(args);
    assert_eq!(world.names(), ["events.json"], "killed at\n{}", killed_at());
    if bytes == world.before {
        assert_eq!(world.bytes(), after);
    } else {
        // A second reset finds nothing to remove, and the strategy `quick` returns the same result again.
        let history = bytes.strip_suffix(b"\n]\n").unwrap();
        assert!(world.bytes().starts_with(history), "killed at\n{}", killed_at());
    }
}

fn count_by_name(calls: &[Call]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for call in calls {
        *counts.entry(&*call.name).or_default() += 1;
    }
    counts
}

/// Kills a run at some calls before the lock, and at every call that names a file from there to the exit.
fn crash_at_every_call(world: &World, args: &[&str]) {
    let Some(strace) = Strace::find(host()) else { return };
    let after = world.after(args);
    let recorded = world.trace(&strace, &[], args);
    world.restore();
    let lock = lock_call(&recorded).unwrap();
    for index in (1..lock).step_by(lock / 12) {
        let name = &recorded.calls[index].name;
        let ordinal = count_by_name(&recorded.calls[..=index])[&**name];
        let traced = kill(world, &strace, args, name, ordinal);
        check_survived(world, &traced, args, &after);
        world.restore();
    }

    let (mut orphaned, mut old, mut new) = (0, 0, 0);
    let run = |options: &[String]| {
        world.restore();
        world.trace(&strace, options, args)
    };
    crash_walk(is_transcript_lock, run, |traced, is_new_step| {
        if is_new_step {
            orphaned += world.orphans();
            *(if world.bytes() == after { &mut new } else { &mut old }) += 1;
        }
        check_survived(world, traced, args, &after);
    });
    assert!(orphaned >= 3 && old >= 10 && new >= 5, "{orphaned} orphans, {old} old, {new} new");
}

#[test]
fn crash_at_any_call_of_an_append_leaves_a_valid_file() {
    crash_at_every_call(&World::new(), &APPEND);
}

#[test]
fn crash_at_any_call_of_a_reset_leaves_a_valid_file() {
    let mut world = World::new();
    world.succeeds(&APPEND);
    world.before = world.bytes();
    crash_at_every_call(&world, &RESET);
}

#[test]
fn temporary_file_of_a_running_process_is_kept() {
    let world = World::new();
    let temporary_file = format!("{ORPHAN}{}-0123456789abcdef", std::process::id());
    fs::write(world.folder.join(&temporary_file), "[").unwrap();
    world.succeeds(&APPEND);
    assert!(world.names().contains(&temporary_file));
}

/// The call that fails, and its error.
struct Fault {
    matches: fn(&World, &Call) -> bool,
    error: &'static str,
}

/// Runs with one failing call. strace selects the call by its ordinal. The ordinal may vary, so several runs are tried.
#[track_caller]
fn run_with_fault(world: &World, strace: &Strace, args: &[&str], fault: &Fault) -> TracedRun {
    let mut recorded = world.trace(strace, &[], args);
    for _ in 0..10 {
        world.restore();
        let index = recorded.find(0, "call to fail", |call| (fault.matches)(world, call));
        let name = &recorded.calls[index].name;
        let ordinal = count_by_name(&recorded.calls[..=index])[&**name];
        let inject = format!("inject={name}:error={}:when={ordinal}", fault.error);
        let traced = world.trace(strace, &["-e".into(), inject], args);
        let injected = traced.calls.iter().find(|call| call.is_injected());
        if injected.is_some_and(|call| (fault.matches)(world, call)) {
            return traced;
        }
        world.restore();
        recorded = world.trace(strace, &[], args);
    }
    panic!("the call did not fail in any run");
}

/// Checks an error before the rename: it is printed once with the file's name, and the old file is unchanged.
#[track_caller]
fn check_error(world: &World, traced: &TracedRun, action: &str, cause: &str) {
    let path = world.events();
    let expect = format!("error: failed to {action} {}\n\nCaused by:\n  {cause} (os error", path.display());
    assert!(traced.stderr.starts_with(&expect), "expected {expect}\ngot {}", traced.stderr);
    assert_eq!(traced.stderr.matches("error:").count(), 1, "{}", traced.stderr);
    assert_eq!(traced.stdout, "");
    assert_eq!(traced.status.code(), Some(4));
    assert_eq!(world.bytes(), world.before);
    assert_eq!(world.names(), ["events.json"]);
    assert_eq!(traced.count(|call| call.name.starts_with("rename") && call.returned() == Some(0)), 0);
}

fn check_fault(action: &str, cause: &str, fault: &Fault) {
    let Some(strace) = Strace::find(host()) else { return };
    let mut world = World::new();
    let traced = run_with_fault(&world, &strace, &APPEND, fault);
    check_error(&world, &traced, action, cause);
    world.succeeds(&APPEND);
    world.before = world.bytes();
    let traced = run_with_fault(&world, &strace, &RESET, fault);
    check_error(&world, &traced, action, cause);
}

fn is_fsync_of_the_file(world: &World, call: &Call) -> bool {
    call.name == "fsync" && call.file(0).is_some_and(|path| world.is_temporary(path))
}

fn is_fsync_of_the_folder(world: &World, call: &Call) -> bool {
    call.name == "fsync" && call.file(0) == Some(&*world.folder)
}

fn is_write_to_the_file(world: &World, call: &Call) -> bool {
    call.writes() && call.file(0).is_some_and(|path| world.is_temporary(path))
}

fn is_create(world: &World, call: &Call) -> bool {
    call.has_flag("O_EXCL") && call.paths().iter().any(|path| world.is_temporary(path))
}

#[test]
fn failed_fsync_is_an_error_and_is_not_retried() {
    let Some(strace) = Strace::find(host()) else { return };
    let fault = Fault { matches: is_fsync_of_the_file, error: "EIO" };
    let world = World::new();
    let traced = run_with_fault(&world, &strace, &APPEND, &fault);
    assert_eq!(traced.count(|call| call.name == "fsync"), 1, "{}", traced.text(lock_call(&traced).unwrap()));
    check_fault("write a new version of", "Input/output error", &fault);
}

#[test]
fn failed_rename_is_an_error() {
    let matches = |_: &World, call: &Call| call.name.starts_with("rename");
    check_fault("replace", "Permission denied", &Fault { matches, error: "EACCES" });
}

#[test]
fn failed_write_is_an_error() {
    let fault = Fault { matches: is_write_to_the_file, error: "ENOSPC" };
    check_fault("write a new version of", "No space left on device", &fault);
}

#[test]
fn failed_creation_of_the_temporary_file_is_an_error() {
    let action = "create a temporary file with the same owner next to";
    check_fault(action, "Read-only file system", &Fault { matches: is_create, error: "EROFS" });
    let matches = |world: &World, call: &Call| {
        call.name == "fchmod" && call.file(0).is_some_and(|path| world.is_temporary(path))
    };
    check_fault(action, "Operation not permitted", &Fault { matches, error: "EPERM" });
}

#[test]
fn failure_of_a_later_write_is_an_error() {
    let Some(strace) = Strace::find(host()) else { return };
    let mut world = World::at("conversation", &turns(5, 60_000));
    world.succeeds(&APPEND);
    world.before = world.bytes();
    // A reset writes only this file, so the ordinals of its writes are the same in every run.
    for ordinal in 1.. {
        let inject = format!("inject=write:error=ENOSPC:when={ordinal}");
        let traced = world.trace(&strace, &["-e".into(), inject], &RESET);
        let Some(failed) = traced.calls.iter().find(|call| call.is_injected()) else { break };
        if !is_write_to_the_file(&world, failed) {
            assert!(ordinal > 2, "several writes were expected:\n{}", traced.text(0));
            return;
        }
        check_error(&world, &traced, "write a new version of", "No space left on device");
    }
    panic!("the report was not written");
}

#[test]
fn interrupted_write_is_continued() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let after = world.after(&APPEND);
    let traced =
        run_with_fault(&world, &strace, &APPEND, &Fault { matches: is_write_to_the_file, error: "EINTR" });
    assert!(traced.status.success(), "{}", traced.stderr);
    assert_eq!(world.bytes(), after);
}

#[test]
fn failed_fsync_of_the_folder_is_an_error() {
    let Some(strace) = Strace::find(host()) else { return };
    let fault = Fault { matches: is_fsync_of_the_folder, error: "EIO" };
    let mut world = World::new();
    for args in [&APPEND[..], &RESET[..]] {
        let after = world.after(args);
        let traced = run_with_fault(&world, &strace, args, &fault);
        let expect = format!(
            "error: {} was written, but its folder could not be synced\n\nCaused by:\n  Input/output error",
            world.events().display()
        );
        assert!(traced.stderr.starts_with(&expect), "{}", traced.stderr);
        assert!(
            !traced.stderr.contains("appended") && !traced.stderr.contains("removed"),
            "{}",
            traced.stderr
        );
        assert_eq!(traced.status.code(), Some(4));
        assert_eq!(traced.count(|call| call.name == "fsync"), 2);
        assert_eq!((world.bytes(), world.names()), (after.clone(), vec!["events.json".to_owned()]));
        world.before = after;
    }
}

#[test]
fn failure_is_reported_in_json() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let args = [&APPEND[..], &["--json"]].concat();
    let traced =
        run_with_fault(&world, &strace, &args, &Fault { matches: is_fsync_of_the_folder, error: "EIO" });
    let line: Value = serde_json::from_str(&traced.stdout).unwrap();
    assert_eq!((&line["error"]["code"], &line["overlays"]), (&json!(4), &Value::Null));
}

#[test]
fn leftover_temporary_file_is_removed_by_the_next_run() {
    let Some(strace) = Strace::find(host()) else { return };
    let world = World::new();
    let options =
        ["rename", "unlink"].map(|call| format!("inject=?{call},?{call}at,?{call}at2:error=EACCES"));
    let options: Vec<_> = options.into_iter().flat_map(|inject| ["-e".into(), inject]).collect();
    let traced = world.trace(&strace, &options, &APPEND);
    assert_eq!(traced.status.code(), Some(4), "{}", traced.stderr);
    assert_eq!((world.bytes(), world.orphans()), (world.before.clone(), 1));
    world.succeeds(&APPEND);
    assert_eq!(world.names(), ["events.json"]);
}

/// A script that fills a small file system. There is space for the old file, but not for the new one. Prints the
/// exit code and the names in the folder.
const FULL_DISK: &str = r#"
set -e
mount -t tmpfs -o size=256k none "$1"
mkdir "$1/conversation"
cp "$2" "$1/conversation/events.json"
head -c 1000000 /dev/zero > "$1/fill" 2>/dev/null || true
shift 2
code=0
"$@" "$PWD/disk/conversation" || code=$?
cmp "$PWD/disk/conversation/events.json" "$PWD/original"
echo "$code" $(ls -A "$PWD/disk/conversation")
"#;

#[test]
fn full_disk_is_an_error() {
    let world = World::at("conversation", &turns(5, 2_000));
    let [disk, original] = ["disk", "original"].map(|name| world.root.join(name));
    fs::create_dir(&disk).unwrap();
    fs::write(&original, &world.before).unwrap();
    let unshare = |namespaces: &[&str], script: &str| {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", script, "sh"]).arg(&disk).arg(&original).arg(host());
        command.args(["--sandbox=contained", "--trust-dir", PLUGINS]).args(APPEND);
        world.set_environment(&mut command);
        command.output()
    };
    // A process without privileges needs a user namespace as well.
    let namespaces = [&["--mount"][..], &["--map-root-user", "--mount"][..]].into_iter().find(|namespaces| {
        let output = unshare(namespaces, r#"mount -t tmpfs -o size=256k none "$1""#);
        output.is_ok_and(|output| output.status.success())
    });
    let Some(namespaces) = namespaces else {
        report_skipped("a small file system cannot be mounted here");
        return;
    };
    let output = unshare(namespaces, FULL_DISK).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4 events.json\n", "{stderr}");
    let expect = format!(
        "error: failed to write a new version of {}\n\nCaused by:\n  No space left on device (os error 28)\n",
        disk.join("conversation/events.json").display()
    );
    assert_eq!(stderr, expect);
}

/// Returns the timestamps of the overlays in file order.
fn overlay_timestamps(world: &World) -> Vec<String> {
    let events: Vec<Value> = serde_json::from_slice(&world.bytes()).unwrap();
    let overlays = events.iter().filter(|event| event["type"] == "compaction");
    overlays.map(|event| event["timestamp"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn overlay_written_after_the_clock_ran_backwards_still_wins() {
    let world = World::new();
    world.succeeds(&["--strategy", "strip-tools", "--now", "2026-03-01T00:00:00Z"]);
    world.succeeds(&[
        "--strategy",
        "strip-tools:mode=omit",
        "--strategy",
        "strip-reasoning",
        "--now",
        "2019-01-01T00:00:00Z",
    ]);
    // The second run has one overlay for both strategies.
    let expect = ["2026-03-01 00:00:00.0", "2026-03-01 00:00:00.000000001"];
    assert_eq!(overlay_timestamps(&world), expect);
    let view = world.view();
    let calls = view.iter().filter(|event| event["type"] == "tool_call_request");
    // The default keeps three of five turns.
    assert_eq!(calls.count(), 3, "{view:#?}");

    world.succeeds(&["--strategy", "quick", "--now", "2019-01-01T00:00:00Z"]);
    assert_eq!(overlay_timestamps(&world)[2], "2026-03-01 00:00:00.000000002");
    world.succeeds(&["--strategy", "quick", "--now", "2026-03-01T00:00:00.000000009Z"]);
    assert_eq!(overlay_timestamps(&world)[3], "2026-03-01 00:00:00.000000009");
}
