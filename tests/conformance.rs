//! Conformance checks: every bundled strategy and every example passes, and each broken strategy fails
//! exactly the check of its rule.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts strategies"
)]

#[path = "conformance/templates.rs"]
mod templates;
#[path = "examples/world.rs"]
#[expect(dead_code, reason = "other tests run the examples")]
mod world;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use jp_compact_conformance::{
    self as conformance, CHECKS, CheckLevel, CheckOutcome, CheckSetup, CheckVerdict, TestedPlugin,
};
use jp_compact_runtime::jail::{Abilities, Confinement};
use jp_compact_runtime::process::PRIVATE_BYTES_MAX;
use memchr::memmem;
use tokio::sync::Semaphore;

/// The number of plugins that are checked at the same time.
static SLOTS: Semaphore = Semaphore::const_new(3);

/// The time limits of a strategy.
#[derive(Clone, Copy)]
struct TimeLimits {
    request: Duration,
    describe: Duration,
}

/// Longer than any answer, also on a busy machine.
const NEVER: Duration = Duration::from_secs(300);
/// The limits of strategies that are not expected to hang.
const PATIENT: TimeLimits = TimeLimits { request: NEVER, describe: NEVER };
/// The limit for calls that hang.
const SOON: Duration = Duration::from_secs(2);

/// Runs the checks of a plugin in the jail.
fn run_checks(path: &Path) -> Vec<CheckOutcome> {
    run_checks_with_confinement(path, PATIENT, true)
}

fn run_checks_with_confinement(path: &Path, limits: TimeLimits, is_jailed: bool) -> Vec<CheckOutcome> {
    let runner = cargo_bin("compact-runner");
    let base = tempfile::tempdir().unwrap();
    let subject = TestedPlugin::at(path, &runner).unwrap();
    let jail = subject.jail(Abilities::detect()).unwrap();
    let confinement = if is_jailed { Confinement::Isolated(&jail) } else { Confinement::Contained };
    let setup = CheckSetup {
        runner: &runner,
        temp_dir: base.path(),
        private_bytes_max: PRIVATE_BYTES_MAX,
        deadline: limits.request,
        describe_deadline: limits.describe,
        confinement,
        env: &[],
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _slot = SLOTS.acquire().await.unwrap();
        conformance::test(&setup, &subject, &serde_json::Map::new(), CheckLevel::Full).await
    })
}

#[track_caller]
fn check_passes(path: &Path) {
    let outcomes = run_checks(path);
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.verdict {
            CheckVerdict::Failed { why } => Some(format!("{}: {why}", outcome.check.id)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, Vec::<String>::new(), "{}", path.display());
    // A check may only be skipped because the strategy lacks a feature, not because a request failed.
    let passed = outcomes.iter().filter(|outcome| outcome.verdict == CheckVerdict::Passed).count();
    assert!(passed >= 40, "{passed} checks of {}", path.display());
}

const BUNDLED: [&str; 8] =
    ["collapse", "digest", "extract", "micro", "strip-reasoning", "strip-tools", "summarize", "trim"];

#[test]
fn bundled_strategies_pass() {
    check_all(&BUNDLED, |name| {
        check_passes(&cargo_bin(format!("compact-strategy-{name}")));
        None
    });
}

#[test]
fn every_example_passes() {
    check_all(&world::EXAMPLES, |name| {
        if let Some(installed) = world::Installed::new(name) {
            check_passes(installed.folder());
        }
        None
    });
}

/// Installs a copy of an example whose code depends on a mode. Returns its path.
fn install_with_mode(base: &Path, program: &str, mode: &str) -> PathBuf {
    let mut bytes = std::fs::read(world::example(program)).unwrap();
    let placeholder = format!("{:40}", "@MODE@");
    let positions: Vec<_> = memmem::find_iter(&bytes, &placeholder).collect();
    let [position] = positions[..] else { panic!("{program} has the mode at {positions:?}") };
    bytes[position..][..placeholder.len()].copy_from_slice(format!("{mode:40}").as_bytes());
    let path = base.join(program);
    world::install(&path, &bytes);
    path
}

/// Installs a strategy that violates exactly the rule of this check.
fn install_broken(base: &Path, id: &str) -> PathBuf {
    install_with_mode(base, "broken", id)
}

/// Returns a description of the failed checks, unless only the check with this id failed.
fn unexpected_result(id: &str) -> Option<String> {
    let limits = if id == "R01" { TimeLimits { request: SOON, ..PATIENT } } else { PATIENT };
    let base = tempfile::tempdir().unwrap();
    // R03 fails if a child process outlives the strategy. In the jail, the strategy could not start one.
    let outcomes = run_checks_with_confinement(&install_broken(base.path(), id), limits, id != "R03");
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, CheckVerdict::Failed { .. }));
    let failed: Vec<_> = failed.map(|outcome| (outcome.check.id, &outcome.verdict)).collect();
    (failed.len() != 1 || failed[0].0 != id).then(|| format!("{id}: {failed:?}"))
}

