//! The other copies of a conversation, which are written together with the copy that JP would load. JP loads the newer
//! copy and overwrites the other copy, so a write must never make another copy newer
//! (docs/reference/store.md#two-copies).
//!
//! A copy with the same raw events gets the same bytes before the loaded copy does, and keeps its time. So JP's choice
//! is the same at every moment, and a crash between the two writes leaves two valid copies.

use std::{
    fs::{File, Metadata},
    io::{self, Seek as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::copy_comparison::{CopyComparison, compare};
use bytes::Bytes;

use super::{
    Place, StoreError,
    compare::{Stamp, common_prefix},
    error::{unreadable, unwritable},
    open_folder::OpenFolder,
    place::last_written,
    snapshot::read_open,
    temporary::{Temporary, remove_orphans},
    untouched::check_untouched,
};

/// A copy with the same raw events.
#[derive(Debug)]
pub(super) struct EqualCopy {
    path: PathBuf,
    folder: Arc<OpenFolder>,
    metadata: Metadata,
}

/// A copy whose new version is on disk, but has not been renamed into place.
#[derive(Debug)]
pub(super) struct PreparedCopy {
    copy: EqualCopy,
    temporary: Temporary,
}

/// Compares every other copy with `bytes`, the contents of the loaded copy. Returns the copies with the same raw
/// events. A copy that is a link, or outside of the allowed root, is compared but not returned.
pub(super) fn equal_copies(place: &Place, bytes: &Bytes) -> Result<Vec<EqualCopy>, StoreError> {
    let mut equal = Vec::new();
    for path in place.twins() {
        let mut file = match place.open_twin(path) {
            Err(StoreError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                continue;
            }
            other => other?,
        };
        let metadata = file.metadata().map_err(unreadable("read", path))?;
        // Copies that JP wrote have the same bytes. Compare them without reading the file into memory.
        let is_identical = metadata.len() == bytes.len() as u64
            && common_prefix(&mut file, bytes).map_err(unreadable("read", path))? == bytes.len();
        let other = if is_identical {
            CopyComparison::Equal
        } else {
            compare(bytes, &read_from_start(&mut file, path)?)
        };
        match other {
            CopyComparison::Equal if path.is_symlink() || !place.may_write(path) => {}
            CopyComparison::Equal => {
                let folder = place.open_folder_of(path).map_err(unwritable("open the folder of", path))?;
                equal.push(EqualCopy { path: path.clone(), folder: Arc::new(folder), metadata });
            }
            CopyComparison::Shorter => {}
            CopyComparison::Disagrees => {
                let (path, twin) = (place.path().to_path_buf(), path.clone());
                return Err(StoreError::Disagree { path, twin });
            }
        }
    }
    Ok(equal)
}

fn read_from_start(file: &mut File, path: &Path) -> Result<Bytes, StoreError> {
    file.rewind().map_err(unreadable("read", path))?;
    read_open(file, path)
}

impl EqualCopy {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the new version next to the copy.
    pub(super) fn prepare(self, pieces: &[&[u8]]) -> Result<PreparedCopy, StoreError> {
        remove_orphans(&self.folder);
        let mut temporary = Temporary::create(&self.folder, &self.metadata)
            .map_err(unwritable("create a temporary file with the same owner next to", &self.path))?;
        let previous_time = |_: &File| self.metadata.modified().map(Some);
        temporary
            .fill_with_time(pieces, previous_time)
            .map_err(unwritable("write a new version of", &self.path))?;
        Ok(PreparedCopy { copy: self, temporary })
    }
}

impl PreparedCopy {
    /// Replaces the copy, and waits until the rename is on disk.
    pub(super) fn rename_into_place(self) -> Result<(), StoreError> {
        let Self { copy, temporary } = self;
        check_untouched(&copy.folder, &copy.path, Stamp::new(&copy.metadata))?;
        let name = copy.path.file_name().unwrap_or_default();
        temporary.rename_to(name).map_err(unwritable("replace", &copy.path))?;
        copy.folder.sync().map_err(unwritable("sync the folder of", &copy.path))
    }
}

/// Returns the modification time to set on the new file, so that JP still loads it. JP loads the copy with the newest
/// modification time, and a clock can run backwards. `None` if the file is already newer than all other copies.
pub(super) fn newer_than_others(place: &Place, new: &File) -> io::Result<Option<SystemTime>> {
    let mut newest = None;
    for folder in place.twins().iter().filter_map(|twin| twin.parent()) {
        newest = newest.max(last_written(folder).map_err(io::Error::other)?);
    }
    let Some(newest) = newest else { return Ok(None) };
    // One second later, because some file systems store no fractions.
    Ok((newest >= new.metadata()?.modified()?).then(|| newest + Duration::from_secs(1)))
}
