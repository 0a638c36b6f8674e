//! Folders by descriptor, never through a link: what a strategy puts into its private directory leads nowhere.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, Stat, fchmod, fstat, openat};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OWNERS: Mode = Mode::RWXU;

/// What tells a file or folder from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) device: u64,
    inode: u64,
}

impl Id {
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "the types differ between systems"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino.into() }
    }

    /// Of what is open.
    pub(super) fn at(folder: impl AsFd) -> Result<Self> {
        fstat(folder).map(|stat| Self::of(&stat))
    }
}

/// Opens a folder for reading, whatever mode its maker has given it.
pub(super) fn open(parent: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    match openat(&parent, name, FOLDER | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => openat(&unlocked(parent, name)?, ".", FOLDER | OFlags::RDONLY, Mode::empty()),
        folder => folder,
    }
}

/// Opens the folder that this one is in.
pub(super) fn open_parent(folder: impl AsFd) -> Result<OwnedFd> {
    openat(folder, c"..", FOLDER | OFlags::RDONLY, Mode::empty())
}

/// Opens the folder for temporary files, which may be a link of the user's.
pub(super) fn open_temp_dir(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
}

/// Opens a folder for changing what is in it.
pub(super) fn open_to_change(parent: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    let folder = open(parent, name)?;
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(OWNERS) {
        fchmod(&folder, OWNERS)?;
    }
    Ok(folder)
}

/// The folder by a descriptor that needs no permission on it; its mode can then be changed through /proc alone.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn unlocked(parent: impl AsFd, name: impl Arg) -> Result<OwnedFd> {
    use std::os::fd::AsRawFd as _;

    let place = openat(parent, name, FOLDER | OFlags::PATH, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), OWNERS)?;
    Ok(place)
}

/// No call here changes a folder that cannot be opened without a chance of following a link.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn unlocked(_: impl AsFd, _: impl Arg) -> Result<OwnedFd> {
    Err(Errno::ACCESS)
}
