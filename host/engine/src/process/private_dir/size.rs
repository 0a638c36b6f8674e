//! How much there is in a private directory, measured while a strategy works in it: without recursion, no deeper and
//! no further than the limits, and through no link. What vanishes meanwhile counts for nothing.

use std::fmt;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::tree::{self, Id};

/// Files and folders that a private directory may hold.
pub const ENTRIES_MAX: u64 = 1 << 14;
/// How deep folders may be nested in a private directory.
pub const DEPTH_MAX: usize = 64;

/// What a private directory holds too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exceeded {
    /// Bytes on disk: more than so many.
    Bytes(u64),
    /// Files and folders: more than so many.
    Entries(u64),
    /// Folders in folders: more than so many.
    Depth(usize),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(max) => write!(f, "more than {max} bytes"),
            Self::Entries(max) => write!(f, "more than {max} files and folders"),
            Self::Depth(max) => write!(f, "folders nested more than {max} deep"),
        }
    }
}

/// Which limit the folder exceeds, if any. `bytes` are those that count though they lie in no folder.
pub(super) fn exceeded(top: BorrowedFd<'_>, mut bytes: u64, bytes_max: u64) -> Option<Exceeded> {
    let device = Id::at(top).ok()?.device;
    let mut entries = 0;
    let mut open = vec![Dir::read_from(top).ok()?];
    loop {
        let depth = open.len();
        let Some(folder) = open.last_mut() else { break };
        let Some(Ok(entry)) = folder.read() else {
            open.pop();
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
        let Ok(here) = folder.fd() else { continue };
        let Ok(stat) = statat(here, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if bytes > bytes_max {
            return Some(Exceeded::Bytes(bytes_max));
        }
        if !FileType::from_raw_mode(stat.st_mode).is_dir() || Id::of(&stat).device != device {
            continue;
        }
        if depth > DEPTH_MAX {
            return Some(Exceeded::Depth(DEPTH_MAX));
        }
        if let Ok(child) = tree::open(here, name).and_then(Dir::new) {
            open.push(child);
        }
    }
    (bytes > bytes_max).then_some(Exceeded::Bytes(bytes_max))
}
