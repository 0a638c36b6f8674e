//! The templates of `strategy new`: each new strategy passes the checks without changes.

use assert_cmd::cargo::cargo_bin;

use crate::{check_passes, world};

/// Creates a strategy from the template, builds it as instructed, and runs the checks.
#[track_caller]
fn check_template(language: &str, needs: &[&str]) {
    if !needs.iter().all(|program| world::has(program)) {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mut new_command = assert_cmd::Command::new(cargo_bin("jp-compact"));
    new_command.env_clear().env("HOME", base.path()).current_dir(base.path());
    let assert = new_command.args(["strategy", "new", "my-own", "--lang", language]).assert().success();
    let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    if let Some(line) = stderr.lines().find_map(|line| line.trim().strip_prefix('(')) {
        let mut shell = std::process::Command::new("sh");
        // The only dependency of the template is already in the local registry.
        shell.env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS");
        // The command builds a release. Without optimization, that takes half of the time.
        shell.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        let line = line.trim_end_matches(')');
        assert!(shell.arg("-ec").arg(line).current_dir(base.path()).status().unwrap().success(), "{line}");
    }
    assert!(stderr.contains("  jp-compact --strategy ./my-own CONVERSATION\n"), "{stderr}");
    check_passes(&base.path().join("my-own"));
    // The compiler's build folder is elsewhere, because trust covers all files in the folder of the strategy.
    assert!(!base.path().join("my-own/target").exists());
    new_command.assert().code(2);
}

#[test]
fn new_strategy_in_python_passes_without_changes() {
    check_template("python", &["python3"]);
}

#[test]
fn new_strategy_in_shell_passes_without_changes() {
    check_template("sh", &["sh", "jq"]);
}

#[test]
fn new_strategy_in_javascript_passes_without_changes() {
    check_template("node", &["node"]);
}

#[test]
fn new_strategy_in_c_passes_without_changes() {
    check_template("c", &["cc"]);
}

#[test]
fn new_strategy_in_rust_passes_without_changes() {
    check_template("rust", &[]);
}
