//! The periodic measurement of a private directory, and of the memory of the strategy that works in it.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::{Instant, sleep_until};

use super::open_files::{self, ProcessScope, Usage};
use super::{Exceeded, PrivateDir, size};

/// The minimum time between two measurements.
const INTERVAL: Duration = Duration::from_millis(100);
/// The pause is this many times as long as the measurement, so measuring takes at most a tenth of the time.
const PAUSE_FACTOR: u32 = 10;
/// The maximum memory of a process. It is twice the data limit that the runner sets, because stacks count, too.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The private directory of a strategy and the schedule of its measurements.
#[derive(Debug)]
pub(in crate::process) struct SizeWatch {
    dir: PrivateDir,
    bytes_max: u64,
    next: Instant,
    open_files: OpenFiles,
    exceeded: Option<Exceeded>,
}

/// Removed files that are still open. Finding them takes longer on a machine with many processes, so they
/// have their own schedule.
#[derive(Debug)]
struct OpenFiles {
    usage: Usage,
    next: Instant,
}

impl SizeWatch {
    pub(in crate::process) fn new(dir: PrivateDir, bytes_max: u64) -> Self {
        let next = Instant::now() + INTERVAL;
        Self { dir, bytes_max, next, open_files: OpenFiles { usage: Usage::default(), next }, exceeded: None }
    }

    pub(in crate::process) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Resolves when the next measurement is due. Never resolves again after a limit was exceeded.
    pub(in crate::process) async fn due(&self) {
        if self.exceeded.is_some() {
            std::future::pending::<()>().await;
        }
        sleep_until(self.next).await;
    }

    /// Measures, and returns the limit that is or was exceeded. `strategy` is `None` if the process has ended.
    pub(in crate::process) fn measure(&mut self, strategy: Option<(Pid, ProcessScope)>) -> Option<Exceeded> {
        if self.exceeded.is_some() {
            return self.exceeded;
        }
        match strategy {
            Some((pid, scope)) if self.open_files.next <= Instant::now() => {
                let (usage, next) = timed(|| open_files::measure(pid, scope, &self.dir));
                self.open_files = OpenFiles { usage, next };
            }
            Some(_) => {}
            // A process that has ended has no open files.
            None => self.open_files.usage = Usage::default(),
        }
        let folder = self.dir.folder.as_fd();
        let Usage { removed_bytes, memory_bytes } = self.open_files.usage;
        let measure = || size::exceeded(folder, removed_bytes, self.bytes_max);
        (self.exceeded, self.next) = timed(measure);
        if memory_bytes > MEMORY_BYTES_MAX {
            self.exceeded = Some(Exceeded::Memory(MEMORY_BYTES_MAX));
        }
        self.exceeded
    }
}

/// Returns the result of a measurement and the time of the next measurement.
fn timed<T>(measure: impl FnOnce() -> T) -> (T, Instant) {
    let started = Instant::now();
    let result = measure();
    (result, Instant::now() + INTERVAL.max(started.elapsed() * PAUSE_FACTOR))
}
