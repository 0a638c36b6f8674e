//! What counts though it lies in no folder any more: files that were removed while a process has them open or mapped.

use rustix::process::Pid;

use super::PrivateDir;

/// Whose files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Who {
    /// The process alone: it can start no other.
    Process,
    /// All of its session.
    Session,
}

/// Elsewhere nobody shows what a process has open.
#[cfg(not(target_os = "linux"))]
pub(super) fn bytes(_: Pid, _: Who, _: &PrivateDir) -> u64 {
    0
}

#[cfg(target_os = "linux")]
pub(super) use linux::bytes;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{FileType, stat};

    use super::{Pid, PrivateDir, Who};
    use crate::process::orphans;
    use crate::process::private_dir::tree::Id;
    use crate::small_file;

    /// How large a file can be that is only mapped: nobody says how large it is. As the runner limits it.
    const FILE_BYTES_MAX: u64 = 64 << 20;

    /// The bytes of removed files that the processes hold.
    pub(in super::super) fn bytes(strategy: Pid, who: Who, dir: &PrivateDir) -> u64 {
        let Ok(own) = Id::at(dir.folder.as_fd()) else { return 0 };
        let pids = match who {
            Who::Process => vec![strategy.as_raw_pid()],
            Who::Session => orphans::session(strategy),
        };
        let mut seen = BTreeSet::new();
        let mut bytes = 0;
        for pid in &pids {
            for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(stat) = stat(file.path()) else { continue };
                let is_removed = FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_nlink == 0;
                if is_removed && Id::of(&stat).device == own.device && seen.insert(stat.st_ino) {
                    bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
                }
            }
        }
        // Those that are open are known by now, and what is left is mapped alone.
        for pid in &pids {
            let maps = small_file::of_the_system_in_bytes(&format!("/proc/{pid}/maps")).unwrap_or_default();
            for inode in maps.split(|byte| *byte == b'\n').filter_map(|line| removed_file(line, dir)) {
                bytes += if seen.insert(inode) { FILE_BYTES_MAX } else { 0 };
            }
        }
        bytes
    }

    /// The number of a removed file of the private directory, of a line of `/proc/<pid>/maps`.
    fn removed_file(line: &[u8], dir: &PrivateDir) -> Option<u64> {
        let line = line.strip_suffix(b" (deleted)")?;
        let place = line.iter().position(|byte| *byte == b'/')?;
        let (fields, path) = line.split_at(place);
        path.strip_prefix(dir.path().as_os_str().as_bytes())?.strip_prefix(b"/")?;
        std::str::from_utf8(fields).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}
