//! Test fixture: a conversation in a temporary folder, and runs of the real executable with an isolated
//! environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::strace::{Strace, TracedRun};

pub(crate) const NOW: &str = "2026-03-01T00:00:00Z";
/// The prefix of the names of temporary files next to `events.json`.
pub(crate) const ORPHAN: &str = ".events.json.jpc-";
/// Folder of strategies that are cheap to run. The tests do not write them, because a file that a thread has
/// open for writing cannot be executed.
pub(crate) const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins");
pub(crate) const APPEND: [&str; 4] = ["--strategy", "quick", "--now", NOW];
pub(crate) const RESET: [&str; 1] = ["--reset"];
pub(crate) const BUNDLED: [&str; 6] =
    ["--strategy", "strip-reasoning", "--strategy", "strip-tools", "--now", NOW];

pub(crate) fn host() -> &'static Path {
    cargo_bin!("jp-compact")
}

/// A conversation and the folders that the executable needs.
pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) folder: PathBuf,
    /// The original bytes of the conversation.
    pub(crate) before: Vec<u8>,
    _temp: tempfile::TempDir,
}

impl World {
    /// Creates a conversation in a folder outside of any workspace.
    pub(crate) fn new() -> Self {
        Self::at("conversation", &turns(5, 200))
    }

    pub(crate) fn at(folder: &str, events: &Value) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let before = format!("{events:#}\n").into_bytes();
        let world = Self { folder: root.join(folder), root, before, _temp: temp };
        fs::create_dir_all(&world.folder).unwrap();
        fs::create_dir(world.root.join("tmp")).unwrap();
        world.restore();
        world.warm_up();
        world
    }

    /// Copies and describes the strategies in advance, so that traced runs do not. Replaces the folder of
    /// cached digests with a file, so that no run can write a digest. Otherwise the system calls of a run would
    /// depend on the time.
    fn warm_up(&self) {
        self.succeeds(&[&["--strategy", "quick", "--dry-run"], &BUNDLED[..]].concat());
        let digests = self.root.join("home/.local/state/jp-compact/trust/digests");
        let _ = fs::remove_dir_all(&digests);
        fs::write(digests, "").unwrap();
    }

    pub(crate) fn events(&self) -> PathBuf {
        self.folder.join("events.json")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.events()).unwrap()
    }

    /// Restores the conversation and removes all other files of its folder.
    pub(crate) fn restore(&self) {
        for name in self.names() {
            fs::remove_file(self.folder.join(name)).unwrap();
        }
        fs::write(self.events(), &self.before).unwrap();
    }

    /// Returns the names in the conversation's folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn orphans(&self) -> usize {
        self.names().iter().filter(|name| name.starts_with(ORPHAN)).count()
    }

    pub(crate) fn arguments(&self, arguments: &[&str]) -> Vec<OsString> {
        let arguments = ["--sandbox=contained", "--trust-dir", PLUGINS].iter().chain(arguments);
        arguments.map(OsString::from).chain([self.folder.clone().into()]).collect()
    }

    /// Sets the environment and the current folder of a command.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        command.env("TMPDIR", self.root.join("tmp")).env("JP_USER_DATA_DIR", self.root.join("data"));
        command.env("HOME", self.root.join("home"));
        command.current_dir(&self.root);
    }

    /// Runs the executable undisturbed.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(host());
        command.env_clear().args(self.arguments(args));
        self.set_environment(&mut command);
        command.output().unwrap()
    }

    #[track_caller]
    pub(crate) fn succeeds(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
        output
    }

    /// Runs the executable under strace.
    pub(crate) fn trace(&self, strace: &Strace, options: &[String], args: &[&str]) -> TracedRun {
        strace.run(&self.root, options, |command| {
            command.arg(host()).args(self.arguments(args));
            self.set_environment(command);
        })
    }

    /// Returns the conversation after an undisturbed run, and restores it.
    pub(crate) fn after(&self, args: &[&str]) -> Vec<u8> {
        self.succeeds(args);
        let after = self.bytes();
        assert_ne!(after, self.before);
        self.restore();
        after
    }

    /// Returns the view in the format of the transcript.
    #[track_caller]
    pub(crate) fn view(&self) -> Vec<Value> {
        let mut command = Command::new(host());
        command.env_clear().args(["print", "--compacted", "--as", "source"]).arg(&self.folder);
        self.set_environment(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn is_temporary(&self, path: &Path) -> bool {
        path.parent() == Some(&*self.folder)
            && path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with(ORPHAN))
    }
}

/// Returns a conversation of `turns` turns with reasoning and a tool call each. Each response has about
/// `response_bytes` bytes.
pub(crate) fn turns(turns: usize, response_bytes: usize) -> Value {
    let mut second = 0;
    let mut event = |kind: &str, fields: Value| {
        second += 1;
        let mut event = json!({
            "timestamp": format!("2026-01-01 00:{:02}:{:02}.5", second / 60, second % 60), "type": kind,
        });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let mut events = vec![event("config_delta", json!({"delta": {}}))];
    for turn in 0..turns {
        let id = format!("call{turn}");
        // "QUJD" is base64 of "ABC".
        let response = "QUJD".repeat(response_bytes / 3);
        events.extend([
            event("turn_start", json!({})),
            event("chat_request", json!({"content": format!("question {turn}")})),
            event("chat_response", json!({"reasoning": "I think of it. ".repeat(9)})),
            event("tool_call_request", json!({"id": id, "name": "read", "arguments": {"path": "QUJD"}})),
            event("tool_call_response", json!({"id": id, "content": response, "is_error": false})),
            event("chat_response", json!({"message": format!("answer {turn}")})),
        ]);
    }
    events.into()
}
