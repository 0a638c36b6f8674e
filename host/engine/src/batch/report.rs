//! The lines of a report while a batch runs, and the report that is made of them at its end. Lines are written as they
//! come, so that nothing is lost with the process; the report has them in the order of the transcripts.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use jp_compact_schema::report::{BatchTotal, GateReport, REPORT, ShardOf};
use serde::Serialize;

use crate::private_file;

/// A report holds nothing of what was said in a conversation.
const MODE: u32 = 0o644;

/// The first line.
#[derive(Debug, Clone, Serialize)]
struct Head<'a> {
    jp_compact_report: u32,
    jp_compact: &'a str,
    dry_run: bool,
    estimator: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<ShardOf>,
}

/// What a report says beside its lines.
#[derive(Debug, Clone)]
pub struct Written<'a> {
    /// The sums.
    pub total: &'a BatchTotal,
    /// The gates.
    pub gates: &'a [GateReport],
    /// Whether every transcript is in it.
    pub complete: bool,
}

/// The lines so far: in a file of their own, whose places are all that is kept in memory.
#[derive(Debug)]
pub struct Lines {
    file: File,
    head: Vec<u8>,
    /// Where they lie beside the report.
    part: Option<PathBuf>,
    /// By the number of the transcript.
    places: Vec<(usize, u64, usize)>,
    end: u64,
}

/// The file that holds the lines of a report until it is made.
pub(super) fn part(report: &Path) -> PathBuf {
    let mut name = OsString::from(report);
    name.push(".part");
    name.into()
}

impl Lines {
    /// Begins a report. Its lines lie beside it, so that a run which is killed can be taken up; without a file, or
    /// where that is none, they lie in the temporary folder, without a name.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(
        report: Option<&Path>,
        resume: bool,
        temp_dir: &Path,
        (version, dry_run, estimator): (&str, bool, &str),
        shard: Option<ShardOf>,
    ) -> io::Result<Self> {
        let head = Head { jp_compact_report: REPORT, jp_compact: version, dry_run, estimator, shard };
        let head = serde_json::to_vec(&head)?;
        let is_file = |path: &&Path| path.metadata().map_or(true, |metadata| metadata.is_file());
        let part = report.filter(is_file).map(part);
        let mut file = match &part {
            None => tempfile::tempfile_in(temp_dir)?,
            // Nobody named it: it may be anything that lies there.
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
            // What was torn is a line of its own.
            file.write_all(b"\n")?;
            end += 1;
        }
        Ok(Self { file, head, part, places: Vec::new(), end })
    }

    /// Adds the line of a transcript.
    ///
    /// # Errors
    /// What the system reports.
    pub fn add(&mut self, place: usize, line: &[u8]) -> io::Result<()> {
        let whole = [line, b"\n"].concat();
        private_file::check_size(self.end + whole.len() as u64)?;
        self.file.write_all_at(&whole, self.end)?;
        self.places.push((place, self.end, line.len()));
        self.end += whole.len() as u64;
        Ok(())
    }

    /// Calls for each line, in the order of the transcripts.
    ///
    /// # Errors
    /// What the system, or whoever is called, reports.
    pub fn each(&mut self, mut look: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.places.sort_unstable();
        let mut line = Vec::new();
        for (_, at, bytes) in &self.places {
            line.resize(*bytes, 0);
            self.file.read_exact_at(&mut line, *at)?;
            look(&line)?;
        }
        Ok(())
    }

    /// Writes the report.
    ///
    /// # Errors
    /// What the system, or `out`, reports.
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
        writeln!(out, ",\"complete\":{}}}", written.complete)
    }

    /// Puts the report in place, whole or not at all, and drops the lines beside it.
    ///
    /// # Errors
    /// It cannot be written: then the lines stay.
    pub fn finish(&mut self, written: &Written<'_>, report: &Path) -> io::Result<()> {
        put(report, |out| self.write(written, out))?;
        match &self.part {
            Some(part) => std::fs::remove_file(part),
            None => Ok(()),
        }
    }

    /// Puts something else that is made of the lines in place.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut Self, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        put(path, |out| write(self, out))
    }
}

/// Writes a file whole or not at all; what is no file, a device or a pipe, is written to.
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
