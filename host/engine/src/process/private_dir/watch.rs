//! Looks into a private directory now and then for as long as a strategy works in it.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::{Instant, sleep_until};

use super::held::{self, Who};
use super::{Exceeded, PrivateDir, size};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// So much longer than a look itself is the time to the next: looking costs a twentieth of the time at most.
const REST: u32 = 20;

/// The private directory of a strategy, and the watch over it.
#[derive(Debug)]
pub(in crate::process) struct Watch {
    dir: PrivateDir,
    bytes_max: u64,
    next: Instant,
    exceeded: Option<Exceeded>,
}

impl Watch {
    pub(in crate::process) fn new(dir: PrivateDir, bytes_max: u64) -> Self {
        Self { dir, bytes_max, next: Instant::now() + INTERVAL, exceeded: None }
    }

    pub(in crate::process) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Resolves when it is time to look; never again once a limit was exceeded.
    pub(in crate::process) async fn is_due(&self) {
        if self.exceeded.is_some() {
            std::future::pending::<()>().await;
        }
        sleep_until(self.next).await;
    }

    /// Looks, and says which limit is exceeded, by now or before. `strategy` leads the session of those who work.
    pub(in crate::process) fn look(&mut self, strategy: Option<(Pid, Who)>) -> Option<Exceeded> {
        if self.exceeded.is_none() {
            let begun = Instant::now();
            let held = strategy.map_or(0, |(pid, who)| held::bytes(pid, who, &self.dir));
            self.exceeded = size::exceeded(self.dir.folder.as_fd(), held, self.bytes_max);
            self.next = Instant::now() + INTERVAL.max(begun.elapsed() * REST);
        }
        self.exceeded
    }
}
