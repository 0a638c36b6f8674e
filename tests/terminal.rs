//! The executable for users at a terminal and for other programs: several transcripts, flags, manual pages.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and starts the executable"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// A folder with `copies` copies of the sample conversation.
struct World(tempfile::TempDir);

impl World {
    fn new(copies: usize) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for copy in 0..copies {
            let folder = world.folder(copy);
            fs::create_dir(&folder).unwrap();
            let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
            fs::copy(sample, folder.join("events.json")).unwrap();
        }
        world
    }

    fn folder(&self, copy: usize) -> PathBuf {
        self.0.path().join(format!("c{copy}"))
    }

    /// Adds a conversation that cannot be read.
    fn add_unreadable(&self) {
        fs::create_dir(self.0.path().join("bad")).unwrap();
        fs::write(self.0.path().join("bad/events.json"), "{}").unwrap();
    }

    fn bytes(&self, copy: usize) -> Vec<u8> {
        fs::read(self.folder(copy).join("events.json")).unwrap()
    }

    fn jp_compact(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(cargo_bin("jp-compact"));
        command
            .env_clear()
            .env("TMPDIR", self.0.path())
            .current_dir(&self.0)
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Returns the number of files and folders other than the test's transcripts.
    fn leftovers(&self) -> usize {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| !name.to_str().unwrap().starts_with('c')).count()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const NOW: [&str; 4] = ["--now", "2026-03-01T00:00:00Z", "--keep-last", "1"];

#[test]
fn several_transcripts_are_reported_in_order() {
    let names: Vec<_> = (0..20).map(|copy| format!("c{copy}")).collect();
    let single = World::new(1);
    assert!(single.jp_compact(&[&["c0"], &NOW[..]].concat()).status.success());
    let world = World::new(20);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let output = world.jp_compact(&[&names[..], &NOW, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), names.len());
    for (copy, line) in text(&output.stdout).lines().enumerate() {
        let report: Value = serde_json::from_str(line).unwrap();
        assert!(report["path"].as_str().unwrap().ends_with(&format!("/c{copy}/events.json")), "{line}");
        assert_eq!(report["overlays"].as_array().unwrap().len(), 2);
        assert!(world.bytes(copy) == single.bytes(0), "{copy}");
    }
    assert_eq!(world.leftovers(), 0);
}

#[test]
fn transcript_given_twice_is_compacted_once() {
    let world = World::new(1);
    let output = world.jp_compact(&[&["c0", "./c0/events.json"], &NOW[..], &["--json"]].concat());
    let counts = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["overlays"].as_array().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn failure_of_one_transcript_does_not_stop_the_others() {
    let world = World::new(2);
    world.add_unreadable();
    let output = world.jp_compact(&[&["c0", "bad", "c1"], &NOW[..]].concat());
    assert_eq!(output.status.code(), Some(19));
    assert!(text(&output.stderr).contains("1 of 3 transcripts failed"));
    assert!(world.bytes(0) == world.bytes(1));
}

#[test]
fn lock_timeout_is_respected() {
    let world = World::new(1);
    let folder = File::open(world.folder(0)).unwrap();
    folder.lock().unwrap();
    let before = world.bytes(0);
    let output = world.jp_compact(&[&["c0", "--lock-timeout", "0s"], &NOW[..]].concat());
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let output = world.jp_compact(&["c0", "--lock-timeout", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(world.bytes(0) == before);
}

#[test]
fn json_log_has_one_object_per_line() {
    let world = World::new(1);
    world.add_unreadable();
    let output = world.jp_compact(&[&["c0", "bad", "-vv", "--log-format", "json"], &NOW[..]].concat());
    let lines: Vec<Value> =
        text(&output.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["fields"]["strategy"] == "strip-tools"), "{lines:#?}");
    assert!(
        lines.iter().any(|line| line["level"] == "ERROR" && line["fields"]["error"]["code"] == 4),
        "{lines:#?}"
    );
}

#[test]
fn manual_pages_exist_for_the_executable_and_each_command() {
    let world = World::new(0);
    let page =
        |arguments: &[&str]| text(&world.jp_compact(&[&["man"], arguments].concat()).stdout).to_owned();
    assert!(page(&[]).contains(".TH jp-compact 1"));
    for command in ["print", "show", "strategy", "schema", "completions", "man"] {
        assert!(page(&[command]).contains(command), "{command}");
    }
    assert_eq!(world.jp_compact(&["man", "nothing"]).status.code(), Some(2));
}
