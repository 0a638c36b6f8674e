//! A crash walk: runs of one command, each killed before a different one of its system calls. A call is a step of the
//! walk if it names a file. Other calls (memory, threads, pipes) differ between runs, and a crash before them leaves
//! the same files as a crash before the next step.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;

use crate::strace::{Call, TracedRun};

/// The number of runs in a row that may miss every remaining step, before another run is recorded.
const MISSES: usize = 24;
/// The maximum number of recorded runs.
const RECORDINGS: usize = 20;

/// Kills a command at each step from the first call that `is_first_step` accepts. `run` prepares the files, and runs
/// the command with these options of strace. `check` gets each killed run, and whether it died at a new step.
#[track_caller]
pub(crate) fn crash_walk(
    is_first_step: impl Fn(&Call) -> bool,
    mut run: impl FnMut(&[String]) -> TracedRun,
    mut check: impl FnMut(&TracedRun, bool),
) {
    let mut walk = Walk::default();
    for _ in 0..RECORDINGS {
        let recorded = run(&[]);
        assert!(recorded.status.success(), "{}", recorded.stderr);
        walk.record(&recorded.calls, &is_first_step);
        let mut misses = 0;
        while let Some(inject) = walk.next_kill(misses) {
            let traced = run(&["-e".into(), inject]);
            walk.count_earlier(&traced.calls, &is_first_step);
            let is_new_step =
                traced.status.signal() == Some(9) && walk.record_death(&traced.calls, &is_first_step);
            check(&traced, is_new_step);
            misses = if is_new_step { 0 } else { misses + 1 };
            if misses > MISSES {
                break;
            }
        }
        if walk.missing.is_empty() {
            return;
        }
    }
    panic!("the calls differ between runs: none of {RECORDINGS} recorded runs was repeated");
}

/// The steps of a recorded run, and those at which no run died yet.
#[derive(Default)]
struct Walk {
    /// The names of the calls of the recorded run from the first step on, with all calls between the steps.
    calls: Vec<String>,
    /// Indexes in `calls`.
    steps: Vec<usize>,
    /// Indexes in `steps`.
    missing: BTreeSet<usize>,
    /// For each name of a call: the counts of these calls before the first step, each with the number of runs that
    /// had this count. The counts depend on the speed of the strategy and of the machine.
    earlier: BTreeMap<String, BTreeMap<usize, usize>>,
}

impl Walk {
    /// Takes the steps of a run. The steps at which a run has died stay done if the names of all steps are the same.
    #[track_caller]
    fn record(&mut self, recorded: &[Call], is_first_step: impl Fn(&Call) -> bool) {
        let start = recorded.iter().position(&is_first_step).expect("the command makes a step");
        let before = self.step_names();
        let names = recorded[start..].iter().map(|call| call.name.clone());
        self.calls = names.collect();
        let is_step = |index: &usize| recorded[start + index].names_a_file();
        self.steps = (0..self.calls.len()).filter(is_step).collect();
        if self.step_names() != before {
            self.missing = (0..self.steps.len()).collect();
        }
        self.count_earlier(recorded, is_first_step);
    }

    fn step_names(&self) -> Vec<String> {
        self.steps.iter().map(|index| self.calls[*index].clone()).collect()
    }

    /// Counts the calls of a run before its first step.
    fn count_earlier(&mut self, calls: &[Call], is_first_step: impl Fn(&Call) -> bool) {
        let Some(start) = calls.iter().position(is_first_step) else { return };
        let names: BTreeSet<&String> = self.calls.iter().collect();
        for name in names {
            let count = calls[..start].iter().filter(|call| call.name == **name).count();
            *self.earlier.entry(name.clone()).or_default().entry(count).or_default() += 1;
        }
    }

    /// Returns strace's option that kills the next run at the first missing step. It expects the most frequent number of
    /// earlier calls, and after every second miss one of the other numbers.
    fn next_kill(&self, misses: usize) -> Option<String> {
        let index = self.steps[*self.missing.first()?];
        let name = &self.calls[index];
        let mut earlier: Vec<(&usize, &usize)> = self.earlier[name].iter().collect();
        earlier.sort_by_key(|(count, runs)| (std::cmp::Reverse(**runs), **count));
        let choice = if misses.is_multiple_of(2) { 0 } else { (misses / 2 + 1) % earlier.len() };
        let (earlier, _) = earlier[choice];
        let ordinal = earlier + self.calls[..=index].iter().filter(|other| *other == name).count();
        Some(format!("inject={name}:signal=SIGKILL:when={ordinal}"))
    }

    /// Returns whether a killed run died at a missing step.
    fn record_death(&mut self, killed: &[Call], is_first_step: impl Fn(&Call) -> bool) -> bool {
        let Some(start) = killed.iter().position(is_first_step) else { return false };
        let calls = &killed[start..];
        let step_names: Vec<&str> =
            calls.iter().filter(|call| call.names_a_file()).map(|call| &*call.name).collect();
        let expected = self.steps.iter().map(|index| &*self.calls[*index]).take(step_names.len());
        let is_step = calls.last().is_some_and(Call::names_a_file);
        is_step && expected.eq(step_names.iter().copied()) && self.missing.remove(&(step_names.len() - 1))
    }
}
