//! Crashes of commands that create or replace files. A crash at any system call leaves the state before or after the
//! command, or a valid state between them. The next run removes any remaining temporary file. A finished file is synced
//! before it gets its name, and its folder is synced afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::crash_walk::crash_walk;
use crate::is_transcript_lock;
use crate::strace::{Call, Strace, TracedRun};
use crate::world::{NOW, PLUGINS, World, host};

/// A transcript of another agent, its sidecar, and the sidecar's name in version 0.1.0.
const SESSION: &str = "place/s.jsonl";
const SIDECAR: &str = ".s.jsonl.jp-compact";
const OLD_SIDECAR: &str = "s.jsonl.jp-compact.json";
/// Prefixes of temporary names that a process uses before the final name.
const TEMPORARY_PREFIXES: [&str; 3] = [".events.json.jpc-", ".jpc-fork-", ".new-"];

/// The contents of a folder: bytes by path, `None` for a folder.
type FolderContents = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// A command, and the folder that it changes.
struct Scenario {
    world: World,
    folder: PathBuf,
    args: Vec<String>,
}

impl Scenario {
    /// Copies a session of Claude Code into the folder `place`. `args` are the arguments of the command.
    fn new(args: &str) -> Self {
        let world = World::new();
        let folder = world.root.join("place");
        fs::create_dir(&folder).unwrap();
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples");
        fs::copy(samples.join("claude-code.jsonl"), folder.join("s.jsonl")).unwrap();
        Self { world, folder, args: args.split(' ').map(str::to_owned).collect() }
    }

    /// Runs another command first.
    fn after(self, args: &str) -> Self {
        let output = self.command(&args.split(' ').collect::<Vec<_>>()).output().unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        self
    }

    fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(host());
        command.env_clear().args(args.iter().map(AsRef::as_ref));
        self.world.set_environment(&mut command);
        command
    }

    fn trace(&self, strace: &Strace, options: &[String]) -> TracedRun {
        strace.run(&self.world.root, options, |command| {
            command.arg(host()).args(&self.args);
            self.world.set_environment(command);
        })
    }

    fn contents(&self) -> FolderContents {
        let mut tree = FolderContents::new();
        collect_files(&self.folder, Path::new(""), &mut tree);
        tree
    }

    /// Restores the files. Temporary files remain.
    fn restore(&self, before: &FolderContents) {
        for (path, bytes) in self.contents().iter().rev().filter(|(path, _)| !is_temporary(path)) {
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

    /// Runs the command without a crash. Returns the contents of the folder afterwards.
    #[track_caller]
    fn run(&self) -> FolderContents {
        let output = self.command(&self.args).output().unwrap();
        assert!(output.status.success(), "{:?}: {}", self.args, String::from_utf8_lossy(&output.stderr));
        self.contents()
    }

    /// Returns whether a call can be the first change: it locks a transcript, or creates a file or a folder.
    fn is_first_change(&self, call: &Call) -> bool {
        let creates = call.name.starts_with("mkdir") || call.has_flag("O_EXCL");
        is_transcript_lock(call)
            || creates && call.paths().iter().any(|path| self.world.root.join(path).starts_with(&self.folder))
    }

    /// Checks the folder after a crash, and that the next run succeeds and cleans up.
    #[track_caller]
    fn check(
        &self,
        traced: &TracedRun,
        before: &FolderContents,
        after: &FolderContents,
        is_valid_intermediate: &dyn Fn(&FolderContents) -> bool,
    ) -> bool {
        let killed_at = || traced.text(traced.calls.len().saturating_sub(3));
        let (temporary, remaining): (FolderContents, FolderContents) =
            self.contents().into_iter().partition(|(path, _)| is_temporary(path));
        let is_valid = remaining == *before || remaining == *after || is_valid_intermediate(&remaining);
        assert!(is_valid, "neither before nor after: {:?}, killed at\n{}", remaining.keys(), killed_at());
        let temporary_roots: BTreeSet<_> = temporary.keys().map(|path| path.components().next()).collect();
        assert!(temporary_roots.len() <= 1, "{temporary_roots:?}, killed at\n{}", killed_at());
        self.restore(before);
        assert_eq!(self.run(), *after, "killed at\n{}", killed_at());
        self.restore(before);
        remaining == *after
    }

    /// Kills a run at each call that names a file, from the first change to the exit. Returns how
    /// many crashes left the old state, and how many left the new state.
    #[track_caller]
    fn crash_at_every_call(
        &self,
        is_valid_intermediate: &dyn Fn(&FolderContents, &FolderContents, &FolderContents) -> bool,
    ) -> Option<(usize, usize)> {
        let strace = Strace::find(host())?;
        let before = self.contents();
        let after = self.run();
        assert_ne!(before, after);
        let run = |options: &[String]| {
            self.restore(&before);
            self.trace(&strace, options)
        };
        let (mut old, mut new) = (0, 0);
        crash_walk(
            |call| self.is_first_change(call),
            run,
            |traced, is_new_step| {
                let is_new = self
                    .check(traced, &before, &after, &|found| is_valid_intermediate(found, &before, &after));
                if is_new_step {
                    *(if is_new { &mut new } else { &mut old }) += 1;
                }
            },
        );
        Some((old, new))
    }
}

fn collect_files(folder: &Path, relative: &Path, tree: &mut FolderContents) {
    for entry in fs::read_dir(folder.join(relative)).unwrap() {
        let path = relative.join(entry.unwrap().file_name());
        if folder.join(&path).is_dir() {
            collect_files(folder, &path, tree);
            tree.insert(path, None);
        } else {
            let bytes = fs::read(folder.join(&path)).unwrap();
            tree.insert(path, Some(bytes));
        }
    }
}

fn is_temporary(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().to_str().unwrap();
        TEMPORARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    })
}

