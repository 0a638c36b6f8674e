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
    copy(&cargo_bin("compact-runner"), &base.join("bin/compact-runner"));
    copy(&cargo_bin("compact-strategy-strip-tools"), &base.join("plugins/strip-tools"));
}

fn embed(base: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(base.join("bin/embed"));
    command.env_clear().env("HOME", base).env("TMPDIR", base.join("tmp")).current_dir(base);
    command.arg("plugins").args(flags).stdin(File::open(SAMPLE).unwrap()).output().unwrap()
}

#[test]
fn embedded_host_runs_only_trusted_strategies() {
    let temp = tempfile::tempdir().unwrap();
    let base = temp.path().canonicalize().unwrap();
    install(&base);

    let untrusted = embed(&base, &[]);
    assert_eq!(untrusted.status.code(), Some(1), "{untrusted:?}");
    assert!(untrusted.stdout.is_empty(), "{untrusted:?}");
    let stderr = String::from_utf8(untrusted.stderr).unwrap();
    assert!(stderr.contains("is not trusted"), "{stderr}");

    // The second run finds the record of the first.
    for flags in [&["--trust"][..], &[]] {
        let output = embed(&base, flags);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let expect =
            "turns 0 to 2, tool calls: Some(Strip { request: true, response: true, overrides: {} })\n";
        assert_eq!(stdout, expect, "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fs::read_dir(base.join("tmp")).unwrap().count(), 0);
}
