//! A crash walk: runs of one command, each killed before a different one of its system calls. A call is a step of the
//! walk if it names a file. Other calls (memory, threads, pipes) differ between runs, and a crash before them leaves
//! the same files as a crash before the next step.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;

use crate::strace::{Call, TracedRun};

/// The number of runs in a row that may miss every remaining step, before another run is recorded.
const MISSES: usize = 12;
/// The number of recorded runs.
const RECORDINGS: usize = 5;

/// Kills a command at each step from the first call that `is_first_step` accepts. `run` prepares the files, and runs
/// the command with these options of strace. `check` gets each killed run, and whether it died at a new step.
#[track_caller]
pub(crate) fn crash_walk(
    is_first_step: impl Fn(&Call) -> bool,
    mut run: impl FnMut(&[String]) -> TracedRun,
    mut check: impl FnMut(&TracedRun, bool),
) {
    for _ in 0..RECORDINGS {
        let recorded = run(&[]);
        assert!(recorded.status.success(), "{}", recorded.stderr);
        let mut walk = Walk::new(&recorded.calls, &is_first_step);
        let mut misses = 0;
        while let Some(inject) = walk.next_kill() {
            let traced = run(&["-e".into(), inject]);
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
struct Walk<'a> {
    /// The calls of the recorded run from the first step on, with all calls between the steps.
    calls: &'a [Call],
    /// The calls of the last run before its first step. Their number depends on the speed of the strategy.
    earlier: Vec<Call>,
    /// Indexes in `calls`.
    steps: Vec<usize>,
    /// Indexes in `steps`.
    missing: BTreeSet<usize>,
}

impl<'a> Walk<'a> {
    #[track_caller]
    fn new(recorded: &'a [Call], is_first_step: impl Fn(&Call) -> bool) -> Self {
        let start = recorded.iter().position(is_first_step).expect("the command makes a step");
        let (earlier, calls) = recorded.split_at(start);
        let steps: Vec<usize> = (0..calls.len()).filter(|index| calls[*index].names_a_file()).collect();
        Self { calls, earlier: earlier.to_vec(), missing: (0..steps.len()).collect(), steps }
    }

    /// Returns strace's option that kills the next run at the first missing step.
    fn next_kill(&self) -> Option<String> {
        let index = self.steps[*self.missing.first()?];
        let name = &self.calls[index].name;
        let calls = self.earlier.iter().chain(&self.calls[..=index]);
        let ordinal = calls.filter(|call| call.name == *name).count();
        Some(format!("inject={name}:signal=SIGKILL:when={ordinal}"))
    }

    /// Returns whether a killed run died at a missing step.
    fn record_death(&mut self, killed: &[Call], is_first_step: impl Fn(&Call) -> bool) -> bool {
        let Some(start) = killed.iter().position(is_first_step) else { return false };
        let (earlier, calls) = killed.split_at(start);
        self.earlier = earlier.to_vec();
        let step_names: Vec<&str> =
            calls.iter().filter(|call| call.names_a_file()).map(|call| &*call.name).collect();
        let expected = self.steps.iter().map(|index| &*self.calls[*index].name).take(step_names.len());
        let is_step = calls.last().is_some_and(Call::names_a_file);
        is_step && expected.eq(step_names.iter().copied()) && self.missing.remove(&(step_names.len() - 1))
    }
}
