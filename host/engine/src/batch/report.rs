//! The report of a batch. When a transcript is finished, its line is written to a separate file, so a crash loses no
//! line. The final report has the lines in the order of the transcripts. Only the user may read the files, because
//! errors and reasons of strategies can quote a conversation.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jp_compact_runtime::private_file;
use jp_compact_schema::document::ErrorReport;
use jp_compact_schema::report::{BatchTotal, GateReport, REPORT, ShardOf};
use serde::Serialize;

/// The first line.
#[derive(Debug, Clone, Serialize)]
struct ReportHeader<'a> {
    jp_compact_report: u32,
    jp_compact: &'a str,
    dry_run: bool,
    estimator: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<ShardOf>,
}

/// The parts of the report other than the transcripts.
#[derive(Debug, Clone)]
pub struct ReportSummary<'a> {
    /// The sums over all transcripts.
    pub total: &'a BatchTotal,
    /// The results of the gates.
    pub gates: &'a [GateReport],
    /// The error that ended the run.
    pub error: Option<&'a ErrorReport>,
    /// Whether the report contains every transcript.
    pub complete: bool,
}

/// The lines of a report, in their separate file. Only their positions are kept in memory.
#[derive(Debug)]
pub struct ReportLines {
    file: File,
    header: Vec<u8>,
    /// The path of the file, if it has a name.
    part_path: Option<PathBuf>,
    /// Whether the file has lines of an earlier run that the final report does not have.
    has_earlier: bool,
    /// Locked during a write. Therefore, a killed run leaves at most one incomplete line, at the end.
    positions: Mutex<LinePositions>,
}

/// The positions of lines in the file.
#[derive(Debug)]
struct LinePositions {
    lines: Vec<LinePosition>,
    /// The end of the last line.
    end: u64,
}

#[derive(Debug)]
struct LinePosition {
    /// The number of the transcript.
    number: usize,
    offset: u64,
    bytes: usize,
}

/// Returns the path of the file that has the lines until the report is complete.
pub(super) fn part_path(report: &Path) -> PathBuf {
    let mut name = OsString::from(report);
    name.push(".part");
    name.into()
}

