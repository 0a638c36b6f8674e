//! Writes a new file completely or not at all. It never replaces an existing file.

use std::{
    fs, io,
    io::{BufWriter, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use jp_compact_core::splice::Piece;
use jp_compact_runtime::private_file;

use super::{StoreError, error::unwritable};

/// Writes a view to a new file. The file has the permissions of the transcript at `mode_source`. Without it, only the
/// owner can read it.
///
/// # Errors
///
/// The path exists already, or the file cannot be written. Then no file is created.
pub fn write_new(
    path: &Path,
    mode_source: Option<&Path>,
    pieces: &[Piece],
    old: &[u8],
) -> Result<(), StoreError> {
    let already_exists = || StoreError::Exists { path: path.to_path_buf() };
    if path.symlink_metadata().is_ok() {
        return Err(already_exists());
    }
    let mode = mode_source
        .and_then(|path| fs::metadata(path).ok())
        .map_or(private_file::PRIVATE, |metadata| metadata.mode() & 0o777);
    write_pieces(path, mode, pieces, old).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => already_exists(),
        _ => unwritable("write", path)(error),
    })?;
    private_file::sync_folder_of(path)
        .map_err(|source| StoreError::NotDurable { path: path.to_path_buf(), source })
}

/// Writes the pieces to a temporary file, and renames it after it is on disk.
fn write_pieces(path: &Path, mode: u32, pieces: &[Piece], old: &[u8]) -> io::Result<()> {
    private_file::check_size(pieces.iter().map(|piece| piece.bytes(old).len() as u64).sum())?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A missing folder is a mistake in the path, so it is not created.
    fs::metadata(folder)?;
    path.parent().into_iter().for_each(private_file::remove_orphans);
    let file = private_file::begin(path)?;
    let mut writer = BufWriter::with_capacity(64 << 10, file.as_file());
    pieces.iter().try_for_each(|piece| writer.write_all(piece.bytes(old)))?;
    writer.flush()?;
    drop(writer);
    file.as_file().sync_all()?;
    private_file::finish_new(file, path, mode)
}
