//! The limit for threads and processes of one strategy: a control group (cgroup v2), if this user may create one. A
//! process limit (`RLIMIT_NPROC`) would not work, because it counts all processes of the user on the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::PrivateDir;
use super::orphans::pause;
use crate::small_file;

/// The maximum number of threads and processes of a strategy.
pub const TASKS_MAX: u32 = 512;
/// The maximum time to wait until the killed processes have left the group. Normally they leave much sooner.
const REMOVE_TIME_MAX: Duration = Duration::from_millis(250);

/// The control group of this process, if this user may create groups in it.
static DELEGATED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let groups = small_file::read_system_text("/proc/self/cgroup")?;
    let mounts = small_file::read_system_text("/proc/self/mountinfo")?;
    current_group(&groups, &mounts).filter(|group| is_delegated(group))
});

/// Returns whether the threads of a strategy can be limited on this machine.
#[must_use]
pub fn are_bounded() -> bool {
    DELEGATED.is_some()
}

/// Returns the folder of the control group of this process.
fn current_group(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount_entry = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        filesystem.starts_with("cgroup2 ").then_some((root, point))
    });
    let (root, point) = mount_entry?;
    let relative = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(relative))
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
    /// Creates a control group for one strategy. Returns `None` if this user may not create one, or if that fails.
    pub(super) fn make() -> Option<Self> {
        let group = Self::make_in(DELEGATED.as_deref()?);
        group.inspect_err(|error| tracing::debug!(%error, "failed to limit the threads of a strategy")).ok()
    }

    fn make_in(parent: &Path) -> io::Result<Self> {
        fs::write(parent.join("cgroup.subtree_control"), "+pids")?;
        let group = Self(PrivateDir::make(parent)?);
        // This process is in the parent group, so the child group must be threaded.
        let path = group.path().join("cgroup.type");
        let kind = small_file::read_system_text(&path.to_string_lossy());
        if kind.is_some_and(|kind| kind.contains("invalid")) {
            fs::write(&path, "threaded")?;
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
        while rustix::fs::rmdir(self.path()) == Err(Errno::BUSY) && started.elapsed() < REMOVE_TIME_MAX {
            pause(started);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(groups: &str, mounts: &str, expect: Option<&str>) {
        assert_eq!(current_group(groups, mounts), expect.map(PathBuf::from));
    }

    #[test]
    fn finds_the_group_of_this_process() {
        let full =
            "24 18 0:22 / /proc rw - proc proc rw\n31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        check("0::/user.slice/a.scope\n", full, Some("/sys/fs/cgroup/user.slice/a.scope"));
        check("0::/\n", full, Some("/sys/fs/cgroup/"));
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw";
        check("8:pids:/x\n0::/a\n", hybrid, Some("/sys/fs/cgroup/unified/a"));
        let partial = "31 24 0:27 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        check("0::/docker/1/a\n", partial, Some("/sys/fs/cgroup/a"));
        check("0::/elsewhere\n", partial, None);
        check("8:pids:/x\n", full, None);
        check("0::/\n", "", None);
    }
}