/// Checks with separate tests.
const TESTED_SEPARATELY: [&str; 3] = ["S01", "D07", "D10"];

#[track_caller]
fn check_only_failure(outcomes: &[CheckOutcome], id: &str, part: &str) {
    let failed = outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        CheckVerdict::Failed { why } => Some((outcome.check.id, why.as_str())),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.len() == 1 && failed[0].0 == id && failed[0].1.contains(part), "{failed:?}");
}

#[test]
fn unstartable_strategy_fails_the_first_check() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("no-shebang");
    world::install(&path, "echo hello\n");
    check_only_failure(&run_checks(&path), "S01", "not a script with a `#!` line");
    let path = base.path().join("of-another-machine");
    world::install(&path, "\u{7f}ELF\u{2}\u{1}\u{1} and so on\n");
    check_only_failure(&run_checks(&path), "S01", "");
    let path = base.path().join("without-its-interpreter");
    world::install(&path, "#!/no/such/interpreter\n");
    // This script cannot start. The reason is known before the first check.
    let error = TestedPlugin::at(&path, &cargo_bin("compact-runner")).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "the interpreter `/no/such/interpreter` of its `#!` line is not installed");
    let path = base.path().join("not-executable");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    check_only_failure(&run_checks(&path), "S01", "");
}

#[test]
fn hanging_description_fails_its_check() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("hangs");
    let script = "#!/bin/sh\n[ \"$1\" = describe ] && [ -n \"$JP_COMPACT_PROTOCOL\" ] && [ ! -t 0 ] && exec sleep 1000\n\
                  echo a strategy >&2\nexit 64\n";
    world::install(&path, script);
    // The checks of usage errors have the same limit as `describe`.
    let limits = TimeLimits { describe: SOON, ..PATIENT };
    check_only_failure(&run_checks_with_confinement(&path, limits, true), "D01", "it did not end within 2s");
}

#[test]
fn manifest_that_differs_from_the_description_fails() {
    if let Some(installed) = world::Installed::new("keep-errors") {
        let manifest = installed.folder().join("plugin.toml");
        let text = std::fs::read_to_string(&manifest).unwrap().replace("\"0.1.0\"", "\"0.2.0\"");
        std::fs::write(manifest, text).unwrap();
        check_only_failure(&run_checks(installed.folder()), "D07", "0.2.0");
    }
}

#[test]
fn need_without_a_permission_in_the_manifest_fails() {
    let base = tempfile::tempdir().unwrap();
    install_broken(base.path(), "D10");
    let manifest = "manifest = 1\nname = \"broken\"\nversion = \"1.0.0\"\ndescription = \"Break one rule\"\n\
                    protocols = [1]\n[run]\ncommand = [\"./broken\"]\n[permissions]\n";
    let path = base.path().join("plugin.toml");
    std::fs::write(&path, manifest).unwrap();
    check_only_failure(&run_checks(base.path()), "D10", "`llm`");
    std::fs::write(&path, manifest.to_owned() + "llm = true\n").unwrap();
    check_passes(base.path());
}

#[test]
fn worker_must_exit_in_time_and_without_more_output() {
    for (mode, part) in [("W03-more", "it wrote more after its last answer"), ("W03-late", "within 5s")] {
        let base = tempfile::tempdir().unwrap();
        check_only_failure(&run_checks(&install_broken(base.path(), mode)), "W03", part);
    }
}

#[test]
fn worker_must_read_its_requests_to_the_end() {
    if !world::has("python3") {
        return;
    }
    for (mode, part) in [("W02-deaf", "it did not answer `w5-1`"), ("W05-deaf", "to the end")] {
        let base = tempfile::tempdir().unwrap();
        check_only_failure(&run_checks(&install_broken(base.path(), mode)), "W05", part);
    }
}

