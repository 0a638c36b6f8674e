//! A conversation in a temporary folder, and the real executable beside it, with an environment that holds nothing
//! of the machine's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::strace::{Ran, Strace};

pub(crate) const NOW: &str = "2026-03-01T00:00:00Z";
pub(crate) const ORPHAN: &str = ".events.json.jpc-";
/// A folder of strategies that cost a shell to start and nothing to digest. (They are not written by the tests:
/// a file that any thread has open for writing cannot be executed.)
pub(crate) const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins");
pub(crate) const APPEND: [&str; 4] = ["--strategy", "quick", "--now", NOW];
pub(crate) const RESET: [&str; 1] = ["--reset"];
pub(crate) const BUNDLED: [&str; 6] =
    ["--strategy", "strip-reasoning", "--strategy", "strip-tools", "--now", NOW];

pub(crate) fn host() -> &'static Path {
    cargo_bin!("jp-compact")
}

/// A conversation, and what the executable needs around it.
pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) before: Vec<u8>,
    _temp: tempfile::TempDir,
}

impl World {
    /// A conversation in a folder of its own, outside any workspace.
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
        world.settle();
        world
    }

    /// Has the strategies copied and described, so that no run that is looked at does it; and leaves no folder in
    /// which digests could be remembered, for when that is done depends on the time.
    fn settle(&self) {
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

    /// The conversation as it was, and nothing beside it.
    pub(crate) fn restore(&self) {
        for name in self.names() {
            fs::remove_file(self.folder.join(name)).unwrap();
        }
        fs::write(self.events(), &self.before).unwrap();
    }

    /// What lies in the conversation's folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn orphans(&self) -> usize {
        self.names().iter().filter(|name| name.starts_with(ORPHAN)).count()
    }

    pub(crate) fn arguments(&self, words: &[&str]) -> Vec<OsString> {
        let words = ["--sandbox=contained", "--trust-dir", PLUGINS].iter().chain(words);
        words.map(OsString::from).chain([self.folder.clone().into()]).collect()
    }

    /// Where the executable looks for what is not in the conversation's folder. Its environment is else empty.
    pub(crate) fn surround(&self, command: &mut Command) {
        command.env("TMPDIR", self.root.join("tmp")).env("JP_USER_DATA_DIR", self.root.join("data"));
        command.env("HOME", self.root.join("home"));
        command.current_dir(&self.root);
    }

    /// Runs the executable undisturbed.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(host());
        command.env_clear().args(self.arguments(words));
        self.surround(&mut command);
        command.output().unwrap()
    }

    #[track_caller]
    pub(crate) fn succeeds(&self, words: &[&str]) -> Output {
        let output = self.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {}\n{stderr}", output.status);
        output
    }

    /// Runs it under strace.
    pub(crate) fn trace(&self, strace: &Strace, options: &[String], words: &[&str]) -> Ran {
        strace.run(&self.root, options, |command| {
            command.arg(host()).args(self.arguments(words));
            self.surround(command);
        })
    }

    /// What an undisturbed run makes of the conversation; the conversation is restored.
    pub(crate) fn after(&self, words: &[&str]) -> Vec<u8> {
        self.succeeds(words);
        let after = self.bytes();
        assert_ne!(after, self.before);
        self.restore();
        after
    }

    /// What a model is sent, in the transcript's own form.
    #[track_caller]
    pub(crate) fn view(&self) -> Vec<Value> {
        let mut command = Command::new(host());
        command.env_clear().args(["print", "--compacted", "--as", "source"]).arg(&self.folder);
        self.surround(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn is_temporary(&self, path: &Path) -> bool {
        path.parent() == Some(&*self.folder)
            && path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with(ORPHAN))
    }
}

/// A conversation of so many turns, each with reasoning and a tool call whose response has so many bytes.
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
