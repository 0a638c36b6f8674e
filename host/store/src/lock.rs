//! The lock on a conversation. It is JP's own lock, so JP and the host never write at the same time. Outside of a
//! workspace, the folder itself is locked, which leaves no lock file. This module never unlinks a lock file: JP does,
//! and that causes the race that `fn lock` handles.

use std::{
    collections::BTreeSet,
    fs::{File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
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
/// in which the folder is free. The set has the hashes of the folders that are locked. Two folders with the same hash
/// wait for each other, which is harmless. A thread must never lock two folders.
static TURNS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static TURN_ENDED: Condvar = Condvar::new();

/// The turn of a folder. It can end in another thread than it began.
#[derive(Debug)]
struct Turn(u64);

impl Turn {
    /// Waits for the turn of a folder.
    fn wait_for(folder: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
        let hash = hasher.finish();
        let turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = TURN_ENDED.wait_while(turns, |turns| turns.contains(&hash));
        turns.unwrap_or_else(PoisonError::into_inner).insert(hash);
        Self(hash)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        TURN_ENDED.notify_all();
    }
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    _files: Vec<File>,
    _turn: Option<Turn>,
    /// The transcript's folder, opened under the lock.
    pub(super) folder: Arc<OpenFolder>,
}

impl Lock {
    /// Releases the lock, and keeps the folder open.
    pub(super) fn release(self) -> Arc<OpenFolder> {
        self.folder
    }
}

/// Takes the lock. Retries for at most `wait`. In addition, waits without a limit while another thread of this process
/// locks the same folder.
pub(super) fn acquire(place: &Place, wait: Duration) -> Result<Lock, StoreError> {
    acquire_within(place, wait, true)
}

/// Checks that the lock could be taken. Creates no file, because a lock whose file is missing is free.
pub(super) fn probe(place: &Place, wait: Duration) -> Result<(), StoreError> {
    drop(acquire_within(place, wait, false)?);
    let LockFile::File { path, .. } = place.lock() else { return Ok(()) };
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let ancestor = path.ancestors().skip(1).take(2).find(|ancestor| ancestor.symlink_metadata().is_ok());
    let Some(ancestor) = ancestor else { return Ok(()) };
    access(ancestor, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| unwritable("lock", path)(error.into()))
}

/// Takes the lock. Without `create`, locks only existing files.
fn acquire_within(place: &Place, wait: Duration, create: bool) -> Result<Lock, StoreError> {
    let first = match place.lock() {
        LockFile::File { path, .. } => path,
        LockFile::Folder => place.folder(),
    };
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let mut lock = first;
        let attempt = try_acquire(place, create, &mut lock);
        let held_by = match attempt.map_err(|error| unwritable("lock", lock)(error))? {
            Attempt::Locked(lock) => return Ok(lock),
            Attempt::Unlinked => None,
            Attempt::HeldByOther(file_id) => Some(file_id),
        };
        let remaining = wait.saturating_sub(started.elapsed());
        if remaining.is_zero() {
            let (path, lock) = (place.path().to_path_buf(), lock.to_path_buf());
            let holder = held_by.and_then(find_holder);
            return Err(StoreError::Locked { path, lock, waited: wait, holder });
        }
        thread::sleep(pause.min(remaining));
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The result of one attempt.
enum Attempt<T> {
    Locked(T),
    /// The file was unlinked before it was locked.
    Unlinked,
    /// Another process holds the lock on this device and inode.
    HeldByOther((u64, u64)),
}

/// Tries to take the lock. If `place` has several lock files, `tried` becomes the last one that was tried.
fn try_acquire<'p>(place: &'p Place, create: bool, tried: &mut &'p Path) -> io::Result<Attempt<Lock>> {
    let mut files = Vec::new();
    // Keeps a locked file, or returns the failure.
    let mut keep = |attempt| match attempt {
        Attempt::Locked(file) => {
            files.push(file);
            None
        }
        Attempt::Unlinked => Some(Attempt::Unlinked),
        Attempt::HeldByOther(file_id) => Some(Attempt::HeldByOther(file_id)),
    };
    match place.lock() {
        LockFile::Folder if !create => {
            let turn = Turn::wait_for(place.folder());
            if let Some(failure) = keep(try_lock(place.open_folder_at(place.folder())?.into())?) {
                return Ok(failure);
            }
            let folder = Arc::new(OpenFolder::by_path(place.folder()));
            return Ok(Attempt::Locked(Lock { _files: files, _turn: Some(turn), folder }));
        }
        LockFile::Folder => {
            let folder = place.open_folder()?;
            let turn = Turn::wait_for(place.folder());
            let current_id = || file_id(&place.open_folder_at(place.folder())?.into());
            if let Some(failure) = keep(lock(folder.handle()?, current_id)?) {
                return Ok(failure);
            }
            return Ok(Attempt::Locked(Lock { _files: files, _turn: Some(turn), folder: Arc::new(folder) }));
        }
        LockFile::File { path, others } => {
            let existing = others.iter().filter(|other| other.symlink_metadata().is_ok());
            for (index, path) in [path].into_iter().chain(existing).enumerate() {
                *tried = path;
                let failure = match lock_at(place, path, create && index == 0) {
                    Err(error) if !create && error.kind() == io::ErrorKind::NotFound => continue,
                    attempt => keep(attempt?),
                };
                if let Some(failure) = failure {
                    return Ok(failure);
                }
            }
        }
    }
    let folder = Arc::new(place.open_folder()?);
    Ok(Attempt::Locked(Lock { _files: files, _turn: None, folder }))
}

/// Returns the process that holds the lock, if the system reports it.
fn find_holder((dev, ino): (u64, u64)) -> Option<String> {
    let locks = small_file::read_system_text("/proc/locks")?;
    let file = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let pid = locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; `->` marks a waiting process.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_held = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&&*file);
        fields.get(4).filter(|_| is_held)?.parse::<u32>().ok()
    })?;
    let name = small_file::read_system_text(&format!("/proc/{pid}/comm"));
    Some(name.map_or_else(|| format!("process {pid}"), |name| format!("process {pid} ({})", name.trim_end())))
}

