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
    let place = Place { runner: &runner, temp_dir: base.path(), deadline, confinement };
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
    for name in ["compact-strategy-strip-reasoning", "compact-strategy-strip-tools"] {
        passes(&cargo_bin(name));
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
const ELSEWHERE: [&str; 2] = ["S01", "D07"];

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
fn what_is_not_a_strategy_at_all_fails_where_it_is_none() {
    let outcomes = test(Path::new("/bin/true"), Duration::from_secs(30));
    let failed = outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed { .. }));
    assert_eq!(failed.map(|outcome| outcome.check.id).collect::<Vec<_>>(), ["S02", "S03", "D02"]);
}

#[test]
fn the_command_line_says_what_failed() {
    let base = tempfile::tempdir().unwrap();
    let strategy = cargo_bin("compact-strategy-strip-tools");
    let jp_compact = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::new(cargo_bin("jp-compact"));
        command.env_clear().env("HOME", base.path()).current_dir(base.path()).args(arguments);
        command.output().unwrap()
    };
    let strategy = strategy.to_str().unwrap();
    let good = jp_compact(&["strategy", "test", strategy, "--level", "core", "--json"]);
    assert_eq!(good.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((report["passed"].as_bool(), report["checks"][0]["id"].as_str()), (Some(true), Some("S01")));
    let bad = jp_compact(&["strategy", "test", "/bin/true", "--only", "d02"]);
    assert_eq!(bad.status.code(), Some(15));
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.starts_with("D02  FAILED ") && text.ends_with("0 passed, 1 failed, 0 skipped\n"), "{text}");
    assert_eq!(jp_compact(&["strategy", "test", "nowhere"]).status.code(), Some(10));
    assert_eq!(jp_compact(&["strategy", "test", "/bin/true", "--only", "X99"]).status.code(), Some(2));
}

#[test]
fn each_check_finds_what_breaks_its_rule() {
    if !world::has("python3") {
        return;
    }
    let ids = CHECKS.iter().map(|check| check.id).filter(|id| !ELSEWHERE.contains(id));
    let ids: Vec<_> = ids.collect();
    // Side by side, for most of the time is waiting for interpreters.
    let wrong: Vec<_> = std::thread::scope(|scope| {
        let chunks = ids.chunks(ids.len().div_ceil(4));
        let threads: Vec<_> = chunks
            .map(|ids| scope.spawn(|| ids.iter().filter_map(|id| finds(id)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_sound_ones_of_the_broken_pass() {
    if !world::has("python3") {
        return;
    }
    for mode in ["none", "summary"] {
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
        let target = base.path().join("my-own/target");
        let mut shell = std::process::Command::new("sh");
        // Its one dependency was fetched for this project.
        shell.env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS");
        let line = line.trim_end_matches(')');
        assert!(shell.arg("-ec").arg(line).current_dir(base.path()).status().unwrap().success(), "{line}");
    }
    passes(&base.path().join("my-own"));
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
