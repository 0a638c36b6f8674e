//! The results of an earlier run, from its report. The report is read line by line. It may be incomplete,
//! because a killed run leaves the lines that it had written.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jp_compact_runtime::small_file;
use jp_compact_schema::report::{OutReport, Status, TranscriptReport};
use rustix::fs::OFlags;
use serde::Deserialize;

use super::report::part;

/// The results of an earlier run.
#[derive(Debug, Default)]
pub struct PreviousReport {
    files: Vec<File>,
    /// Whether the first of them is the final report.
    has_final: bool,
    done: HashMap<Key, Done>,
}

/// A path as it is written in a report.
type Key = (String, Option<String>);

/// A finished transcript and the position of its line.
#[derive(Debug)]
struct Done {
    sha256: String,
    out: Option<OutReport>,
    file: usize,
    at: u64,
    bytes: usize,
}

/// The required fields of a line.
#[derive(Deserialize)]
struct Line {
    path: String,
    #[serde(default)]
    path_base64: Option<String>,
    status: Status,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    out: Option<OutReport>,
}

/// The required fields of the first line.
#[derive(Deserialize)]
struct Header {
    jp_compact_report: u32,
    dry_run: bool,
}

impl PreviousReport {
    /// Reads the report and the separate lines that were not merged into it yet.
    ///
    /// # Errors
    /// A file cannot be read, is not a batch report, or is from a dry run when this run is not one (or the reverse).
    pub fn read(path: &Path, dry_run: bool) -> io::Result<Self> {
        let mut report = Self::default();
        let typed_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        report.has_final = typed_file;
        let typed_file = typed_file.then(|| small_file::open(path, OFlags::empty()));
        // The user did not name the second file, so links are not followed.
        for file in typed_file.into_iter().chain([small_file::open(&part(path), OFlags::NOFOLLOW)]) {
            match file {
                Ok(file) => report.read_lines(file, dry_run)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    fn read_lines(&mut self, file: File, dry_run: bool) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(256 << 10, file.try_clone()?);
        let (place, mut at, mut line) = (self.files.len(), 0, Vec::new());
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line)?;
            if bytes == 0 {
                break;
            }
            let text = line.trim_ascii_end();
            let text = text.strip_suffix(b",").unwrap_or(text);
            if at == 0 {
                check_header(text, dry_run)?;
            } else if let Ok(entry) = serde_json::from_slice::<Line>(text) {
                self.record(entry, Place { file: place, at, bytes: text.len() });
            }
            at += bytes as u64;
        }
        self.files.push(file);
        Ok(())
    }

    fn record(&mut self, line: Line, place: Place) {
        let key = (line.path, line.path_base64);
        let Place { file, at, bytes } = place;
        match line.sha256.filter(|_| line.status != Status::Failed) {
            Some(sha256) => drop(self.done.insert(key, Done { sha256, out: line.out, file, at, bytes })),
            None => drop(self.done.remove(&key)),
        }
    }

    /// Returns the line of a transcript, raw and parsed, if the transcript has these bytes.
    pub(super) fn line(&self, entry: &TranscriptReport, sha256: &str) -> Option<(Vec<u8>, TranscriptReport)> {
        let done = self.find(entry).filter(|done| done.sha256 == sha256)?;
        let mut line = vec![0; done.bytes];
        self.files[done.file].read_exact_at(&mut line, done.at).ok()?;
        let entry = serde_json::from_slice(&line).ok()?;
        Some((line, entry))
    }

    /// Returns the view that was written for a transcript.
    pub(super) fn out(&self, entry: &TranscriptReport) -> Option<&OutReport> {
        self.find(entry)?.out.as_ref()
    }

    /// Returns whether a transcript is in the final report. It was written after the names of all views were on disk.
    pub(super) fn is_final(&self, entry: &TranscriptReport) -> bool {
        self.find(entry).is_some_and(|done| self.has_final && done.file == 0)
    }

    fn find(&self, entry: &TranscriptReport) -> Option<&Done> {
        self.done.get(&(entry.path.clone(), entry.path_base64.clone()))
    }
}

/// The position of a line.
struct Place {
    file: usize,
    at: u64,
    bytes: usize,
}

/// Checks the head. It is the first line of a report, and the first of the separate lines.
fn check_header(text: &[u8], dry_run: bool) -> io::Result<()> {
    let open = text.strip_suffix(b",\"transcripts\":[").map(|header| [header, b"}"].concat());
    let header: Option<Header> = serde_json::from_slice(open.as_deref().unwrap_or(text)).ok();
    match header {
        Some(header) if header.jp_compact_report == jp_compact_schema::report::REPORT => {
            if header.dry_run && !dry_run {
                return Err(io::Error::other("cannot resume from a dry-run report"));
            }
            if dry_run && !header.dry_run {
                return Err(io::Error::other("cannot resume a dry run from the report of a real run"));
            }
            Ok(())
        }
        _ => Err(io::Error::other("it is not a batch report")),
    }
}