fn append_command() -> String {
    format!("{SESSION} --strategy quick --keep-last 0 --sandbox=contained --trust-dir {PLUGINS} --now {NOW}")
}

#[track_caller]
fn check(scenario: &Scenario, minimum: (usize, usize)) {
    let Some((old, new)) = scenario.crash_at_every_call(&|_, _, _| false) else { return };
    assert!(old >= minimum.0 && new >= minimum.1, "{old} before, {new} after");
}

#[test]
fn crash_at_any_call_leaves_the_old_or_the_new_sidecar() {
    check(&Scenario::new(&append_command()), (10, 4));
    check(&Scenario::new(&append_command()).after(&append_command()), (10, 4));
}

#[test]
fn crash_at_any_call_of_a_rename_leaves_a_valid_sidecar() {
    let scenario = Scenario::new(&append_command()).after(&append_command());
    fs::rename(scenario.folder.join(SIDECAR), scenario.folder.join(OLD_SIDECAR)).unwrap();
    let counts = scenario.crash_at_every_call(&|found, before, after| {
        // Both names may exist. The new sidecar takes precedence and is complete. The old one is unchanged.
        let content_of = |tree: &FolderContents, name: &str| tree.get(Path::new(name)).cloned();
        content_of(found, SIDECAR) == content_of(after, SIDECAR)
            && content_of(found, OLD_SIDECAR) == content_of(before, OLD_SIDECAR)
            && found.len() == 3
    });
    let Some((old, new)) = counts else { return };
    assert!(old >= 10 && new >= 3, "{old} before, {new} after");
}

#[test]
fn crash_at_any_call_of_a_reset_leaves_the_state_before_or_after() {
    check(&Scenario::new(&format!("{SESSION} --reset")).after(&append_command()), (5, 2));
    let one_of_two =
        Scenario::new(&format!("{SESSION} --reset=1")).after(&append_command()).after(&append_command());
    check(&one_of_two, (10, 4));
}

