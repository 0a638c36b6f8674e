//! What a strategy cannot do in the jail. Each attempt is made by a real process (`jail/probe.c`) twice,
//! started as the host starts a strategy: in the jail, where it must be denied, and contained, where it must
//! be let through, so that the check can fail. All of it for the newest version of Landlock that the jail
//! uses and for the oldest, as the user of the tests and, where that is root, as another one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests compile their probe, and start themselves as another user"
)]
#![cfg(target_os = "linux")]

#[path = "jail/closed.rs"]
mod closed;
#[path = "jail/denied.rs"]
mod denied;
#[path = "jail/granted.rs"]
mod granted;
#[path = "jail/place.rs"]
mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use assert_cmd::cargo::cargo_bin;

/// Another place for the executables: the user of the second round may not reach the first.
const TOOLS: &str = "JP_COMPACT_TEST_TOOLS";
const NOBODY: &str = "65534";

/// The executables of the project that these tests start.
const EXECUTABLES: [&str; 4] =
    ["compact-runner", "jp-compact", "compact-strategy-strip-reasoning", "compact-strategy-strip-tools"];

static RUNNER: LazyLock<PathBuf> = LazyLock::new(|| tool("compact-runner"));
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(tools) = std::env::var_os(TOOLS) {
        return Path::new(&tools).join("probe");
    }
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jail/probe.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&probe).status().unwrap();
    assert!(compiled.success(), "the probe does not compile");
    probe
});

/// An executable of the project.
fn tool(name: &str) -> PathBuf {
    std::env::var_os(TOOLS).map_or_else(|| cargo_bin(name), |tools| Path::new(&tools).join(name))
}

/// Makes an executable, in another process: a file that this one wrote may still be open in a child that
/// another test starts, and then it is too busy to be executed.
fn install(from: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap();
    assert!(installed.success(), "{} is not installed", to.display());
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn all_of_it_holds_for_another_user() {
    if !is_root() {
        return;
    }
    let tools = tempfile::tempdir().unwrap();
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::env::current_exe().unwrap();
    for name in EXECUTABLES {
        install(&tool(name), &tools.path().join(name));
    }
    for (name, path) in [("probe", &*PROBE), ("tests", &own)] {
        install(path, &tools.path().join(name));
    }
    let room = tools.path().join("room");
    fs::create_dir(&room).unwrap();
    fs::set_permissions(&room, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut command = Command::new(tools.path().join("probe"));
    command.args(["as", NOBODY]).arg(tools.path().join("tests")).args(["--skip", "all_of_it_holds"]);
    command
        .env_clear()
        .env(TOOLS, tools.path())
        .env("TMPDIR", &room)
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &room);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(" passed; 0 failed; 1 ignored;"), "{stdout}");
}
