//! Dry runs: for each kind of problem, a dry run reports the same files and the same errors as the real run.
//! It writes nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::bad_input::unprivileged;
use crate::support::{CommandOutput, Conversation, World};

/// Adds a problem to `set`, next to two good conversations. Returns the file whose lock the test holds, if
/// any.
type Problem = fn(&World) -> Option<File>;
/// The exit code of the error and a part of its message. `None` if the problem is not an error.
type Expected = Option<(u64, &'static str)>;
/// The path and the error of each transcript, as a command reports them.
type Errors = Vec<(String, Value)>;

const SESSION_SAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/host/transcripts/tests/formats/samples/claude-code.jsonl");
const CONVERSATION: &str = ".jp/conversations/17738399468-talk";

fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn add_conversation(world: &World, name: &str) {
    world.write_conversation(name, &Conversation::bulky(5));
}

fn add_session(world: &World) {
    fs::create_dir(world.path("set/x")).unwrap();
    fs::copy(SESSION_SAMPLE, world.path("set/x/session.jsonl")).unwrap();
}

/// Every problem with its expected error.
const PROBLEMS: &[(&str, Problem, Expected)] = &[
    ("nothing", |_| None, None),
    ("broken", |world| no_lock(world.write_events("set/x", b"[{")), Some((4, "failed to read"))),
    ("timeless", without_timestamp, Some((4, "failed to append"))),
    ("symlink", link_to_events, Some((4, "is a symlink"))),
    ("read-only file", read_only_file, None),
    ("read-only folder", read_only_folder, Some((4, "failed to create a temporary file"))),
    ("unreadable file", unreadable_file, Some((4, "failed to"))),
    ("locked", locked, Some((5, "is locked by"))),
    ("locked by JP", locked_by_jp, Some((5, "is locked by"))),
    ("lock folder is a symlink", symlinked_lock_folder, Some((4, "failed to lock"))),
    ("lock folder cannot be created", unwritable_lock_folder, Some((4, "failed to lock"))),
    ("copies that disagree", two_copies, Some((5, "two copies of the conversation disagree"))),
    ("named twice", two_paths_to_one_folder, None),
    ("another agent's session", agent_session, None),
    (
        "read-only folder of another agent's session",
        agent_session_in_read_only_folder,
        Some((4, "failed to create a temporary file")),
    ),
    ("sidecar is a symlink", symlinked_sidecar, Some((4, "symlink"))),
];

fn set_mode(path: impl AsRef<Path>, mode: u32) -> Option<File> {
    chmod(path, mode);
    None
}

fn add_link(target: &str, path: impl AsRef<Path>) -> Option<File> {
    symlink(target, path).unwrap();
    None
}

/// Discards the result of a problem that holds no lock.
fn no_lock<T>(_: T) -> Option<File> {
    None
}

fn without_timestamp(world: &World) -> Option<File> {
    no_lock(world.write_conversation("set/x", &Conversation::bulky(5).element(json!({"type": "note"}))))
}

fn link_to_events(world: &World) -> Option<File> {
    add_conversation(world, "real");
    fs::create_dir(world.path("set/x")).unwrap();
    add_link("../../real/events.json", world.path("set/x/events.json"))
}

fn read_only_file(world: &World) -> Option<File> {
    add_conversation(world, "set/x");
    set_mode(world.path("set/x/events.json"), 0o444)
}

fn read_only_folder(world: &World) -> Option<File> {
    add_conversation(world, "set/x");
    set_mode(world.path("set/x"), 0o555)
}

fn unreadable_file(world: &World) -> Option<File> {
    add_conversation(world, "set/x");
    set_mode(world.path("set/x/events.json"), 0o000)
}

fn locked(world: &World) -> Option<File> {
    add_conversation(world, "set/x");
    hold_lock(&world.path("set/x"))
}

fn locked_by_jp(world: &World) -> Option<File> {
    add_conversation(world, &format!("set/{CONVERSATION}"));
    hold_lock(&world.write_file("set/.jp/locks/jp-c17738399468.lock", b""))
}

fn hold_lock(path: &Path) -> Option<File> {
    let file = File::open(path).unwrap();
    file.lock().unwrap();
    Some(file)
}

fn symlinked_lock_folder(world: &World) -> Option<File> {
    add_conversation(world, &format!("set/{CONVERSATION}"));
    fs::create_dir(world.path("elsewhere")).unwrap();
    add_link("../../elsewhere", world.path("set/.jp/locks"))
}

fn unwritable_lock_folder(world: &World) -> Option<File> {
    add_conversation(world, &format!("set/{CONVERSATION}"));
    set_mode(world.path("set/.jp"), 0o555)
}

fn two_copies(world: &World) -> Option<File> {
    add_conversation(world, &format!("set/{CONVERSATION}"));
    world.write_file("set/.jp/.id", b"otvo8\n");
    let other = world.home(".local/share/jp/workspace/set-otvo8/conversations/17738399468-talk");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("events.json"), Conversation::with_turns(3).bytes()).unwrap();
    None
}