#[test]
fn crash_at_any_call_of_a_reset_restores_no_older_overlays() {
    let scenario = Scenario::new(&format!("{SESSION} --reset")).after(&append_command());
    fs::copy(scenario.folder.join(SIDECAR), scenario.folder.join(OLD_SIDECAR)).unwrap();
    // The old name is removed first.
    let counts = scenario.crash_at_every_call(&|found, before, _| {
        let content_of = |tree: &FolderContents, name: &str| tree.get(Path::new(name)).cloned();
        content_of(found, SIDECAR) == content_of(before, SIDECAR) && content_of(found, OLD_SIDECAR).is_none()
    });
    assert!(counts.is_none_or(|(old, new)| old >= 5 && new >= 1));
}

#[test]
fn crash_at_any_call_of_an_import_leaves_all_or_nothing() {
    check(&Scenario::new(&format!("import {SESSION} --to place/imported")), (10, 2));
}

#[test]
fn crash_at_any_call_of_a_print_leaves_all_or_nothing() {
    let args = format!("print {SESSION} --compacted --as source -o place/small.jsonl");
    check(&Scenario::new(&args).after(&append_command()), (5, 2));
}

/// Returns a batch of two transcripts with overlays. It keeps every turn, so no strategy runs. The views differ from the
/// transcripts because of the overlays.
fn batch() -> Scenario {
    let args = "batch place/in --out place/out --report place/report.json --junit place/junit.xml -p default --keep-last 99 \
                 --sandbox=contained -j 1 --now";
    let scenario = Scenario::new(&format!("{args} {NOW}"));
    fs::create_dir_all(scenario.folder.join("in/deep")).unwrap();
    for name in ["in/a.jsonl", "in/deep/b.jsonl"] {
        fs::copy(scenario.folder.join("s.jsonl"), scenario.folder.join(name)).unwrap();
    }
    ["place/in/a.jsonl", "place/in/deep/b.jsonl"]
        .into_iter()
        .fold(scenario, |scenario, path| scenario.after(&append_command().replace(SESSION, path)))
}

/// Returns the part of a tree below a folder.
fn subtree(tree: &FolderContents, folder: &str) -> FolderContents {
    let entries = tree.iter().filter(|(path, _)| path.starts_with(folder));
    entries.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
}

/// Returns the system calls of a batch on its files, from the first call that creates a file. Each is the call's name, and
/// its number among the calls with that name in the same thread. strace counts per thread, and kills at the first match.
fn kill_points(scenario: &Scenario, recorded: &TracedRun) -> BTreeSet<(String, usize)> {
    let is_in_folder = |call: &Call| {
        let files = [call.file(0), call.opened()].into_iter().flatten().map(Path::to_path_buf);
        files.chain(call.paths()).any(|path| scenario.world.root.join(path).starts_with(&scenario.folder))
    };
    let calls = &recorded.all_calls;
    let first = calls.iter().position(|call| call.has_flag("O_CREAT") && is_in_folder(call)).unwrap();
    let mut counts = HashMap::new();
    let mut points = BTreeSet::new();
    for (index, call) in calls.iter().enumerate() {
        let count: &mut usize = counts.entry((call.pid, &call.name)).or_default();
        *count += 1;
        if index >= first && is_in_folder(call) {
            points.insert((call.name.clone(), *count));
        }
    }
    points
}

/// Checks that every file a killed batch left is complete or has a temporary name.
#[track_caller]
fn check_batch_outputs(found: &FolderContents, expected: &FolderContents, killed_at: &str) {
    for (path, bytes) in subtree(found, "out").iter().filter(|(path, _)| !is_temporary(path)) {
        assert_eq!(expected.get(path), Some(bytes), "{} killed at {killed_at}", path.display());
    }
    let text = |name: &str| Some(String::from_utf8(found.get(Path::new(name))?.clone()?).unwrap());
    if let Some(report) = text("report.json") {
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["complete"], true, "killed at {killed_at}");
    }
    if let Some(junit) = text("junit.xml") {
        assert!(junit.trim_end().ends_with("</testsuites>"), "killed at {killed_at}: {junit}");
    }
}

