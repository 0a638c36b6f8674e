//! The opening of a regular file for reading: never a pipe or a device, and a symlink only if the caller follows links.

use std::{
    fs::File,
    os::{fd::BorrowedFd, unix::fs::FileTypeExt},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::{StoreError, error::unreadable};

/// The handling of a symlink in place of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// Opens a transcript for reading, without blocking on a pipe.
pub(super) fn open(path: &Path, links: Links) -> Result<File, StoreError> {
    open_at(CWD, path, links, path)
}

/// Like [`open`], relative to an open folder. Errors name the file `path`.
pub(super) fn open_at(
    folder: BorrowedFd<'_>,
    name: &Path,
    links: Links,
    path: &Path,
) -> Result<File, StoreError> {
    let nofollow = if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | nofollow;
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
    let kind_name = if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else {
        "a device"
    };
    Err(StoreError::NotAFile { path: path.to_path_buf(), found: kind_name })
}
