//! The lock on a conversation. It is JP's own lock, so JP and the host never write at the same time. Outside of a
//! workspace, the folder itself is locked, which leaves no lock file. This module never unlinks a lock file: JP does,
//! and that causes the race that `fn lock` handles.

use std::{
    fs::{File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use jp_compact_runtime::small_file;
use rustix::{
    fs::{Access, AtFlags, Mode, OFlags, access, mkdirat, openat, statat},
    io::Errno,
};

use super::{Place, StoreError, error::unwritable, lock_file::LockFile, open_folder::OpenFolder};

const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Lets the threads of this process lock a folder in turn, because a thread that only polls could miss every moment
/// in which the folder is free. No thread waits long, because none waits during its turn. Folders with the same index
/// wait for each other, which is harmless. A thread must never lock two folders.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// A held lock. Dropping it releases the lock.
pub(super) struct Lock {
    _files: Vec<File>,
    _turn: Option<MutexGuard<'static, ()>>,
    /// The transcript's folder, opened under the lock.
    pub(super) folder: Arc<OpenFolder>,
}

impl Lock {
    /// Releases the lock, and keeps the folder open.
    pub(super) fn release(self) -> Arc<OpenFolder> {
        self.folder
    }
}

/// Takes the lock. Retries for at most `wait`.
pub(super) fn acquire(place: &Place, wait: Duration) -> Result<Lock, StoreError> {
    take_within(place, wait, true)
}

/// Checks that the lock could be taken. Creates no file, because a missing lock file is free.
pub(super) fn probe(place: &Place, wait: Duration) -> Result<(), StoreError> {
    drop(take_within(place, wait, false)?);
    let LockFile::File { path, .. } = place.lock() else { return Ok(()) };
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let above = path.ancestors().skip(1).take(2).find(|above| above.symlink_metadata().is_ok());
    let Some(above) = above else { return Ok(()) };
    access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| unwritable("lock", path)(error.into()))
}

/// Takes the lock. Without `make`, locks only existing files.
fn take_within(place: &Place, wait: Duration, make: bool) -> Result<Lock, StoreError> {
    let path = match place.lock() {
        LockFile::File { path, .. } => path,
        LockFile::Folder => place.folder(),
    };
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let taken = match attempt(place, make).map_err(unwritable("lock", path))? {
            Attempt::Locked(lock) => return Ok(lock),
            Attempt::Gone => None,
            Attempt::Taken(taken) => Some(taken),
        };
        let left = wait.saturating_sub(started.elapsed());
        if left.is_zero() {
            let (path, lock) = (place.path().to_path_buf(), path.to_path_buf());
            let holder = taken.and_then(holder);
            return Err(StoreError::Locked { path, lock, waited: wait, holder });
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The result of one attempt.
enum Attempt<T> {
    Locked(T),
    /// The file was unlinked before it was locked.
    Gone,
    /// Another process holds the lock on this device and inode.
    Taken((u64, u64)),
}

fn attempt(place: &Place, make: bool) -> io::Result<Attempt<Lock>> {
    let mut files = Vec::new();
    let mut take = |attempt| match attempt {
        Attempt::Locked(file) => {
            files.push(file);
            None
        }
        Attempt::Gone => Some(Attempt::Gone),
        Attempt::Taken(taken) => Some(Attempt::Taken(taken)),
    };
    match place.lock() {
        LockFile::Folder => {
            let folder = place.open_folder()?;
            let mut hasher = DefaultHasher::new();
            place.folder().hash(&mut hasher);
            let turn = &TURNS[usize::try_from(hasher.finish() % 64).unwrap_or_default()];
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let named = || {
                let named = File::from(place.open_folder_at(place.folder())?).metadata()?;
                Ok((named.dev(), named.ino()))
            };
            if let Some(missed) = take(lock(folder.handle()?, named)?) {
                return Ok(missed);
            }
            return Ok(Attempt::Locked(Lock { _files: files, _turn: Some(turn), folder: Arc::new(folder) }));
        }
        LockFile::File { path, others } => {
            let others = others.iter().filter(|other| other.symlink_metadata().is_ok());
            for (number, path) in [path].into_iter().chain(others).enumerate() {
                let missed = match lock_at(place, path, make && number == 0) {
                    Err(error) if !make && error.kind() == io::ErrorKind::NotFound => continue,
                    attempt => take(attempt?),
                };
                if let Some(missed) = missed {
                    return Ok(missed);
                }
            }
        }
    }
    let folder = Arc::new(place.open_folder()?);
    Ok(Attempt::Locked(Lock { _files: files, _turn: None, folder }))
}

/// Returns the process that holds the lock, if the system reports it.
fn holder((dev, ino): (u64, u64)) -> Option<String> {
    let locks = small_file::read_system_text("/proc/locks")?;
    let file = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let pid = locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; `->` marks a waiting process.
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_held = words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&&*file);
        words.get(4).filter(|_| is_held)?.parse::<u32>().ok()
    })?;
    let name = small_file::read_system_text(&format!("/proc/{pid}/comm"));
    Some(name.map_or_else(|| format!("process {pid}"), |name| format!("process {pid} ({})", name.trim_end())))
}

