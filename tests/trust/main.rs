//! What it takes to run a plugin that is not bundled, and what ends it: every way to give trust, every way to lose
//! it, and files that are swapped under the host's eyes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "tests start processes, and swap files")]

mod given;
mod grants;
#[path = "../house/mod.rs"]
mod house;
mod interpreters;
mod introduced;
mod manifest;
mod modes;
mod swaps;
mod tried;

use std::fs;

use house::{House, text};

const STORE: &str = ".local/state/jp-compact/trust/store";
const RECORDS: &str = ".local/state/jp-compact/trust/records";

fn manifest(name: &str, command: &str, permissions: &str) -> String {
    format!(
        "manifest = 1\nname = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"From a folder\"\nprotocols = [1]\n\
         [run]\ncommand = [{command}]\n[permissions]\n{permissions}\n"
    )
}

/// A folder with a manifest, a script that its `/bin/sh` is given, and one more file.
fn folder(house: &House, permissions: &str) {
    house.install("folder/main.sh", &house.script("inner", ""));
    fs::create_dir(house.path("folder/deep")).unwrap();
    fs::write(house.path("folder/deep/table"), "1").unwrap();
    fs::write(house.path("folder/plugin.toml"), manifest("inner", "\"/bin/sh\", \"main.sh\"", permissions))
        .unwrap();
}

/// The words that compact with one strategy, in a jail.
fn jailed<'a>(strategy: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["conversation", "--keep-last", "1", "--dry-run", "--strategy", strategy];
    [&words[..], more].concat()
}

/// Runs the command that a failure ends with, from anywhere.
#[track_caller]
fn obey(house: &House, stderr: &str) {
    let command = stderr.lines().map(str::trim).find(|line| line.starts_with("jp-compact strategy trust"));
    let command = command.unwrap_or_else(|| panic!("there is no command in:\n{stderr}"));
    let shell = format!("exec {}{}", env!("CARGO_BIN_EXE_jp-compact"), &command["jp-compact".len()..]);
    let trusted = std::process::Command::new("/bin/sh")
        .args(["-c", &shell])
        .env_clear()
        .env("HOME", &house.root)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
}
