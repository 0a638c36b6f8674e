//! The folder for views. A view gets the relative path of its transcript and is written completely or not at
//! all. A file that an earlier run did not write must never be overwritten. Transcripts are only read.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jp_compact_core::View;
use jp_compact_runtime::digest::of_bytes;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file;
use jp_compact_schema::report::OutReport;
use jp_compact_transcripts as transcripts;

use super::unsynced::UnsyncedFolders;
use crate::compact::{Error, Opened};
use crate::digest;
use jp_compact_store::{self as store, StoreError};

/// The output folder.
#[derive(Debug, Clone)]
pub struct Out {
    folder: PathBuf,
    /// Folders that were already searched for leftovers of earlier runs.
    tidied: Arc<Mutex<HashSet<PathBuf>>>,
    unsynced: Arc<UnsyncedFolders>,
}

impl Out {
    /// Uses this folder, which is created when it is needed.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment) -> Self {
        Self { folder: environment.cwd.join(folder), tidied: Arc::default(), unsynced: Arc::default() }
    }

    /// Waits until the names of all views are on disk. Must precede the report, which lists them as written.
    ///
    /// # Errors
    /// A folder cannot be synced.
    pub fn finish(&self) -> Result<(), StoreError> {
        self.unsynced.finish()
    }

    /// Returns whether the view of an earlier run is unchanged.
    pub(super) fn holds(&self, below: &Path, written: &OutReport) -> bool {
        let path = self.folder.join(below);
        store::read_own(&path).is_ok_and(|bytes| of_bytes(&bytes) == written.sha256)
    }

    /// Keeps the view of a run that was killed, perhaps before the view's name was on disk.
    pub(super) async fn keep(&self, below: &Path) -> Result<(), Error> {
        self.named(&self.folder.join(below)).await
    }

    /// Called when a view has its name.
    async fn named(&self, path: &Path) -> Result<(), Error> {
        // The folder above is included because an earlier run may have created this one, and died.
        let above = self.folder.parent();
        let folders = path.ancestors().skip(1).take_while(|folder| Some(*folder) != above).chain(above);
        if self.unsynced.add(folders) {
            let unsynced = Arc::clone(&self.unsynced);
            tokio::task::spawn_blocking(move || unsynced.sync()).await.map_err(|error| {
                let source = io::Error::other(error);
                StoreError::Unwritable { doing: "sync the folder", path: self.folder.clone(), source }
            })?;
        }
        Ok(())
    }

    /// Rejects a path with a file that no earlier run wrote. Called before any model is asked.
    pub(super) fn check(&self, below: &Path, before: Option<&OutReport>) -> Result<(), Error> {
        let path = self.folder.join(below);
        let ours = || before.is_some_and(|written| self.holds(below, written));
        if path.symlink_metadata().is_ok() && !ours() {
            return Err(StoreError::Exists { path }.into());
        }
        store::check_new(&path)?;
        Ok(())
    }

    /// Writes a view in the format of its transcript. The file gets the mode of the transcript. Its content is on disk when
    /// this returns, and its name when [`Self::finish`] does. `announce` is called before the view gets its name, with its
    /// digest if the report needs it.
    pub(super) async fn write(
        &self,
        below: &Path,
        opened: &Opened,
        view: &View,
        before: Option<&OutReport>,
        in_lines: bool,
        announce: impl FnOnce(Option<&OutReport>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.folder.join(below);
        let failed = |source| {
            Error::from(StoreError::Unwritable { doing: "write the view to", path: path.clone(), source })
        };
        let pieces = transcripts::render(&opened.stream, view);
        let old = opened.stream.bytes();
        let report_entry = in_lines.then(|| OutReport {
            path: below.to_string_lossy().into_owned(),
            sha256: digest::of_pieces(&pieces, old),
        });
        self.check(below, before)?;
        let mode = fs::metadata(opened.place.path()).map_err(failed)?.mode() & 0o777;
        let bytes = pieces.iter().map(|piece| piece.bytes(old).len() as u64).sum();
        private_file::check_size(bytes).map_err(failed)?;
        let folder = path.parent().unwrap_or(&self.folder);
        private_file::make_folder_durably(&self.folder).map_err(failed)?;
        fs::create_dir_all(folder).map_err(failed)?;
        if self.tidied.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf()) {
            private_file::remove_orphans(folder);
        }
        let file = private_file::begin(&path).map_err(failed)?;
        let mut writer = BufWriter::with_capacity(64 << 10, file.as_file());
        pieces.iter().try_for_each(|piece| writer.write_all(piece.bytes(old))).map_err(failed)?;
        writer.flush().map_err(failed)?;
        drop(writer);
        // Syncs a second handle, because the file itself is removed when this future is dropped.
        let handle = file.as_file().try_clone().map_err(failed)?;
        let synced = tokio::task::spawn_blocking(move || handle.sync_all()).await;
        synced.map_err(io::Error::other).flatten().map_err(failed)?;
        announce(report_entry.as_ref()).map_err(failed)?;
        let placed = if before.is_some() {
            private_file::finish(file, &path, mode)
        } else {
            private_file::finish_new(file, &path, mode)
        };
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() }.into(),
            _ => failed(error),
        })?;
        self.named(&path).await
    }
}
