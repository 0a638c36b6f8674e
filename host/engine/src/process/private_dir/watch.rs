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
/// So much longer than a look itself is the time to the next: looking costs a tenth of the time at most.
const REST: u32 = 10;

/// The private directory of a strategy, and the watch over it.
#[derive(Debug)]
pub(in crate::process) struct Watch {
    dir: PrivateDir,
    bytes_max: u64,
    next: Instant,
    held: Held,
    exceeded: Option<Exceeded>,
}

/// What lies in no folder any more. To find it takes longer where there are many processes, so it has a pace of its
/// own.
#[derive(Debug)]
struct Held {
    bytes: u64,
    next: Instant,
}

impl Watch {
    pub(in crate::process) fn new(dir: PrivateDir, bytes_max: u64) -> Self {
        let next = Instant::now() + INTERVAL;
        Self { dir, bytes_max, next, held: Held { bytes: 0, next }, exceeded: None }
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
        if self.exceeded.is_some() {
            return self.exceeded;
        }
        match strategy {
            Some((pid, who)) if self.held.next <= Instant::now() => {
                let (bytes, next) = timed(|| held::bytes(pid, who, &self.dir));
                self.held = Held { bytes, next };
            }
            Some(_) => {}
            // Whoever has ended holds nothing.
            None => self.held.bytes = 0,
        }
        let folder = self.dir.folder.as_fd();
        let look = || size::exceeded(folder, self.held.bytes, self.bytes_max);
        (self.exceeded, self.next) = timed(look);
        self.exceeded
    }
}

/// What a look says, and when the next one is due.
fn timed<T>(look: impl FnOnce() -> T) -> (T, Instant) {
    let begun = Instant::now();
    let seen = look();
    (seen, Instant::now() + INTERVAL.max(begun.elapsed() * REST))
}
