//! Where the host cannot inherit orphans: a process that left its strategy's group is out of reach.

use rustix::process::Pid;

/// They go to the first process of all.
pub fn inherit_orphans() {}

/// The strategies that run; nobody has to know them.
pub(super) struct Family;

impl Family {
    pub(super) fn gather() -> Self {
        Self
    }

    pub(super) fn add(self, _: Pid) {}

    pub(super) fn bereave(self, _: Pid, _: bool) {}
}
