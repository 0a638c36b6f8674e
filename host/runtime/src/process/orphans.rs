//! Kills processes that left the group of their strategy (`setsid`) and lost their parent. The kernel gives
//! such processes to the host if the host has asked for them. The jail denies `setsid`, so this only matters
//! for strategies without a jail.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use crate::small_file;

/// Killed processes normally disappear sooner, unless the system is slow.
const PATIENCE: Duration = Duration::from_millis(250);

/// The running strategies. Each leads the session with its own process id.
static STRATEGIES: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

static INHERITS: AtomicBool = AtomicBool::new(false);

/// Makes this process adopt orphaned descendants, and kills those that strategies leave. Call this only in an
/// executable that starts no processes except strategies. Every other process with its own session would be killed too.
pub fn inherit_orphans() {
    // If this fails, orphans go to the init process, where the host cannot see them. Strategies still run.
    INHERITS.store(set_child_subreaper(Some(getpid())).is_ok(), Ordering::Relaxed);
}

/// Held during a spawn, so that the new strategy is not mistaken for an orphan before its process id is registered.
pub(super) struct Family(MutexGuard<'static, BTreeSet<i32>>);

impl Family {
    pub(super) fn gather() -> Self {
        Self(STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(mut self, strategy: Pid) {
        self.0.insert(strategy.as_raw_pid());
    }

    /// Unregisters a reaped strategy and kills the processes that it left.
    pub(super) fn bereave(mut self, strategy: Pid, may_leave_orphans: bool) {
        self.0.remove(&strategy.as_raw_pid());
        if may_leave_orphans {
            reap_group(strategy);
        }
        if may_leave_orphans && INHERITS.load(Ordering::Relaxed) {
            self.end_orphans();
        }
    }

    /// Repeats until there are none, because a process that a killed orphan had started becomes an orphan itself.
    fn end_orphans(&self) {
        let started = Instant::now();
        while has_children() {
            let orphans = self.orphans();
            for orphan in &orphans {
                // The process may have ended already.
                let _ = kill_process(*orphan, Signal::KILL);
            }
            for orphan in &orphans {
                let _ = waitid(WaitId::Pid(*orphan), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            if orphans.is_empty() || started.elapsed() > PATIENCE {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Returns the children of this process that belong to no running strategy, and all their descendants.
    fn orphans(&self) -> Vec<Pid> {
        let processes = processes();
        let host = getpid().as_raw_pid();
        let mut orphans: Vec<_> = processes
            .iter()
            .filter(|(number, parent, session)| {
                // A strategy leads its session only after a moment.
                *parent == host && !self.0.contains(number) && !self.0.contains(session)
            })
            .map(|(number, ..)| *number)
            .collect();
        let mut next = 0;
        while let Some(ancestor) = orphans.get(next).copied() {
            orphans.extend(
                processes.iter().filter(|(_, parent, _)| *parent == ancestor).map(|(number, ..)| *number),
            );
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
            Ok(None) if started.elapsed() < PATIENCE => std::thread::yield_now(),
            Ok(None) | Err(_) => return,
        }
    }
}

/// Returns whether this process has any child. Usually it has none, and the search can be skipped.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Returns the processes of a session.
pub(super) fn session(leader: Pid) -> Vec<i32> {
    let processes = processes().into_iter();
    let of_session = processes.filter(|(_, _, session)| *session == leader.as_raw_pid());
    of_session.map(|(number, ..)| number).collect()
}

/// Returns process id, parent, and session of all processes.
fn processes() -> Vec<(i32, i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_process = |number: i32| {
        // The name of a process can be any bytes.
        let stat = small_file::read_system_bytes(&format!("/proc/{number}/stat"))?;
        let (parent, session) = parent_and_session(&String::from_utf8_lossy(&stat))?;
        Some((number, parent, session))
    };
    numbers.filter_map(of_process).collect()
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
}
