//! Orphans: processes that left the group of their strategy (`setsid`) and lost their parent. The kernel gives them to
//! the host if the host has asked for them, and the host kills them. The jail denies `setsid`, so this only matters for
//! strategies without a jail. A daemon that a command of the user starts also loses its parent, but is not killed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use crate::small_file;

/// The time to wait until killed processes have disappeared. Only a slow system needs all of it.
const REAP_TIME_MAX: Duration = Duration::from_millis(250);
/// The time to yield before the host sleeps. A killed process needs the processor before it can disappear.
const YIELD_TIME_MAX: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_micros(500);
/// The maximum number of repeated lists of the children. They are listed until two successive lists are equal.
const LISTS_MAX: usize = 8;
/// The runner's hard limit of the size of files. Only root can raise it.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The running strategies and other children. Each strategy leads the session with its own process id.
static STRATEGIES: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Read-locked during a spawn, and write-locked during a search for orphans. Otherwise a new strategy would be mistaken
/// for an orphan before its process id is registered. Several threads can spawn at the same time.
static SPAWNS: RwLock<()> = RwLock::new(());

static INHERITS: AtomicBool = AtomicBool::new(false);

/// Makes this process adopt orphaned descendants, so that it can kill the processes that strategies leave. Call this
/// only in an executable that starts all of its processes with this module. Other children with the limits of strategies
/// would be killed too.
pub fn inherit_orphans() {
    // If this fails, orphans go to the init process, where the host cannot see them. Strategies still run.
    INHERITS.store(set_child_subreaper(Some(getpid())).is_ok(), Ordering::Relaxed);
}

