//! The temporary file that replaces the transcript. It has the folder, owner and mode of the transcript. It is removed
//! unless it is renamed into place. The name must not end in `.tmp`, because JP removes such files when it starts.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata, Permissions},
    hash::{BuildHasher, RandomState},
    io::{self, BufWriter, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    process,
    sync::Arc,
    time::SystemTime,
};

use jp_compact_runtime::private_file::is_orphan;

use super::{open_file::Links, open_folder::OpenFolder};

const PREFIX: &str = ".events.json.jpc-";

/// After so many bytes, the system begins to write them to the disk, while the next bytes are copied.
const WRITE_BACK_BYTES: usize = 8 << 20;

/// A temporary file. Dropping it removes the file, unless it was renamed into place.
#[derive(Debug)]
pub(super) struct Temporary {
    file: File,
    folder: Arc<OpenFolder>,
    name: OsString,
    is_placed: bool,
}

impl Temporary {
    /// Creates an empty file in `folder`, with the owner and mode of `original`.
    pub(super) fn create(folder: &Arc<OpenFolder>, original: &Metadata) -> io::Result<Self> {
        let name = OsString::from(unique_name(PREFIX));
        let file = folder.create(&name)?;
        let temporary = Self { file, folder: Arc::clone(folder), name, is_placed: false };
        // The lock shows that the file is in use, even to processes that cannot see this process.
        if let Err(error) = temporary.file.try_lock() {
            tracing::debug!(%error, name = %temporary.name.display(), "failed to lock a temporary file");
        }
        let metadata = temporary.file.metadata()?;
        if (metadata.uid(), metadata.gid()) != (original.uid(), original.gid()) {
            // A failure must be an error: with another owner, the original owner could lose access to the transcript.
            fchown(&temporary.file, Some(original.uid()), Some(original.gid()))?;
        }
        temporary.file.set_permissions(Permissions::from_mode(original.mode() & 0o7777))?;
        Ok(temporary)
    }

    /// Writes all pieces in order, and waits until they are on disk.
    ///
    /// The pieces are written from memory, because `copy_file_range` from the original took 1.5 times as long (100 MB,
    /// ext4). In addition, the bytes in memory are exactly the bytes that were checked.
    pub(super) fn fill(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        self.fill_with_time(pieces, |_| Ok(None))
    }

    /// Like [`Self::fill`], with another modification time if `modified` returns a time.
    pub(super) fn fill_with_time(
        &mut self,
        pieces: &[&[u8]],
        modified: impl FnOnce(&File) -> io::Result<Option<SystemTime>>,
    ) -> io::Result<()> {
        self.write_with_time(pieces, modified)?;
        self.sync()
    }

    /// Like [`Self::fill_with_time`], without waiting for the disk. Call [`Self::sync`] before the rename.
    pub(super) fn write_with_time(
        &mut self,
        pieces: &[&[u8]],
        modified: impl FnOnce(&File) -> io::Result<Option<SystemTime>>,
    ) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(64 << 10, &self.file);
        let mut written = 0;
        for part in pieces.iter().flat_map(|piece| piece.chunks(WRITE_BACK_BYTES)) {
            writer.write_all(part)?;
            if part.len() == WRITE_BACK_BYTES {
                begin_write_back(&self.file, written, part.len());
            }
            written += part.len();
        }
        writer.flush()?;
        drop(writer);
        if let Some(modified) = modified(&self.file)? {
            self.file.set_modified(modified)?;
        }
        Ok(())
    }

    /// Waits until the bytes are on disk.
    ///
    /// A failed fsync is never repeated: the system may have dropped the pages, and would then report success.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Renames the file into place.
    pub(super) fn rename_to(mut self, name: &OsStr) -> io::Result<()> {
        self.folder.rename(&self.name, name)?;
        self.is_placed = true;
        Ok(())
    }
}

/// Lets the system begin to write a part of a file to the disk. On Linux, this advice has that effect. The part stays in the
/// cache, because pages that are not yet on disk are never removed from it. Errors are not important, because the sync at
/// the end waits for all bytes.
fn begin_write_back(file: &File, start: usize, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let bytes = std::num::NonZeroU64::new(bytes as u64);
        let _ = rustix::fs::fadvise(file, start as u64, bytes, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, bytes);
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_placed
            && let Err(error) = self.folder.remove(&self.name)
        {
            tracing::warn!(%error, name = %self.name.display(), "failed to remove a temporary file");
        }
    }
}

/// Removes the temporary files of dead processes in `folder`. A process in another container may be alive and not visible
/// here, so a locked file stays: a folder may have several locks, such as that of JP and that of the settings.
pub(super) fn remove_orphans(folder: &OpenFolder) {
    for name in folder.names().unwrap_or_default() {
        let is_unlocked = || folder.file(&name, Links::Refuse).is_ok_and(|file| file.try_lock().is_ok());
        if name.to_str().is_some_and(|name| is_orphan(PREFIX, name))
            && is_unlocked()
            && let Err(error) = folder.remove(&name)
        {
            tracing::warn!(%error, name = %name.display(), "failed to remove an orphaned temporary file");
        }
    }
}

/// Returns an unpredictable name that contains the id of this process.
pub(super) fn unique_name(prefix: &str) -> String {
    let random = RandomState::new().hash_one(process::id());
    format!("{prefix}{}-{random:016x}", process::id())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn large_pieces_are_written_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(folder.path()).unwrap();
        let mut temporary =
            Temporary::create(&Arc::new(OpenFolder::by_path(folder.path())), &metadata).unwrap();
        let (first, last) = (b"0123456789".repeat(1 << 20), b"abcdefg".repeat(3 << 20));
        temporary.fill(&[&first, b"between", &last]).unwrap();
        let written = fs::read(folder.path().join(&temporary.name)).unwrap();
        assert!(written == [&first[..], b"between", &last].concat());
    }

    #[test]
    fn removes_only_unlocked_files_of_dead_processes() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this id. The second file belongs to a process in another container.
        let [orphan, foreign] =
            ["a", "b"].map(|end| folder.path().join(format!("{PREFIX}{}-{end}", i32::MAX)));
        fs::write(&orphan, "").unwrap();
        let locked = File::create(&foreign).unwrap();
        locked.lock().unwrap();
        let open_folder = Arc::new(OpenFolder::by_path(folder.path()));
        let ours = Temporary::create(&open_folder, &fs::metadata(folder.path()).unwrap()).unwrap();
        remove_orphans(&open_folder);
        assert!(!orphan.exists() && foreign.exists());
        let ours = File::open(folder.path().join(&ours.name)).unwrap();
        assert!(ours.try_lock().is_err(), "a temporary file of this process is locked");
    }

    #[test]
    fn temporary_file_has_our_pid_and_is_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(folder.path()).unwrap();
        let open_folder = Arc::new(OpenFolder::by_path(folder.path()));
        let temporary = Temporary::create(&open_folder, &metadata).unwrap();
        let name = temporary.name.to_str().unwrap();
        let prefix = format!("{PREFIX}{}-", process::id());
        assert!(name.starts_with(&prefix), "{name}");
        drop(temporary);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
