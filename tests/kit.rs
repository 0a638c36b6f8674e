//! The conformance kit: it passes every bundled strategy and every example, and finds the one rule that each of
//! many broken strategies breaks.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts what it tests"
)]

#[path = "examples/world.rs"]
#[expect(dead_code, reason = "the other test runs the examples on a conversation")]
mod world;

use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use jp_compact_engine::jail::{Abilities, Confinement};
use jp_compact_engine::kit::{self, CHECKS, Level, Outcome, Place, Subject, Verdict};
use jp_compact_engine::process::PRIVATE_BYTES_MAX;

/// Makes the checks of a plugin.
fn test(path: &Path, deadline: Duration) -> Vec<Outcome> {
    test_confined(path, deadline, true)
}

fn test_confined(path: &Path, deadline: Duration, is_jailed: bool) -> Vec<Outcome> {
    let runner = cargo_bin("compact-runner");
    let base = tempfile::tempdir().unwrap();
    let subject = Subject::at(path, &runner).unwrap();
    let jail = subject.jail(Abilities::of_machine()).unwrap();
    let confinement = if is_jailed { Confinement::Isolated(&jail) } else { Confinement::Contained };
    let place = Place {
        runner: &runner,
        temp_dir: base.path(),
        private_bytes_max: PRIVATE_BYTES_MAX,
        deadline,
        confinement,
        env: &[],
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(kit::test(&place, &subject, &serde_json::Map::new(), Level::Full))
}

#[track_caller]
fn passes(path: &Path) {
    let outcomes = test(path, Duration::from_secs(60));
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.verdict {
            Verdict::Failed { why } => Some(format!("{}: {why}", outcome.check.id)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, Vec::<String>::new(), "{}", path.display());
    // What was skipped is skipped for a reason of the strategy's, never because nothing could be asked.
    let passed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count();
    assert!(passed >= 40, "{passed} checks of {}", path.display());
}

#[test]
fn the_bundled_strategies_pass() {
    for name in ["collapse", "digest", "micro", "strip-reasoning", "strip-tools", "summarize"] {
        passes(&cargo_bin(format!("compact-strategy-{name}")));
    }
}

#[test]
fn every_example_passes() {
    for name in world::EXAMPLES {
        if let Some(installed) = world::Installed::of(name) {
            passes(installed.folder());
        }
    }
}

/// A strategy that breaks the rule of this number, and no other.
fn broken(base: &Path, id: &str) -> PathBuf {
    let text = include_str!("examples/broken.py").replace("@MODE@", id);
    let place = base.join("broken");
    world::install(&place, &text);
    place
}

/// Says what is wrong, if it does not fail the check of its number and no other.
fn finds(id: &str) -> Option<String> {
    let deadline = Duration::from_secs(if id == "R01" { 2 } else { 30 });
    let base = tempfile::tempdir().unwrap();
    // In the jail no strategy leaves a process behind, for it can start none.
    let outcomes = test_confined(&broken(base.path(), id), deadline, id != "R03");
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed { .. }));
    let failed: Vec<_> = failed.map(|outcome| (outcome.check.id, &outcome.verdict)).collect();
    (failed.len() != 1 || failed[0].0 != id).then(|| format!("{id}: {failed:?}"))
}

/// What has a test of its own.
const ELSEWHERE: [&str; 3] = ["S01", "D07", "D10"];

#[track_caller]
fn fails_alone(outcomes: &[Outcome], id: &str, part: &str) {
    let failed = outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        Verdict::Failed { why } => Some((outcome.check.id, why.as_str())),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.len() == 1 && failed[0].0 == id && failed[0].1.contains(part), "{failed:?}");
}

