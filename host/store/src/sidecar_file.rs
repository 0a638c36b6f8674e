//! The sidecar of a transcript that another agent writes (docs/reference/store.md#sidecar). It is created, replaced
//! and removed like a transcript: completely or not at all, under a lock, and on disk before success is reported. The
//! transcript itself is never opened for writing.
//!
//! The lock is on the transcript's folder, because all processes that write the sidecar share this folder.
//!
//! Version 0.1.0 used another file name. If both files exist, the one with the new name counts. A write that is
//! interrupted between the creation of the new file and the removal of the old one therefore loses nothing.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use jp_compact_transcripts::sidecar::{AROUND, OLD_SUFFIX};

use super::{
    Place, ReplaceError, StoreError,
    compare::Stamp,
    error::{unreadable, unwritable},
    lock,
    open_file::Links,
    open_folder::{OpenFolder, is_absent},
    place::EVENTS,
    replace::check_size,
    snapshot::read_open,
    temporary::{Temporary, remove_orphans},
};

/// The sidecar of a transcript.
#[derive(Debug, Clone)]
pub struct SidecarFile {
    place: Place,
    /// The path in version 0.1.0.
    old: PathBuf,
    /// The transcript's file name.
    source: OsString,
}

/// The content of a sidecar.
#[derive(Debug)]
pub struct SidecarContent {
    pub path: PathBuf,
    pub bytes: Bytes,
    stamp: Stamp,
}

impl SidecarFile {
    /// Returns the sidecar of a transcript, next to the real file if the path is a link.
    ///
    /// # Errors
    ///
    /// The transcript does not exist.
    pub fn for_place(place: &Place) -> Result<Self, StoreError> {
        let source = if place.has_allowed_root() {
            place.path().to_path_buf()
        } else {
            place.path().canonicalize().map_err(unreadable("find", place.path()))?
        };
        let name = source.file_name().unwrap_or_default();
        let with_affixes = |prefix: &str, suffix: &str| {
            let mut affixed = OsString::from(prefix);
            affixed.push(name);
            affixed.push(suffix);
            source.with_file_name(affixed)
        };
        let (path, old) = (with_affixes(AROUND.0, AROUND.1), with_affixes("", OLD_SUFFIX));
        Ok(Self { place: place.at_path(path), old, source: name.to_owned() })
    }

    /// Returns the path that the next write uses.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the new and the old file name.
    fn names(&self) -> [&OsStr; 2] {
        [self.place.name(), self.old.file_name().unwrap_or_default()]
    }

    /// Reads the sidecar, if there is one.
    ///
    /// # Errors
    ///
    /// The path is not a regular file, or cannot be read.
    pub fn read(&self) -> Result<Option<SidecarContent>, StoreError> {
        self.read_in(&self.place.folder_to_read()?)
    }

    fn read_in(&self, folder: &OpenFolder) -> Result<Option<SidecarContent>, StoreError> {
        for (path, name) in [self.path(), &self.old].into_iter().zip(self.names()) {
            let mut file = match folder.file(name, Links::Refuse) {
                Err(StoreError::Unreadable { source, .. }) if is_absent(&source) => continue,
                file => file?,
            };
            let metadata = file.metadata().map_err(unreadable("read", path))?;
            let (path, stamp) = (path.to_path_buf(), Stamp::new(&metadata));
            return Ok(Some(SidecarContent { bytes: read_open(&mut file, &path)?, path, stamp }));
        }
        Ok(None)
    }

