//! The replacement of a transcript. The transcript is intact after a crash at any tested point. The order of the steps:
//! lock, read again, build, write a temporary file, fsync, check the original once more, rename, fsync the folder,
//! report success.

use std::{
    error::Error,
    fmt, fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use bytes::Bytes;
use jp_compact_core::splice::Piece;
use rustix::process::{Resource, getrlimit};

use super::{
    Place, StoreError,
    compare::{Stamp, common_prefix},
    copies::{EqualCopy, PreparedCopy, equal_copies, newer_than_others},
    error::{unreadable, unwritable},
    lock,
    open_file::Links,
    open_folder::OpenFolder,
    place::EVENTS,
    snapshot::read_open,
    temporary::{Temporary, remove_orphans},
    untouched::check_untouched,
};

/// From this size, the new version is written while the current version is read.
const LARGE_BYTES: usize = 4 << 20;

/// The default time to wait for a lock.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The state of the file under the lock.
#[derive(Debug)]
pub enum Current {
    /// The same bytes as the snapshot.
    Same,
    /// All bytes of a file that begins like the snapshot, and then differs.
    Grown(Bytes),
}

/// A transcript was not replaced.
#[derive(Debug)]
pub enum ReplaceError<E> {
    Store(StoreError),
    /// The callback that builds the new file failed.
    Build(E),
}

impl<E> From<StoreError> for ReplaceError<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for ReplaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl<E: Error> Error for ReplaceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Build(error) => error.source(),
        }
    }
}

/// Checks the file's name, and that the file is not a symlink. Without this early check, strategies could run although
/// the write will fail. [`replace`] repeats the check.
///
/// # Errors
///
/// [`replace`] would reject the place, independent of its content.
pub fn check_writable(place: &Place) -> Result<(), StoreError> {
    let path = place.path();
    if path.is_symlink() {
        return Err(StoreError::Symlink { path: path.to_path_buf() });
    }
    if path.file_name().is_none_or(|name| name != EVENTS) {
        return Err(StoreError::NotEvents { path: path.to_path_buf() });
    }
    Ok(())
}

/// Replaces the transcript at `place` with the pieces that `build` makes from its current content.
///
/// Other copies of the conversation with the same raw events get the same bytes first.
///
/// While a large file is compared with `snapshot`, a new version is already written. If the file has changed, that version
/// is removed, and `build` is called again.
///
/// The first `kept_bytes` bytes of `snapshot` must be unchanged, and the file must not be shorter than `snapshot`. If
/// the bytes after the kept bytes have changed, `build` gets all current bytes. Any other change is a conflict. The
/// function waits for the lock for at most `wait`.
///
/// # Errors
///
/// On any error except [`StoreError::NotDurable`], the old file is unchanged, and no temporary file is left.
///
/// # Panics
///
/// Panics before anything is written if a [`Piece::Old`] is outside of the file.
pub fn replace<E>(
    place: &Place,
    snapshot: &Bytes,
    kept_bytes: usize,
    wait: Duration,
    build: impl FnMut(Current) -> Result<Vec<Piece>, E>,
) -> Result<(), ReplaceError<E>> {
    Ok(prepare(place, snapshot, kept_bytes, wait, build)?.finish()?)
}

/// A new version of a transcript that is written next to it, under its lock. Dropping it leaves the old version.
#[derive(Debug)]
pub struct PreparedReplacement {
    path: PathBuf,
    stamp: Stamp,
    // Dropped before the lock.
    temporary: Temporary,
    copies: Vec<PreparedCopy>,
    lock: lock::Lock,
}

impl PreparedReplacement {
    /// Returns the path of the transcript.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the new version is on disk, and renames it into place.
    ///
    /// # Errors
    ///
    /// On any error except [`StoreError::NotDurable`], the old file is unchanged, and no temporary file is left.
    pub fn finish(self) -> Result<(), StoreError> {
        let Self { lock, path, stamp, temporary, copies } = self;
        let folder = &lock.folder;
        // With copies, the new version is already on disk.
        if copies.is_empty() {
            temporary.sync().map_err(unwritable("write a new version of", &path))?;
        }
        for copy in copies {
            check_untouched(folder, &path, stamp)?;
            copy.rename_into_place()?;
        }
        check_untouched(folder, &path, stamp)?;
        temporary.rename_to(path.file_name().unwrap_or_default()).map_err(unwritable("replace", &path))?;
        folder.sync().map_err(|source| StoreError::NotDurable { path, source })
    }
}

