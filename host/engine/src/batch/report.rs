//! The report of a batch. ReportLines are written to a separate file as transcripts finish, so a crash loses
//! nothing. The final report lists them in the order of the transcripts.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jp_compact_runtime::private_file;
use jp_compact_schema::document::ErrorReport;
use jp_compact_schema::report::{BatchTotal, GateReport, REPORT, ShardOf};
use serde::Serialize;

/// A report contains no text of a conversation.
const MODE: u32 = 0o644;

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
pub struct Written<'a> {
    /// The sums over all transcripts.
    pub total: &'a BatchTotal,
    /// The results of the gates.
    pub gates: &'a [GateReport],
    /// The error that ended the run.
    pub error: Option<&'a ErrorReport>,
    /// Whether the report contains every transcript.
    pub complete: bool,
}

/// The lines so far. They are in a separate file. Only their positions are kept in memory.
#[derive(Debug)]
pub struct ReportLines {
    file: File,
    head: Vec<u8>,
    /// The path of the file next to the report.
    part: Option<PathBuf>,
    /// Locked during a write, so a killed run leaves at most one incomplete line, and it is the last one.
    written: Mutex<Positions>,
}

/// The positions of lines in the file.
#[derive(Debug)]
struct Positions {
    /// By the number of the transcript.
    places: Vec<(usize, u64, usize)>,
    end: u64,
}

/// Returns the path of the file that holds the lines until the report is complete.
pub(super) fn part(report: &Path) -> PathBuf {
    let mut name = OsString::from(report);
    name.push(".part");
    name.into()
}

impl ReportLines {
    /// Starts a report. Its lines are written to a file next to it, so that a killed run can be resumed.
    /// Without a report file, or if it is not a regular file, they are written to an unnamed temporary file.
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
        let head = ReportHeader { jp_compact_report: REPORT, jp_compact: version, dry_run, estimator, shard };
        let head = serde_json::to_vec(&head)?;
        let is_file = |path: &&Path| path.metadata().map_or(true, |metadata| metadata.is_file());
        let part = report.filter(is_file).map(part);
        let mut file = match &part {
            None => tempfile::tempfile_in(temp_dir)?,
            // The user did not name this file, so it could be anything.
            Some(part) => private_file::open_or_make(part, MODE)?,
        };
        if !resume {
            file.set_len(0)?;
        }
        let mut end = file.seek(SeekFrom::End(0))?;
        if end == 0 {
            file.write_all(&head)?;
            file.write_all(b"\n")?;
            end = head.len() as u64 + 1;
        } else {
            // Ends an incomplete line.
            file.write_all(b"\n")?;
            end += 1;
        }
        Ok(Self { file, head, part, written: Mutex::new(Positions { places: Vec::new(), end }) })
    }

    /// Adds the line of a transcript.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn add(&self, place: usize, line: &[u8]) -> io::Result<()> {
        self.append(Some(place), line)
    }

    /// Appends the line of a transcript whose view gets its name next. The final report does not contain this
    /// line. A run that resumes a killed one finds it, and knows that the view is not a file of the user.
    pub(super) fn announce(&self, line: &[u8]) -> io::Result<()> {
        if self.part.is_some() { self.append(None, line) } else { Ok(()) }
    }

    fn append(&self, place: Option<usize>, line: &[u8]) -> io::Result<()> {
        let whole = [line, b"\n"].concat();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let at = written.end;
        private_file::check_size(at + whole.len() as u64)?;
        self.file.write_all_at(&whole, at)?;
        written.places.extend(place.map(|place| (place, at, line.len())));
        written.end += whole.len() as u64;
        Ok(())
    }

    /// Calls `look` for each line, in the order of the transcripts.
    ///
    /// # Errors
    /// The file cannot be read, or `look` fails.
    pub fn each(&mut self, mut look: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let places = &mut self.written.get_mut().unwrap_or_else(PoisonError::into_inner).places;
        places.sort_unstable();
        let mut line = Vec::new();
        for (_, at, bytes) in places {
            line.resize(*bytes, 0);
            self.file.read_exact_at(&mut line, *at)?;
            look(&line)?;
        }
        Ok(())
    }

    /// Writes the report.
    ///
    /// # Errors
    /// The lines cannot be read, or `out` fails.
    pub fn write(&mut self, written: &Written<'_>, out: &mut dyn Write) -> io::Result<()> {
        let head = self.head.strip_suffix(b"}").unwrap_or(&self.head);
        out.write_all(head)?;
        out.write_all(b",\"transcripts\":[")?;
        let mut first = true;
        self.each(|line| {
            out.write_all(if first { b"\n" } else { b",\n" })?;
            first = false;
            out.write_all(line)
        })?;
        out.write_all(b"\n],\"total\":")?;
        serde_json::to_writer(&mut *out, written.total)?;
        out.write_all(b",\"gates\":")?;
        serde_json::to_writer(&mut *out, written.gates)?;
        if let Some(error) = written.error {
            out.write_all(b",\"error\":")?;
            serde_json::to_writer(&mut *out, error)?;
        }
        writeln!(out, ",\"complete\":{}}}", written.complete)
    }

    /// Writes the report file completely or not at all, and removes the separate lines.
    ///
    /// # Errors
    /// The report cannot be written. The lines are kept then.
    pub fn finish(&mut self, written: &Written<'_>, report: &Path) -> io::Result<()> {
        put(report, |out| self.write(written, out))?;
        match &self.part {
            Some(part) => std::fs::remove_file(part),
            None => Ok(()),
        }
    }

    /// Writes another file that is built from the lines.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut Self, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        put(path, |out| write(self, out))
    }
}

/// Writes a file completely or not at all. Writes directly to a device or a pipe.
fn put(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
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
    private_file::finish(file, path, MODE)?;
    private_file::sync_folder_of(path)
}
