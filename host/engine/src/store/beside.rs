//! The file of ours that lies beside a transcript which somebody else writes (TRANSCRIPTS). It is made, replaced and
//! removed like a transcript: whole or not at all, under a lock, on disk before it is reported. The transcript itself is
//! never opened for writing.
//!
//! The lock is on the transcript's folder: the one place where all who write meet, whatever their own folders are.
//!
//! Version 0.1.0 gave the file another name. Where a file has the new name, it counts, and one of the old name does not;
//! so a write that is cut short between making the one and removing the other loses nothing.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use jp_compact_core::sidecar::{AROUND, OLD_SUFFIX};

use super::{
    Place, ReplaceError, StoreError,
    compare::Stamp,
    error::{unreadable, unwritable},
    lock,
    open_folder::{OpenFolder, is_absent},
    place::EVENTS,
    replace::check_size,
    snapshot::{Links, read_open},
    temporary::{Temporary, remove_orphans},
};

/// Where the overlays of a transcript are that is not JP's.
#[derive(Debug, Clone)]
pub struct Beside {
    place: Place,
    /// What version 0.1.0 called it.
    old: PathBuf,
    /// The transcript's name.
    source: OsString,
}

/// Overlays that were read.
#[derive(Debug)]
pub struct Found {
    /// The file that they are in.
    pub path: PathBuf,
    /// What it holds.
    pub bytes: Bytes,
    stamp: Stamp,
}

impl Beside {
    /// Where those of this transcript are: beside the real file, whatever led to it.
    ///
    /// # Errors
    ///
    /// Fails where the transcript cannot be found.
    pub fn of(place: &Place) -> Result<Self, StoreError> {
        let source = if place.is_fenced() {
            place.path().to_path_buf()
        } else {
            place.path().canonicalize().map_err(unreadable("find", place.path()))?
        };
        let name = source.file_name().unwrap_or_default();
        let named = |before: &str, behind: &str| {
            let mut around = OsString::from(before);
            around.push(name);
            around.push(behind);
            source.with_file_name(around)
        };
        let (path, old) = (named(AROUND.0, AROUND.1), named("", OLD_SUFFIX));
        Ok(Self { place: place.beside(path), old, source: name.to_owned() })
    }

    /// The file that holds them once they are written.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The same as a place of its own.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Its name, and what it was called.
    fn names(&self) -> [&OsStr; 2] {
        [self.place.name(), self.old.file_name().unwrap_or_default()]
    }

    /// Reads them.
    ///
    /// # Errors
    ///
    /// Fails where there is something that is no file, or that the system does not let be read.
    pub fn read(&self) -> Result<Option<Found>, StoreError> {
        self.read_in(&self.place.folder_to_read()?)
    }

    fn read_in(&self, folder: &OpenFolder) -> Result<Option<Found>, StoreError> {
        for (path, name) in [self.path(), &self.old].into_iter().zip(self.names()) {
            let mut file = match folder.file(name, Links::Refuse) {
                Err(StoreError::Unreadable { source, .. }) if is_absent(&source) => continue,
                file => file?,
            };
            let metadata = file.metadata().map_err(unreadable("read", path))?;
            let (path, stamp) = (path.to_path_buf(), Stamp::of(&metadata));
            return Ok(Some(Found { bytes: read_open(&mut file, &path)?, path, stamp }));
        }
        Ok(None)
    }

    /// Checks what can be told beforehand.
    ///
    /// # Errors
    ///
    /// Fails where [`Beside::replace`] would refuse.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        match [self.path(), &self.old].into_iter().find(|path| path.is_symlink()) {
            Some(path) => Err(StoreError::Symlink { path: path.to_path_buf() }),
            None => Ok(()),
        }
    }

    /// Puts what `build` makes of what is there now in its place; where it makes nothing, nothing stays there.
    ///
    /// # Errors
    ///
    /// On any error but [`StoreError::NotDurable`] what was there is there still.
    pub fn replace<E>(
        &self,
        wait: Duration,
        build: impl FnOnce(Option<Bytes>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), ReplaceError<E>> {
        self.check_writable()?;
        let lock = lock::acquire(&self.place, wait)?;
        remove_orphans(&lock.folder);
        let now = self.read_in(&lock.folder)?;
        let made = build(now.as_ref().map(|now| now.bytes.clone())).map_err(ReplaceError::Build)?;
        match made {
            Some(bytes) => self.put(&bytes, now.as_ref(), &lock.folder)?,
            None => self.remove(now.as_ref(), &lock.folder)?,
        }
        // Others in this folder need not wait until it is on disk: what they make holds what is there now.
        let folder = lock.release();
        self.sync(&folder)?;
        Ok(())
    }

    /// Puts the file in place, and then removes the one of the old name, which has not counted since.
    fn put(&self, bytes: &[u8], now: Option<&Found>, folder: &Arc<OpenFolder>) -> Result<(), StoreError> {
        let path = self.path();
        check_size(path, &[bytes])?;
        // Who may read a transcript may read what is said of it, and nobody else.
        let like = folder.file(&self.source, Links::Refuse)?.metadata().map_err(unreadable("read", path))?;
        let mut temporary = Temporary::create(folder, &like)
            .map_err(unwritable("make a temporary file with the same owner beside", path))?;
        temporary.fill(&[bytes]).map_err(unwritable("write a new version of", path))?;
        self.check_untouched(now, folder)?;
        temporary.put_at(self.place.name()).map_err(unwritable("replace", path))?;
        let [_, old] = self.names();
        if folder.stamp(old)?.is_some() {
            self.sync(folder)?;
            self.remove_file(old, folder)?;
        }
        Ok(())
    }

    /// Removes the file; that of the old name first, for it would count again if it were left alone.
    fn remove(&self, now: Option<&Found>, folder: &OpenFolder) -> Result<(), StoreError> {
        self.check_untouched(now, folder)?;
        let Some(now) = now else { return Ok(()) };
        let [new, old] = self.names();
        if now.path != self.old {
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

    /// Whoever minds the lock has changed nothing since it was read; others may have.
    fn check_untouched(&self, now: Option<&Found>, folder: &OpenFolder) -> Result<(), StoreError> {
        for (path, name) in [self.path(), &self.old].into_iter().zip(self.names()) {
            let was = now.filter(|now| now.path == path).map(|now| now.stamp);
            if folder.stamp(name)? != was {
                return Err(StoreError::Changed { path: path.to_path_buf(), how: "was changed" });
            }
            // What lies under the old name does not count where there is one of the new.
            if was.is_some() {
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

/// Whether a file is called as JP calls a stream.
#[must_use]
pub fn is_events(place: &Place) -> bool {
    place.path().file_name().is_some_and(|name| name == EVENTS)
}

/// Whether a file is called as those are, or were, that lie beside transcripts.
#[must_use]
pub fn is_beside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let inside =
        name.strip_prefix(AROUND.0.as_bytes()).and_then(|name| name.strip_suffix(AROUND.1.as_bytes()));
    inside.is_some_and(|name| !name.is_empty()) || name.ends_with(OLD_SUFFIX.as_bytes())
}
