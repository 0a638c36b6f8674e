//! The example of the runtime's crate documentation: another program that embeds the plugin host.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

use crate::world::{copy, example};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/events.json");

/// Installs the program with its runner, and a strategy in another folder.
fn install(base: &Path) {
    for folder in ["bin", "plugins", "tmp"] {
        fs::create_dir(base.join(folder)).unwrap();
    }
    copy(&example("embed"), &base.join("bin/embed"));
    // Without bundled strategies next to it, `jp-compact` accepts a plugin named `strip-tools`.
    for program in ["compact-runner", "jp-compact"] {
        copy(&cargo_bin(program), &base.join("bin").join(program));
    }
    copy(&cargo_bin("compact-strategy-strip-tools"), &base.join("plugins/strip-tools"));
}

fn run(base: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(base.join("bin").join(program));
    command.env_clear().env("HOME", base).env("TMPDIR", base.join("tmp")).current_dir(base);
    command.args(arguments).stdin(File::open(SAMPLE).unwrap()).output().unwrap()
}

#[test]
fn embedded_host_runs_only_trusted_strategies() {
    let temp = tempfile::tempdir().unwrap();
    let base = temp.path().canonicalize().unwrap();
    install(&base);

    let untrusted = run(&base, "embed", &[]);
    assert_eq!(untrusted.status.code(), Some(1), "{untrusted:?}");
    assert!(untrusted.stdout.is_empty(), "{untrusted:?}");
    let stderr = String::from_utf8(untrusted.stderr).unwrap();
    assert!(stderr.contains("the strategy is not trusted: "), "{stderr}");

    let trusted = run(&base, "jp-compact", &["strategy", "trust", "./plugins/strip-tools"]);
    assert!(trusted.status.success(), "{trusted:?}");
    let output = run(&base, "embed", &[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let expect = "summary: None, reasoning: None, tool_calls: Some(Strip { request: true, response: true, overrides: {} }) }\n";
    assert!(stdout.ends_with(expect), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(base.join("tmp")).unwrap().count(), 0);
}
