//! The lock on a conversation: JP's own, so that JP and the host never write at the same time. Outside a workspace
//! it is on the folder itself, and leaves no file behind. Nothing here unlinks: JP does, and that is the race.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{Place, StoreError, error::unwritable};

const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What is locked while a transcript is written.
#[derive(Debug, Clone)]
pub(super) enum LockFile {
    /// A file of JP's.
    File {
        /// Where it is, or is made.
        path: PathBuf,
        /// Where JP would lock instead, if a file is there already.
        others: Vec<PathBuf>,
    },
    /// The folder that the transcript is in.
    Folder,
}

/// A lock that is held until this is dropped.
pub(super) struct Lock {
    _files: Vec<File>,
}

/// Takes the lock, trying for as long as `wait`.
pub(super) fn acquire(place: &Place, wait: Duration) -> Result<Lock, StoreError> {
    let path = match place.lock() {
        LockFile::File { path, .. } => path,
        LockFile::Folder => place.folder(),
    };
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(lock) = attempt(place).map_err(unwritable("lock", path))? {
            return Ok(lock);
        }
        let left = wait.saturating_sub(started.elapsed());
        if left.is_zero() {
            let (path, lock) = (place.path().to_path_buf(), path.to_path_buf());
            return Err(StoreError::Locked { path, lock, waited: wait });
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn attempt(place: &Place) -> io::Result<Option<Lock>> {
    let mut files = Vec::new();
    match place.lock() {
        LockFile::Folder => {
            let Some(file) = take(File::open(place.folder())?, place.folder())? else { return Ok(None) };
            files.push(file);
        }
        LockFile::File { path, others } => {
            let others = others.iter().filter(|other| other.exists());
            for (number, path) in [path].into_iter().chain(others).enumerate() {
                let Some(file) = take(open(path, number == 0)?, path)? else { return Ok(None) };
                files.push(file);
            }
        }
    }
    Ok(Some(Lock { _files: files }))
}

/// Opens a lock file; makes it, and the folder it is in, where told to.
fn open(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(make).truncate(false);
    match options.open(path) {
        Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().expect("a lock file is in a folder");
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => options.open(path),
            }
        }
        other => other,
    }
}

/// Locks an open file; `None` where another has it, or where it lost its name before it was locked.
fn take(file: File, path: &Path) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(is_still_at(&file, path)?.then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a locked file still has its name. JP unlinks a lock file after it released it, and a lock on a file
/// without a name keeps nobody out.
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_file_that_lost_its_name_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let opened = || open(&path, true).unwrap();
        let [first, second, third] = [opened(), opened(), opened()];
        assert!(take(first, &path).unwrap().is_some());
        fs::remove_file(&path).unwrap();
        assert!(take(second, &path).unwrap().is_none());
        let _another = opened();
        assert!(take(third, &path).unwrap().is_none());
    }

    #[test]
    fn the_folder_of_locks_is_made_but_not_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder.path().join("locks/a.lock"), true).unwrap();
        assert!(open(&folder.path().join("gone/locks/a.lock"), true).is_err());
    }
}
