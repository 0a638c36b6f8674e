//! Replacement for systems without control groups: the threads of a strategy are not limited.

use std::convert::Infallible;
use std::path::Path;

/// The maximum number of threads and processes of a strategy, on systems that can limit them.
pub const TASKS_MAX: u32 = 512;

/// Returns false on this system.
#[must_use]
pub fn are_bounded() -> bool {
    false
}

/// Never created on this system.
#[derive(Debug)]
pub(super) struct Group(Infallible);

impl Group {
    pub(super) fn make() -> Option<Self> {
        None
    }

    pub(super) fn path(&self) -> &Path {
        match self.0 {}
    }
}
