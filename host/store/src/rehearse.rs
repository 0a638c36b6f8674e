//! The rehearsal of a write, for a dry run. It finds the errors of the write without writing or creating anything. Some
//! errors cannot be found in advance (a full disk, a file that changes later).

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::splice::Piece;
use rustix::fs::{Access, access};

use super::{
    Place, SidecarFile, StoreError,
    copies::{EqualCopy, equal_copies},
    error::unwritable,
    lock,
    replace::{check_size, check_writable, size_limit},
};

/// Checks everything that [`super::replace`] would reject: the place, the current lock, the other copies, the size and
/// the folder. Calls `pieces` only if the size of files is limited.
///
/// # Errors
///
/// [`super::replace`] would fail.
pub fn rehearse(
    place: &Place,
    snapshot: &Bytes,
    wait: Duration,
    pieces: impl FnOnce() -> Vec<Piece>,
) -> Result<(), StoreError> {
    check_writable(place)?;
    lock::probe(place, wait)?;
    let copies = equal_copies(place, snapshot)?;
    // Pieces cost more than all other checks, and only their size is needed.
    if size_limit().is_some() {
        let pieces = pieces();
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes(snapshot)).collect();
        check_size(place.path(), &pieces)?;
    }
    let copies = copies.iter().map(EqualCopy::path);
    [place.path()].into_iter().chain(copies).try_for_each(check_folder_of)
}

impl SidecarFile {
    /// Checks everything that [`SidecarFile::replace`] would reject for these bytes. Calls `bytes` only if the size of
    /// files is limited.
    ///
    /// # Errors
    ///
    /// [`SidecarFile::replace`] would fail.
    pub fn rehearse(&self, wait: Duration, bytes: impl FnOnce() -> Vec<u8>) -> Result<(), StoreError> {
        self.check_writable()?;
        lock::probe(self.place(), wait)?;
        if size_limit().is_some() {
            check_size(self.path(), &[&bytes()])?;
        }
        check_folder_of(self.path())
    }
}

/// Checks that a file can be created next to `path`.
fn check_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        unwritable("create a temporary file with the same owner next to", path)(error.into())
    })
}

/// Checks that a file, and its missing parent folders, can be created.
///
/// # Errors
///
/// The nearest existing parent is not a folder, or is not writable.
pub fn check_new(path: &Path) -> Result<(), StoreError> {
    let write_error = unwritable("write the view to", path);
    let mut ancestors = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let Some(nearest) = ancestors.find(|folder| folder.symlink_metadata().is_ok()) else { return Ok(()) };
    if !nearest.is_dir() {
        return Err(write_error(std::io::ErrorKind::NotADirectory.into()));
    }
    access(nearest, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| write_error(error.into()))
}
