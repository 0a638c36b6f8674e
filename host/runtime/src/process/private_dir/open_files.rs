//! The size of removed files that a process still has open or mapped, and the size of its memory. Such files use disk space
//! without being in a folder.

use rustix::process::Pid;

use super::PrivateDir;

/// The processes to inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum ProcessScope {
    /// Only the process, because it cannot start others.
    Process,
    /// All processes of its session.
    Session,
}

/// The use of disk and memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    /// The size of the removed files.
    pub(super) removed_bytes: u64,
    /// The memory of the process that has most.
    pub(super) memory_bytes: u64,
}

/// Returns nothing, because other systems do not show the open files of a process.
#[cfg(not(target_os = "linux"))]
pub(super) fn measure(_: Pid, _: ProcessScope, _: &PrivateDir) -> Usage {
    Usage::default()
}

#[cfg(target_os = "linux")]
pub(super) use linux::measure;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{FileType, stat};

    use super::{Pid, PrivateDir, ProcessScope, Usage};
    use crate::process::orphans;
    use crate::process::private_dir::tree::FileId;
    use crate::small_file;

    /// The assumed size of a file that is only mapped, because its real size is unknown. It is the file size
    /// limit that the runner sets.
    const FILE_BYTES_MAX: u64 = 64 << 20;
    /// The assumed size of the files whose descriptors are in a socket: the limits of the runner for files and descriptors.
    const ALL_FILES_BYTES_MAX: u64 = 64 * FILE_BYTES_MAX;

    /// Measures the removed files that the processes have open or mapped, and their memory.
    pub(in super::super) fn measure(leader: Pid, scope: ProcessScope, dir: &PrivateDir) -> Usage {
        let Ok(folder) = FileId::at(dir.folder.as_fd()) else { return Usage::default() };
        let pids = match scope {
            ProcessScope::Process => vec![leader.as_raw_pid()],
            ProcessScope::Session => orphans::session(leader),
        };
        let mut counted_inodes = BTreeSet::new();
        let mut bytes = 0;
        let (tasks, memory_bytes) = live_threads(&pids);
        for task in &tasks {
            for descriptor in fs::read_dir(format!("{task}/fd")).into_iter().flatten().flatten() {
                let Ok(stat) = stat(descriptor.path()) else { continue };
                let kind = FileType::from_raw_mode(stat.st_mode);
                // Another process may soon receive the descriptors. A single process only hides files this way.
                if kind == FileType::Socket
                    && scope == ProcessScope::Process
                    && holds_descriptors(task, &descriptor)
                {
                    bytes += ALL_FILES_BYTES_MAX;
                }
                let is_removed = kind.is_file() && stat.st_nlink == 0;
                if is_removed
                    && FileId::new(&stat).device == folder.device
                    && counted_inodes.insert(stat.st_ino)
                {
                    bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
                }
            }
        }
        // Open files are already counted. The remaining files are only mapped.
        for task in &tasks {
            let maps = small_file::read_system_bytes(&format!("{task}/maps")).unwrap_or_default();
            for inode in maps.split(|byte| *byte == b'\n').filter_map(|line| removed_inode(line, dir)) {
                bytes += if counted_inodes.insert(inode) { FILE_BYTES_MAX } else { 0 };
            }
        }
        Usage { removed_bytes: bytes, memory_bytes }
    }

    /// Returns the `/proc` folder of a live thread of each process, and the memory of the process that has most
    /// (`memory_bytes`). A main thread that has ended has neither memory nor files, although other threads may run.
    fn live_threads(pids: &[i32]) -> (Vec<String>, u64) {
        let threads_of = |pid: &i32| {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let paths = threads.map(|thread| thread.path().display().to_string());
            paths.map(|path| (memory_bytes(&path), path)).find(|(bytes, _)| *bytes > 0)
        };
        let found: Vec<(u64, String)> = pids.iter().filter_map(threads_of).collect();
        let memory_bytes = found.iter().map(|(bytes, _)| *bytes).max().unwrap_or_default();
        (found.into_iter().map(|(_, path)| path).collect(), memory_bytes)
    }

    /// Returns the memory of a process. `RLIMIT_DATA` counts neither data that was made read-only nor page tables. The
    /// status begins with the name of the thread, which may have any bytes.
    fn memory_bytes(thread: &str) -> u64 {
        let status = small_file::read_system_bytes(&format!("{thread}/status")).unwrap_or_default();
        let kibibytes = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let counts = ["RssAnon", "VmPTE", "VmSwap"].contains(&name);
            value.trim().strip_suffix(" kB")?.parse().ok().filter(|_: &u64| counts)
        };
        String::from_utf8_lossy(&status).lines().filter_map(kibibytes).sum::<u64>() << 10
    }

    /// Returns whether a socket holds descriptors that were sent and not received.
    fn holds_descriptors(thread: &str, descriptor: &fs::DirEntry) -> bool {
        let path = format!("{thread}/fdinfo/{}", descriptor.file_name().display());
        let info = small_file::read_system_text(&path).unwrap_or_default();
        info.lines().any(|line| line.strip_prefix("scm_fds:").is_some_and(|count| count.trim() != "0"))
    }

    /// Parses a line of `/proc/<pid>/maps`. Returns the inode if the line maps a removed file of the private directory.
    fn removed_inode(line: &[u8], dir: &PrivateDir) -> Option<u64> {
        let line = line.strip_suffix(b" (deleted)")?;
        let path_start = line.iter().position(|byte| *byte == b'/')?;
        let (fields, path) = line.split_at(path_start);
        path.strip_prefix(dir.path().as_os_str().as_bytes())?.strip_prefix(b"/")?;
        std::str::from_utf8(fields).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}
