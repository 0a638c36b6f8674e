//! A bound on the threads and processes of one strategy: a control group of its own, where this user may make one
//! (cgroup v2, delegated). A limit of the process would not do: it counts what the user has on the whole machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::PrivateDir;
use crate::small_file;

/// So many threads and processes a strategy has at most.
pub const TASKS_MAX: u32 = 512;
/// What was killed leaves the group sooner, but for what the system itself holds up.
const PATIENCE: Duration = Duration::from_millis(250);

static DELEGATED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let groups = small_file::of_the_system("/proc/self/cgroup")?;
    let mounts = small_file::of_the_system("/proc/self/mountinfo")?;
    own_group(&groups, &mounts).filter(|group| is_delegated(group))
});

/// Whether the threads of a strategy can be bounded here.
#[must_use]
pub fn are_bounded() -> bool {
    DELEGATED.is_some()
}

/// Where the group of this process lies.
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
    let controllers = small_file::of_the_system(&group.join("cgroup.controllers").to_string_lossy());
    let has_pids = controllers.is_some_and(|names| names.split_whitespace().any(|name| name == "pids"));
    let may_write = |name| rustix::fs::access(group.join(name), Access::WRITE_OK).is_ok();
    has_pids && ["", "cgroup.procs", "cgroup.subtree_control"].into_iter().all(may_write)
}

/// A group without processes yet. The runner joins it; it is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Group(PrivateDir);

impl Group {
    /// `None` where nobody may make one.
    pub(super) fn make() -> Option<Self> {
        let group = Self::in_group(DELEGATED.as_deref()?);
        group.inspect_err(|error| tracing::debug!(%error, "failed to bound the threads of a strategy")).ok()
    }

    fn in_group(own: &Path) -> io::Result<Self> {
        fs::write(own.join("cgroup.subtree_control"), "+pids")?;
        let group = Self(PrivateDir::make(own)?);
        // This process is in the group above: then only a group of threads can be below it.
        let kind = group.path().join("cgroup.type");
        if small_file::of_the_system(&kind.to_string_lossy()).is_some_and(|kind| kind.contains("invalid")) {
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
    fn the_group_of_this_process_is_found() {
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
