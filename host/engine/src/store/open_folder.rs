//! A folder that is open, and what lies in it by name: whatever becomes of its path meanwhile, nothing elsewhere is
//! read, made, replaced or removed.

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
    snapshot::{Links, open_at},
    temporary::rename_at,
};

/// A folder, to which names lead.
#[derive(Debug)]
pub(super) struct OpenFolder {
    /// None: by its path, each time anew. That is enough for who reads what anybody may point elsewhere.
    folder: Option<OwnedFd>,
    path: PathBuf,
}

impl OpenFolder {
    /// A folder that was opened.
    pub(super) fn new(folder: OwnedFd, path: &Path) -> Self {
        Self { folder: Some(folder), path: path.to_path_buf() }
    }

    /// A folder by its path, for who only reads: one that cannot be listed will do.
    pub(super) fn by_path(path: &Path) -> Self {
        Self { folder: None, path: path.to_path_buf() }
    }

    fn at(&self, name: &OsStr) -> (BorrowedFd<'_>, PathBuf) {
        match &self.folder {
            Some(folder) => (folder.as_fd(), name.into()),
            None => (CWD, self.path.join(name)),
        }
    }

    /// Opens a file for reading, which has to be a regular one.
    pub(super) fn file(&self, name: &OsStr, links: Links) -> Result<File, StoreError> {
        let (folder, path) = self.at(name);
        open_at(folder, &path, links, &self.path.join(name))
    }

    /// What tells a file from others; nothing where there is none.
    pub(super) fn stamp(&self, name: &OsStr) -> Result<Option<Stamp>, StoreError> {
        match self.file(name, Links::Refuse) {
            Err(StoreError::Unreadable { source, .. }) if is_absent(&source) => Ok(None),
            Err(StoreError::Symlink { path } | StoreError::NotAFile { path, .. }) => {
                Err(StoreError::Changed { path, how: "was changed" })
            }
            file => {
                let failed = super::error::unreadable("read", self.path.join(name));
                Ok(Some(Stamp::of(&file?.metadata().map_err(failed)?)))
            }
        }
    }

    /// Makes a file that only its owner can read.
    pub(super) fn make(&self, name: &OsStr) -> io::Result<File> {
        let (folder, path) = self.at(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, path, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Gives a file another name.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let ((folder, from), (_, to)) = (self.at(from), self.at(to));
        rename_at(folder, &from, &to)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let (folder, path) = self.at(name);
        Ok(unlinkat(folder, path, AtFlags::empty())?)
    }

    /// The names of what lies in it.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let Some(folder) = &self.folder else {
            return fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name())).collect();
        };
        Dir::read_from(folder)?
            .map(|entry| Ok(OsString::from_vec(entry?.file_name().to_bytes().to_vec())))
            .collect()
    }

    /// Waits until the names in it are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.handle()?.sync_all()
    }

    /// Another handle of the folder, for a lock or a sync.
    pub(super) fn handle(&self) -> io::Result<File> {
        let (folder, path) = self.at(OsStr::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(folder, path, flags, Mode::empty())?.into())
    }
}

/// Whether an error says that there is nothing. A name that is made of another may be too long.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}