#[test]
fn invalid_member_next_to_the_compactions_is_not_reported_for_them() {
    if world::has("python3") {
        let base = tempfile::tempdir().unwrap();
        check_only_failure(
            &run_checks(&install_broken(base.path(), "R09-diagnostics")),
            "R09",
            "unknown variant",
        );
    }
}

#[test]
fn checks_of_answers_are_skipped_without_an_answer() {
    if !world::has("python3") {
        return;
    }
    let skipped = |mode: &str| {
        let base = tempfile::tempdir().unwrap();
        let outcomes = run_checks(&install_broken(base.path(), mode));
        let is_skipped = |outcome: &&CheckOutcome| matches!(outcome.verdict, CheckVerdict::Skipped { .. });
        outcomes.iter().filter(is_skipped).map(|outcome| outcome.check.id).collect::<Vec<_>>()
    };
    let without_reply = skipped("R05");
    for id in ["R06", "R11", "P01", "P13", "N02", "F01", "W01"] {
        assert!(without_reply.contains(&id), "{id}: {without_reply:?}");
    }
    let with_error = skipped("R11");
    assert!(with_error.contains(&"P01") && !with_error.contains(&"R06"), "{with_error:?}");
    let with_invalid_range = skipped("P03");
    assert!(!with_invalid_range.contains(&"P01") && !with_invalid_range.contains(&"R06"));
}

/// Checks that a check is skipped for a broken strategy in a folder with this name.
#[track_caller]
fn check_skipped(mode: &str, folder: &OsStr, id: &str, reason: &str) {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join(folder);
    std::fs::create_dir(&folder).unwrap();
    let outcomes = run_checks(&install_broken(&folder, mode));
    let outcome = outcomes.iter().find(|outcome| outcome.check.id == id).unwrap();
    assert_eq!(outcome.verdict, CheckVerdict::Skipped { why: reason.to_owned() });
}

#[test]
fn check_that_was_not_run_is_skipped() {
    check_skipped("P01-steps", "x".as_ref(), "P14", "an ordinary request already failed");
    check_skipped("S02", OsStr::from_bytes(b"x\xff"), "S02", "the path of its program is not UTF-8");
}

#[test]
fn files_outside_the_folder_are_not_part_of_the_plugin() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(base.path().join("lib.sh"), "").unwrap();
    world::install(&base.path().join("run"), "#!/bin/sh\n");
    let at = |command: &str| {
        let manifest = format!(
            "manifest = 1\nname = \"a\"\nversion = \"1\"\ndescription = \"d\"\nprotocols = [1]\n[run]\n{command}\n"
        );
        std::fs::write(folder.join("plugin.toml"), manifest).unwrap();
        TestedPlugin::at(&folder, &cargo_bin("compact-runner"))
    };
    assert_eq!(at("command = [\"sh\", \"../lib.sh\"]").unwrap().args, ["../lib.sh"]);
    for run in ["command = [\"../run\"]", "dylib = \"../lib.sh\""] {
        let error = at(run).unwrap_err().to_string();
        assert!(error.contains("leads out of the plugin's folder"), "{error}");
    }
}

#[test]
fn guess_of_a_missing_permission_ignores_the_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("run");
    world::install(&script, "#!/bin/sh\n");
    let manifest = "manifest = 1\nname = \"a\"\nversion = \"1\"\ndescription = \"d\"\nprotocols = [1]\n\
                    [run]\ncommand = [\"./run\"]\n[permissions]\nruntime = \"sh\"\n";
    std::fs::write(folder.path().join("plugin.toml"), manifest).unwrap();
    for path in [&script, folder.path()] {
        let plugin = TestedPlugin::at(path, &cargo_bin("compact-runner")).unwrap();
        let failure = "/bin/sh: 0: cannot open /nonexistent/x: Permission denied";
        assert_eq!(plugin.missing_permissions(failure), (Vec::new(), None), "{}", path.display());
    }
}

