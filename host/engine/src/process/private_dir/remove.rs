//! Removes a folder with all that is in it, however deep it is and however long its names are: without recursion,
//! with a few descriptors, and with 16 bytes of memory for each level. No link is followed, and no other file system
//! is entered. Where somebody moves a folder of the tree meanwhile, that is an error and never another folder.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, statat, unlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::tree::{self, Id};

/// More than anybody waits for.
const STEPS_MAX: u64 = 1 << 28;
/// 64 MiB of memory.
const DEPTH_MAX: usize = 4 << 20;
/// So many entries that cannot be removed are passed over, so that all others are.
const STUCK_MAX: usize = 1024;
/// A dying process may still be writing.
const ATTEMPTS_MAX: usize = 3;

/// Removes `name` in `parent`, which is open as `folder`. What can be removed is, also where not all can.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &Path, folder: BorrowedFd<'_>) -> io::Result<()> {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS_MAX {
        let emptied = Removal::of(folder).and_then(Removal::empty);
        result = match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // Why it could not be emptied says more.
            Err(error) => Err(emptied.err().unwrap_or_else(|| error.into())),
        };
    }
    result
}

/// A walk through the tree. It goes down where a folder is not empty, and up again when it is.
struct Removal {
    device: u64,
    folder: OwnedFd,
    /// The folders above.
    above: Vec<Id>,
    /// What cannot be removed, and why the first could not.
    stuck: BTreeSet<Id>,
    reason: Option<Errno>,
    steps: u64,
}

/// What was found in a folder.
enum Found {
    /// Another that has to be emptied before it can be removed.
    Folder(OwnedFd),
    Nothing,
    /// What cannot be removed.
    Rest,
}

impl Removal {
    fn of(top: BorrowedFd<'_>) -> io::Result<Self> {
        let top = fcntl_dupfd_cloexec(top, 3)?;
        // It may have been closed by who works in it.
        let folder = tree::open_to_change(&top, c".")?;
        let device = Id::at(&folder)?.device;
        let (above, stuck) = (Vec::new(), BTreeSet::new());
        Ok(Self { device, folder, above, stuck, reason: None, steps: 0 })
    }

    fn empty(mut self) -> io::Result<()> {
        loop {
            match self.clear()? {
                Found::Folder(folder) => {
                    self.above.push(Id::at(&self.folder)?);
                    self.folder = folder;
                    continue;
                }
                Found::Nothing => {}
                Found::Rest => self.pass_over(Id::at(&self.folder)?, Errno::NOTEMPTY)?,
            }
            let Some(parent) = self.above.pop() else { break };
            let up = tree::open_parent(&self.folder)?;
            if Id::at(&up)? != parent {
                return Err(io::Error::other("its folders were moved while they were removed"));
            }
            self.folder = up;
        }
        self.reason.map_or(Ok(()), |reason| Err(reason.into()))
    }

    /// Removes what is in the folder, up to the first folder that is not empty.
    fn clear(&mut self) -> io::Result<Found> {
        loop {
            let (mut removed, mut rest) = (false, false);
            let mut entries = Dir::read_from(&self.folder)?;
            while let Some(entry) = entries.read() {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.steps += 1;
                if self.steps > STEPS_MAX {
                    return Err(io::Error::other("it holds too much"));
                }
                let error = match remove_entry(&self.folder, name) {
                    Ok(()) => {
                        removed = true;
                        continue;
                    }
                    Err(error) => error,
                };
                rest = true;
                let Ok(stat) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let id = Id::of(&stat);
                if self.stuck.contains(&id) {
                    continue;
                }
                match self.descend(name, error) {
                    Ok(folder) => return Ok(Found::Folder(folder)),
                    Err(error) => self.pass_over(id, error)?,
                }
            }
            // A listing may miss entries where others are removed meanwhile.
            if !removed {
                return Ok(if rest { Found::Rest } else { Found::Nothing });
            }
        }
    }

    /// Opens a folder that is not empty; `error` is why it could not be removed.
    fn descend(&self, name: &CStr, error: Errno) -> Result<OwnedFd, Errno> {
        if error != Errno::NOTEMPTY && error != Errno::EXIST {
            return Err(error);
        }
        if self.above.len() >= DEPTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        let folder = tree::open_to_change(self.folder.as_fd(), name)?;
        if Id::at(&folder)?.device == self.device { Ok(folder) } else { Err(Errno::XDEV) }
    }

    fn pass_over(&mut self, id: Id, reason: Errno) -> Result<(), Errno> {
        self.stuck.insert(id);
        let reason = *self.reason.get_or_insert(reason);
        if self.stuck.len() < STUCK_MAX { Ok(()) } else { Err(reason) }
    }
}

/// Removes a file, a link or an empty folder.
fn remove_entry(folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        // Systems differ in how they say that it is a folder.
        Err(error @ (Errno::ISDIR | Errno::PERM)) => match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTDIR) => Err(error),
            Err(Errno::NOENT) => Ok(()),
            other => other,
        },
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
