//! An open folder, and operations on the files in it by name. If the folder's path changes after the open, nothing
//! elsewhere is read, created, replaced or removed.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};

use super::{
    StoreError,
    compare::Stamp,
    open_file::{Links, open_at},
    rename::rename_at,
};

#[derive(Debug)]
pub(super) struct OpenFolder {
    /// `None` resolves the path at every operation. That is enough to read a transcript if there is no allowed root.
    folder: Option<File>,
    path: PathBuf,
}

impl OpenFolder {
    pub(super) fn new(folder: OwnedFd, path: &Path) -> Self {
        Self { folder: Some(folder.into()), path: path.to_path_buf() }
    }

    /// Refers to a folder by its path, for reading only. The folder need not be listable.
    pub(super) fn by_path(path: &Path) -> Self {
        Self { folder: None, path: path.to_path_buf() }
    }

    fn resolve(&self, name: &OsStr) -> (BorrowedFd<'_>, PathBuf) {
        match &self.folder {
            Some(folder) => (folder.as_fd(), name.into()),
            None => (CWD, self.path.join(name)),
        }
    }

    /// Opens a regular file for reading.
    pub(super) fn file(&self, name: &OsStr, links: Links) -> Result<File, StoreError> {
        let (folder, path) = self.resolve(name);
        open_at(folder, &path, links, &self.path.join(name))
    }

    /// Returns the stamp of a file, or `None` if it does not exist.
    pub(super) fn stamp(&self, name: &OsStr) -> Result<Option<Stamp>, StoreError> {
        match self.file(name, Links::Refuse) {
            Err(StoreError::Unreadable { source, .. }) if is_absent(&source) => Ok(None),
            Err(StoreError::Symlink { path } | StoreError::NotAFile { path, .. }) => {
                Err(StoreError::Changed { path, how: "was changed" })
            }
            file => {
                let read_error = super::error::unreadable("read", self.path.join(name));
                Ok(Some(Stamp::new(&file?.metadata().map_err(read_error)?)))
            }
        }
    }

    /// Creates a file that only its owner can read.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let (folder, path) = self.resolve(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, path, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let ((folder, from), (_, to)) = (self.resolve(from), self.resolve(to));
        rename_at(folder, &from, &to)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let (folder, path) = self.resolve(name);
        Ok(unlinkat(folder, path, AtFlags::empty())?)
    }

    /// Lists the names in the folder.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let Some(folder) = &self.folder else {
            return fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
        };
        Dir::read_from(folder)?
            .map(|entry| Ok(OsString::from_vec(entry?.file_name().to_bytes().to_vec())))
            .collect()
    }

    /// Waits until the folder's names are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.folder {
            Some(folder) => folder.sync_all(),
            None => self.handle()?.sync_all(),
        }
    }

    /// Opens another handle of the folder. A lock on it can end before the folder is closed.
    pub(super) fn handle(&self) -> io::Result<File> {
        let (folder, path) = self.resolve(OsStr::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(folder, path, flags, Mode::empty())?.into())
    }
}

/// Returns whether the error means that the file does not exist. A name derived from another name may be too long.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}
