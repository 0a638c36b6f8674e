//! Opening a tree of directories that its maker has locked, so that it can be removed. Links are
//! not followed: each directory is opened as what it is, and changed through that descriptor.

use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::path::Arg;

/// Deeper trees are left alone; nothing honest makes them.
const DEPTH_MAX: usize = 64;

/// Makes every directory readable and writable for its owner, as far as that goes. What it
/// cannot open, the removal after it will complain of.
pub(super) fn unlock(dir: &Path) {
    unlock_at(CWD, dir, DEPTH_MAX);
}

/// `None` when it went no further.
fn unlock_at(parent: impl AsFd, name: impl Arg, depth: usize) -> Option<()> {
    let directory = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A path descriptor needs no permission on the directory itself; its modes can be changed
    // through /proc alone.
    let place = openat(parent, name, directory | OFlags::PATH, Mode::empty()).ok()?;
    let by_number = format!("/proc/self/fd/{}", place.as_raw_fd());
    std::fs::set_permissions(by_number, Permissions::from_mode(0o700)).ok()?;
    let listing = openat(&place, ".", directory | OFlags::RDONLY, Mode::empty()).ok()?;
    for entry in Dir::new(listing).ok()?.flatten() {
        let (name, kind) = (entry.file_name(), entry.file_type());
        let may_be_directory = matches!(kind, FileType::Directory | FileType::Unknown);
        if depth > 0 && may_be_directory && name != c"." && name != c".." {
            unlock_at(&place, name, depth - 1);
        }
    }
    Some(())
}