#[test]
fn what_cannot_be_started_fails_the_first_check() {
    let base = tempfile::tempdir().unwrap();
    let place = base.path().join("no-shebang");
    world::install(&place, "echo hello\n");
    fails_alone(&test(&place, Duration::from_secs(30)), "S01", "neither a script with a `#!` line");
    let place = base.path().join("of-another-machine");
    world::install(&place, "\u{7f}ELF\u{2}\u{1}\u{1} and so on\n");
    fails_alone(&test(&place, Duration::from_secs(30)), "S01", "");
    let place = base.path().join("without-its-interpreter");
    world::install(&place, "#!/no/such/interpreter\n");
    fails_alone(&test(&place, Duration::from_secs(30)), "S01", "");
    let place = base.path().join("not-executable");
    std::fs::write(&place, "#!/bin/sh\n").unwrap();
    fails_alone(&test(&place, Duration::from_secs(30)), "S01", "");
}

#[test]
fn a_manifest_that_says_something_else_is_found() {
    if let Some(installed) = world::Installed::of("keep-errors") {
        let manifest = installed.folder().join("plugin.toml");
        let text = std::fs::read_to_string(&manifest).unwrap().replace("\"0.1.0\"", "\"0.2.0\"");
        std::fs::write(manifest, text).unwrap();
        fails_alone(&test(installed.folder(), Duration::from_secs(60)), "D07", "0.2.0");
    }
}

#[test]
fn a_need_for_which_no_manifest_asks_is_found() {
    if !world::has("python3") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    broken(base.path(), "D10");
    let manifest = "manifest = 1\nname = \"broken\"\nversion = \"1.0.0\"\ndescription = \"Break one rule\"\n\
                    protocols = [1]\n[run]\ncommand = [\"./broken\"]\n[permissions]\nruntime = \"python\"\n";
    let place = base.path().join("plugin.toml");
    std::fs::write(&place, manifest).unwrap();
    fails_alone(&test(base.path(), Duration::from_secs(60)), "D10", "`llm`");
    std::fs::write(&place, manifest.to_owned() + "llm = true\n").unwrap();
    passes(base.path());
}

/// What SECURITY's strategies do while they answer, and the check that each fails; nothing where it is harmless.
const HOSTILE: [(&str, Option<&str>); 33] = [
    ("hangs", Some("R01")),
    ("ignores SIGTERM", Some("R01")),
    ("takes all memory", Some("R02")),
    ("kills itself", Some("R02")),
    ("fails after its answer", Some("R02")),
    ("leaves a process", Some("R03")),
    ("floods stdout", Some("R04")),
    ("writes a summary of 10 MB", Some("R04")),
    ("says nothing", Some("R05")),
    ("answers twice", Some("R06")),
    ("writes Latin-1", Some("R07")),
    ("writes half a message", Some("R08")),
    ("says a word first", Some("R08")),
    ("writes a BOM", Some("R08")),
    ("writes NULs", Some("R08")),
    ("nests deep", Some("R08")),
    ("writes huge numbers", Some("R09")),
    ("writes a key twice", Some("R09")),
    ("answers as somebody", Some("R10")),
    ("stamps itself", Some("P02")),
    ("inverts its range", Some("P03")),
    ("leaves its range", Some("P04")),
    ("goes beyond its kinds", Some("P06")),
    ("writes an empty summary", Some("P09")),
    ("writes a large summary", Some("P09")),
    ("says a summary", None),
    ("nests deep where nobody looks", Some("R08")),
    ("logs first", None),
    ("writes no last newline", None),
    ("drips", None),
    ("closes stdin", None),
    ("writes much to stderr", None),
    ("is sound", None),
];

/// Says what is wrong, if a hostile mode does not fail its check and no other.
fn ends_otherwise((mode, expected): &(&str, Option<&str>)) -> Option<String> {
    let base = tempfile::tempdir().unwrap();
    let place = base.path().join("answers");
    world::install(&place, &include_str!("hostile/answers.py").replace("@MODE@", mode));
    let deadline = Duration::from_secs(if *expected == Some("R01") { 2 } else { 60 });
    // A process that is left behind has been started, which the jail denies.
    let outcomes = test_confined(&place, deadline, *mode != "leaves a process");
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed { .. }));
    let failed: Vec<_> = failed.map(|outcome| (outcome.check.id, &outcome.verdict)).collect();
    let ids: Vec<_> = failed.iter().map(|(id, _)| *id).collect();
    (ids != expected.iter().copied().collect::<Vec<_>>()).then(|| format!("{mode}: {failed:?}"))
}

