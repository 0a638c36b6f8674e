//! The results of an earlier run, from its report. The report is read line by line. It may be incomplete, because a
//! killed run leaves only the lines of the transcripts that it finished.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jp_compact_runtime::small_file;
use jp_compact_schema::report::{OutReport, Status, TranscriptReport};
use rustix::fs::OFlags;
use serde::Deserialize;

use super::report::{ReportLines, part_path};

/// The results of an earlier run.
#[derive(Debug, Default)]
pub struct PreviousReport {
    files: Vec<File>,
    /// Whether the first file is the final report.
    has_final: bool,
    dry_run: bool,
    finished: HashMap<PathKey, FinishedTranscript>,
}

/// The path of a transcript as it is written in a report: `path` and `path_base64`.
type PathKey = (String, Option<String>);

#[derive(Debug)]
struct FinishedTranscript {
    /// The digest of the transcript. `None` if it must be processed again.
    sha256: Option<String>,
    out: Option<OutReport>,
    line: LinePosition,
}

/// The position of a line.
#[derive(Debug)]
struct LinePosition {
    /// The index in the list of files.
    file: usize,
    offset: u64,
    bytes: usize,
}

/// The fields of a line that are needed here.
#[derive(Deserialize)]
struct LineFields {
    path: String,
    #[serde(default)]
    path_base64: Option<String>,
    status: Status,
    #[serde(default)]
    sha256: Option<String>,
    #[serde(default)]
    out: Option<OutReport>,
}

/// The fields of the first line that are needed here.
#[derive(Deserialize)]
struct HeaderFields {
    jp_compact_report: u32,
    dry_run: bool,
}

impl PreviousReport {
    /// Reads the final report, and the file with the lines that are not in it yet.
    ///
    /// # Errors
    /// A file cannot be read or is not a batch report, or only one of the two runs is a dry run.
    pub fn read(path: &Path, dry_run: bool) -> io::Result<Self> {
        let has_final = path.metadata().is_ok_and(|metadata| metadata.is_file());
        let mut report = Self { has_final, dry_run, ..Self::default() };
        if has_final {
            report.read_file(small_file::open(path, OFlags::empty()), dry_run)?;
        }
        // The user did not name this file, so links are not followed.
        report.read_file(small_file::open(&part_path(path), OFlags::NOFOLLOW), dry_run)?;
        Ok(report)
    }

    fn read_file(&mut self, file: io::Result<File>, dry_run: bool) -> io::Result<()> {
        match file {
            Ok(file) => self.read_lines(file, dry_run),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn read_lines(&mut self, file: File, dry_run: bool) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(256 << 10, file.try_clone()?);
        let file_index = self.files.len();
        let (mut offset, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line)?;
            if bytes == 0 {
                break;
            }
            let text = line.trim_ascii_end();
            let text = text.strip_suffix(b",").unwrap_or(text);
            if offset == 0 {
                check_header(text, dry_run)?;
            } else if let Ok(fields) = serde_json::from_slice::<LineFields>(text) {
                self.record(fields, LinePosition { file: file_index, offset, bytes: text.len() });
            }
            offset += bytes as u64;
        }
        self.files.push(file);
        Ok(())
    }

    /// Records the newest line of a transcript.
    fn record(&mut self, fields: LineFields, line: LinePosition) {
        let key = (fields.path, fields.path_base64);
        let sha256 = fields.sha256.filter(|_| fields.status != Status::Failed);
        if sha256.is_some() || fields.out.is_some() {
            self.finished.insert(key, FinishedTranscript { sha256, out: fields.out, line });
        } else {
            self.finished.remove(&key);
        }
    }

    /// Keeps the lines of the transcripts that a stopped run did not reach, for the next run. Its final report replaces
    /// the earlier one, and does not have them.
    ///
    /// # Errors
    /// A line cannot be read or written.
    pub fn keep_unreached(&self, lines: &mut ReportLines) -> io::Result<()> {
        let mut reached = HashSet::new();
        lines.each(|line| {
            let LineFields { path, path_base64, .. } = serde_json::from_slice(line)?;
            reached.insert((path, path_base64));
            Ok(())
        })?;
        let unreached = self.finished.iter().filter(|(key, _)| !reached.contains(*key));
        for (_, finished) in unreached {
            lines.keep_earlier(&self.read_line(&finished.line)?)?;
        }
        Ok(())
    }

    /// Returns the line of a transcript, raw and parsed, if the transcript has these bytes.
    pub(super) fn line(&self, entry: &TranscriptReport, sha256: &str) -> Option<(Vec<u8>, TranscriptReport)> {
        let line = self
            .read_line(&self.find(entry).filter(|finished| finished.sha256.as_deref() == Some(sha256))?.line)
            .ok()?;
        let previous_entry = serde_json::from_slice(&line).ok()?;
        Some((line, previous_entry))
    }

    fn read_line(&self, position: &LinePosition) -> io::Result<Vec<u8>> {
        let mut line = vec![0; position.bytes];
        self.files[position.file].read_exact_at(&mut line, position.offset)?;
        Ok(line)
    }

    /// Returns the report entry of the view that the earlier run wrote for a transcript.
    pub(super) fn out(&self, entry: &TranscriptReport) -> Option<&OutReport> {
        self.find(entry)?.out.as_ref()
    }

    /// Returns whether a transcript is in the final report. If so, the name of its view is on disk, because the final
    /// report is written after all views.
    pub(super) fn is_in_final_report(&self, entry: &TranscriptReport) -> bool {
        self.has_final && self.find(entry).is_some_and(|finished| finished.line.file == 0)
    }

    /// Returns whether the earlier run was a dry run. If so, this run is one, too.
    pub(super) fn is_of_dry_run(&self) -> bool {
        self.dry_run
    }

    fn find(&self, entry: &TranscriptReport) -> Option<&FinishedTranscript> {
        self.finished.get(&(entry.path.clone(), entry.path_base64.clone()))
    }
}

/// Checks the first line. In a final report, the list of transcripts begins on it.
fn check_header(line: &[u8], dry_run: bool) -> io::Result<()> {
    let closed = line.strip_suffix(b",\"transcripts\":[").map(|header| [header, b"}"].concat());
    let header: Option<HeaderFields> = serde_json::from_slice(closed.as_deref().unwrap_or(line)).ok();
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
