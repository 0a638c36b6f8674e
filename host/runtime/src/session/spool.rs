//! Files for events that are too large for a pipe. Each file is private, read-only, and has a random name. The folder
//! is created before the first strategy that can read such files, because its jail must allow it. It is removed with all
//! files at the end.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use jp_compact_schema::Events;
use jp_compact_schema::version::EVENTS_INLINE_BYTES_MAX;
use tempfile::{Builder, NamedTempFile};

use crate::digest::DigestWriter;
use crate::process::PrivateDir;

/// The length of a name, which makes guessing infeasible.
const NAME_CHARS: usize = 24;

/// The folder of a run. Most runs need no such files, and creating and removing a folder takes as long as many reads, so
/// the folder is created when it is first needed.
#[derive(Debug)]
pub struct Spool {
    temp_dir: PathBuf,
    folder: OnceLock<PrivateDir>,
}

impl Spool {
    /// Creates a spool without a folder.
    #[must_use]
    pub fn new(temp_dir: &Path) -> Self {
        Self { temp_dir: temp_dir.to_owned(), folder: OnceLock::new() }
    }

    /// Returns the folder, and creates it if this is the first call. A jail allows opening its files by name, but not
    /// listing it.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn folder(&self) -> io::Result<&Path> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path());
        }
        let new = PrivateDir::make(&self.temp_dir)?;
        // If another thread was faster, its folder is used, and this one is removed.
        Ok(self.folder.get_or_init(|| new).path())
    }

    fn file(&self) -> io::Result<NamedTempFile> {
        let read_only = Permissions::from_mode(0o400);
        let mut builder = Builder::new();
        builder.prefix("").rand_bytes(NAME_CHARS).permissions(read_only).tempfile_in(self.folder()?)
    }
}

/// Event lines in memory, or in a file if they are too large for a pipe. Dropping the value removes the file.
#[derive(Debug)]
pub enum Lines {
    /// Lines in memory.
    Inline(Bytes),
    /// Lines in a file.
    File(Spooled),
}

/// Event lines in a file.
#[derive(Debug)]
pub struct Spooled {
    file: NamedTempFile,
    bytes: u64,
    sha256: String,
}

impl Spooled {
    /// Returns the reference to the file for the header of a request.
    #[must_use]
    pub fn events(&self) -> Events {
        let path = self.file.path().to_string_lossy().into_owned();
        Events::File { path, bytes: self.bytes, sha256: self.sha256.clone() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }
}

/// Collects event lines, and switches to a file when they become too large.
pub struct Sink<'a> {
    spool: Option<&'a Spool>,
    inline_bytes_max: usize,
    memory: Vec<u8>,
    file: Option<(DigestWriter<BufWriter<File>>, NamedTempFile)>,
    bytes: u64,
}

impl<'a> Sink<'a> {
    /// Creates a sink. Without a spool, everything stays in memory.
    pub fn new(spool: Option<&'a Spool>) -> Self {
        let inline_bytes_max = usize::try_from(EVENTS_INLINE_BYTES_MAX).unwrap_or(usize::MAX);
        Self { spool, inline_bytes_max, memory: Vec::new(), file: None, bytes: 0 }
    }

    /// Creates a sink that uses a file from the first byte. Without any bytes, the lines stay in memory.
    pub fn of_a_file(spool: &'a Spool) -> Self {
        Self { inline_bytes_max: 0, ..Self::new(Some(spool)) }
    }

    /// Returns the collected lines.
    pub fn finish(self) -> io::Result<Lines> {
        let Some((mut writer, file)) = self.file else { return Ok(Lines::Inline(self.memory.into())) };
        writer.flush()?;
        Ok(Lines::File(Spooled { file, bytes: self.bytes, sha256: writer.sha256() }))
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        if let Some((writer, _)) = &mut self.file {
            writer.write_all(bytes)?;
            return Ok(bytes.len());
        }
        self.memory.extend_from_slice(bytes);
        if let Some(spool) = self.spool.filter(|_| self.memory.len() > self.inline_bytes_max) {
            let file = spool.file()?;
            let mut writer = DigestWriter::new(BufWriter::new(file.as_file().try_clone()?));
            writer.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some((writer, file));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn large_events_use_a_private_file_that_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let spool = Spool::new(base.path());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(spool.folder().unwrap()), 0o700);
        let collect = |spool, chunks: &[&[u8]]| {
            let mut sink = Sink { inline_bytes_max: 8, ..Sink::new(spool) };
            chunks.iter().for_each(|chunk| sink.write_all(chunk).unwrap());
            sink.finish().unwrap()
        };
        assert!(
            matches!(collect(Some(&spool), &[b"12345678"]), Lines::Inline(memory) if memory[..] == b"12345678"[..])
        );
        assert!(matches!(collect(None, &[b"123456789"]), Lines::Inline(_)));
        let Lines::File(spooled) = collect(Some(&spool), &[b"1234567", b"89", b"0"]) else {
            panic!("no file")
        };
        let path = spooled.path();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"1234567890"[..], 0o400));
        let sha256 = sha256_of(b"1234567890");
        assert_eq!(
            spooled.events(),
            Events::File { path: path.to_str().unwrap().to_owned(), bytes: 10, sha256 }
        );
        drop(spooled);
        assert!(!path.exists());
        let folder = spool.folder().unwrap().to_owned();
        drop(spool);
        assert!(!folder.exists());
    }

    fn sha256_of(bytes: &[u8]) -> String {
        crate::digest::of_bytes(bytes)
    }
}
