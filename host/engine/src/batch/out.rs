//! The folder that views are written to: under the paths that their transcripts have, whole or not at all, and never
//! over a file that is not known to be ours. The transcripts are only read.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jp_compact_core::Survey;
use jp_compact_core::source;
use jp_compact_schema::report::OutReport;

use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::{self, StoreError};
use crate::{digest, private_file};

/// Where views go.
#[derive(Debug, Clone)]
pub struct Out {
    folder: PathBuf,
    /// The folders in it that were looked through for what earlier runs have left.
    tidied: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Out {
    /// Below this folder, which is made when it is needed.
    #[must_use]
    pub fn new(folder: &Path, environment: &Environment) -> Self {
        Self { folder: environment.cwd.join(folder), tidied: Arc::default() }
    }

    /// Whether the view that an earlier run wrote is there as it was.
    pub(super) fn holds(&self, below: &Path, written: &OutReport) -> bool {
        let path = self.folder.join(below);
        store::read_own(&path).is_ok_and(|bytes| digest::of_bytes(&bytes) == written.sha256)
    }

    /// Refuses a place where something is that no earlier run wrote, before anybody is asked anything.
    pub(super) fn check(&self, below: &Path, before: Option<&OutReport>) -> Result<(), Failure> {
        let path = self.folder.join(below);
        let ours = || before.is_some_and(|written| self.holds(below, written));
        if path.symlink_metadata().is_ok() && !ours() {
            return Err(StoreError::Exists { path }.into());
        }
        store::check_new(&path)?;
        Ok(())
    }

    /// Writes the view of a survey in the transcript's own form. `like` is the transcript, whose mode it gets. It is on
    /// disk when this returns; others are worked on meanwhile. What was written is told where somebody is going to read it.
    pub(super) async fn write(
        &self,
        below: &Path,
        survey: &Survey<'_>,
        like: &Path,
        before: Option<&OutReport>,
        in_lines: bool,
    ) -> Result<Option<OutReport>, Failure> {
        let path = self.folder.join(below);
        let failed = |source| {
            Failure::from(StoreError::Unwritable { doing: "write the view to", path: path.clone(), source })
        };
        let pieces = source::render(survey.stream, &survey.view);
        let old = survey.stream.bytes();
        let told = in_lines.then(|| OutReport {
            path: below.to_string_lossy().into_owned(),
            sha256: digest::of_pieces(&pieces, old),
        });
        self.check(below, before)?;
        let mode = fs::metadata(like).map_err(failed)?.mode() & 0o777;
        let bytes = pieces.iter().map(|piece| piece.bytes(old).len() as u64).sum();
        private_file::check_size(bytes).map_err(failed)?;
        let folder = path.parent().unwrap_or(&self.folder);
        private_file::make_folder_durably(folder).map_err(failed)?;
        if self.tidied.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf()) {
            private_file::remove_orphans(folder);
        }
        let file = private_file::begin(&path).map_err(failed)?;
        let mut writer = BufWriter::with_capacity(64 << 10, file.as_file());
        pieces.iter().try_for_each(|piece| writer.write_all(piece.bytes(old))).map_err(failed)?;
        writer.flush().map_err(failed)?;
        drop(writer);
        // Not this one, which is gone again when nobody waits any more.
        let handle = file.as_file().try_clone().map_err(failed)?;
        let synced = tokio::task::spawn_blocking(move || handle.sync_all()).await;
        synced.map_err(io::Error::other).flatten().map_err(failed)?;
        let placed = if before.is_some() {
            private_file::finish(file, &path, mode)
        } else {
            private_file::finish_new(file, &path, mode)
        };
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() }.into(),
            _ => failed(error),
        })?;
        let name = path.clone();
        let synced = tokio::task::spawn_blocking(move || private_file::sync_folder_of(&name)).await;
        let synced = synced.map_err(io::Error::other).flatten();
        synced.map_err(|source| StoreError::NotDurable { path: path.clone(), source })?;
        Ok(told)
    }
}
