//! Writers of the small files of the host: descriptions, digests, trust. A file is written completely or not at all,
//! and has the mode that the caller gives. Transcripts must not be written here, because the store has other rules.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::small_file;

/// The prefix of a temporary file name. The process id follows.
const PREFIX: &str = ".new-";
/// Readable and writable only by the owner.
pub const PRIVATE: u32 = 0o600;

/// A folder of JSON files, one per key. A value that cannot be read counts as absent, and a value that cannot be
/// written costs only the time to compute it again.
#[derive(Debug, Clone)]
pub struct Cache<K, V> {
    /// `None` disables the cache.
    folder: Option<PathBuf>,
    bytes_max: u64,
    types: PhantomData<fn(K) -> V>,
}

impl<K: AsRef<str>, V: Serialize + DeserializeOwned> Cache<K, V> {
    /// Opens the cache in a folder. A file larger than `bytes_max` is not read.
    #[must_use]
    pub fn new(folder: Option<PathBuf>, bytes_max: u64) -> Self {
        Self { folder, bytes_max, types: PhantomData }
    }

    /// Returns the file of a key, which must be a valid file name.
    #[must_use]
    pub fn file(&self, key: &K) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.json", key.as_ref())))
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        let bytes = small_file::read(&self.file(key)?, self.bytes_max).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes the value of a key. A failure is logged.
    pub fn put(&self, key: &K, value: &V) {
        let Some(file) = self.file(key) else { return };
        let bytes = serde_json::to_vec(value).map_err(io::Error::from);
        if let Err(error) = bytes.and_then(|bytes| write(&file, &bytes, PRIVATE)) {
            tracing::debug!(%error, path = %file.display(), "failed to write to a cache");
        }
    }
}

/// Creates a private folder and its missing parents.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Replaces a file and creates its missing parents. The file may be damaged after a crash of the machine, so
/// callers must validate it when reading. Use this for data that can be computed again.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_size(bytes.len() as u64)?;
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    finish(file, path, mode)
}

/// Same as [`write()`], but fails if the name exists, also if another process has just created it.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_size(bytes.len() as u64)?;
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    finish_new(file, path, mode)
}

/// Same as [`write()`], but the file is on disk when this returns. Use this for decisions of the user.
pub fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_size(bytes.len() as u64)?;
    path.parent().into_iter().for_each(remove_orphans);
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    finish(file, path, mode)?;
    sync_folder_of(path)
}

/// Waits until the name of a file is on disk.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open_folder(folder)?.sync_all()
}

/// Creates a folder and its missing parents, and waits until they are on disk.
pub fn make_folder_durably(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folder_durably(parent)?;
    }
    match DirBuilder::new().create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder_of(folder),
    }
}

/// Rejects a file that exceeds the file size limit of the process, because the system would kill the process
/// for writing it.
pub fn check_size(bytes: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) if bytes > limit => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Creates a temporary file that is removed unless it is finished.
pub fn begin(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if !folder.is_dir() {
        make_folder(folder)?;
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let file = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)?;
    // The lock shows that the file is in use, even to processes that cannot see this process.
    if let Err(error) = file.as_file().try_lock() {
        tracing::debug!(%error, path = %file.path().display(), "failed to lock a temporary file");
    }
    Ok(file)
}

/// Removes temporary files of processes that died while writing.
pub fn remove_orphans(folder: &Path) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| is_orphan(PREFIX, name)) {
            continue;
        }
        let path = entry.path();
        // A process in another container may be alive and not visible here.
        let result = small_file::open(&path, OFlags::NOFOLLOW).and_then(|file| match file.try_lock() {
            Ok(()) => fs::remove_file(&path),
            Err(_) => Ok(()),
        });
        if let Err(error) = result {
            tracing::warn!(%error, path = %path.display(), "failed to remove an orphaned temporary file");
        }
    }
}

/// Sets the mode and renames the file to its final name.
pub fn finish(file: tempfile::NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Same as [`finish`], but fails if the name exists.
pub fn finish_new(file: tempfile::NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Opens or creates a regular file for reading and writing. Does not follow a link.
pub fn open_or_make(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    small_file::open_at(CWD, path, flags, Mode::from_raw_mode(mode))
}

/// Opens a folder in order to sync or lock it.
pub fn open_folder(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(folder)
}

/// Returns whether the process that created this temporary name has ended, or is not visible here.
pub fn is_orphan(prefix: &str, name: &str) -> bool {
    pid_in_name(prefix, name).is_some_and(|pid| !is_alive(pid))
}

/// Returns the process id in a temporary file name.
fn pid_in_name(prefix: &str, name: &str) -> Option<Pid> {
    let (pid, _random) = name.strip_prefix(prefix)?.split_once('-')?;
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_files_of_dead_processes() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let _ours = begin(&path("file")).unwrap();
        // No process has this id. The second file belongs to a process in another container.
        let dead = i32::MAX;
        let [orphan, foreign] = [format!(".new-{dead}-a"), format!(".new-{dead}-b")];
        for name in [&orphan, &foreign, ".new-", ".new-1-a", "file"] {
            fs::write(path(name), "").unwrap();
        }
        let locked = File::open(path(&foreign)).unwrap();
        locked.lock().unwrap();
        remove_orphans(base.path());
        assert!(!path(&orphan).exists() && path(&foreign).exists());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 5);
    }

    #[test]
    fn unfinished_files_are_removed() {
        let base = tempfile::tempdir().unwrap();
        drop(begin(&base.path().join("file")).unwrap());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn finds_the_process_id_only_in_own_names() {
        assert_eq!(pid_in_name(".events.json.jpc-", ".events.json.jpc-12-ab"), Pid::from_raw(12));
        for name in
            ["events.json", ".events.json.jpc-12", ".events.json.jpc--1-ab", ".events.json.jpc-0-ab", "x.tmp"]
        {
            assert_eq!(pid_in_name(".events.json.jpc-", name), None, "{name}");
        }
    }
}
