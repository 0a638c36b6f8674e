//! Kernels without Landlock or seccomp: a strategy that needs a jail must not start. A seccomp filter
//! simulates such a kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jp_compact_runtime::jail::{Abilities, Confinement};
use jp_compact_runtime::process::ProcessError;

use crate::fixture::{Fixture, versions};
use crate::{PROBE, RUNNER, executable, install};

/// Creates a runner that starts the real runner through the probe with these arguments.
fn runner_through_probe(fixture: &Fixture, args: &[&str]) -> PathBuf {
    let script = fixture.base.path().join("runner");
    let [probe, runner] = [&*PROBE, &*RUNNER].map(|path| path.display());
    let text = fixture.base.path().join("text");
    fs::write(&text, format!("#!/bin/sh\nexec {probe} {} {runner} \"$@\"\n", args.join(" "))).unwrap();
    install(&text, &script);
    script
}

#[track_caller]
fn check_start_fails(feature: &str, expect: &str) {
    let fixture = Fixture::new();
    let runner = runner_through_probe(&fixture, &["without", feature]);
    let launch = |confinement: Confinement<'_>| fixture.launch(&runner, confinement, &PROBE, &["nothing"]);
    assert!(launch(Confinement::Contained).unwrap().status.success());
    for landlock in versions() {
        let jail = fixture.jail(landlock);
        let Err(ProcessError::Start { reason, .. }) = launch(Confinement::Isolated(&jail)) else {
            panic!("started without {feature}")
        };
        assert!(reason.contains(expect), "{reason}");
    }
}

#[test]
fn jailed_strategy_does_not_start_without_landlock() {
    check_start_fails("landlock", "the kernel does not support Landlock");
}

#[test]
fn jailed_strategy_does_not_start_without_seccomp() {
    check_start_fails("seccomp", "failed to install the system call filter");
}

/// Returns a command that runs this test binary through the probe.
fn rerun_command(args: &[&str], test: &str) -> Command {
    let mut command = Command::new(&*PROBE);
    command.args(args).arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    command
}

#[track_caller]
fn check_abilities_without(feature: &str, expect: &str) {
    let output = rerun_command(&["without", feature], "unsupported_kernel::print_abilities")
        .arg("--ignored")
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(expect), "{stdout}");
}

#[test]
#[ignore = "a helper process of other tests"]
#[expect(clippy::print_stdout, reason = "a helper process of other tests")]
fn print_abilities() {
    println!("{:?}", Abilities::detect());
}

#[test]
fn missing_kernel_features_are_detected() {
    let abilities = Abilities::detect();
    assert!(abilities.seccomp);
    check_abilities_without("landlock", "Abilities { landlock: 0, seccomp: true }");
    check_abilities_without(
        "seccomp",
        &format!("Abilities {{ landlock: {}, seccomp: false }}", abilities.landlock),
    );
}

/// The executable on a machine without one feature, in a home with a conversation and a strategy of the user.
struct MachineWithout<'a> {
    home: tempfile::TempDir,
    feature: &'a str,
}

impl<'a> MachineWithout<'a> {
    fn new(feature: &'a str) -> Self {
        let machine = Self { home: tempfile::tempdir().unwrap(), feature };
        for folder in ["conversation", "plugins"] {
            fs::create_dir(machine.home.path().join(folder)).unwrap();
        }
        fs::write(machine.home.path().join("conversation/events.json"), SAMPLE).unwrap();
        fs::write(machine.home.path().join("text"), STRATEGY).unwrap();
        install(&machine.home.path().join("text"), &machine.home.path().join("plugins/mine"));
        machine
    }

    /// Returns the exit code and the output.
    fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(&*PROBE);
        command.args(["without", self.feature]).arg(executable("jp-compact")).args(args);
        command.env_clear().env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        let output = command.current_dir(self.home.path()).output().unwrap();
        let output_text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), output_text)
    }

    #[track_caller]
    fn check(&self, args: &[&str], code: i32, expect: &str) {
        let args = [&["conversation", "--keep-last", "0", "--json", "--dry-run"], args].concat();
        let (exit_code, text) = self.run(&args);
        assert_eq!(exit_code, Some(code), "{args:?} without {}: {text}", self.feature);
        assert!(text.contains(expect), "{args:?} without {}: {text}", self.feature);
        assert_eq!(self.home.path().join("started").exists(), code == 0 && args.contains(&"mine"), "{text}");
    }
}

/// Included at compile time: if the user is root, the tests also run as another user, who may be unable to read the
/// project's files.
const SAMPLE: &[u8] = include_bytes!("../sample/events.json");
/// A strategy that creates a file when it is started outside of a jail.
const STRATEGY: &str = r#"#!/bin/sh
: >"${0%/.local/*}/started"
case "$1" in
describe) echo '{"type":"describe","protocols":[1],"name":"mine","version":"1.0.0","description":"d","produces":["tool_calls"],"input":"none"}' ;;
run) echo '{"type":"decline","id":"c1","reason":"no"}' ;;
esac
"#;

#[track_caller]
fn check_only_bundled_strategies_run(feature: &str, feature_name: &str) {
    let machine = MachineWithout::new(feature);
    let message = format!("this machine lacks {feature_name}");
    let arguments = ["--strategy", "mine", "--trust-dir", "plugins"];
    machine.check(&[], 0, r#""tier":"contained""#);
    machine.check(&["--sandbox=require"], 11, &message);
    machine.check(&arguments, 11, &message);
    machine.check(&[&arguments[..], &["--sandbox=require"]].concat(), 11, &message);
    // Trust is required in addition.
    let untrusted = ["--strategy", "./plugins/mine", "--sandbox=contained"];
    machine.check(&untrusted, 11, "is not trusted");
    machine.check(&[&arguments[..], &["--sandbox=contained"]].concat(), 0, r#""tier":"contained""#);
}

#[test]
fn only_bundled_strategies_run_by_default_without_landlock() {
    check_only_bundled_strategies_run("landlock", "Landlock");
}

#[test]
fn only_bundled_strategies_run_by_default_without_seccomp() {
    check_only_bundled_strategies_run("seccomp", "seccomp");
}
