//! The readers of all small files of the host: ids, configuration, manifests, records, caches. A cloned repository or
//! another program may have put anything at a standard path. [`read`] therefore opens it without following links and
//! without blocking, checks type and size on the open descriptor, and stops at a limit per kind. Whole transcripts must
//! not be read here, because the store has other rules.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

/// JP's `.id`: a line of warning and five characters.
pub const ID: u64 = 4 << 10;
/// A configuration file, or the options of a strategy.
pub const CONFIGURATION: u64 = 1 << 20;
/// A file of JP next to its conversations.
pub const JP_FILE: u64 = 4 << 20;
/// A `plugin.toml`.
pub const MANIFEST: u64 = 64 << 10;
/// A cache entry or record of one plugin, digest, or answer.
pub const RECORD: u64 = 64 << 10;
/// A cache entry with a description. The description alone has at most 8 MiB, like a reply.
pub const DESCRIPTION: u64 = 16 << 20;
/// A `plugins.lock`.
pub const LOCK: u64 = 1 << 20;
/// A file in `/etc`, `/proc`, or `/sys`.
const SYSTEM_FILE: u64 = 16 << 20;

/// Reads a file from a standard location. Returns `None` if it does not exist.
///
/// # Errors
/// The file is not regular, is a link, or is larger than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    none_if_missing(open(path, OFlags::NOFOLLOW).and_then(|file| read_all(file, bytes_max)))
}

/// Same as [`read`], for the file name of `path` in the folder that `folder` opens.
pub fn read_at(
    folder: &dyn Fn() -> io::Result<OwnedFd>,
    path: &Path,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    let name = Path::new(path.file_name().unwrap_or_default());
    let open = |folder| open_at(folder, name, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty());
    none_if_missing(folder().and_then(open).and_then(|file| read_all(file, bytes_max)))
}

/// Same as [`read`] for a location that belongs to the user or the machine. Links are followed there, because only the
/// owner of the location can create them.
pub fn read_through_links(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    none_if_missing(open(path, OFlags::empty()).and_then(|file| read_all(file, bytes_max)))
}

/// Reads a file in `/etc`, `/proc`, or `/sys`, if it is valid UTF-8.
pub fn read_system_text(path: &str) -> Option<String> {
    String::from_utf8(read_system_bytes(path)?).ok()
}

/// Same as [`read_system_text`], for files that contain names chosen by others, which may not be UTF-8.
pub fn read_system_bytes(path: &str) -> Option<Vec<u8>> {
    read_through_links(Path::new(path), SYSTEM_FILE).ok()?
}

/// Reads a file that the user named. It may be a link or a pipe.
///
/// # Errors
/// The file does not exist, cannot be read, or is larger than `bytes_max`.
pub fn read_named(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?, bytes_max)
}

/// Reads up to `bytes_max` bytes from the start of a file.
pub fn read_start(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    open(path, OFlags::empty())?.take(bytes_max).read_to_end(&mut start)?;
    Ok(start)
}

/// Reads up to `bytes_max` bytes from the end of a file.
pub fn read_end(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path, OFlags::empty())?;
    let size = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(size.saturating_sub(bytes_max)))?;
    let mut end = Vec::new();
    file.take(bytes_max).read_to_end(&mut end)?;
    Ok(end)
}

/// Converts bytes to text. Fails if they are not valid UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

/// Opens a regular file for reading. Links are followed unless `links` forbids it.
pub fn open(path: &Path, links: OFlags) -> io::Result<File> {
    open_at(CWD, path, OFlags::RDONLY | links, Mode::empty())
}

/// Opens a regular file relative to an open folder. Never blocks on other file types.
pub fn open_at(folder: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let descriptor = openat(&folder, path, flags, mode).map_err(|error| {
        let is_link = || {
            let stat = statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
        };
        // With `NOFOLLOW`, even a link without a target has another error than `NOENT`.
        let may_be_link = flags.contains(OFlags::NOFOLLOW) && error != Errno::NOENT;
        if may_be_link && is_link() { invalid_input(LINK) } else { error.into() }
    });
    let file = File::from(descriptor?);
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(invalid_input(if kind.is_dir() {
        "it is a folder"
    } else if kind.is_fifo() {
        "it is a named pipe"
    } else {
        "it is a device, not a file"
    }))
}

const LINK: &str = "it is a symbolic link, but must be a regular file";

fn invalid_input(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn read_all(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    if size <= bytes_max {
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    }
    if size.max(bytes.len() as u64) > bytes_max {
        let message = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn none_if_missing(result: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        other => other.map(Some),
    }
}