#[test]
fn crash_at_any_call_of_a_batch_leaves_whole_views_and_resumes() {
    let Some(strace) = Strace::find(host()) else { return };
    let scenario = batch();
    let before = scenario.contents();
    let recorded = scenario.trace(&strace, &["-f".into()]);
    assert!(recorded.status.success(), "{}", recorded.stderr);
    assert_eq!(recorded.all_calls.iter().filter(|call| call.name == "execve").count(), 1, "no strategy runs");
    let expected = subtree(&scenario.contents(), "out");
    assert_eq!(expected.values().flatten().count(), 2, "{:?}", expected.keys());
    assert_ne!(expected[Path::new("out/a.jsonl")], before[Path::new("in/a.jsonl")]);
    let resume: Vec<_> = scenario.args.iter().map(String::as_str).chain(["--resume"]).collect();
    let (mut kills, mut states) = (0, BTreeSet::new());
    for (name, ordinal) in kill_points(&scenario, &recorded) {
        scenario.restore(&before);
        let inject = format!("inject={name}:signal=SIGKILL:when={ordinal}");
        let options = ["-f".into(), "-e".into(), format!("trace={name}"), "-e".into(), inject];
        if scenario.trace(&strace, &options).status.signal() != Some(9) {
            // The threads divided the work differently in this run, so no thread made this call so often.
            continue;
        }
        kills += 1;
        let killed_at = format!("{name} {ordinal}");
        let found = scenario.contents();
        assert_eq!(subtree(&found, "in"), subtree(&before, "in"), "killed at {killed_at}");
        check_batch_outputs(&found, &expected, &killed_at);
        let names = found.keys().filter(|path| !is_temporary(path)).cloned();
        states.insert((names.collect::<Vec<_>>(), found.keys().filter(|path| is_temporary(path)).count()));

        let output = scenario.command(&resume).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "killed at {killed_at}: {stderr}");
        let resumed = scenario.contents();
        assert_eq!(subtree(&resumed, "in"), subtree(&before, "in"), "killed at {killed_at}");
        assert_eq!(subtree(&resumed, "out"), expected, "killed at {killed_at}");
        check_batch_outputs(&resumed, &expected, &killed_at);
        assert!(resumed.contains_key(Path::new("report.json")), "killed at {killed_at}");
        let is_leftover = |path: &PathBuf| is_temporary(path) || path.ends_with("report.json.part");
        assert!(!resumed.keys().any(is_leftover), "killed at {killed_at}: {:?}", resumed.keys());
    }
    assert!(kills >= 80 && states.len() >= 8, "{kills} kills, {} states: {states:#?}", states.len());
}

/// Checks that a file was synced before it was renamed or linked to `path`, and that its folder was synced afterwards.
#[track_caller]
fn check_synced(calls: &[Call], path: &Path) {
    let call_list = || calls.iter().map(|call| format!("  {call:?}\n")).collect::<String>();
    let naming_call = calls.iter().position(|call| {
        let gives_name = call.name.starts_with("rename") || call.name == "linkat";
        gives_name && call.paths().last().is_some_and(|last| last == path)
    });
    let naming_call =
        naming_call.unwrap_or_else(|| panic!("{} was never named:\n{}", path.display(), call_list()));
    let temporary = calls[naming_call].paths()[0].clone();
    let is_fsync = |call: &Call, file: &Path| call.name == "fsync" && call.file(0) == Some(file);
    assert!(
        calls[..naming_call].iter().any(|call| is_fsync(call, &temporary)),
        "{}:\n{}",
        temporary.display(),
        call_list()
    );
    let folder = path.parent().unwrap();
    assert!(
        calls[naming_call..].iter().any(|call| is_fsync(call, folder)),
        "{}:\n{}",
        folder.display(),
        call_list()
    );
}

