//! The sidecar of a transcript that another agent writes (docs/reference/store.md#sidecar). It is created, replaced
//! and removed like a transcript: completely or not at all, under a lock, and on disk before success is reported. The
//! transcript itself is never opened for writing.
//!
//! The lock is on the transcript's folder, because all processes that write the sidecar share this folder.
//!
//! The settings of one conversation are in a file next to its transcript, too. They are written in the same way. A
//! conversation of JP has them next to each of its copies, because JP can load any of them.
//!
//! Version 0.1.0 used another file name for sidecars. If both files exist, the file with the new name counts. A write
//! that is interrupted between the creation of the new file and the removal of the old file therefore loses nothing.

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
    record_folder::owner_file,
    replace::check_size,
    snapshot::read_open,
    temporary::{Temporary, remove_orphans},
};

/// The prefix and suffix that are added to a transcript's file name. The result is the file with the settings of its
/// conversation.
pub(super) const SETTINGS_AROUND: (&str, &str) = (".", ".jp-compact.toml");

/// The sidecar of a transcript, or the settings of its conversation.
#[derive(Debug, Clone)]
pub struct SidecarFile {
    place: Place,
    /// The path in version 0.1.0. `None` for settings, which that version did not have.
    old: Option<PathBuf>,
    /// The file with the owner and mode of the transcript, relative to its folder.
    source: OsString,
}

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
        let (path, old) = (with_affixes(&source, AROUND), with_affixes(&source, ("", OLD_SUFFIX)));
        Ok(Self { place: place.at_path(path), old: Some(old), source: owner_file(&source) })
    }

    /// Returns the settings next to each copy of a conversation that may be written. JP would load the first copy.
    #[must_use]
    pub fn settings_of(place: &Place) -> Vec<Self> {
        let copies = copies_of(place).into_iter().filter(|copy| place.may_write(copy));
        let settings = copies.map(|copy| Self {
            place: place.at_path(with_affixes(&copy, SETTINGS_AROUND)),
            old: None,
            source: owner_file(&copy),
        });
        settings.collect()
    }

    /// Returns the path that the next write uses.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the old file name, if there is one.
    fn old_name(&self) -> Option<&OsStr> {
        self.old.as_deref().and_then(Path::file_name)
    }

    /// Returns the new and the old path, each with its file name.
    fn paths(&self) -> impl Iterator<Item = (&Path, &OsStr)> {
        let old = self.old.as_deref().zip(self.old_name());
        [(self.path(), self.place.name())].into_iter().chain(old)
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
        for (path, name) in self.paths() {
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
        match self.paths().find(|(path, _)| path.is_symlink()) {
            Some((path, _)) => Err(StoreError::Symlink { path: path.to_path_buf() }),
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

    /// Renames the new file into place, and then removes the file with the old name. It no longer counts, so it may
    /// stay if it cannot be removed.
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
        if let Some(old) = self.old_name()
            && matches!(folder.stamp(old), Ok(Some(_)))
        {
            self.sync(folder)?;
            let removed = self.remove_file(old, folder);
            tracing::debug!(?removed, "removed the sidecar with the old name");
        }
        Ok(())
    }

    /// Removes both files. The old name is removed first, because it would count again without the new name.
    fn remove(&self, current: Option<&SidecarContent>, folder: &OpenFolder) -> Result<(), StoreError> {
        self.check_untouched(current, folder)?;
        let Some(current) = current else { return Ok(()) };
        let is_new = current.path == self.path();
        if let Some(old) = self.old_name()
            && (!is_new || folder.stamp(old)?.is_some())
        {
            self.remove_file(old, folder)?;
            if is_new {
                self.sync(folder)?;
            }
        }
        if is_new { self.remove_file(self.place.name(), folder) } else { Ok(()) }
    }

    /// Fails if the sidecar has changed since it was read, by a process that ignores the lock.
    fn check_untouched(
        &self,
        current: Option<&SidecarContent>,
        folder: &OpenFolder,
    ) -> Result<(), StoreError> {
        for (path, name) in self.paths() {
            let expected = current.filter(|current| current.path == path).map(|current| current.stamp);
            if folder.stamp(name)? != expected {
                return Err(StoreError::Changed { path: path.to_path_buf(), how: "was changed" });
            }
            // The old name does not count if the new name exists.
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

/// Adds a prefix and a suffix to a file name.
pub(super) fn with_affixes(path: &Path, (prefix, suffix): (&str, &str)) -> PathBuf {
    let mut affixed = OsString::from(prefix);
    affixed.push(path.file_name().unwrap_or_default());
    affixed.push(suffix);
    path.with_file_name(affixed)
}

/// Returns the paths of all copies of a conversation. JP would load the first copy. If the path of that copy is a link,
/// the link is followed. Other copies that are links are left out.
fn copies_of(place: &Place) -> Vec<PathBuf> {
    let loaded = place.path();
    let resolved = loaded.is_symlink().then(|| loaded.canonicalize().ok()).flatten();
    let mut copies = vec![resolved.unwrap_or_else(|| loaded.to_path_buf())];
    copies.extend(place.twins().iter().filter(|twin| !twin.is_symlink()).cloned());
    copies
}

/// Returns the paths at which the settings of a conversation can be, next to each of its copies.
#[must_use]
pub fn settings_paths(place: &Place) -> Vec<PathBuf> {
    copies_of(place).iter().map(|copy| with_affixes(copy, SETTINGS_AROUND)).collect()
}

/// Returns the transcript that has its settings at this path.
#[must_use]
pub fn transcript_of_settings(path: &Path) -> Option<PathBuf> {
    let name = without_affixes(path, SETTINGS_AROUND)?;
    let transcript = path.with_file_name(OsStr::from_bytes(name));
    if name == EVENTS.as_bytes() { transcript.parent().map(Path::to_path_buf) } else { Some(transcript) }
}

fn without_affixes<'a>(path: &'a Path, (prefix, suffix): (&str, &str)) -> Option<&'a [u8]> {
    let name = path.file_name()?.as_bytes().strip_prefix(prefix.as_bytes())?;
    name.strip_suffix(suffix.as_bytes()).filter(|name| !name.is_empty())
}

/// Returns whether a file has the name of JP's streams.
#[must_use]
pub fn is_events(place: &Place) -> bool {
    place.path().file_name().is_some_and(|name| name == EVENTS)
}

/// Returns whether a file has the new or the old name of a sidecar, or the name of a conversation's settings.
#[must_use]
pub fn is_sidecar_path(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    [AROUND, SETTINGS_AROUND].into_iter().any(|affixes| without_affixes(path, affixes).is_some())
        || name.ends_with(OLD_SUFFIX.as_bytes())
}
