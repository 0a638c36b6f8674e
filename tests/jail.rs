//! Restrictions of the jail. A real process (`jail/probe.c`), started like a strategy, makes each attempt. A forbidden
//! attempt must be denied in the jail and succeed contained, unless that depends on the machine. The second attempt
//! proves that the check can fail. Most checks run with the oldest and the newest supported version of Landlock. If the
//! user is root, everything runs again as another user.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests compile their probe and start processes")]
#![cfg(target_os = "linux")]

#[path = "jail/denied.rs"]
mod denied;
#[path = "jail/fixture.rs"]
mod fixture;
#[path = "jail/granted.rs"]
mod granted;
#[path = "jail/unsupported_kernel.rs"]
mod unsupported_kernel;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use assert_cmd::cargo::cargo_bin;

/// Folder with copies of the executables, because the user of the second round cannot access the originals.
const TOOLS: &str = "JP_COMPACT_TEST_TOOLS";
const NOBODY: &str = "65534";

/// The executables that these tests start.
const EXECUTABLES: [&str; 4] =
    ["compact-runner", "jp-compact", "compact-strategy-strip-reasoning", "compact-strategy-strip-tools"];

static RUNNER: LazyLock<PathBuf> = LazyLock::new(|| executable("compact-runner"));
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(tools) = std::env::var_os(TOOLS) {
        return Path::new(&tools).join("probe");
    }
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jail/probe.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&probe).status().unwrap();
    assert!(compiled.success(), "failed to compile the probe");
    probe
});

/// Returns the path of an executable of the project.
fn executable(name: &str) -> PathBuf {
    std::env::var_os(TOOLS).map_or_else(|| cargo_bin(name), |tools| Path::new(&tools).join(name))
}

/// Installs an executable with another process. A file that this process wrote may still be open in a child
/// of another test, and could not be executed.
fn install(from: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap();
    assert!(installed.success(), "failed to install {}", to.display());
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn all_restrictions_apply_to_another_user() {
    if !is_root() {
        return;
    }
    let tools = tempfile::tempdir().unwrap();
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let test_executable = std::env::current_exe().unwrap();
    for name in EXECUTABLES {
        install(&executable(name), &tools.path().join(name));
    }
    for (name, path) in [("probe", &*PROBE), ("tests", &test_executable)] {
        install(path, &tools.path().join(name));
    }
    let home = tools.path().join("room");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut command = Command::new(tools.path().join("probe"));
    command.args(["as", NOBODY]).arg(tools.path().join("tests")).args(["--skip", "all_restrictions_apply"]);
    command
        .env_clear()
        .env(TOOLS, tools.path())
        .env("TMPDIR", &home)
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &home);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(" passed; 0 failed; 1 ignored;"), "{stdout}");
}
