//! A write that is only rehearsed, for a dry run: what the write would be refused for is found without writing or making
//! anything. What cannot be known beforehand (a full disk, a file that changes later) is left to the write.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::splice::Piece;
use rustix::fs::{Access, access};

use super::{
    Beside, Place, StoreError,
    copies::{EqualCopy, equal_copies},
    error::unwritable,
    lock,
    replace::{check_size, check_writable},
};

/// Checks what [`super::replace`] would refuse: the place, the lock as it is now, the other copies, the size and the folder.
///
/// # Errors
///
/// As [`super::replace`] would.
pub fn rehearse(place: &Place, snapshot: &Bytes, wait: Duration, pieces: &[Piece]) -> Result<(), StoreError> {
    check_writable(place)?;
    lock::probe(place, wait)?;
    let copies = equal_copies(place, snapshot)?;
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes(snapshot)).collect();
    check_size(place.path(), &pieces)?;
    let copies = copies.iter().map(EqualCopy::path);
    [place.path()].into_iter().chain(copies).try_for_each(check_folder_of)
}

impl Beside {
    /// Checks what [`Beside::replace`] would refuse, if the file came to hold these bytes.
    ///
    /// # Errors
    ///
    /// As [`Beside::replace`] would.
    pub fn rehearse(&self, wait: Duration, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_writable()?;
        lock::probe(self.place(), wait)?;
        check_size(self.path(), &[bytes])?;
        check_folder_of(self.path())
    }
}

/// Whether a file can be made next to another.
fn check_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| unwritable("make a temporary file with the same owner beside", path)(error.into()))
}

/// Whether a file can be made at a path, with the folders above it that are missing.
///
/// # Errors
///
/// Something that is no folder is in the way, or the nearest folder cannot be written to.
pub fn check_new(path: &Path) -> Result<(), StoreError> {
    let failed = unwritable("write the view to", path);
    let mut above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    let Some(nearest) = above.find(|above| above.symlink_metadata().is_ok()) else { return Ok(()) };
    if !nearest.is_dir() {
        return Err(failed(std::io::ErrorKind::NotADirectory.into()));
    }
    access(nearest, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| failed(error.into()))
}
