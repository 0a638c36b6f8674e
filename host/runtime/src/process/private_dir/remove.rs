//! The removal of a folder with its content, for names of any length and a depth of 4 million. It needs no recursion, a
//! few descriptors, and 16 bytes of memory per level. It must never follow a link or enter another file system. If a
//! folder of the tree is moved in the meantime, that is an error, and no other folder is touched.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, statat, unlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::tree::{self, FileId};

/// A limit for the running time.
const STEPS_MAX: u64 = 1 << 28;
/// The maximum depth. With 16 bytes per level, it takes 64 MiB of memory.
const DEPTH_MAX: usize = 4 << 20;
/// This many entries that cannot be removed are skipped, so that the rest is still removed.
const STUCK_MAX: usize = 1024;
/// A dying process may still be writing.
const ATTEMPTS_MAX: usize = 3;

/// Removes `name` in `parent`. `folder` is its open descriptor. Removes as much as possible even if some
/// entries cannot be removed.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &Path, folder: BorrowedFd<'_>) -> io::Result<()> {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS_MAX {
        let result_of_emptying = Removal::new(folder).and_then(Removal::empty);
        result = match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // The reason why the folder could not be emptied is more useful.
            Err(error) => Err(result_of_emptying.err().unwrap_or_else(|| error.into())),
        };
    }
    result
}

/// A walk through the tree. It descends into folders that are not empty, and returns to the parent after emptying them.
struct Removal {
    device: u64,
    folder: OwnedFd,
    /// The parents of the current folder.
    ancestors: Vec<FileId>,
    /// Entries that cannot be removed, and the reason for the first entry.
    stuck: BTreeSet<FileId>,
    reason: Option<Errno>,
    steps: u64,
}

/// The state of a folder after clearing.
enum ClearedFolder {
    /// A subfolder that must be emptied first.
    Folder(OwnedFd),
    Empty,
    /// Only entries that cannot be removed are left.
    OnlyStuck,
}

impl Removal {
    fn new(top: BorrowedFd<'_>) -> io::Result<Self> {
        let top = fcntl_dupfd_cloexec(top, 3)?;
        // The strategy may have removed its own permissions.
        tree::unlock(&top)?;
        let folder = tree::open(&top, c".")?;
        let device = FileId::at(&folder)?.device;
        let (ancestors, stuck) = (Vec::new(), BTreeSet::new());
        Ok(Self { device, folder, ancestors, stuck, reason: None, steps: 0 })
    }

    fn empty(mut self) -> io::Result<()> {
        loop {
            match self.clear()? {
                ClearedFolder::Folder(folder) => {
                    self.ancestors.push(FileId::at(&self.folder)?);
                    self.folder = folder;
                    continue;
                }
                ClearedFolder::Empty => {}
                ClearedFolder::OnlyStuck => self.skip(FileId::at(&self.folder)?, Errno::NOTEMPTY)?,
            }
            let Some(parent) = self.ancestors.pop() else { break };
            let parent_folder = tree::open_parent(&self.folder)?;
            if FileId::at(&parent_folder)? != parent {
                return Err(io::Error::other("its folders were moved during the removal"));
            }
            self.folder = parent_folder;
        }
        self.reason.map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// Removes entries up to the first folder that is not empty.
    fn clear(&mut self) -> io::Result<ClearedFolder> {
        loop {
            let (mut has_removed, mut has_stuck) = (false, false);
            let mut entries = Dir::read_from(&self.folder)?;
            while let Some(entry) = entries.read() {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.steps += 1;
                if self.steps > STEPS_MAX {
                    return Err(io::Error::other("it has too many entries"));
                }
                let error = match remove_entry(&self.folder, name) {
                    Ok(()) => {
                        has_removed = true;
                        continue;
                    }
                    Err(error) => error,
                };
                has_stuck = true;
                let Ok(stat) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let id = FileId::new(&stat);
                if self.stuck.contains(&id) {
                    continue;
                }
                match self.descend(name, error) {
                    Ok(folder) => return Ok(ClearedFolder::Folder(folder)),
                    Err(error) => self.skip(id, error)?,
                }
            }
            // A listing may miss entries while others are being removed.
            if !has_removed {
                return Ok(if has_stuck { ClearedFolder::OnlyStuck } else { ClearedFolder::Empty });
            }
        }
    }

    /// Opens a folder that is not empty. `error` is the reason why it could not be removed.
    fn descend(&self, name: &CStr, error: Errno) -> Result<OwnedFd, Errno> {
        if error != Errno::NOTEMPTY && error != Errno::EXIST {
            return Err(error);
        }
        if self.ancestors.len() >= DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let folder = tree::open_to_change(self.folder.as_fd(), name)?;
        if FileId::at(&folder)?.device == self.device { Ok(folder) } else { Err(Errno::XDEV) }
    }

    fn skip(&mut self, id: FileId, reason: Errno) -> Result<(), Errno> {
        self.stuck.insert(id);
        let reason = *self.reason.get_or_insert(reason);
        if self.stuck.len() < STUCK_MAX { Ok(()) } else { Err(reason) }
    }
}

/// Removes a file, a link, or an empty folder.
fn remove_entry(folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        // Systems use different errors for a folder.
        Err(error @ (Errno::ISDIR | Errno::PERM)) => match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTDIR) => Err(error),
            Err(Errno::NOENT) => Ok(()),
            other => other,
        },
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