impl ReportLines {
    /// Starts a report. Its lines are written to a file next to it, so that a killed run can be resumed. If `report` is
    /// `None`, or exists and is not a regular file, the lines are written to an unnamed temporary file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn begin(
        report: Option<&Path>,
        resume: bool,
        temp_dir: &Path,
        (version, dry_run, estimator): (&str, bool, &str),
        shard: Option<ShardOf>,
    ) -> io::Result<Self> {
        let header =
            ReportHeader { jp_compact_report: REPORT, jp_compact: version, dry_run, estimator, shard };
        let header = serde_json::to_vec(&header)?;
        let part_path = match report {
            Some(report) if report.metadata().is_ok_and(|metadata| !metadata.is_file()) => None,
            report => report.map(part_path),
        };
        let mut file = match &part_path {
            None => tempfile::tempfile_in(temp_dir)?,
            // The user did not name this file, so it could be anything.
            Some(path) => {
                let file = private_file::open_or_make(path, private_file::PRIVATE)?;
                // An older version can have left a file that others may read.
                file.set_permissions(Permissions::from_mode(private_file::PRIVATE))?;
                file
            }
        };
        if !resume {
            file.set_len(0)?;
        }
        let mut end = file.seek(SeekFrom::End(0))?;
        if end == 0 {
            file.write_all(&header)?;
            file.write_all(b"\n")?;
            end = header.len() as u64 + 1;
        } else {
            // Separates the new lines from an incomplete last line.
            file.write_all(b"\n")?;
            end += 1;
        }
        let positions = Mutex::new(LinePositions { lines: Vec::new(), end });
        Ok(Self { file, header, part_path, has_earlier: false, positions })
    }

    /// Adds the line of the transcript with this number.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn add(&self, number: usize, line: &[u8]) -> io::Result<()> {
        self.append(Some(number), line)
    }

    /// Appends the line of a transcript just before its view gets its name. The final report does not contain this
    /// line. If the run is killed, the next run reads the line, and knows that the view is not a file of the user.
    pub(super) fn announce(&self, line: &[u8]) -> io::Result<()> {
        if self.part_path.is_some() { self.append(None, line) } else { Ok(()) }
    }

    /// Appends a line of an earlier run, which the final report does not contain. The file with the lines is kept.
    pub(super) fn keep_earlier(&mut self, line: &[u8]) -> io::Result<()> {
        self.has_earlier = true;
        self.append(None, line)
    }

    /// Appends a line. A line without a `number` is not in the final report.
    fn append(&self, number: Option<usize>, line: &[u8]) -> io::Result<()> {
        let line_with_end = [line, b"\n"].concat();
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = positions.end;
        let new_end = offset + line_with_end.len() as u64;
        private_file::check_size(new_end)?;
        self.file.write_all_at(&line_with_end, offset)?;
        if let Some(number) = number {
            positions.lines.push(LinePosition { number, offset, bytes: line.len() });
        }
        positions.end = new_end;
        Ok(())
    }

    /// Calls `visit` for each line, in the order of the transcripts.
    ///
    /// # Errors
    /// The file cannot be read, or `visit` fails.
    pub fn each(&mut self, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let lines = &mut self.positions.get_mut().unwrap_or_else(PoisonError::into_inner).lines;
        lines.sort_unstable_by_key(|line| (line.number, line.offset));
        let mut line = Vec::new();
        for LinePosition { offset, bytes, .. } in lines {
            line.resize(*bytes, 0);
            self.file.read_exact_at(&mut line, *offset)?;
            visit(&line)?;
        }
        Ok(())
    }

    /// Writes the report.
    ///
    /// # Errors
    /// The lines cannot be read, or `out` fails.
    pub fn write(&mut self, summary: &ReportSummary<'_>, out: &mut dyn Write) -> io::Result<()> {
        let header = self.header.strip_suffix(b"}").unwrap_or(&self.header);
        out.write_all(header)?;
        out.write_all(b",\"transcripts\":[")?;
        let mut first = true;
        self.each(|line| {
            out.write_all(if first { b"\n" } else { b",\n" })?;
            first = false;
            out.write_all(line)
        })?;
        out.write_all(b"\n],\"total\":")?;
        serde_json::to_writer(&mut *out, summary.total)?;
        out.write_all(b",\"gates\":")?;
        serde_json::to_writer(&mut *out, summary.gates)?;
        if let Some(error) = summary.error {
            out.write_all(b",\"error\":")?;
            serde_json::to_writer(&mut *out, error)?;
        }
        writeln!(out, ",\"complete\":{}}}", summary.complete)
    }

    /// Writes the report file completely or not at all, and removes the file with the lines, unless it has lines of an
    /// earlier run.
    ///
    /// # Errors
    /// The report cannot be written. In this case, the file with the lines is kept.
    pub fn finish(&mut self, summary: &ReportSummary<'_>, report: &Path) -> io::Result<()> {
        if self.has_earlier {
            self.file.sync_data()?;
        }
        write_file(report, |out| self.write(summary, out))?;
        match &self.part_path {
            Some(path) if !self.has_earlier => std::fs::remove_file(path),
            _ => Ok(()),
        }
    }

    /// Writes another file completely or not at all. `write` gets the lines.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_other_file(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut Self, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        write_file(path, |out| write(self, out))
    }
}

/// Writes a file completely or not at all. Writes directly to a device or a pipe.
fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        write(&mut out)?;
        return out.flush();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private_file::remove_orphans(folder);
    let file = private_file::begin(&folder.join(path.file_name().unwrap_or_default()))?;
    let mut out = BufWriter::with_capacity(256 << 10, file.as_file());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    private_file::finish(file, path, private_file::PRIVATE)?;
    private_file::sync_folder_of(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_user_may_read_an_existing_part() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("r.json");
        let part = part_path(&report);
        fs::write(&part, "").unwrap();
        for resume in [false, true] {
            fs::set_permissions(&part, Permissions::from_mode(0o644)).unwrap();
            ReportLines::begin(Some(&report), resume, folder.path(), ("1", false, "e"), None).unwrap();
            assert_eq!(part.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
