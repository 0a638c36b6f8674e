//! Where what a jail is made of is missing, nothing starts that asks for one. It is the kernel itself that is made
//! to say so: a filter takes the calls away.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jp_compact_engine::jail::{Abilities, Confinement};
use jp_compact_engine::process::ProcessError;

use crate::place::{Place, versions};
use crate::{PROBE, RUNNER, install, tool};

/// A runner that is reached through these words.
fn runner_by(place: &Place, words: &[&str]) -> PathBuf {
    let script = place.base.path().join("runner");
    let [probe, runner] = [&*PROBE, &*RUNNER].map(|path| path.display());
    let text = place.base.path().join("text");
    fs::write(&text, format!("#!/bin/sh\nexec {probe} {} {runner} \"$@\"\n", words.join(" "))).unwrap();
    install(&text, &script);
    script
}

#[track_caller]
fn fails_closed(without: &str, expect: &str) {
    let place = Place::new();
    let runner = runner_by(&place, &["without", without]);
    let launch = |confinement: Confinement<'_>| place.launch(&runner, confinement, &PROBE, &["nothing"]);
    assert!(launch(Confinement::Contained).unwrap().status.success());
    for landlock in versions() {
        let jail = place.jail(landlock);
        let Err(ProcessError::Start { reason, .. }) = launch(Confinement::Isolated(&jail)) else {
            panic!("started without {without}")
        };
        assert!(reason.contains(expect), "{reason}");
    }
}

#[test]
fn without_landlock_nothing_starts() {
    fails_closed("landlock", "the kernel has no Landlock");
}

#[test]
fn without_seccomp_nothing_starts() {
    fails_closed("seccomp", "filter of system calls not installed");
}

/// This test itself, as a process of its own.
fn itself(words: &[&str], test: &str) -> Command {
    let mut command = Command::new(&*PROBE);
    command.args(words).arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    command
}

#[track_caller]
fn machine_without(what: &str, expect: &str) {
    let output =
        itself(&["without", what], "closed::says_what_the_machine_can").arg("--ignored").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(expect), "{stdout}");
}

#[test]
#[ignore = "it speaks to other tests"]
#[expect(clippy::print_stdout, reason = "it speaks to other tests")]
fn says_what_the_machine_can() {
    println!("{:?}", Abilities::of_machine());
}

#[test]
fn what_is_missing_is_seen() {
    let here = Abilities::of_machine();
    assert!(here.seccomp);
    machine_without("landlock", "Abilities { landlock: 0, seccomp: true }");
    machine_without("seccomp", &format!("Abilities {{ landlock: {}, seccomp: false }}", here.landlock));
}

/// The executable on a machine that lacks this, in a home with a conversation and a strategy of the user's own.
struct Lacking<'a> {
    home: tempfile::TempDir,
    what: &'a str,
}

impl<'a> Lacking<'a> {
    fn new(what: &'a str) -> Self {
        let this = Self { home: tempfile::tempdir().unwrap(), what };
        for folder in ["conversation", "plugins"] {
            fs::create_dir(this.home.path().join(folder)).unwrap();
        }
        fs::write(this.home.path().join("conversation/events.json"), SAMPLE).unwrap();
        fs::write(this.home.path().join("text"), STRATEGY).unwrap();
        install(&this.home.path().join("text"), &this.home.path().join("plugins/mine"));
        this
    }

    /// What it exits with, and what it says.
    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(&*PROBE);
        command.args(["without", self.what]).arg(tool("jp-compact")).args(words);
        command.env_clear().env("HOME", self.home.path()).env("TMPDIR", self.home.path());
        let output = command.current_dir(self.home.path()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), said)
    }

    #[track_caller]
    fn ends(&self, words: &[&str], code: i32, expect: &str) {
        let words = [&["conversation", "--keep-last", "0", "--json", "--dry-run"], words].concat();
        let (found, said) = self.run(&words);
        assert_eq!(found, Some(code), "{words:?} without {}: {said}", self.what);
        assert!(said.contains(expect), "{words:?} without {}: {said}", self.what);
        assert_eq!(self.home.path().join("started").exists(), code == 0 && words.contains(&"mine"), "{said}");
    }
}

/// Read when this was compiled: who runs it may not reach the project.
const SAMPLE: &[u8] = include_bytes!("../sample/events.json");
/// Leaves a trace of having been started. It is not in a jail when it is.
const STRATEGY: &str = r#"#!/bin/sh
: >"${0%/.local/*}/started"
case "$1" in
describe) echo '{"type":"describe","protocols":[1],"name":"mine","version":"1.0.0","description":"d","produces":["tool_calls"],"input":"none"}' ;;
run) echo '{"type":"decline","id":"c1","reason":"no"}' ;;
esac
"#;

#[track_caller]
fn nothing_but_the_bundled_runs(what: &str, lacks: &str) {
    let machine = Lacking::new(what);
    let lacks = format!("this machine lacks {lacks}");
    let mine = ["--strategy", "mine", "--trust-dir", "plugins"];
    machine.ends(&[], 0, r#""tier":"contained""#);
    machine.ends(&["--sandbox=require"], 11, &lacks);
    machine.ends(&mine, 11, &lacks);
    machine.ends(&[&mine[..], &["--sandbox=require"]].concat(), 11, &lacks);
    // Trust is needed as well.
    let stranger = ["--strategy", "./plugins/mine", "--sandbox=contained"];
    machine.ends(&stranger, 11, "is not trusted");
    machine.ends(&[&mine[..], &["--sandbox=contained"]].concat(), 0, r#""tier":"contained""#);
}

#[test]
fn without_landlock_nothing_but_the_bundled_runs_unasked() {
    nothing_but_the_bundled_runs("landlock", "Landlock");
}

#[test]
fn without_seccomp_nothing_but_the_bundled_runs_unasked() {
    nothing_but_the_bundled_runs("seccomp", "seccomp");
}