/// Modes of the hostile strategy with the check that each one fails, or `None` if the mode is harmless.
const HOSTILE: [(&str, Option<&str>); 33] = [
    ("hangs", Some("R01")),
    ("ignores SIGTERM", Some("R01")),
    ("takes all memory", Some("R02")),
    ("kills itself", Some("R02")),
    ("fails after its answer", Some("R02")),
    ("leaves a process", Some("R03")),
    ("floods stdout", Some("R04")),
    ("writes a summary of 10 MB", Some("R04")),
    ("writes nothing", Some("R05")),
    ("answers twice", Some("R06")),
    ("writes Latin-1", Some("R07")),
    ("writes half a message", Some("R08")),
    ("writes a word first", Some("R08")),
    ("writes a BOM", Some("R08")),
    ("writes NULs", Some("R08")),
    ("nests deep", Some("R08")),
    ("writes huge numbers", Some("R09")),
    ("writes a key twice", Some("R09")),
    ("answers with another id", Some("R10")),
    ("stamps itself", Some("P02")),
    ("inverts its range", Some("P03")),
    ("leaves its range", Some("P04")),
    ("goes beyond its kinds", Some("P06")),
    ("writes an empty summary", Some("P09")),
    ("writes a large summary", Some("P09")),
    ("writes a summary", None),
    ("nests deep in an ignored member", Some("R08")),
    ("logs first", None),
    ("writes no last newline", None),
    ("drips", None),
    ("closes stdin", None),
    ("writes much to stderr", None),
    ("is sound", None),
];

/// Returns a description of the failed checks if they differ from the expected result.
fn unexpected_hostile_result((mode, expected): &(&str, Option<&str>)) -> Option<String> {
    let base = tempfile::tempdir().unwrap();
    let path = install_with_mode(base.path(), "answers", mode);
    let limits = if *expected == Some("R01") { TimeLimits { request: SOON, ..PATIENT } } else { PATIENT };
    // Starting a process is denied in the jail.
    let outcomes = run_checks_with_confinement(&path, limits, *mode != "leaves a process");
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, CheckVerdict::Failed { .. }));
    let failed: Vec<_> = failed.map(|outcome| (outcome.check.id, &outcome.verdict)).collect();
    let ids: Vec<_> = failed.iter().map(|(id, _)| *id).collect();
    (ids != expected.iter().copied().collect::<Vec<_>>()).then(|| format!("{mode}: {failed:?}"))
}

/// Runs the cases in parallel, because they mostly wait for processes.
#[track_caller]
fn check_all<T: Sync>(cases: &[T], run_case: fn(&T) -> Option<String>) {
    let failures: Vec<_> = std::thread::scope(|scope| {
        let chunks = cases.chunks(cases.len().div_ceil(4));
        let threads: Vec<_> = chunks
            .map(|cases| scope.spawn(move || cases.iter().filter_map(run_case).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_hostile_mode_fails_its_check() {
    check_all(&HOSTILE, unexpected_hostile_result);
}

#[test]
fn program_that_is_not_a_strategy_fails_the_first_checks() {
    let outcomes = run_checks(Path::new("/bin/true"));
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, CheckVerdict::Failed { .. }));
    assert_eq!(failed.map(|outcome| outcome.check.id).collect::<Vec<_>>(), ["S02", "S03", "S04", "D02"]);
}

/// A temporary home with a sample conversation, in which the command runs.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("sample")).unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
        std::fs::copy(sample, base.path().join("sample/events.json")).unwrap();
        Self(base)
    }

    /// Runs the command and checks that the sample is unchanged. Returns exit code, stdout and stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let sample = || std::fs::read(self.0.path().join("sample/events.json")).unwrap();
        let before = sample();
        let mut command = assert_cmd::Command::new(cargo_bin("jp-compact"));
        command.env_clear().env("HOME", self.0.path()).current_dir(self.0.path()).args(arguments);
        let output = command.output().unwrap();
        assert!(before == sample());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// Returns the number of checks in a report, and how many of them belong to the level `full`.
fn count_checks(report: &str) -> (usize, usize) {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let checks = report["checks"].as_array().unwrap();
    (checks.len(), checks.iter().filter(|check| check["level"] == "full").count())
}

#[test]
fn report_lists_passed_and_failed_checks() {
    let home = Home::new();
    let strategy = cargo_bin("compact-strategy-strip-tools");
    let strategy = strategy.to_str().unwrap();
    let (code, core, _) = home.run(&["strategy", "test", strategy, "--level", "core", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&core).unwrap();
    assert_eq!(
        (code, report["passed"].as_bool(), report["checks"][0]["id"].as_str()),
        (0, Some(true), Some("S01"))
    );
    let checks_of_level = |level| CHECKS.iter().filter(|check| check.level == level).count();
    assert_eq!(count_checks(&core), (checks_of_level(CheckLevel::Core), 0));
    let (_, full, _) = home.run(&["strategy", "test", strategy, "--level", "full", "--json"]);
    assert_eq!(count_checks(&full), (CHECKS.len(), checks_of_level(CheckLevel::Full)));
    let (_, default, _) = home.run(&["strategy", "test", strategy, "--json"]);
    assert_eq!(default, full);
    let (code, text, _) = home.run(&["strategy", "test", "/bin/true", "--only", "d02"]);
    assert_eq!(code, 15);
    assert!(
        text.starts_with("D02  FAILED ")
            && text.ends_with("0 passed, 1 failed, 0 skipped; `-v` lists all checks\n"),
        "{text}"
    );
    assert_eq!(home.run(&["strategy", "test", "nowhere"]).0, 10);
    assert_eq!(home.run(&["strategy", "test", "/bin/true", "--only", "X99"]).0, 2);
}

#[test]
fn exchange_is_printed_with_all_rounds() {
    let home = Home::new();
    install_broken(home.0.path(), "summary");
    let args = ["strategy", "run", "./broken", "sample", "--keep-last", "1"];
    let (code, exchange, stderr) = home.run(&[&args[..], &["--record", "exchange.jsonl"]].concat());
    assert_eq!((code, stderr.trim_end()), (0, "the host would append its compaction"), "{exchange}");
    let kind = |line: &str, from: &str| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{from}{}", message["type"].as_str().unwrap())
    };
    let expected = [">compact", "<needs", ">compact", "<result"];
    let headers = |kinds: Vec<String>| -> Vec<String> {
        kinds.into_iter().filter(|kind| !kind.starts_with(">event")).collect()
    };
    let printed = exchange.lines().filter(|line| !line.contains("bytes)"));
    assert_eq!(headers(printed.map(|line| kind(&line[2..], &line[..1])).collect()), expected);
    let record = std::fs::read_to_string(home.0.path().join("exchange.jsonl")).unwrap();
    let recorded = record.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let from = if line["from"] == "host" { ">" } else { "<" };
        kind(line["line"].as_str().unwrap(), from)
    });
    assert_eq!(headers(recorded.collect()), expected);
    assert_eq!(
        home.run(&[&args[..], &["--record", "exchange.jsonl"]].concat()).0,
        2,
        "an existing record must not be overwritten"
    );
}

