//! Reads a transcript once, whole, into memory that many can share. Nothing here writes.

use std::{
    fs::File,
    io::{self, Read, Seek},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use bytes::Bytes;
use memmap2::MmapMut;
use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::{Place, StoreError, error::unreadable};

/// From this size on the bytes lie in a memory map of their own, in huge pages where the system has them: with
/// ordinary pages their faults cost as much as the copying.
const MAPPED_FROM_BYTES: usize = 4 << 20;

/// How much of a large file comes at a time: what a processor still has at hand when it is looked at.
const SEEN_BYTES: usize = 512 << 10;

/// Whether to read through a symlink.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// Reads what the transcript holds now.
///
/// # Errors
///
/// Fails where there is no regular file, where the system does not let it be read, and where it changes meanwhile.
pub fn read(place: &Place) -> Result<Bytes, StoreError> {
    read_seen(place, |_| {})
}

/// As [`read`], and shows the bytes of a large file as they come: `seen` is given all so far, from the first on.
///
/// # Errors
///
/// As [`read`]; what was seen is worth nothing then.
pub fn read_seen(place: &Place, seen: impl FnMut(&[u8])) -> Result<Bytes, StoreError> {
    read_open_seen(&mut place.open()?, place.path(), seen)
}

/// Reads a file that may be a transcript.
///
/// # Errors
///
/// As [`read`].
pub fn read_file(path: &Path) -> Result<Bytes, StoreError> {
    read_open(&mut open(path, Links::Follow)?, path)
}

/// Reads a file that was made here: a link in its place is not followed.
///
/// # Errors
///
/// As [`read`], and where it is a link.
pub(crate) fn read_own(path: &Path) -> Result<Bytes, StoreError> {
    read_open(&mut open(path, Links::Refuse)?, path)
}

/// Reads standard input to its end.
///
/// # Errors
///
/// Fails where the system does not let it be read.
pub fn read_stdin() -> Result<Bytes, StoreError> {
    let name = Path::new("standard input");
    let fd = io::stdin().as_fd().try_clone_to_owned().map_err(unreadable("read", name))?;
    let mut stdin = File::from(fd);
    if stdin.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return read_open(&mut stdin, name);
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(unreadable("read", name))?;
    Ok(bytes.into())
}

/// Opens a transcript for reading. Never waits, as opening a pipe would.
pub(super) fn open(path: &Path, links: Links) -> Result<File, StoreError> {
    open_at(CWD, path, links, path)
}

/// As [`open`], from a folder that is open; `path` is what it is called then.
pub(super) fn open_at(
    folder: BorrowedFd<'_>,
    name: &Path,
    links: Links,
    path: &Path,
) -> Result<File, StoreError> {
    let refuse = if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | refuse;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::LOOP) if links == Links::Refuse => {
            return Err(StoreError::Symlink { path: path.to_path_buf() });
        }
        other => File::from(other.map_err(|error| unreadable("open", path)(error.into()))?),
    };
    let kind = file.metadata().map_err(unreadable("open", path))?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let found = if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else {
        "a device"
    };
    Err(StoreError::NotAFile { path: path.to_path_buf(), found })
}

/// Reads an open regular file from where it stands to its end.
pub(super) fn read_open(file: &mut File, path: &Path) -> Result<Bytes, StoreError> {
    read_open_seen(file, path, |_| {})
}

fn read_open_seen(file: &mut File, path: &Path, seen: impl FnMut(&[u8])) -> Result<Bytes, StoreError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(path, "shrank"),
        _ => unreadable("read", path)(error),
    };
    let before = file.metadata().map_err(failed)?;
    let start = file.stream_position().map_err(failed)?;
    let size = usize::try_from(before.len().saturating_sub(start)).expect("a file fits the address space");
    let (bytes, grew) = if size < MAPPED_FROM_BYTES {
        read_small(file, size).map_err(failed)?
    } else {
        let bytes = read_large(file, size, seen).map_err(failed)?;
        (bytes, file.read(&mut [0]).map_err(failed)? != 0)
    };
    if grew {
        return Err(changed(path, "grew"));
    }
    let after = file.metadata().map_err(failed)?;
    // Not the whole stamp: a file that JP replaces while it is read is a file that lost its name, no more.
    if (before.len(), before.modified().ok()) != (after.len(), after.modified().ok()) {
        return Err(changed(path, "was written to"));
    }
    Ok(bytes)
}

/// Also tells whether there is more than so much.
fn read_small(file: &mut File, size: usize) -> io::Result<(Bytes, bool)> {
    let mut bytes = Vec::with_capacity(size + 1);
    while bytes.len() <= size
        && rustix::io::retry_on_intr(|| rustix::io::read(&*file, spare_capacity(&mut bytes)))? > 0
    {}
    if bytes.len() < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let grew = bytes.len() > size;
    Ok((bytes.into(), grew))
}

fn read_large(file: &mut File, size: usize, mut seen: impl FnMut(&[u8])) -> io::Result<Bytes> {
    let mut map = MmapMut::map_anon(size)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = map.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "no huge pages");
    }
    for start in (0..size).step_by(SEEN_BYTES) {
        let end = size.min(start + SEEN_BYTES);
        file.read_exact(&mut map[start..end])?;
        seen(&map[..end]);
    }
    Ok(Bytes::from_owner(map))
}

fn changed(path: &Path, how: &'static str) -> StoreError {
    StoreError::Changed { path: path.to_path_buf(), how }
}