/// Locks one of JP's lock files. Creates it if it is missing and `make` is set. A cloned workspace can contain
/// anything, so neither `locks` nor the file in it may be a link. Otherwise a file could be created elsewhere.
fn lock_at(place: &Place, path: &Path, make: bool) -> io::Result<Attempt<File>> {
    let (folder, name) =
        (path.parent().expect("a lock is in a folder"), path.file_name().expect("a lock has a name"));
    let folder = open_locks(place, folder, make)?;
    let made = if make { OFlags::CREATE } else { OFlags::empty() };
    let file = small_file::open_at(
        &folder,
        name.as_ref(),
        OFlags::RDWR | OFlags::NOFOLLOW | made,
        Mode::from_raw_mode(0o666),
    )?;
    lock(file, || {
        let named = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((named.st_dev, named.st_ino))
    })
}

/// Opens the folder `locks`. Creates it, but not its parent, if it is missing and `make` is set.
fn open_locks(place: &Place, path: &Path, make: bool) -> io::Result<OwnedFd> {
    let (storage, name) =
        (path.parent().expect("it is in a storage"), path.file_name().expect("it has a name"));
    let storage = place.open_folder_at(storage)?;
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&storage, name, flags, Mode::empty())
    };
    match open() {
        Err(Errno::NOENT) if make => match mkdirat(&storage, name, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => Err(error.into()),
            _ => Ok(open()?),
        },
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let what = format!("{} is not a folder, or it is a symbolic link", path.display());
            Err(io::Error::new(io::ErrorKind::NotADirectory, what))
        }
        opened => Ok(opened?),
    }
}

/// Locks an open file, and checks that it still has its name. JP unlinks a lock file after it releases it, and a lock
/// on an unlinked file excludes no other process.
fn lock(file: File, named: impl FnOnce() -> io::Result<(u64, u64)>) -> io::Result<Attempt<File>> {
    let own = file.metadata().map(|own| (own.dev(), own.ino()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Taken(own)),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    match named() {
        Ok(named) if named == own => Ok(Attempt::Locked(file)),
        Ok(_) => Ok(Attempt::Gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attempt::Gone),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use jp_compact_runtime::private_file;

    fn nowhere() -> Place {
        Place::nowhere("nowhere")
    }

    #[test]
    fn lock_on_unlinked_file_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let opened = || private_file::open_or_make(&path, 0o600).unwrap();
        let named = || fs::metadata(&path).map(|named| (named.dev(), named.ino()));
        let [first, second, third] = [opened(), opened(), opened()];
        assert!(matches!(lock(first, named), Ok(Attempt::Locked(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock(second, named), Ok(Attempt::Gone)));
        let _another = opened();
        assert!(matches!(lock(third, named), Ok(Attempt::Gone)));
    }

    #[test]
    fn creates_folder_of_locks_but_not_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let taken = lock_at(&nowhere(), &folder.path().join("locks/a.lock"), true);
        assert!(matches!(taken, Ok(Attempt::Locked(_))));
        assert!(lock_at(&nowhere(), &folder.path().join("gone/locks/a.lock"), true).is_err());
        assert!(!folder.path().join("gone").exists());
    }

    #[test]
    fn creates_no_lock_file_through_a_link() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir_all(path("storage/locks")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        symlink(path("made"), path("storage/locks/a.lock")).unwrap();
        assert!(lock_at(&nowhere(), &path("storage/locks/a.lock"), true).is_err());
        assert!(!path("made").exists());
        fs::remove_dir_all(path("storage/locks")).unwrap();
        symlink(path("elsewhere"), path("storage/locks")).unwrap();
        assert!(lock_at(&nowhere(), &path("storage/locks/a.lock"), true).is_err());
        assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 0);
    }
}