fn two_paths_to_one_folder(world: &World) -> Option<File> {
    add_conversation(world, "set/x");
    add_link("x", world.path("set/y"))
}

fn agent_session(world: &World) -> Option<File> {
    add_session(world);
    None
}

fn agent_session_in_read_only_folder(world: &World) -> Option<File> {
    add_session(world);
    set_mode(world.path("set/x"), 0o555)
}

fn symlinked_sidecar(world: &World) -> Option<File> {
    add_session(world);
    world.write_file("elsewhere.json", b"{}");
    add_link("../../elsewhere.json", world.path("set/x/.session.jsonl.jp-compact"))
}

/// Creates two good conversations and this problem. The returned file, if any, holds a lock.
fn world(problem: Problem) -> (World, Option<File>) {
    let world = World::new();
    add_conversation(&world, "set/a");
    add_conversation(&world, "set/b");
    let lock = problem(&world);
    (world, lock)
}

/// Runs without root's privileges, because root ignores permissions. Returns `None` where that is not
/// possible.
fn run(world: &World, args: &[&str]) -> Option<CommandOutput> {
    let output = world.finish(&mut unprivileged(args, world)?);
    Some(output)
}

/// Returns the contents of every file below the current folder and the home by path, except caches and state. An
/// unreadable file counts as empty.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for root in [world.path(""), world.home("")] {
        collect_files(&root, &mut contents);
    }
    contents.retain(|path, _| !path.contains("/.cache/") && !path.contains("/.local/state/"));
    contents
}

fn collect_files(folder: &Path, contents: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            collect_files(&path, contents);
        } else {
            contents.insert(path.display().to_string(), fs::read(&path).unwrap_or_default());
        }
    }
}

const STRIP: [&str; 6] = ["-s", "strip-tools", "--keep-last", "1", "--lock-timeout", "0s"];

/// Returns the path of each transcript in a batch report, with the code, message and causes of its error.
fn batch_errors(output: &CommandOutput, world: &World) -> Errors {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path_and_error =
        |entry: &Value| (entry["path"].as_str().unwrap().to_owned(), normalize_error(&entry["error"], world));
    report["transcripts"].as_array().unwrap().iter().map(path_and_error).collect()
}

/// Like `batch_errors`, for the output of a command with transcripts as arguments.
fn single_errors(output: &CommandOutput, world: &World) -> Errors {
    let path_and_error = |line: &Value| {
        (world.normalize(line["path"].as_str().unwrap()), normalize_error(&line["error"], world))
    };
    output.lines().iter().map(path_and_error).collect()
}

/// Removes the parts that differ between runs: the temporary folder, and the process that holds a lock.
fn normalize_error(error: &Value, world: &World) -> Value {
    serde_json::from_str(&world.normalize(&error.to_string())).unwrap()
}

/// The outcome of a dry or a real run.
struct Outcome {
    code: Option<i32>,
    errors: Errors,
    stderr: String,
}

/// Checks that a dry run and the real run have the same outcome, and that they report the expected error.
#[track_caller]
fn check(
    name: &str,
    problem: Problem,
    expect: Expected,
    args: &[&str],
    errors: fn(&CommandOutput, &World) -> Errors,
) {
    let [dry_run, real_run] = [&["-n"][..], &[]].map(|extra| {
        let (world, lock) = world(problem);
        let before = files(&world);
        let output = run(&world, &[args, &STRIP, &["--json"], extra].concat());
        drop(lock);
        // The temporary folder cannot be removed while one of its folders is read-only.
        for folder in ["set/x", "set/.jp"].map(|folder| world.path(folder)) {
            if folder.is_dir() {
                chmod(folder, 0o755);
            }
        }
        let output = output?;
        assert!(extra.is_empty() || files(&world) == before, "{name}: a dry run wrote something");
        Some(Outcome { code: output.code, errors: errors(&output, &world), stderr: output.stderr })
    });
    // Root may do everything, and its privileges cannot be dropped here, so the problem cannot be set up.
    let (Some(dry_run), Some(real_run)) = (dry_run, real_run) else { return };
    assert_eq!(
        (dry_run.code, &dry_run.errors),
        (real_run.code, &real_run.errors),
        "{name}: {args:?}\n{}\n{}",
        dry_run.stderr,
        real_run.stderr
    );
    let failed: Vec<_> = dry_run.errors.iter().filter(|(_, error)| !error.is_null()).collect();
    match (expect, failed.as_slice()) {
        (None, []) => {}
        (Some((code, message)), [(_, error)]) => {
            assert_eq!(error["code"], code, "{name}: {error}");
            assert!(error["message"].as_str().unwrap().contains(message), "{name}: {error}");
        }
        (_, failed) => panic!("{name}: {failed:?}"),
    }
}

