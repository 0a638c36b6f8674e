//! The folders whose new entries may not be on disk yet. A folder is synced once for many views, because a sync waits
//! for the disk. A report must not be written before [`UnsyncedFolders::finish`] returns.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jp_compact_runtime::private_file;
use jp_compact_store::StoreError;

/// The number of views between two syncs. It limits the number of views that a power cut can remove.
const VIEWS_MAX: usize = 256;

/// The folders of the views that were written since the last sync.
#[derive(Debug, Default)]
pub(super) struct UnsyncedFolders {
    pending: Mutex<Pending>,
    /// Locked during a sync, so that [`Self::finish`] waits for a sync that an aborted thread started.
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Pending {
    folders: BTreeSet<PathBuf>,
    views: usize,
    /// The first failure. It is kept, because a later sync of the same folder would succeed although entries are lost.
    first_error: Option<StoreError>,
}

impl UnsyncedFolders {
    /// Adds the folders of a view, after it got its name. Returns whether [`Self::sync`] is due.
    pub(super) fn add<'a>(&self, folders: impl Iterator<Item = &'a Path>) -> bool {
        let mut pending = lock(&self.pending);
        pending.views += 1;
        for folder in folders {
            if !pending.folders.contains(folder) {
                pending.folders.insert(folder.to_path_buf());
            }
        }
        pending.views >= VIEWS_MAX
    }

    /// Waits until the folders are on disk. [`Self::finish`] returns the first failure.
    pub(super) fn sync(&self) {
        let _syncing = lock(&self.syncing);
        let folders = {
            let mut pending = lock(&self.pending);
            pending.views = 0;
            std::mem::take(&mut pending.folders)
        };
        for path in folders {
            if let Err(source) = private_file::open_folder(&path).and_then(|folder| folder.sync_all()) {
                let error = StoreError::Unwritable { doing: "sync the folder", path, source };
                lock(&self.pending).first_error.get_or_insert(error);
            }
        }
    }

    /// Waits until all folders are on disk.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.sync();
        lock(&self.pending).first_error.take().map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(unsynced: &UnsyncedFolders, folder: &Path) -> bool {
        unsynced.add(std::iter::once(folder))
    }

    #[test]
    fn sync_is_due_after_many_views_and_forgets_its_folders() {
        let base = tempfile::tempdir().unwrap();
        let unsynced = UnsyncedFolders::default();
        let due_count = (0..VIEWS_MAX).filter(|_| add(&unsynced, base.path())).count();
        assert_eq!((due_count, lock(&unsynced.pending).folders.len()), (1, 1));
        unsynced.sync();
        assert!(!add(&unsynced, base.path()));
        assert!(unsynced.finish().is_ok() && lock(&unsynced.pending).folders.is_empty());
    }

    #[test]
    fn failure_of_an_earlier_sync_is_returned_at_the_end() {
        let base = tempfile::tempdir().unwrap();
        let (unsynced, missing) = (UnsyncedFolders::default(), base.path().join("missing"));
        add(&unsynced, &missing);
        unsynced.sync();
        std::fs::create_dir(&missing).unwrap();
        add(&unsynced, &missing);
        let error = unsynced.finish().unwrap_err();
        assert_eq!(error.to_string(), format!("failed to sync the folder {}", missing.display()));
    }
}
