//! Limits the threads and processes of one strategy with a control group (cgroup v2), if this user may create one. A
//! process limit (`RLIMIT_NPROC`) would not work, because it counts all processes of the user on the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::PrivateDir;
use crate::small_file;

/// The maximum number of threads and processes of a strategy.
pub const TASKS_MAX: u32 = 512;
/// Killed processes normally leave the group sooner, unless the system is slow.
const PATIENCE: Duration = Duration::from_millis(250);

static DELEGATED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let groups = small_file::read_system_text("/proc/self/cgroup")?;
    let mounts = small_file::read_system_text("/proc/self/mountinfo")?;
    own_group(&groups, &mounts).filter(|group| is_delegated(group))
});

/// Returns whether the threads of a strategy can be limited on this machine.
#[must_use]
pub fn are_bounded() -> bool {
    DELEGATED.is_some()
}

/// Returns the folder of the control group of this process.
fn own_group(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounted = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ").then_some((root, point))
    });
    let (root, point) = mounted?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

fn is_delegated(group: &Path) -> bool {
    let controllers = small_file::read_system_text(&group.join("cgroup.controllers").to_string_lossy());
    let has_pids = controllers.is_some_and(|names| names.split_whitespace().any(|name| name == "pids"));
    let may_write = |name| rustix::fs::access(group.join(name), Access::WRITE_OK).is_ok();
    has_pids && ["", "cgroup.procs", "cgroup.subtree_control"].into_iter().all(may_write)
}

/// A control group for one strategy. The runner joins it. It is removed on drop.
#[derive(Debug)]
pub(super) struct Group(PrivateDir);

impl Group {
    /// Returns `None` if this user may not create one.
    pub(super) fn make() -> Option<Self> {
        let group = Self::in_group(DELEGATED.as_deref()?);
        group.inspect_err(|error| tracing::debug!(%error, "failed to limit the threads of a strategy")).ok()
    }

    fn in_group(own: &Path) -> io::Result<Self> {
        fs::write(own.join("cgroup.subtree_control"), "+pids")?;
        let group = Self(PrivateDir::make(own)?);
        // This process is in the parent group, so the child group must be threaded.
        let kind = group.path().join("cgroup.type");
        if small_file::read_system_text(&kind.to_string_lossy()).is_some_and(|kind| kind.contains("invalid"))
        {
            fs::write(&kind, "threaded")?;
        }
        fs::write(group.path().join("pids.max"), TASKS_MAX.to_string())?;
        Ok(group)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let started = Instant::now();
        while rustix::fs::rmdir(self.path()) == Err(Errno::BUSY) && started.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn lies_in(groups: &str, mounts: &str, expect: Option<&str>) {
        assert_eq!(own_group(groups, mounts), expect.map(PathBuf::from));
    }

    #[test]
    fn finds_the_group_of_this_process() {
        let whole =
            "24 18 0:22 / /proc rw - proc proc rw\n31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        lies_in("0::/user.slice/a.scope\n", whole, Some("/sys/fs/cgroup/user.slice/a.scope"));
        lies_in("0::/\n", whole, Some("/sys/fs/cgroup/"));
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw";
        lies_in("8:pids:/x\n0::/a\n", hybrid, Some("/sys/fs/cgroup/unified/a"));
        let part = "31 24 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        lies_in("0::/docker/1/a\n", part, Some("/sys/fs/cgroup/a"));
        lies_in("0::/elsewhere\n", part, None);
        lies_in("8:pids:/x\n", whole, None);
        lies_in("0::/\n", "", None);
    }
}
