//! The last check before a rename: the original is still the file that was read.

use std::path::Path;

use super::{StoreError, compare::Stamp, open_folder::OpenFolder};

/// Checks the original once more, because an editor does not take the lock.
pub(super) fn check_untouched(folder: &OpenFolder, path: &Path, stamp: Stamp) -> Result<(), StoreError> {
    let how = match folder.stamp(path.file_name().unwrap_or_default())? {
        Some(current) if current == stamp => return Ok(()),
        Some(_) => "was changed",
        None => "was moved or removed",
    };
    Err(StoreError::Changed { path: path.to_path_buf(), how })
}
