//! Trust of plugins that are not bundled: how it is granted and revoked, and protection against files that
//! are replaced while the host uses them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests start processes and replace files")]

#[path = "../home/mod.rs"]
mod home;
mod interpreters;
mod lifecycle;
mod manifest;
mod modes;
mod permissions;
mod prompt;
mod swaps;
mod trial;

use std::fs;

use home::{Home, text};

const STORE: &str = ".local/state/jp-compact/trust/store";
const RECORDS: &str = ".local/state/jp-compact/trust/records";

fn manifest(name: &str, command: &str, permissions: &str) -> String {
    format!(
        "manifest = 1\nname = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"From a folder\"\nprotocols = [1]\n\
         [run]\ncommand = [{command}]\n[permissions]\n{permissions}\n"
    )
}

/// Installs a folder with a manifest, a script that it runs with `/bin/sh`, and another file.
fn install_folder(home: &Home, permissions: &str) {
    home.install("folder/main.sh", &home.script("inner", ""));
    fs::create_dir(home.path("folder/deep")).unwrap();
    fs::write(home.path("folder/deep/table"), "1").unwrap();
    fs::write(home.path("folder/plugin.toml"), manifest("inner", "\"/bin/sh\", \"main.sh\"", permissions))
        .unwrap();
}

/// Returns the arguments of a jailed run with one strategy.
fn jailed_arguments<'a>(strategy: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    let args = ["conversation", "--keep-last", "1", "--dry-run", "--strategy", strategy];
    [&args[..], extra].concat()
}

/// Runs the command that an error message suggests, from another folder.
#[track_caller]
fn run_suggested_command(home: &Home, stderr: &str) {
    let command = stderr.lines().map(str::trim).find(|line| line.starts_with("jp-compact strategy trust"));
    let command = command.unwrap_or_else(|| panic!("there is no command in:\n{stderr}"));
    let script = format!("exec {}{}", env!("CARGO_BIN_EXE_jp-compact"), &command["jp-compact".len()..]);
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .env_clear()
        .env("HOME", &home.root)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