/// Performs the steps of [`replace`] before the first rename. The lock is held until the result is dropped.
///
/// # Errors
///
/// The old file is unchanged, and no temporary file is left.
///
/// # Panics
///
/// Like [`replace`].
pub fn prepare<E>(
    place: &Place,
    snapshot: &Bytes,
    kept_bytes: usize,
    wait: Duration,
    mut build: impl FnMut(Current) -> Result<Vec<Piece>, E>,
) -> Result<PreparedReplacement, ReplaceError<E>> {
    check_writable(place)?;
    let lock = lock::acquire(place, wait)?;
    let folder = &lock.folder;
    remove_orphans(folder);

    let path = place.path();
    let mut original =
        folder.file(place.name(), Links::Refuse).map_err(|error| changed_if_missing(path, error))?;
    let metadata = original.metadata().map_err(unreadable("read", path))?;
    let write = |bytes: &Bytes, build: &mut dyn FnMut() -> Result<Vec<Piece>, E>| {
        NewVersion::write(place, folder, &metadata, bytes, build)
    };
    let mut bytes = snapshot.clone();
    let mut compare = || {
        let common_bytes = common_prefix(&mut original, snapshot).map_err(unreadable("read", path))?;
        Ok::<_, StoreError>(common_bytes == snapshot.len())
    };
    let mut unchanged = || build(Current::Same);
    let is_written = if metadata.len() != snapshot.len() as u64 {
        None
    } else if snapshot.len() < LARGE_BYTES {
        if compare()? { Some(write(snapshot, &mut unchanged)?) } else { None }
    } else {
        // The comparison reads as many bytes as the write writes, so both happen at the same time.
        let (is_unchanged, written) = thread::scope(|scope| {
            let comparison = scope.spawn(compare);
            let written = write(snapshot, &mut unchanged);
            (comparison.join().unwrap_or_else(|panic| resume_unwind(panic)), written)
        });
        if is_unchanged? { Some(written?) } else { None }
    };
    let NewVersion { copies, pieces, temporary } = match is_written {
        Some(written) => written,
        None => {
            bytes = read_grown(&mut original, path, snapshot, kept_bytes)?;
            write(&bytes, &mut || build(Current::Grown(bytes.clone())))?
        }
    };
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes(&bytes)).collect();
    if !copies.is_empty() {
        temporary.sync().map_err(unwritable("write a new version of", path))?;
    }
    // Every write that needs space or permissions happens before the first file is replaced.
    let copies: Vec<_> = copies.into_iter().map(|copy| copy.prepare(&pieces)).collect::<Result<_, _>>()?;
    Ok(PreparedReplacement {
        path: path.to_path_buf(),
        stamp: Stamp::new(&metadata),
        temporary,
        copies,
        lock,
    })
}

/// A new version of a transcript, which is neither synced nor renamed yet.
struct NewVersion {
    copies: Vec<EqualCopy>,
    pieces: Vec<Piece>,
    temporary: Temporary,
}

impl NewVersion {
    /// Writes the result of `build` to a temporary file. `bytes` is the current content, and `metadata` is that of the
    /// current file.
    fn write<E>(
        place: &Place,
        folder: &Arc<OpenFolder>,
        metadata: &fs::Metadata,
        bytes: &Bytes,
        build: &mut dyn FnMut() -> Result<Vec<Piece>, E>,
    ) -> Result<Self, ReplaceError<E>> {
        let copies = equal_copies(place, bytes)?;
        let pieces = build().map_err(ReplaceError::Build)?;
        let new_bytes: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes(bytes)).collect();
        check_size(place.path(), &new_bytes)?;
        let path = place.path();
        let mut temporary = Temporary::create(folder, metadata)
            .map_err(unwritable("create a temporary file with the same owner next to", path))?;
        temporary
            .write_with_time(&new_bytes, |new| newer_than_others(place, new))
            .map_err(unwritable("write a new version of", path))?;
        Ok(Self { copies, pieces, temporary })
    }
}

/// Reads a file that differs from the snapshot. Returns its bytes if only bytes after the kept bytes have changed, and
/// the file is not shorter.
fn read_grown(
    original: &mut fs::File,
    path: &Path,
    snapshot: &Bytes,
    kept_bytes: usize,
) -> Result<Bytes, StoreError> {
    io::Seek::rewind(original).map_err(unreadable("read", path))?;
    let bytes = read_open(original, path)?;
    let kept = &snapshot[..kept_bytes.min(snapshot.len())];
    let conflict = |how| Err(StoreError::Changed { path: path.to_path_buf(), how });
    if bytes.len() < snapshot.len() {
        conflict("shrank")
    } else if !bytes.starts_with(kept) {
        conflict("was changed")
    } else {
        Ok(bytes)
    }
}

/// Checks the size before the write, because the signal that comes with `EFBIG` ends the process by default.
pub(super) fn check_size(path: &Path, pieces: &[&[u8]]) -> Result<(), StoreError> {
    let size_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    match size_limit() {
        Some(limit_bytes) if size_bytes > limit_bytes => {
            Err(StoreError::TooLarge { path: path.to_path_buf(), size_bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// Returns the limit of this process for the size of a file, if there is one.
pub(super) fn size_limit() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Turns a missing file into a conflict, because it existed when it was read.
fn changed_if_missing(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            StoreError::Changed { path: path.to_path_buf(), how: "was moved or removed" }
        }
        other => other,
    }
}
