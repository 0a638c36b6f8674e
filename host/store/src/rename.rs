//! The rename that gives a replaced transcript, a sidecar, or a new folder its final name. A new single file gets its
//! name from `private_file::finish_new`.

use std::{io, os::fd::BorrowedFd, path::Path};

use rustix::fs::{CWD, renameat};

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rename_at(CWD, from, to)
}

/// Renames a file or folder relative to an open folder.
pub(super) fn rename_at(folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat(folder, from, folder, to)?)
}
