//! A folder of the host: the private directory of a strategy or the folder for the events of a run, in the temporary
//! directory, or a control group (`threads.rs`). The host creates it, locks it, and removes it. The kernel releases the
//! lock when the process ends for any reason, so the next run can find the folders of killed runs
//! (`private_dir/leftovers.rs`).

mod leftovers;
mod open_files;
mod remove;
mod size;
mod tree;
mod watch;

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, FlockOperation, flock, stat};
use rustix::io::Errno;

pub(super) use open_files::ProcessScope;
pub use size::{DEPTH_MAX, ENTRIES_MAX, Exceeded};
pub(super) use watch::SizeWatch;

use tree::FileId;

/// The prefix of every name.
const PREFIX: &str = "jp-compact";
/// Another run that removes leftovers may take a new folder before it is locked.
const ATTEMPTS_MAX: usize = 100;

/// Failures to remove a folder that were not reported yet.
static LEFT_BEHIND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns one message per folder that could not be removed since the last call.
#[must_use]
pub fn left_behind() -> Vec<String> {
    std::mem::take(&mut *LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A folder that only its owner can enter. It is removed with its content when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    path: PathBuf,
    folder: OwnedFd,
}

impl PrivateDir {
    /// Creates `jp-compact-<pid>-<random>`. The first call for a directory removes the folders of killed runs.
    pub(crate) fn make(temp_dir: &Path) -> io::Result<Self> {
        let temp_dir = std::path::absolute(temp_dir)?;
        remove_leftovers_once(&temp_dir);
        for _ in 0..ATTEMPTS_MAX {
            // A keyed hash with a key from the system is unpredictable and needs no crate. Safety does not
            // depend on it, because creating an existing folder is an error.
            let random = RandomState::new().hash_one(std::process::id());
            let path = temp_dir.join(format!("{PREFIX}-{}-{random:016x}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&path)?;
            if let Some(folder) = lock_new(&path)? {
                return Ok(Self { path, folder });
            }
        }
        Err(io::Error::other("other runs removed every new folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a new folder. Returns `None` if another run has removed it or is removing it.
fn lock_new(path: &Path) -> io::Result<Option<OwnedFd>> {
    let folder = match tree::open(CWD, path) {
        Err(Errno::NOENT) => return Ok(None),
        folder => folder?,
    };
    // A file system without locks is accepted. Its leftovers are kept, because they could be folders in use.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let current = stat(path).map(|stat| FileId::new(&stat));
    Ok((current == FileId::at(&folder)).then_some(folder))
}

/// Runs once per temporary directory, because a run creates many private directories.
fn remove_leftovers_once(temp_dir: &Path) {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(temp_dir.to_owned()) {
        leftovers::remove(temp_dir);
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // One call for the usual case of an empty folder.
        match rustix::fs::rmdir(&self.path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => remove_or_report(CWD, &self.path, self.folder.as_fd()),
        }
    }
}

/// Removes the folder at a path below `parent`. `folder` is its open descriptor.
fn remove_or_report(parent: BorrowedFd<'_>, path: &Path, folder: BorrowedFd<'_>) {
    if let Err(error) = remove::remove(parent, path, folder) {
        report(path, &error);
    }
}

fn report(path: &Path, error: &io::Error) {
    let message = format!("failed to remove the private folder {}: {error}", path.display());
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner).push(message);
}

#[cfg(test)]
mod tests;
