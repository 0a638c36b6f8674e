//! The folder for views. A view gets the relative path of its transcript, and is written completely or not at all.
//! A file that an earlier run did not write must never be overwritten. Transcripts are only read.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Write as _};
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
pub struct ViewFolder {
    folder: PathBuf,
    /// The folders from which the temporary files of earlier runs were removed.
    cleaned_folders: Arc<Mutex<HashSet<PathBuf>>>,
    unsynced: Arc<UnsyncedFolders>,
}

impl ViewFolder {
    /// Selects this folder, which is created with the first view.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment) -> Self {
        Self {
            folder: environment.cwd.join(folder),
            cleaned_folders: Arc::default(),
            unsynced: Arc::default(),
        }
    }

    /// Waits until the names of all views are on disk. Call this before the report is written, because the report lists
    /// the views as written.
    ///
    /// # Errors
    /// A folder cannot be synced.
    pub fn finish(&self) -> Result<(), StoreError> {
        self.unsynced.finish()
    }

    /// Returns whether the view that an earlier run wrote is unchanged.
    pub(super) fn has_unchanged_view(&self, relative_path: &Path, previous: &OutReport) -> bool {
        let bytes = self.path(relative_path).and_then(|path| store::read_own(&path));
        bytes.is_ok_and(|bytes| of_bytes(&bytes) == previous.sha256)
    }

    /// Returns the path of a view. Rejects a link below the output folder, because it would lead a view out of it.
    fn path(&self, relative_path: &Path) -> Result<PathBuf, StoreError> {
        let mut path = self.folder.clone();
        for name in relative_path.parent().into_iter().flat_map(Path::components) {
            path.push(name);
            if path.is_symlink() {
                let source = io::Error::other(format!("{} is a symbolic link", path.display()));
                let path = self.folder.join(relative_path);
                return Err(StoreError::Unwritable { doing: "write the view to", path, source });
            }
        }
        Ok(self.folder.join(relative_path))
    }

    /// Keeps the view of an earlier run. Schedules a sync of its folders, because that run may have been killed before
    /// the view's name was on disk.
    pub(super) async fn keep(&self, relative_path: &Path) -> Result<(), Error> {
        self.schedule_sync(&self.folder.join(relative_path)).await
    }

    /// Schedules a sync of the folders of a view, after the view got its name.
    async fn schedule_sync(&self, path: &Path) -> Result<(), Error> {
        // The parent of the output folder is included, because a run that died may have created the output folder.
        let parent = self.folder.parent();
        let folders = path.ancestors().skip(1).take_while(|folder| Some(*folder) != parent).chain(parent);
        if self.unsynced.add(folders) {
            let unsynced = Arc::clone(&self.unsynced);
            tokio::task::spawn_blocking(move || unsynced.sync()).await.map_err(|error| {
                let source = io::Error::other(error);
                StoreError::Unwritable { doing: "sync the folder", path: self.folder.clone(), source }
            })?;
        }
        Ok(())
    }

    /// Rejects a path with a file that no earlier run wrote, or that was changed since. Call this before any model is
    /// asked.
    pub(super) fn check(&self, relative_path: &Path, previous: Option<&OutReport>) -> Result<(), Error> {
        let path = self.path(relative_path)?;
        if path.symlink_metadata().is_ok()
            && !previous.is_some_and(|previous| self.has_unchanged_view(relative_path, previous))
        {
            return Err(StoreError::Exists { path }.into());
        }
        store::check_new(&path)?;
        Ok(())
    }

    /// Writes a view in the format of its transcript. The file gets the mode of the transcript. Its content is on disk
    /// when this function returns, and its name when [`Self::finish`] returns. `announce` is called before the view
    /// gets its name. Its argument is the view's entry in the report, if there is a report.
    pub(super) async fn write(
        &self,
        relative_path: &Path,
        opened: &Opened,
        view: &View,
        previous: Option<&OutReport>,
        has_report: bool,
        announce: impl FnOnce(Option<&OutReport>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.folder.join(relative_path);
        let unwritable = |source| {
            Error::from(StoreError::Unwritable { doing: "write the view to", path: path.clone(), source })
        };
        let pieces = transcripts::render(&opened.stream, view);
        let transcript_bytes = opened.stream.bytes();
        let report_entry = has_report.then(|| OutReport {
            path: relative_path.to_string_lossy().into_owned(),
            sha256: digest::of_pieces(&pieces, transcript_bytes),
        });
        self.check(relative_path, previous)?;
        let mode = store::content_mode(opened.place.path()).map_err(unwritable)?;
        let size = pieces.iter().map(|piece| piece.bytes(transcript_bytes).len() as u64).sum();
        private_file::check_size(size).map_err(unwritable)?;
        let folder = path.parent().unwrap_or(&self.folder);
        private_file::make_folder_durably(&self.folder).map_err(unwritable)?;
        fs::create_dir_all(folder).map_err(unwritable)?;
        if self.cleaned_folders.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf()) {
            private_file::remove_orphans(folder);
        }
        let file = private_file::begin(&path).map_err(unwritable)?;
        let mut writer = BufWriter::with_capacity(64 << 10, file.as_file());
        for piece in &pieces {
            writer.write_all(piece.bytes(transcript_bytes)).map_err(unwritable)?;
        }
        writer.flush().map_err(unwritable)?;
        drop(writer);
        // Another thread syncs a second handle. `file` stays in this future, so that it is removed if the future is
        // dropped.
        let handle = file.as_file().try_clone().map_err(unwritable)?;
        let sync_result = tokio::task::spawn_blocking(move || handle.sync_all()).await;
        sync_result.map_err(io::Error::other).flatten().map_err(unwritable)?;
        announce(report_entry.as_ref()).map_err(unwritable)?;
        let rename_result = match previous {
            Some(_) => private_file::finish(file, &path, mode),
            None => private_file::finish_new(file, &path, mode),
        };
        rename_result.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() }.into(),
            _ => unwritable(error),
        })?;
        self.schedule_sync(&path).await
    }
}
