//! A snapshot of a transcript, read completely into shared memory. This module never writes.

use std::{
    fs::File,
    io::{self, Read, Seek},
    os::fd::AsFd,
    panic::resume_unwind,
    path::Path,
    sync::mpsc,
    thread,
};

use bytes::Bytes;
use jp_compact_folders::events;
use memmap2::MmapMut;
use rustix::buffer::spare_capacity;

use super::{
    Place, StoreError,
    error::unreadable,
    open_file::{Links, open},
    open_folder::OpenFolder,
    record_folder::names_in,
    stored_session::{read_session, read_session_at},
};

/// From this size, a file is read into an anonymous memory map with huge pages, if the system has them. With ordinary
/// pages, the page faults cost as much as the copying.
const MAPPED_FROM_BYTES: usize = 4 << 20;

/// The size of one read of a large file. At this size the bytes are still in the processor's cache when they are
/// parsed.
const CHUNK_BYTES: usize = 512 << 10;

/// The maximum number of chunks that are read before the first of them is consumed. They are then still in the cache.
const CHUNKS_AHEAD: usize = 8;

/// Reads a transcript.
///
/// # Errors
///
/// The path is not a regular file or a folder of events, cannot be read, or changes during the read.
pub fn read(place: &Place) -> Result<Bytes, StoreError> {
    read_in_chunks(place, |_| {})
}

/// Like [`read`]. While a large file is read, calls `consume` with its chunks, in order. A thread reads the next chunks in
/// the meantime.
///
/// # Errors
///
/// The errors of [`read`]. The chunks are then invalid, and some may be missing.
pub fn read_in_chunks(
    place: &Place,
    consume: impl for<'a> FnOnce(&mut dyn Iterator<Item = &'a [u8]>),
) -> Result<Bytes, StoreError> {
    let mut file = match place.open() {
        Err(error) => {
            let Some(folder) = place.record_folder()? else { return Err(error) };
            return read_records(&folder, place.path());
        }
        file => file?,
    };
    let bytes = read_open_in_chunks(&mut file, place.path(), consume)?;
    Ok(read_session(place, &bytes, read_open)?.unwrap_or(bytes))
}

/// Reads a path that may be a transcript: a file, a folder of events, or the file of a stored session.
///
/// # Errors
///
/// Like [`read`].
pub fn read_file(path: &Path) -> Result<Bytes, StoreError> {
    if path.is_dir() {
        return read_records(&OpenFolder::by_path(path), path);
    }
    let bytes = read_open(&mut open(path, Links::Follow)?, path)?;
    Ok(read_session_at(path, &bytes, read_open)?.unwrap_or(bytes))
}

/// Reads a file that `jp-compact` created. Does not follow a link.
///
/// # Errors
///
/// The errors of [`read`], or the file is a link.
pub fn read_own(path: &Path) -> Result<Bytes, StoreError> {
    read_open(&mut open(path, Links::Refuse)?, path)
}

/// Reads standard input to its end.
///
/// # Errors
///
/// Standard input cannot be read.
pub fn read_stdin() -> Result<Bytes, StoreError> {
    let name = Path::new("standard input");
    let fd = io::stdin().as_fd().try_clone_to_owned().map_err(unreadable("read", name))?;
    let mut stdin = File::from(fd);
    if stdin.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return read_open(&mut stdin, name);
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).map_err(unreadable("read", name))?;
    Ok(bytes.into())
}

/// Reads an open regular file from its current position to its end.
pub(super) fn read_open(file: &mut File, path: &Path) -> Result<Bytes, StoreError> {
    read_open_in_chunks(file, path, |_| {})
}

fn read_open_in_chunks(
    file: &mut File,
    path: &Path,
    consume: impl for<'a> FnOnce(&mut dyn Iterator<Item = &'a [u8]>),
) -> Result<Bytes, StoreError> {
    let read_error = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(path, "shrank"),
        _ => unreadable("read", path)(error),
    };
    let before = file.metadata().map_err(read_error)?;
    let start = file.stream_position().map_err(read_error)?;
    let size = usize::try_from(before.len().saturating_sub(start)).expect("a file fits the address space");
    let (bytes, has_grown) = if size < MAPPED_FROM_BYTES {
        read_small(file, size).map_err(read_error)?
    } else {
        let bytes = read_large(file, size, consume).map_err(read_error)?;
        (bytes, file.read(&mut [0]).map_err(read_error)? != 0)
    };
    if has_grown {
        return Err(changed(path, "grew"));
    }
    let after = file.metadata().map_err(read_error)?;
    // Not the whole stamp is compared: if JP replaces the file during the read, the open file only loses its name.
    if (before.len(), before.modified().ok()) != (after.len(), after.modified().ok()) {
        return Err(changed(path, "was written to"));
    }
    Ok(bytes)
}

/// Reads a small file, and returns whether it has more than `size` bytes.
fn read_small(file: &mut File, size: usize) -> io::Result<(Bytes, bool)> {
    let mut bytes = Vec::with_capacity(size + 1);
    while bytes.len() <= size
        && rustix::io::retry_on_intr(|| rustix::io::read(&*file, spare_capacity(&mut bytes)))? > 0
    {}
    if bytes.len() < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let has_grown = bytes.len() > size;
    Ok((bytes.into(), has_grown))
}

fn read_large(
    file: &mut File,
    size: usize,
    consume: impl for<'a> FnOnce(&mut dyn Iterator<Item = &'a [u8]>),
) -> io::Result<Bytes> {
    let mut map = MmapMut::map_anon(size)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = map.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "no huge pages");
    }
    let memory = map.chunks_mut(CHUNK_BYTES);
    thread::scope(|scope| {
        let (sender, chunks) = mpsc::sync_channel::<&[u8]>(CHUNKS_AHEAD);
        let read_chunks = move || -> io::Result<()> {
            for chunk in memory {
                file.read_exact(chunk)?;
                // Without a receiver, the chunks are only read.
                let _ = sender.send(chunk);
            }
            Ok(())
        };
        let reader = thread::Builder::new().spawn_scoped(scope, read_chunks)?;
        consume(&mut chunks.into_iter());
        reader.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    Ok(Bytes::from_owner(map))
}

/// Reads all events.
///
/// # Errors
/// The folder has no events, a file cannot be read, or an event was added during the read.
fn read_records(folder: &OpenFolder, path: &Path) -> Result<Bytes, StoreError> {
    let names = names_in(folder, path)?;
    if names.is_empty() {
        return Err(StoreError::NotAFile { path: path.to_path_buf(), found: "a folder" });
    }
    let mut transcript = Vec::new();
    for name in &names {
        let mut file = folder.file(name, Links::Refuse)?;
        events::append(&mut transcript, &read_open(&mut file, &path.join(name))?);
    }
    if names_in(folder, path)? != names {
        return Err(StoreError::Changed { path: path.to_path_buf(), how: "was written to" });
    }
    Ok(transcript.into())
}

fn changed(path: &Path, how: &'static str) -> StoreError {
    StoreError::Changed { path: path.to_path_buf(), how }
}
