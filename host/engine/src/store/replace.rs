//! Replaces a transcript, in the order that survived every crash point tried: lock, read again, build, write a
//! temporary file, fsync, look at the original once more, rename, fsync the folder. Only then is it reported.

use std::{error::Error, fmt, fs, io, path::Path, time::Duration};

use bytes::Bytes;
use jp_compact_core::splice::Piece;
use rustix::process::{Resource, getrlimit};

use super::{
    Place, StoreError,
    compare::{Stamp, common_prefix},
    copies::{equal_copies, newer_than_others},
    error::{unreadable, unwritable},
    lock,
    open_folder::OpenFolder,
    place::EVENTS,
    snapshot::{Links, read_open},
    temporary::{Temporary, remove_orphans},
};

/// How long to wait for a lock where there is no reason for another time.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// What the file is now, under the lock.
#[derive(Debug)]
pub enum Current {
    /// The snapshot, to the byte.
    Same,
    /// It begins as the snapshot does, and then holds something else: all its bytes.
    Grown(Bytes),
}

/// Why a transcript was not replaced.
#[derive(Debug)]
pub enum ReplaceError<E> {
    /// The store could not.
    Store(StoreError),
    /// Whoever was to build the new file declined.
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

/// Checks what can be told beforehand, so that no strategy runs for nothing: the name, and that it is no symlink.
/// [`replace`] checks it again.
///
/// # Errors
///
/// Fails where [`replace`] would refuse the place whatever it holds.
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

/// Replaces the transcript at `place` with the pieces that `build` makes of what is there now.
///
/// Other copies of the conversation with the same raw events get the same bytes, before it.
///
/// `snapshot` is what was read; its first `kept` bytes must still be there. Growth behind them is handed to
/// `build`, anything else is a conflict. The lock is waited for as long as `wait`.
///
/// # Errors
///
/// On any error but [`StoreError::NotDurable`] the old file stands, and nothing is left beside it.
///
/// # Panics
///
/// Panics, before anything is written, where a [`Piece::Old`] lies outside the file.
pub fn replace<E>(
    place: &Place,
    snapshot: &Bytes,
    kept: usize,
    wait: Duration,
    build: impl FnOnce(Current) -> Result<Vec<Piece>, E>,
) -> Result<(), ReplaceError<E>> {
    check_writable(place)?;
    let lock = lock::acquire(place, wait)?;
    let folder = &lock.folder;
    remove_orphans(folder);

    let path = place.path();
    let mut original = folder.file(place.name(), Links::Refuse).map_err(|error| gone(path, error))?;
    let metadata = original.metadata().map_err(unreadable("read", path))?;
    let same = metadata.len() == snapshot.len() as u64
        && common_prefix(&mut original, snapshot).map_err(unreadable("read", path))? == snapshot.len();
    let bytes = if same { snapshot.clone() } else { grown(&mut original, path, snapshot, kept)? };
    let copies = equal_copies(place, &bytes)?;

    let current = if same { Current::Same } else { Current::Grown(bytes.clone()) };
    let pieces = build(current).map_err(ReplaceError::Build)?;
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes(&bytes)).collect();
    check_size(path, &pieces)?;

    let mut temporary = Temporary::create(folder, &metadata)
        .map_err(unwritable("make a temporary file with the same owner beside", path))?;
    temporary
        .fill_as_of(&pieces, |new| newer_than_others(place, new))
        .map_err(unwritable("write a new version of", path))?;
    // What can fail for want of space or permission has failed before the first file is replaced.
    let copies: Vec<_> = copies.into_iter().map(|copy| copy.prepare(&pieces)).collect::<Result<_, _>>()?;
    for copy in copies {
        check_untouched(folder, path, Stamp::of(&metadata))?;
        copy.put()?;
    }
    check_untouched(folder, path, Stamp::of(&metadata))?;
    temporary.put_at(place.name()).map_err(unwritable("replace", path))?;
    folder.sync().map_err(|source| StoreError::NotDurable { path: path.to_path_buf(), source })?;
    Ok(())
}

/// Reads a file that is not the snapshot any more, and lets it pass if it only grew.
fn grown(original: &mut fs::File, path: &Path, snapshot: &Bytes, kept: usize) -> Result<Bytes, StoreError> {
    io::Seek::rewind(original).map_err(unreadable("read", path))?;
    let bytes = read_open(original, path)?;
    let kept = &snapshot[..kept.min(snapshot.len())];
    let changed = |how| Err(StoreError::Changed { path: path.to_path_buf(), how });
    if bytes.len() < snapshot.len() {
        changed("shrank")
    } else if !bytes.starts_with(kept) {
        changed("was changed")
    } else {
        Ok(bytes)
    }
}

/// Asks beforehand, for the signal that comes with `EFBIG` ends a process that has not said otherwise.
pub(super) fn check_size(path: &Path, pieces: &[&[u8]]) -> Result<(), StoreError> {
    let size_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if size_bytes > limit_bytes => {
            Err(StoreError::TooLarge { path: path.to_path_buf(), size_bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}

/// Looks at the original once more: JP minds the lock, an editor does not.
pub(super) fn check_untouched(folder: &OpenFolder, path: &Path, stamp: Stamp) -> Result<(), StoreError> {
    let how = match folder.stamp(path.file_name().unwrap_or_default())? {
        Some(now) if now == stamp => return Ok(()),
        Some(_) => "was changed",
        None => "was moved or removed",
    };
    Err(StoreError::Changed { path: path.to_path_buf(), how })
}

/// A file that is not there any more was there when it was read: that is a conflict.
fn gone(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            StoreError::Changed { path: path.to_path_buf(), how: "was moved or removed" }
        }
        other => other,
    }
}
