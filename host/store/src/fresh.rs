//! The writing of a new file, completely or not at all. It never replaces an existing file.

use std::{
    fs::{self, File},
    io,
    io::{BufWriter, Write as _},
    path::Path,
};

use jp_compact_core::splice::Piece;
use jp_compact_runtime::private_file;

use super::{StoreError, error::unwritable, record_folder::content_mode};

/// Writes a view to a new file. The file has the permissions of the transcript at `mode_source`. Without `mode_source`,
/// only the owner can read the file.
///
/// # Errors
///
/// The path exists already, or the file cannot be written. On any error except [`StoreError::NotDurable`], no file is
/// created.
pub fn write_new(
    path: &Path,
    mode_source: Option<&Path>,
    pieces: &[Piece],
    old: &[u8],
) -> Result<(), StoreError> {
    let bytes = pieces.iter().map(|piece| piece.bytes(old).len() as u64).sum();
    write_new_with(path, mode_source, bytes, |file| {
        let mut writer = BufWriter::with_capacity(64 << 10, file);
        pieces.iter().try_for_each(|piece| writer.write_all(piece.bytes(old)))?;
        Ok(writer.flush()?)
    })
}

/// The reason why a new file has no content.
pub(super) enum FillError {
    /// The content cannot be written.
    Output(io::Error),
    /// The source of the content is invalid.
    Source(StoreError),
}

impl From<io::Error> for FillError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Same as [`write_new`], with a function that writes the content. `bytes` is its size.
pub(super) fn write_new_with(
    path: &Path,
    mode_source: Option<&Path>,
    bytes: u64,
    fill: impl FnOnce(&File) -> Result<(), FillError>,
) -> Result<(), StoreError> {
    let already_exists = || StoreError::Exists { path: path.to_path_buf() };
    if path.symlink_metadata().is_ok() {
        return Err(already_exists());
    }
    let mode = mode_source.and_then(|path| content_mode(path).ok()).unwrap_or(private_file::PRIVATE);
    fill_and_rename(path, mode, bytes, fill).map_err(|error| match error {
        FillError::Source(error) => error,
        FillError::Output(error) if error.kind() == io::ErrorKind::AlreadyExists => already_exists(),
        FillError::Output(error) => unwritable("write", path)(error),
    })?;
    private_file::sync_folder_of(path)
        .map_err(|source| StoreError::NotDurable { path: path.to_path_buf(), source })
}

/// Fills a temporary file, and renames it after it is on disk.
fn fill_and_rename(
    path: &Path,
    mode: u32,
    bytes: u64,
    fill: impl FnOnce(&File) -> Result<(), FillError>,
) -> Result<(), FillError> {
    private_file::check_size(bytes)?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A missing folder is a mistake in the path, so it is not created.
    fs::metadata(folder)?;
    path.parent().into_iter().for_each(private_file::remove_orphans);
    let file = private_file::begin(path)?;
    fill(file.as_file())?;
    file.as_file().sync_all()?;
    Ok(private_file::finish_new(file, path, mode)?)
}
