//! A folder of the host's own among the temporary files: a strategy's private directory, and the folder of a run's
//! events. Made, held and removed by the host. Held by a lock on the folder itself, which ends with the process
//! whatever ends it: so the next run knows what a killed one left (`private_dir/leftovers.rs`).

mod held;
mod leftovers;
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

pub(super) use held::Who;
pub use size::{DEPTH_MAX, ENTRIES_MAX, Exceeded};
pub(super) use watch::Watch;

use tree::Id;

/// The beginning of every name.
const PREFIX: &str = "jp-compact";
/// Another run that removes leftovers may take a folder for one before it is held.
const ATTEMPTS_MAX: usize = 100;

/// What could not be removed, until somebody says so.
static LEFT_BEHIND: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What could not be removed since the last call: a sentence for each, with its path.
#[must_use]
pub fn left_behind() -> Vec<String> {
    std::mem::take(&mut *LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A folder that nobody else reaches. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    path: PathBuf,
    folder: OwnedFd,
}

impl PrivateDir {
    /// Makes `jp-compact-<pid>-<random>`. The first of a process removes what killed runs have left there.
    pub(crate) fn make(temp_dir: &Path) -> io::Result<Self> {
        let temp_dir = std::path::absolute(temp_dir)?;
        remove_leftovers_once(&temp_dir);
        for _ in 0..ATTEMPTS_MAX {
            // A keyed hash whose key comes from the system: random enough to be unforeseeable, and it needs no
            // crate. That a folder which exists is an error is what keeps it safe.
            let random = RandomState::new().hash_one(std::process::id());
            let path = temp_dir.join(format!("{PREFIX}-{}-{random:016x}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&path)?;
            if let Some(folder) = hold(&path)? {
                return Ok(Self { path, folder });
            }
        }
        Err(io::Error::other("other runs took every new folder for a leftover"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a folder that was just made; `None` where another run was about to remove it.
fn hold(path: &Path) -> io::Result<Option<OwnedFd>> {
    let folder = match tree::open(CWD, path) {
        Err(Errno::NOENT) => return Ok(None),
        folder => folder?,
    };
    // Where there are no locks, leftovers cannot be told from what is in use, and stay.
    if flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    let there = stat(path).map(|stat| Id::of(&stat));
    Ok((there == Id::at(&folder)).then_some(folder))
}

/// Once for each place: a run makes many private directories.
fn remove_leftovers_once(temp_dir: &Path) {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(temp_dir.to_owned()) {
        leftovers::remove(temp_dir);
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // One call for the most frequent case, in which the strategy made nothing.
        match rustix::fs::rmdir(&self.path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => remove_or_report(CWD, &self.path, self.folder.as_fd()),
        }
    }
}

/// Removes what lies at a path below `parent`, and is open as `folder`.
fn remove_or_report(parent: BorrowedFd<'_>, path: &Path, folder: BorrowedFd<'_>) {
    if let Err(error) = remove::remove(parent, path, folder) {
        report(path, &error);
    }
}

fn report(path: &Path, error: &io::Error) {
    let what = format!("failed to remove the private folder {}: {error}", path.display());
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

#[cfg(test)]
mod tests;
