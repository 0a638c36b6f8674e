//! A temporary home folder with one conversation, for tests that discover, trust and run plugins.
//! The executable runs with an empty environment, except for `HOME` and `TMPDIR`, so that no test
//! reads or writes a file outside the folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

pub(crate) const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/events.json");

pub(crate) struct Home {
    pub(crate) root: PathBuf,
    _temp: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let home = Self { root: temp.path().canonicalize().unwrap(), _temp: temp };
        fs::create_dir_all(home.path("conversation")).unwrap();
        fs::create_dir_all(home.path("tmp")).unwrap();
        fs::copy(SAMPLE, home.path("conversation/events.json")).unwrap();
        home
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Returns a command that runs the executable in the home folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo_bin!("jp-compact"));
        command.env_clear().env("HOME", &self.root).env("TMPDIR", self.path("tmp"));
        command.current_dir(&self.root).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its stdout.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// Runs a command that must fail with an exit code, and returns its stderr.
    /// Asserts that the conversation is unchanged.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], code: i32) -> String {
        let before = fs::read(self.path("conversation/events.json")).unwrap();
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(fs::read(self.path("conversation/events.json")).unwrap(), before);
        text(&output.stderr)
    }

    /// Returns the arguments that compact with one strategy, with `--sandbox=contained`.
    pub(crate) fn compact<'a>(&self, strategy: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
        let arguments = ["conversation", "--keep-last", "1", "--sandbox=contained", "--strategy", strategy];
        [&arguments[..], extra].concat()
    }

    /// Installs an executable file. `install` writes it in a separate process, because a test that forks at that moment
    /// would inherit our open descriptor, and executing the file would then fail with ETXTBSY.
    pub(crate) fn install(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut install = Command::new("install")
            .args(["-m", "755", "/dev/stdin"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(install.wait().unwrap().success());
        path
    }

    /// Installs a strategy that appends a line to the file `diary` at each start.
    pub(crate) fn install_strategy(&self, relative: &str, name: &str) -> PathBuf {
        self.install(relative, &self.script(name, ""))
    }

    /// Returns the text of a strategy that appends a line to the file `diary`. `extra` is added to its description.
    pub(crate) fn script(&self, name: &str, extra: &str) -> String {
        let diary = self.path("diary");
        format!(
            r#"#!/bin/sh
echo "$1 $0 ${{GRANTED-unset}}" >> {}
case "$1" in
describe) echo '{{"type":"describe","protocols":[1],"name":"{name}","version":"1.0.0","description":"Strips all of it","produces":["tool_calls"],"input":"none"{extra}}}' ;;
run) sed 's/^{{"type":"compact","id":"\([^"]*\)".*"requested_range":\({{[^}}]*\)}}.*/{{"type":"result","id":"\1","compactions":[\2,"tool_calls":{{"policy":"omit"}}}}]}}/' ;;
esac
"#,
            diary.display()
        )
    }

    /// Returns one line per start of a strategy, in order: the verb, its path, and the variable `GRANTED`.
    pub(crate) fn diary(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path("diary")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    pub(crate) fn verbs(&self) -> Vec<String> {
        self.diary().into_iter().map(|line| line[0].clone()).collect()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