    /// Checks in advance whether [`SidecarFile::replace`] would reject the path.
    ///
    /// # Errors
    ///
    /// The sidecar is a symbolic link.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        match [self.path(), &self.old].into_iter().find(|path| path.is_symlink()) {
            Some(path) => Err(StoreError::Symlink { path: path.to_path_buf() }),
            None => Ok(()),
        }
    }

    /// Replaces the sidecar with the result of `build` on its current content. Removes it if `build` returns `None`.
    ///
    /// # Errors
    ///
    /// On any error except [`StoreError::NotDurable`], the sidecar is unchanged.
    pub fn replace<E>(
        &self,
        wait: Duration,
        build: impl FnOnce(Option<Bytes>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), ReplaceError<E>> {
        self.check_writable()?;
        let lock = lock::acquire(&self.place, wait)?;
        remove_orphans(&lock.folder);
        let current = self.read_in(&lock.folder)?;
        let new_content =
            build(current.as_ref().map(|current| current.bytes.clone())).map_err(ReplaceError::Build)?;
        match new_content {
            Some(bytes) => self.write(&bytes, current.as_ref(), &lock.folder)?,
            None => self.remove(current.as_ref(), &lock.folder)?,
        }
        // Other writers in this folder need not wait for the sync, because they build on the new content.
        let folder = lock.release();
        self.sync(&folder)?;
        Ok(())
    }

    /// Renames the new file into place, and then removes the file with the old name, which no longer counts.
    fn write(
        &self,
        bytes: &[u8],
        current: Option<&SidecarContent>,
        folder: &Arc<OpenFolder>,
    ) -> Result<(), StoreError> {
        let path = self.path();
        check_size(path, &[bytes])?;
        // The sidecar has the permissions of its transcript.
        let metadata =
            folder.file(&self.source, Links::Refuse)?.metadata().map_err(unreadable("read", path))?;
        let mut temporary = Temporary::create(folder, &metadata)
            .map_err(unwritable("create a temporary file with the same owner next to", path))?;
        temporary.fill(&[bytes]).map_err(unwritable("write a new version of", path))?;
        self.check_untouched(current, folder)?;
        temporary.rename_to(self.place.name()).map_err(unwritable("replace", path))?;
        let [_, old] = self.names();
        if folder.stamp(old)?.is_some() {
            self.sync(folder)?;
            self.remove_file(old, folder)?;
        }
        Ok(())
    }

    /// Removes both files. The old name is removed first, because it would count again without the new one.
    fn remove(&self, current: Option<&SidecarContent>, folder: &OpenFolder) -> Result<(), StoreError> {
        self.check_untouched(current, folder)?;
        let Some(current) = current else { return Ok(()) };
        let [new, old] = self.names();
        if current.path != self.old {
            if folder.stamp(old)?.is_some() {
                self.remove_file(old, folder)?;
                self.sync(folder)?;
            }
            self.remove_file(new, folder)?;
        } else {
            self.remove_file(old, folder)?;
        }
        Ok(())
    }

    /// Fails if the sidecar has changed since it was read, by a process that ignores the lock.
    fn check_untouched(
        &self,
        current: Option<&SidecarContent>,
        folder: &OpenFolder,
    ) -> Result<(), StoreError> {
        for (path, name) in [self.path(), &self.old].into_iter().zip(self.names()) {
            let expected = current.filter(|current| current.path == path).map(|current| current.stamp);
            if folder.stamp(name)? != expected {
                return Err(StoreError::Changed { path: path.to_path_buf(), how: "was changed" });
            }
            // The old name does not count if the new one exists.
            if expected.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Removes a file that may not be there.
    fn remove_file(&self, name: &OsStr, folder: &OpenFolder) -> Result<(), StoreError> {
        match folder.remove(name) {
            Err(error) if !is_absent(&error) => {
                Err(unwritable("remove", self.path().with_file_name(name))(error))
            }
            _ => Ok(()),
        }
    }

    fn sync(&self, folder: &OpenFolder) -> Result<(), StoreError> {
        let not_durable =
            |source: io::Error| StoreError::NotDurable { path: self.path().to_path_buf(), source };
        folder.sync().map_err(not_durable)
    }
}

/// Returns whether a file has the name of JP's streams.
#[must_use]
pub fn is_events(place: &Place) -> bool {
    place.path().file_name().is_some_and(|name| name == EVENTS)
}

/// Returns whether a file has the new or the old name of a sidecar.
#[must_use]
pub fn is_sidecar_path(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let source_name =
        name.strip_prefix(AROUND.0.as_bytes()).and_then(|name| name.strip_suffix(AROUND.1.as_bytes()));
    source_name.is_some_and(|name| !name.is_empty()) || name.ends_with(OLD_SUFFIX.as_bytes())
}