/// Locks one of JP's lock files. Creates it if it is missing and `create` is set. A cloned workspace can contain
/// anything, so neither `locks` nor the file in it may be a link. Otherwise a file could be created elsewhere.
fn lock_at(place: &Place, path: &Path, create: bool) -> io::Result<Attempt<File>> {
    let (folder, name) =
        (path.parent().expect("a lock is in a folder"), path.file_name().expect("a lock has a name"));
    let folder = open_locks(place, folder, create)?;
    let create_flag = if create { OFlags::CREATE } else { OFlags::empty() };
    let file = small_file::open_at(
        &folder,
        name.as_ref(),
        OFlags::RDWR | OFlags::NOFOLLOW | create_flag,
        Mode::from_raw_mode(0o666),
    )?;
    lock(file, || {
        let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((stat.st_dev, stat.st_ino))
    })
}

/// Opens the folder `locks`. Creates it, but not its parent, if it is missing and `create` is set.
fn open_locks(place: &Place, path: &Path, create: bool) -> io::Result<OwnedFd> {
    let (storage, name) =
        (path.parent().expect("it is in a storage"), path.file_name().expect("it has a name"));
    let storage = place.open_folder_at(storage)?;
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&storage, name, flags, Mode::empty())
    };
    match open() {
        Err(Errno::NOENT) if create => match mkdirat(&storage, name, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => Err(error.into()),
            _ => Ok(open()?),
        },
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let message = format!("{} is not a folder, or it is a symbolic link", path.display());
            Err(io::Error::new(io::ErrorKind::NotADirectory, message))
        }
        opened => Ok(opened?),
    }
}

/// Locks an open file, and checks that it still has its name. JP unlinks a lock file after releasing it, and a lock on
/// an unlinked file excludes no other process.
fn lock(file: File, current_id: impl FnOnce() -> io::Result<(u64, u64)>) -> io::Result<Attempt<File>> {
    let file = match try_lock(file)? {
        Attempt::Locked(file) => file,
        failure => return Ok(failure),
    };
    match current_id() {
        Ok(id) if id == file_id(&file)? => Ok(Attempt::Locked(file)),
        Ok(_) => Ok(Attempt::Unlinked),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attempt::Unlinked),
        Err(error) => Err(error),
    }
}

/// Locks an open file.
fn try_lock(file: File) -> io::Result<Attempt<File>> {
    match file.try_lock() {
        Ok(()) => Ok(Attempt::Locked(file)),
        Err(TryLockError::WouldBlock) => Ok(Attempt::HeldByOther(file_id(&file)?)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the device and the inode of an open file.
fn file_id(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
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
        let open = || private_file::open_or_make(&path, 0o600).unwrap();
        let current_id = || fs::metadata(&path).map(|metadata| (metadata.dev(), metadata.ino()));
        let [first, second, third] = [open(), open(), open()];
        assert!(matches!(lock(first, current_id), Ok(Attempt::Locked(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock(second, current_id), Ok(Attempt::Unlinked)));
        let _replacement = open();
        assert!(matches!(lock(third, current_id), Ok(Attempt::Unlinked)));
    }

    #[test]
    fn creates_folder_of_locks_but_not_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let attempt = lock_at(&nowhere(), &folder.path().join("locks/a.lock"), true);
        assert!(matches!(attempt, Ok(Attempt::Locked(_))));
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
