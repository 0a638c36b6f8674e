//! The path of a transcript's lock. Module `lock` takes the lock.

use std::path::PathBuf;

/// The file or folder to lock while a transcript is written.
#[derive(Debug, Clone)]
pub(super) enum LockFile {
    /// JP's lock file.
    File {
        /// The path. The file is created if it is missing.
        path: PathBuf,
        /// The paths that JP would lock instead, if the files exist.
        others: Vec<PathBuf>,
    },
    /// The folder that the transcript is in.
    Folder,
}