#[test]
fn finished_files_are_on_disk_with_their_names() {
    let Some(strace) = Strace::find(host()) else { return };
    let print = Scenario::new(&format!("print {SESSION} --as source -o place/copy.jsonl"));
    let traced = print.trace(&strace, &["-f".into()]);
    assert!(traced.status.success(), "{}", traced.stderr);
    check_synced(&traced.all_calls, &print.folder.join("copy.jsonl"));
    let batch = batch();
    let traced = batch.trace(&strace, &["-f".into()]);
    assert!(traced.status.success(), "{}", traced.stderr);
    for name in ["out/a.jsonl", "out/deep/b.jsonl", "report.json", "junit.xml"] {
        check_synced(&traced.all_calls, &batch.folder.join(name));
    }
    // The created folders must be synced as well.
    for folder in ["", "out"] {
        let folder = batch.folder.join(folder);
        let is_synced = |call: &Call| {
            call.name == "fsync" && call.file(0).is_some_and(|file| file.components().eq(folder.components()))
        };
        assert!(traced.all_calls.iter().any(is_synced), "{}", folder.display());
    }
    check_synced_before_the_report(&traced, &batch, 1);
}

/// Checks that each folder of the views is synced this often before the report gets its name, and never later.
#[track_caller]
fn check_synced_before_the_report(ran: &TracedRun, batch: &Scenario, times: usize) {
    let calls = &ran.all_calls;
    let report = batch.folder.join("report.json");
    let is_report = |call: &Call| call.name.starts_with("rename") && call.paths().last() == Some(&report);
    let reported = calls.iter().position(is_report).unwrap();
    for folder in ["out", "out/deep"] {
        let folder = batch.folder.join(folder);
        let is_synced = |call: &&Call| call.name == "fsync" && call.file(0) == Some(&folder);
        let count = |calls: &[Call]| calls.iter().filter(is_synced).count();
        assert_eq!((count(&calls[..reported]), count(calls)), (times, times), "{}", folder.display());
    }
}

#[test]
fn resumed_views_are_on_disk_before_the_report() {
    let Some(strace) = Strace::find(host()) else { return };
    let mut batch = batch();
    let (report, part) = (batch.folder.join("report.json"), batch.folder.join("report.json.part"));
    batch.run();
    batch.args.push("--resume".into());
    // The report is complete, so the earlier run has already synced the folders.
    let resumed = batch.trace(&strace, &["-f".into()]);
    assert!(resumed.status.success(), "{}", resumed.stderr);
    check_synced_before_the_report(&resumed, &batch, 0);
    // Makes the partial report of a killed run: the head and two records, one JSON object per line.
    let text = fs::read_to_string(&report).unwrap().replace(",\"transcripts\":[", "}").replace("},\n", "}\n");
    let lines: Vec<&str> = text.lines().take(3).collect();
    fs::write(&part, lines.join("\n") + "\n").unwrap();
    fs::remove_file(&report).unwrap();
    let resumed = batch.trace(&strace, &["-f".into()]);
    assert!(resumed.stderr.contains("2 of them in an earlier run"), "{}", resumed.stderr);
    check_synced_before_the_report(&resumed, &batch, 1);
}

#[test]
fn batch_whose_folder_cannot_be_synced_writes_no_report_and_resumes() {
    let Some(strace) = Strace::find(host()) else { return };
    let mut batch = batch();
    let deep = batch.folder.join("out/deep");
    fs::create_dir_all(&deep).unwrap();
    let options = ["-f", "-P", deep.to_str().unwrap(), "-e", "inject=fsync:error=EIO"].map(str::to_owned);
    let failed = batch.trace(&strace, &options);
    assert_eq!(failed.status.code(), Some(4), "{}", failed.stderr);
    assert!(
        failed.stderr.contains(&format!("failed to sync the folder {}", deep.display())),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("run the same command with --resume"), "{}", failed.stderr);
    assert!(!batch.contents().contains_key(Path::new("report.json")));
    batch.args.push("--resume".into());
    let resumed = batch.trace(&strace, &["-f".into()]);
    assert!(resumed.stderr.contains("2 of them in an earlier run"), "{}", resumed.stderr);
    check_synced_before_the_report(&resumed, &batch, 1);
}
