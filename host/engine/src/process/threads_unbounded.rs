//! Where there are no control groups: the threads of a strategy are not bounded.

use std::convert::Infallible;
use std::path::Path;

/// So many threads and processes a strategy has at most, where they can be bounded.
pub const TASKS_MAX: u32 = 512;

/// Whether the threads of a strategy can be bounded here.
#[must_use]
pub fn are_bounded() -> bool {
    false
}

/// There is none.
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
