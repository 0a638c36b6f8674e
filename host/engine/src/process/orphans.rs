//! Processes that left the group of their strategy (`setsid`) and lost their parents: the kernel gives them to the
//! host, if it said so, which ends them. A jail denies that call; this is for strategies without one.

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

/// Those that were killed are gone sooner, but for what the system itself holds up.
const PATIENCE: Duration = Duration::from_millis(250);

/// The strategies that run: each leads the session of its own number.
static STRATEGIES: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

static INHERITS: AtomicBool = AtomicBool::new(false);

/// Makes this process the one that orphans below it go to, and ends those that strategies leave. For an executable
/// that starts nothing but strategies: whatever else it had started in a session of its own would be ended too.
pub fn inherit_orphans() {
    // Without it they go to the first process of all, and out of sight; that is no reason not to run.
    INHERITS.store(set_child_subreaper(Some(getpid())).is_ok(), Ordering::Relaxed);
}

/// Held while a strategy is spawned, so that nobody takes it for an orphan before its number is known.
pub(super) struct Family(MutexGuard<'static, BTreeSet<i32>>);

impl Family {
    pub(super) fn gather() -> Self {
        Self(STRATEGIES.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(mut self, strategy: Pid) {
        self.0.insert(strategy.as_raw_pid());
    }

    /// One that was reaped. What it left behind is ended.
    pub(super) fn bereave(mut self, strategy: Pid, may_leave_orphans: bool) {
        self.0.remove(&strategy.as_raw_pid());
        if may_leave_orphans && INHERITS.load(Ordering::Relaxed) {
            self.end_orphans();
        }
    }

    /// Until there are none: what an orphan starts meanwhile is an orphan when that has ended.
    fn end_orphans(&self) {
        let started = Instant::now();
        while has_children() {
            let orphans = self.orphans();
            for orphan in &orphans {
                // That it is gone already is what was wanted.
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

    /// The children of this process that belong to no strategy that runs, and whatever descends from them.
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

/// Whether this process has any child. Most often not, and then nothing has to be looked for.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// The processes of a session.
pub(super) fn session(leader: Pid) -> Vec<i32> {
    let processes = processes().into_iter();
    let of_session = processes.filter(|(_, _, session)| *session == leader.as_raw_pid());
    of_session.map(|(number, ..)| number).collect()
}

/// All processes: number, parent, session.
fn processes() -> Vec<(i32, i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_process = |number: i32| {
        // A process calls itself what it likes.
        let stat = small_file::of_the_system_in_bytes(&format!("/proc/{number}/stat"))?;
        let (parent, session) = parent_and_session(&String::from_utf8_lossy(&stat))?;
        Some((number, parent, session))
    };
    numbers.filter_map(of_process).collect()
}

/// The fields behind the name, which may hold anything.
fn parent_and_session(stat: &str) -> Option<(i32, i32)> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_fields() {
        assert_eq!(parent_and_session("7 (a) S 1 2 (b) S 30 31 32 0"), Some((30, 32)));
        assert_eq!(parent_and_session("7 (sleep) S 30 31 32 0 -1"), Some((30, 32)));
        assert_eq!(parent_and_session(""), None);
    }
}