/// Side by side, for most of the time is waiting for interpreters.
#[track_caller]
fn all_do<T: Sync>(cases: &[T], wrong: fn(&T) -> Option<String>) {
    let found: Vec<_> = std::thread::scope(|scope| {
        let chunks = cases.chunks(cases.len().div_ceil(4));
        let threads: Vec<_> = chunks
            .map(|cases| scope.spawn(move || cases.iter().filter_map(wrong).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn each_hostile_mode_fails_the_check_that_there_is_for_it() {
    if world::has("python3") {
        all_do(&HOSTILE, ends_otherwise);
    }
}

#[test]
fn what_is_not_a_strategy_at_all_fails_where_it_is_none() {
    let outcomes = test(Path::new("/bin/true"), Duration::from_secs(30));
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed { .. }));
    assert_eq!(failed.map(|outcome| outcome.check.id).collect::<Vec<_>>(), ["S02", "S03", "S04", "D02"]);
}

/// The command line in a folder of its own.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("sample")).unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
        std::fs::copy(sample, base.path().join("sample/events.json")).unwrap();
        Self(base)
    }

    /// Exit code, stdout, stderr. No word of it changes a conversation.
    fn says(&self, arguments: &[&str]) -> (i32, String, String) {
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

/// How many checks were made, and how many of them are of one level alone.
fn made(report: &str) -> (usize, usize) {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let checks = report["checks"].as_array().unwrap();
    (checks.len(), checks.iter().filter(|check| check["level"] == "full").count())
}

#[test]
fn the_command_line_says_what_failed() {
    let home = Home::new();
    let strategy = cargo_bin("compact-strategy-strip-tools");
    let strategy = strategy.to_str().unwrap();
    let (code, core, _) = home.says(&["strategy", "test", strategy, "--level", "core", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&core).unwrap();
    assert_eq!(
        (code, report["passed"].as_bool(), report["checks"][0]["id"].as_str()),
        (0, Some(true), Some("S01"))
    );
    let core_of = |level| CHECKS.iter().filter(|check| check.level == level).count();
    assert_eq!(made(&core), (core_of(Level::Core), 0));
    let (_, full, _) = home.says(&["strategy", "test", strategy, "--level", "full", "--json"]);
    assert_eq!(made(&full), (CHECKS.len(), core_of(Level::Full)));
    let (_, default, _) = home.says(&["strategy", "test", strategy, "--json"]);
    assert_eq!(default, full);
    let (code, text, _) = home.says(&["strategy", "test", "/bin/true", "--only", "d02"]);
    assert_eq!(code, 15);
    assert!(text.starts_with("D02  FAILED ") && text.ends_with("0 passed, 1 failed, 0 skipped\n"), "{text}");
    assert_eq!(home.says(&["strategy", "test", "nowhere"]).0, 10);
    assert_eq!(home.says(&["strategy", "test", "/bin/true", "--only", "X99"]).0, 2);
}

#[test]
fn one_exchange_is_shown_through_all_its_rounds() {
    if !world::has("python3") {
        return;
    }
    let home = Home::new();
    broken(home.0.path(), "summary");
    let words = ["strategy", "run", "./broken", "sample", "--keep-last", "1"];
    let (code, shown, said) = home.says(&[&words[..], &["--record", "exchange.jsonl"]].concat());
    assert_eq!((code, said.trim_end()), (0, "the host would append its compaction"), "{shown}");
    let kinds = |line: &str, from: &str| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{from}{}", message["type"].as_str().unwrap())
    };
    let expected = [">compact", "<needs", ">compact", "<result"];
    let headers = |kinds: Vec<String>| -> Vec<String> {
        kinds.into_iter().filter(|kind| !kind.starts_with(">event")).collect()
    };
    let printed = shown.lines().filter(|line| !line.contains("bytes)"));
    assert_eq!(headers(printed.map(|line| kinds(&line[2..], &line[..1])).collect()), expected);
    let record = std::fs::read_to_string(home.0.path().join("exchange.jsonl")).unwrap();
    let recorded = record.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let from = if line["from"] == "host" { ">" } else { "<" };
        kinds(line["line"].as_str().unwrap(), from)
    });
    assert_eq!(headers(recorded.collect()), expected);
    assert_eq!(
        home.says(&[&words[..], &["--record", "exchange.jsonl"]].concat()).0,
        2,
        "it is there already"
    );
}

#[test]
fn one_exchange_ends_as_a_run_does() {
    if !world::has("python3") {
        return;
    }
    let ends = [
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
    for (mode, expected) in ends {
        let home = Home::new();
        broken(home.0.path(), mode);
        let (code, _, said) =
            home.says(&["strategy", "run", "./broken", "sample", "--keep-last", "1", "--deadline", "2s"]);
        assert_eq!(code, expected, "{mode}: {said}");
    }
    let home = Home::new();
    broken(home.0.path(), "none");
    assert_eq!(home.says(&["strategy", "run", "./broken", "sample", "--options", r#"{"m":1}"#]).0, 2);
    let (code, _, said) = home.says(&["strategy", "run", "./broken", "sample", "--keep-last", "99"]);
    assert_eq!((code, said.trim_end()), (0, "no turn is left to compact"));
}

#[test]
fn what_a_user_has_to_say_is_said_to_the_kit_too() {
    if !world::has("python3") {
        return;
    }
    let home = Home::new();
    broken(home.0.path(), "required");
    let words = ["strategy", "test", "./broken", "--level", "core"];
    let (code, said, _) = home.says(&words);
    assert_eq!(code, 15);
    assert!(said.contains("D06  FAILED") && said.contains("`--options`"), "{said}");
    let (code, said, _) = home.says(&[&words[..], &["--options", r#"{"m":1}"#]].concat());
    assert_eq!(code, 0, "{said}");
}

#[test]
fn each_check_finds_what_breaks_its_rule() {
    if !world::has("python3") {
        return;
    }
    let ids = CHECKS.iter().map(|check| check.id).filter(|id| !ELSEWHERE.contains(id));
    all_do(&ids.collect::<Vec<_>>(), |id| finds(id));
}

#[test]
fn the_sound_ones_of_the_broken_pass() {
    if !world::has("python3") {
        return;
    }
    for mode in ["none", "summary", "own-range"] {
        let base = tempfile::tempdir().unwrap();
        passes(&broken(base.path(), mode));
    }
}

/// Writes a new strategy, builds it as it says, and tests it.
#[track_caller]
fn starts_sound(language: &str, needs: &[&str]) {
    if !needs.iter().all(|program| world::has(program)) {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut new = assert_cmd::Command::new(cargo_bin("jp-compact"));
    new.env_clear().env("HOME", base.path()).current_dir(base.path());
    let assert = new.args(["strategy", "new", "my-own", "--lang", language]).assert().success();
    let said = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    if let Some(line) = said.lines().find_map(|line| line.trim().strip_prefix('(')) {
        let mut shell = std::process::Command::new("sh");
        // Its one dependency was fetched for this project.
        shell.env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS");
        let line = line.trim_end_matches(')');
        assert!(shell.arg("-ec").arg(line).current_dir(base.path()).status().unwrap().success(), "{line}");
    }
    assert!(said.contains("  jp-compact --strategy ./my-own CONVERSATION\n"), "{said}");
    passes(&base.path().join("my-own"));
    // What is trusted is what was written, not what a compiler left behind.
    assert!(!base.path().join("my-own/target").exists());
    new.assert().code(2);
}

#[test]
fn a_new_strategy_passes_as_it_is() {
    starts_sound("python", &["python3"]);
    starts_sound("sh", &["sh", "jq"]);
    starts_sound("node", &["node"]);
    starts_sound("c", &["cc"]);
    starts_sound("rust", &[]);
}
