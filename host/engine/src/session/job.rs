//! The requests that wait for a worker, and the workers that wait for one.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{Answer, Terminal};
use tokio::sync::{Notify, futures::Notified, oneshot};

use crate::failure::StrategyFailure;

/// What somebody who asked is waiting for.
pub(super) type Reply = Result<Answer, StrategyFailure>;

/// One request on its way.
#[derive(Debug)]
pub(super) struct Job {
    /// The request's id.
    pub(super) id: String,
    /// Its lines.
    pub(super) request: Vec<Bytes>,
    /// How long a worker may take for it.
    pub(super) deadline: Duration,
    /// How many workers have died of it.
    pub(super) attempts: u32,
    /// Who asked.
    pub(super) asker: oneshot::Sender<Reply>,
}

impl Job {
    pub(super) fn bytes(&self) -> usize {
        self.request.iter().map(Bytes::len).sum()
    }

    /// Nobody listening is no failure.
    pub(super) fn answer(self, answer: Answer) {
        let reply = match answer.terminal {
            // A worker that reports an error works on: it has no exit status.
            Terminal::Error(error) => Err(StrategyFailure::Reported { error, status: ExitStatus::default() }),
            terminal => Ok(Answer { terminal, logs: answer.logs }),
        };
        let _ = self.asker.send(reply);
    }

    pub(super) fn fail(self, failure: StrategyFailure) {
        let _ = self.asker.send(Err(failure));
    }
}

/// The requests of one strategy that no worker has taken.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    changed: Notify,
    /// Processes without a request.
    idle: AtomicUsize,
    /// Seats without a process.
    vacant: AtomicUsize,
    closed: AtomicBool,
}

impl Queue {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: Job) {
        self.jobs().push_back(job);
        self.changed.notify_waiters();
    }

    /// No more will come.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Whether nothing waits, and nothing will.
    pub(super) fn is_over(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && self.jobs().is_empty()
    }

    /// Resolves when something has changed since it was made.
    pub(super) fn news(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The next request, if somebody still wants it and it is no larger than that.
    pub(super) fn take(&self, bytes_max: usize) -> Option<Job> {
        let mut jobs = self.jobs();
        while jobs.pop_front_if(|job| job.asker.is_closed()).is_some() {}
        jobs.pop_front_if(|job| job.bytes() <= bytes_max)
    }

    /// The same for a worker that has work already: what waits belongs to those that have none.
    pub(super) fn take_ahead(&self, bytes_max: usize) -> Option<Job> {
        let others = self.idle.load(Ordering::Relaxed) + self.vacant.load(Ordering::Relaxed);
        if others == 0 { self.take(bytes_max) } else { None }
    }

    /// Counts a process without a request for as long as the guard lives.
    pub(super) fn idle(&self) -> Counted<'_> {
        Counted::new(&self.idle, &self.changed)
    }

    /// Waits for a request that needs a process started; none, when no more will come.
    pub(super) async fn take_for_a_vacant_seat(&self) -> Option<Job> {
        let _vacant = Counted::new(&self.vacant, &self.changed);
        loop {
            let news = self.news();
            if self.idle.load(Ordering::Relaxed) == 0
                && let Some(job) = self.take(usize::MAX)
            {
                return Some(job);
            }
            if self.is_over() {
                return None;
            }
            news.await;
        }
    }
}

/// One more, until it is dropped; then those that looked at the count look again.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    count: &'a AtomicUsize,
    changed: &'a Notify,
}

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize, changed: &'a Notify) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { count, changed }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}
