//! The measurement of a private directory while a strategy works in it. It uses no recursion, stops at the
//! limits, and follows no link. An entry that disappears in the meantime counts as an entry without bytes.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::tree::{self, FileId};

/// The maximum number of files and folders in a private directory.
pub const ENTRIES_MAX: u64 = 1 << 14;
/// The maximum nesting of folders in a private directory.
pub const DEPTH_MAX: usize = 64;

/// The limit that a private directory, or the memory of a process, exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exceeded {
    /// More than this many bytes on disk.
    Bytes(u64),
    /// More than this many files and folders.
    Entries(u64),
    /// Folders nested deeper than this.
    Depth(usize),
    /// The process has more than this many bytes of memory.
    Memory(u64),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = "into its private directory";
        match self {
            Self::Bytes(max) => write!(f, "put more than {max} bytes {directory}"),
            Self::Entries(max) => write!(f, "put more than {max} files and folders {directory}"),
            Self::Depth(max) => write!(f, "put folders nested more than {max} levels deep {directory}"),
            Self::Memory(max) => write!(f, "used more than {max} bytes of memory"),
        }
    }
}

/// Returns the limit that the folder exceeds. `bytes` are counted in addition to the files in the folder.
pub(super) fn exceeded(top: BorrowedFd<'_>, mut bytes: u64, bytes_max: u64) -> Option<Exceeded> {
    let device = FileId::at(top).ok()?.device;
    let mut entries = 0;
    // The strategy may have removed its own permissions.
    tree::unlock(top).ok()?;
    let mut stack = vec![Dir::read_from(top).ok()?];
    loop {
        let depth = stack.len();
        let Some(folder) = stack.last_mut() else { break };
        let Some(Ok(entry)) = folder.read() else {
            stack.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        entries += 1;
        if entries > ENTRIES_MAX {
            return Some(Exceeded::Entries(ENTRIES_MAX));
        }
        let Ok(parent) = folder.fd() else { continue };
        let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if bytes > bytes_max {
            return Some(Exceeded::Bytes(bytes_max));
        }
        if !FileType::from_raw_mode(stat.st_mode).is_dir() || FileId::new(&stat).device != device {
            continue;
        }
        if depth > DEPTH_MAX {
            return Some(Exceeded::Depth(DEPTH_MAX));
        }
        if let Ok(child) = tree::open_to_change(parent, name).and_then(Dir::new) {
            stack.push(child);
        }
    }
    (bytes > bytes_max).then_some(Exceeded::Bytes(bytes_max))
}
