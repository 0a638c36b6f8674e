//! The file of ours that lies beside a transcript which somebody else writes (TRANSCRIPTS). It is made, replaced and
//! removed like a transcript: whole or not at all, under a lock, on disk before it is reported. The transcript itself is
//! never opened for writing.
//!
//! The lock is on the transcript's folder: the one place where all who write meet, whatever their own folders are.
//!
//! Version 0.1.0 gave the file another name. Where a file has the new name, it counts, and one of the old name does not;
//! so a write that is cut short between making the one and removing the other loses nothing.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use jp_compact_core::sidecar::{AROUND, OLD_SUFFIX};

use super::{
    Place, ReplaceError, StoreError,
    compare::Stamp,
    error::{unreadable, unwritable},
    lock,
    place::EVENTS,
    replace::check_size,
    snapshot::{Links, open, read_open},
    temporary::{Temporary, remove_orphans},
};
use crate::private_file;

/// Where the overlays of a transcript are that is not JP's.
#[derive(Debug, Clone)]
pub struct Beside {
    path: PathBuf,
    /// Where version 0.1.0 had them.
    old: PathBuf,
    source: PathBuf,
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
        let source = place.path().canonicalize().map_err(unreadable("find", place.path()))?;
        let name = source.file_name().unwrap_or_default();
        let named = |before: &str, behind: &str| {
            let mut around = OsString::from(before);
            around.push(name);
            around.push(behind);
            source.with_file_name(around)
        };
        Ok(Self { path: named(AROUND.0, AROUND.1), old: named("", OLD_SUFFIX), source })
    }

    /// The file that holds them once they are written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads them.
    ///
    /// # Errors
    ///
    /// Fails where there is something that is no file, or that the system does not let be read.
    pub fn read(&self) -> Result<Option<Found>, StoreError> {
        for path in [&self.path, &self.old] {
            let mut file = match open(path, Links::Refuse) {
                Err(StoreError::Unreadable { source, .. }) if is_absent(&source) => continue,
                file => file?,
            };
            let stamp = stamp(&file).map_err(unreadable("read", path))?;
            return Ok(Some(Found { path: path.clone(), bytes: read_open(&mut file, path)?, stamp }));
        }
        Ok(None)
    }

    /// Checks what can be told beforehand.
    ///
    /// # Errors
    ///
    /// Fails where [`Beside::replace`] would refuse.
    pub fn check_writable(&self) -> Result<(), StoreError> {
        match [&self.path, &self.old].into_iter().find(|path| path.is_symlink()) {
            Some(path) => Err(StoreError::Symlink { path: path.clone() }),
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
        let place = Place::beside(self.path.clone());
        let _lock = lock::acquire(&place, wait)?;
        let folder = place.folder();
        remove_orphans(folder);
        let now = self.read()?;
        let made = build(now.as_ref().map(|now| now.bytes.clone())).map_err(ReplaceError::Build)?;
        let opened =
            private_file::open_folder(folder).map_err(unwritable("open the folder of", &self.path))?;
        match made {
            Some(bytes) => self.put(&bytes, now.as_ref(), &opened)?,
            None => self.remove(now.as_ref(), &opened)?,
        }
        Ok(())
    }

    /// Puts the file in place, and then removes the one of the old name, which has not counted since.
    fn put(&self, bytes: &[u8], now: Option<&Found>, folder: &File) -> Result<(), StoreError> {
        check_size(&self.path, &[bytes])?;
        // Who may read a transcript may read what is said of it, and nobody else.
        let like = fs::metadata(&self.source).map_err(unreadable("read", &self.source))?;
        let beside = self.path.parent().unwrap_or(&self.path);
        let mut temporary = Temporary::create(beside, &like)
            .map_err(unwritable("make a temporary file with the same owner beside", &self.path))?;
        temporary.fill(&[bytes]).map_err(unwritable("write a new version of", &self.path))?;
        self.check_untouched(now)?;
        temporary.put_at(&self.path).map_err(unwritable("replace", &self.path))?;
        self.sync(folder)?;
        remove(&self.old)
    }

    /// Removes the file; that of the old name first, for it would count again if it were left alone.
    fn remove(&self, now: Option<&Found>, folder: &File) -> Result<(), StoreError> {
        self.check_untouched(now)?;
        if now.is_some_and(|now| now.path == self.path) && self.old.exists() {
            remove(&self.old)?;
            self.sync(folder)?;
        }
        let Some(now) = now else { return Ok(()) };
        remove(&now.path)?;
        self.sync(folder)
    }

    /// Whoever minds the lock has changed nothing since it was read; others may have.
    fn check_untouched(&self, now: Option<&Found>) -> Result<(), StoreError> {
        let is = |path: &Path| match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(Stamp::of(&metadata))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable("find", path)(error)),
        };
        for path in [&self.path, &self.old] {
            let was = now.filter(|now| now.path == *path).map(|now| now.stamp);
            // What lies under the old name does not count where there is one of the new.
            if is(path)? != was && !(*path == self.old && now.is_some_and(|now| now.path == self.path)) {
                return Err(StoreError::Changed { path: path.clone(), how: "was changed" });
            }
        }
        Ok(())
    }

    fn sync(&self, folder: &File) -> Result<(), StoreError> {
        folder.sync_all().map_err(|source| StoreError::NotDurable { path: self.path.clone(), source })
    }
}

fn stamp(file: &File) -> io::Result<Stamp> {
    file.metadata().map(|metadata| Stamp::of(&metadata))
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(unwritable("remove", path)(error)),
        _ => Ok(()),
    }
}

/// A transcript's own name may be so long that none can be made of it.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
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
