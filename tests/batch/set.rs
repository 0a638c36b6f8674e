//! Test fixture: a folder of conversations, and helpers that run a batch over it.

use std::fs;
use std::path::{Path, PathBuf};

use jp_compact_schema::report::{BatchReport, Status, TranscriptReport};
use serde_json::Value;

use crate::support::{CommandOutput, Conversation, Transcript, World};

pub(crate) const NOW: &str = "2026-06-01T00:00:00Z";
const STRIP: [&str; 4] = ["--strategy", "strip-tools", "--now", NOW];

/// Conversations `set/a0`, `set/a1` and so on, with varying numbers of turns.
pub(crate) struct Set {
    pub(crate) world: World,
    pub(crate) transcripts: Vec<Transcript>,
}

impl Set {
    pub(crate) fn new(count: usize) -> Self {
        let world = World::new();
        let transcripts = (0..count)
            .map(|number| {
                world.write_conversation(&format!("set/a{number}"), &Conversation::bulky(5 + number % 3))
            })
            .collect();
        Self { world, transcripts }
    }

    /// Returns the arguments of a batch over `set` with a strategy that strips tool calls.
    pub(crate) fn arguments<'a>(extra: &[&'a str]) -> Vec<&'a str> {
        [&["batch", "set"], &STRIP[..], extra].concat()
    }

    #[track_caller]
    pub(crate) fn batch(&self, extra: &[&str]) -> CommandOutput {
        self.world.run(&Self::arguments(extra))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    #[track_caller]
    pub(crate) fn report(&self, name: &str) -> BatchReport {
        parse_report(&fs::read(self.path(name)).unwrap())
    }

    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        self.transcripts.iter().for_each(Transcript::assert_untouched);
    }

    /// Returns the paths of the files below a folder, sorted.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let root = self.path(folder);
        let mut paths = Vec::new();
        collect_files(&root, &mut paths);
        let relative_path = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let mut names: Vec<_> = paths.iter().map(relative_path).collect();
        names.sort();
        names
    }
}

/// Treats symlinks as files, because one may point to its own folder.
fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() { collect_files(&path, paths) } else { paths.push(path) }
    }
}

/// Parses a report. Fails if the report has a member that its type lacks.
#[track_caller]
pub(crate) fn parse_report(bytes: &[u8]) -> BatchReport {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    let report: BatchReport = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&report).unwrap(), value);
    report
}

/// Returns the status of each transcript by its folder.
pub(crate) fn statuses(report: &BatchReport) -> Vec<(&str, Status)> {
    report.transcripts.iter().map(|entry| (folder_name(entry), entry.status)).collect()
}

/// Returns the name of a transcript's folder.
pub(crate) fn folder_name(entry: &TranscriptReport) -> &str {
    let folder = entry.path.strip_suffix("/events.json").unwrap_or(&entry.path);
    folder.rsplit('/').next().unwrap()
}