#[test]
fn batch_dry_run_reports_the_errors_of_the_real_run() {
    for (name, problem, expect) in PROBLEMS {
        check(name, *problem, *expect, &["batch", "set"], batch_errors);
    }
}

#[test]
fn single_transcript_dry_run_reports_the_errors_of_the_real_run() {
    for (name, problem, expect) in PROBLEMS {
        let (setup, _lock) = world(*problem);
        let names = ["set/x", &format!("set/{CONVERSATION}"), "set/x/session.jsonl"];
        let problem_path = names.into_iter().rfind(|name| {
            let path = setup.path(name);
            path.is_file() || path.join("events.json").symlink_metadata().is_ok()
        });
        restore_modes(&setup);
        let problem_path = problem_path.map(str::to_owned);
        let args: Vec<&str> = ["set/a"].into_iter().chain(problem_path.as_deref()).chain(["set/b"]).collect();
        check(name, *problem, *expect, &args, single_errors);
    }
}

fn restore_modes(world: &World) {
    for folder in ["set/x", "set/.jp"].map(|folder| world.path(folder)) {
        if folder.is_dir() {
            chmod(folder, 0o755);
        }
    }
}

#[test]
fn dry_run_with_out_folder_reports_the_errors_of_the_real_run() {
    let problems: [(&str, Problem, Expected); 6] = [
        ("nothing", |_| None, None),
        ("symlink", link_to_events, None),
        ("lock", locked, None),
        (
            "existing view",
            |world| no_lock(world.write_file("views/a/events.json", b"mine")),
            Some((4, "already exists")),
        ),
        (
            "file in place of a folder",
            |world| no_lock(world.write_file("views/a", b"mine")),
            Some((4, "failed to write the view")),
        ),
        ("broken", |world| no_lock(world.write_events("set/x", b"[{")), Some((4, "failed to read"))),
    ];
    for (name, problem, expect) in problems {
        check(name, problem, expect, &["batch", "set", "--out", "views"], batch_errors);
    }
    let read_only = |world: &World| {
        fs::create_dir(world.path("views")).unwrap();
        set_mode(world.path("views"), 0o555)
    };
    let (world, _) = self::world(read_only);
    for extra in [&["-n"][..], &[]] {
        let Some(output) =
            run(&world, &[&["batch", "set", "--out", "views", "--json"][..], &STRIP, extra].concat())
        else {
            break;
        };
        let errors = batch_errors(&output.exits(19), &world);
        assert!(errors.iter().all(|(_, error)| error["code"] == 4), "{errors:?}");
    }
    chmod(world.path("views"), 0o755);
}

#[test]
fn reset_dry_run_reports_the_errors_of_the_real_run() {
    let add_compacted = |world: &World| {
        let policy = json!({"policy": "omit"});
        let compaction = json!({"from_turn": 0, "to_turn": 1, "tool_calls": policy});
        world.write_conversation("talk", &Conversation::bulky(5).compaction(compaction));
    };
    let problems: [(Problem, i32); 4] = [
        (|_| None, 0),
        (|world| hold_lock(&world.path("talk")), 5),
        (|world| set_mode(world.path("talk"), 0o555), 4),
        (
            |world| {
                fs::rename(world.path("talk/events.json"), world.path("events.json")).unwrap();
                add_link("../events.json", world.path("talk/events.json"))
            },
            4,
        ),
    ];
    for (index, (problem, code)) in problems.into_iter().enumerate() {
        for extra in [&["--dry-run"][..], &[]] {
            let world = World::new();
            add_compacted(&world);
            let lock = problem(&world);
            let before = files(&world);
            let output = run(&world, &[&["talk", "--reset", "--lock-timeout", "0s"], extra].concat());
            drop(lock);
            chmod(world.path("talk"), 0o755);
            let Some(output) = output else { return };
            assert_eq!(output.code, Some(code), "{index} {extra:?}: {}", output.stderr);
            assert!(extra.is_empty() || files(&world) == before);
        }
    }
}