#[test]
fn strategy_run_exits_with_the_code_of_a_compaction() {
    let modes = [
        ("none", 0),
        ("D02", 12),
        ("D03", 12),
        ("D04", 21),
        ("R01", 14),
        ("R02", 13),
        ("R06", 15),
        ("R11", 16),
        ("P04", 17),
        ("N03", 15),
        ("P11", 0),
    ];
    for (mode, expected) in modes {
        let home = Home::new();
        install_broken(home.0.path(), mode);
        // A longer limit also applies to `describe`, which must succeed here.
        let deadline = if mode == "R01" { "10s" } else { "300s" };
        let (code, _, stderr) =
            home.run(&["strategy", "run", "./broken", "sample", "--keep-last", "1", "--deadline", deadline]);
        assert_eq!(code, expected, "{mode}: {stderr}");
    }
    let home = Home::new();
    install_broken(home.0.path(), "none");
    assert_eq!(home.run(&["strategy", "run", "./broken", "sample", "--options", r#"{"m":1}"#]).0, 2);
    let (code, _, stderr) = home.run(&["strategy", "run", "./broken", "sample", "--keep-last", "99"]);
    assert_eq!((code, stderr.trim_end()), (0, "no turn to compact"));
}

#[test]
fn test_command_accepts_required_options() {
    let home = Home::new();
    install_broken(home.0.path(), "required");
    let args = ["strategy", "test", "./broken", "--level", "core"];
    let (code, report, _) = home.run(&args);
    assert_eq!(code, 15);
    assert!(report.contains("D06  FAILED") && report.contains("`--options`"), "{report}");
    let (code, report, _) = home.run(&[&args[..], &["--options", r#"{"m":1}"#]].concat());
    assert_eq!(code, 0, "{report}");
}

#[test]
fn each_broken_strategy_fails_its_check() {
    let ids = CHECKS.iter().map(|check| check.id).filter(|id| !TESTED_SEPARATELY.contains(id));
    check_all(&ids.collect::<Vec<_>>(), |id| unexpected_result(id));
}

#[test]
fn conformant_modes_of_the_broken_strategy_pass() {
    for mode in ["none", "summary", "own-range"] {
        let base = tempfile::tempdir().unwrap();
        check_passes(&install_broken(base.path(), mode));
    }
}
