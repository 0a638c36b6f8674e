//! Folders opened by descriptor and never through a link, because a strategy can put links into its private directory.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, Stat, fchmod, fstat, openat};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OWNER_MODE: Mode = Mode::RWXU;

/// Identifies a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    pub(super) device: u64,
    inode: u64,
}

impl FileId {
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the types differ between systems"
    )]
    pub(super) fn new(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino.into() }
    }

    /// Returns the identity of an open folder.
    pub(super) fn at(folder: impl AsFd) -> Result<Self> {
        fstat(folder).map(|stat| Self::new(&stat))
    }
}

/// Opens a folder for reading. If its mode denies that, the owner first gets all permissions.
pub(super) fn open(parent: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    match openat(&parent, name, FOLDER | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            openat(&open_unlocked(parent, name)?, ".", FOLDER | OFlags::RDONLY, Mode::empty())
        }
        folder => folder,
    }
}

/// Opens the parent of a folder.
pub(super) fn open_parent(folder: impl AsFd) -> Result<OwnedFd> {
    openat(folder, c"..", FOLDER | OFlags::RDONLY, Mode::empty())
}

/// Opens the temporary directory, which may be a link.
pub(super) fn open_temp_dir(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
}

/// Opens a folder in order to change its content, and gives all permissions to its owner.
pub(super) fn open_to_change(parent: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    let folder = open(parent, name)?;
    unlock(&folder)?;
    Ok(folder)
}

/// Gives all permissions to the owner of an open folder.
pub(super) fn unlock(folder: impl AsFd) -> Result<()> {
    let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
    if mode.contains(OWNER_MODE) { Ok(()) } else { fchmod(folder, OWNER_MODE) }
}

/// Opens a folder with `O_PATH`, which needs no permission, and gives its owner all permissions through /proc.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_unlocked(parent: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    use std::os::fd::AsRawFd as _;

    let folder = openat(parent, name, FOLDER | OFlags::PATH, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), OWNER_MODE)?;
    Ok(folder)
}

/// Fails, because this system cannot change the mode of an unreadable folder without the risk of following a link.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_unlocked(_: impl AsFd, _: impl Arg) -> Result<OwnedFd> {
    Err(Errno::ACCESS)
}