/// A spawn in progress. No thread searches for orphans until it has ended.
pub(super) struct SpawnGuard(RwLockReadGuard<'static, ()>);

impl SpawnGuard {
    pub(super) fn new() -> Self {
        Self(SPAWNS.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers the new strategy, and ends the spawn.
    pub(super) fn add(self, strategy: Pid) {
        strategies().insert(strategy.as_raw_pid());
        drop(self.0);
    }
}

fn strategies() -> MutexGuard<'static, BTreeSet<i32>> {
    STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unregisters a reaped strategy and kills the processes that it left.
pub(super) fn remove(strategy: Pid, may_leave_orphans: bool) {
    if !may_leave_orphans {
        strategies().remove(&strategy.as_raw_pid());
        return;
    }
    let _no_spawn = SPAWNS.write().unwrap_or_else(PoisonError::into_inner);
    let mut running = strategies();
    running.remove(&strategy.as_raw_pid());
    reap_group(strategy);
    if INHERITS.load(Ordering::Relaxed) {
        RunningStrategies(running).kill_orphans();
    }
}

/// The locked list of running strategies and other children, while no other child is spawned.
struct RunningStrategies(MutexGuard<'static, BTreeSet<i32>>);

impl RunningStrategies {
    /// Kills orphans until no orphan is left. The child of a killed orphan becomes an orphan, too.
    fn kill_orphans(&self) {
        let started = Instant::now();
        while self.may_have_orphans() {
            let orphans = self.orphans();
            for orphan in &orphans {
                // The process may have ended already.
                let _ = kill_process(*orphan, Signal::KILL);
            }
            for orphan in &orphans {
                let _ = waitid(WaitId::Pid(*orphan), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            if orphans.is_empty() || started.elapsed() > REAP_TIME_MAX {
                return;
            }
            pause(started);
        }
    }

    /// Returns whether a child of this process belongs to no running strategy. The other strategies of a batch are
    /// children, too, and a search through all processes is expensive.
    fn may_have_orphans(&self) -> bool {
        let may_be_orphan = |child: &i32| {
            !self.0.contains(child) && process(*child).is_some_and(|child| self.is_orphan(&child))
        };
        has_children() && children().is_none_or(|children| children.iter().any(may_be_orphan))
    }

    /// Returns whether a child belongs to no running strategy. A new strategy does not lead its session yet, so its process
    /// id is compared, too.
    fn is_orphan(&self, child: &Process) -> bool {
        !self.0.contains(&child.pid)
            && !self.0.contains(&child.session)
            && has_limits_of_strategies(child.pid)
    }

    /// Returns the children of this process that belong to no running strategy, and all their descendants.
    fn orphans(&self) -> Vec<Pid> {
        let processes = processes();
        let host = getpid().as_raw_pid();
        let mut orphans: Vec<_> = processes
            .iter()
            .filter(|process| process.parent == host && self.is_orphan(process))
            .map(|process| process.pid)
            .collect();
        let mut next = 0;
        while let Some(ancestor) = orphans.get(next).copied() {
            let children = processes.iter().filter(|process| process.parent == ancestor);
            orphans.extend(children.map(|process| process.pid));
            next += 1;
        }
        orphans.into_iter().filter_map(Pid::from_raw).collect()
    }
}

/// Reaps the children of this process that were in the killed group of a strategy. This needs no search
/// through all processes.
fn reap_group(strategy: Pid) {
    let started = Instant::now();
    loop {
        match waitid(WaitId::Pgid(Some(strategy)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if started.elapsed() < REAP_TIME_MAX => pause(started),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Waits for killed processes.
pub(super) fn pause(started: Instant) {
    if started.elapsed() < YIELD_TIME_MAX {
        std::thread::yield_now();
    } else {
        std::thread::sleep(PAUSE);
    }
}

/// Returns the children of this process, or `None` if the kernel does not list them. The kernel can skip a child if
/// another one is reaped during the list. Such a list contains the reaped child, which no later list contains. So two
/// successive lists are equal only if both are complete.
fn children() -> Option<Vec<i32>> {
    let mut last = list_children()?;
    for _ in 0..LISTS_MAX {
        let children = list_children()?;
        if children == last {
            return Some(children);
        }
        last = children;
    }
    None
}

/// Lists the children of each thread once.
fn list_children() -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path().join("children");
        let pids = small_file::read_system_text(path.to_str()?)?;
        children.extend(pids.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// Returns whether this process has any child. Usually it has none, and the search can be skipped.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Returns the ids of the processes in a session.
pub(super) fn session(leader: Pid) -> Vec<i32> {
    let mut processes = processes();
    processes.retain(|process| process.session == leader.as_raw_pid());
    processes.into_iter().map(|process| process.pid).collect()
}

/// A process of the machine, as `/proc` lists it.
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

/// Returns all processes of the machine.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(process).collect()
}

/// Returns a process, or `None` if it has ended.
fn process(pid: i32) -> Option<Process> {
    // The name of a process can be any bytes.
    let stat = small_file::read_system_bytes(&format!("/proc/{pid}/stat"))?;
    let (parent, session) = parent_and_session(&String::from_utf8_lossy(&stat))?;
    Some(Process { pid, parent, session })
}

/// Returns whether a process has the limits that strategies inherit from the runner.
fn has_limits_of_strategies(pid: i32) -> bool {
    let limits = small_file::read_system_text(&format!("/proc/{pid}/limits"));
    limits
        .as_deref()
        .and_then(hard_file_size)
        .is_none_or(|size| size.parse::<u64>().is_ok_and(|bytes| bytes <= FILE_BYTES_MAX))
}

/// Returns the hard limit of the size of files: bytes, or `unlimited`.
fn hard_file_size(limits: &str) -> Option<&str> {
    limits.lines().find_map(|line| line.strip_prefix("Max file size"))?.split_ascii_whitespace().nth(1)
}

/// Parses the fields after the process name, which may contain any character.
fn parent_and_session(stat: &str) -> Option<(i32, i32)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_cannot_imitate_fields() {
        assert_eq!(parent_and_session("7 (a) S 1 2 (b) S 30 31 32 0"), Some((30, 32)));
        assert_eq!(parent_and_session("7 (sleep) S 30 31 32 0 -1"), Some((30, 32)));
        assert_eq!(parent_and_session(""), None);
    }

    #[test]
    fn hard_limit_is_the_second_number() {
        let limits =
            "Limit         Soft Limit  Hard Limit  Units\nMax file size 1           unlimited   bytes\n";
        assert_eq!(hard_file_size(limits), Some("unlimited"));
        assert_eq!(hard_file_size(""), None);
    }
}
