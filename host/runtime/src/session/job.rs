//! The queue between callers and workers: requests that wait for a worker, and workers that wait for a request.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{CompleteReply, Terminal};
use tokio::sync::{Notify, futures::Notified, oneshot};

use super::error::Error;

/// How sessions that are stopping handle a request that no worker has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    /// The caller gets an error.
    Refuse,
    /// A worker answers it. Otherwise, earlier work of the caller would be lost.
    Send,
}

pub(super) type Reply = Result<CompleteReply, Error>;

/// A request that was not answered yet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    /// The lines of the request.
    pub(super) request: Vec<Bytes>,
    /// The time limit for the worker.
    pub(super) deadline: Duration,
    pub(super) on_stop: OnStop,
    /// The number of workers that died while serving this request.
    pub(super) failed_attempts: u32,
    /// Receives the reply.
    pub(super) reply_sender: oneshot::Sender<Reply>,
}

impl Job {
    pub(super) fn bytes(&self) -> usize {
        self.request.iter().map(Bytes::len).sum()
    }

    /// Sends the answer. The caller may have stopped waiting.
    pub(super) fn answer(self, answer: CompleteReply) {
        let reply = match answer.terminal {
            // A worker continues after it reports an error, so it has not exited yet.
            Terminal::Error(error) => Err(Error::Reported { error, status: ExitStatus::default() }),
            terminal => Ok(CompleteReply { terminal, logs: answer.logs }),
        };
        let _ = self.reply_sender.send(reply);
    }

    pub(super) fn fail(self, failure: Error) {
        let _ = self.reply_sender.send(Err(failure));
    }
}

/// The requests of one strategy that no worker has taken.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    changed: Notify,
    /// The number of processes without a request.
    idle: AtomicUsize,
    /// The number of slots without a process.
    vacant: AtomicUsize,
    /// Whether a slot without a process starts one before there is a request.
    starts_worker: AtomicBool,
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

    /// Refuses the requests that no worker has taken, except those with [`OnStop::Send`].
    pub(super) fn refuse_waiting(&self) {
        let mut jobs = self.jobs();
        let (kept, refused) = jobs.drain(..).partition(|job| job.on_stop == OnStop::Send);
        *jobs = kept;
        for job in refused {
            job.fail(Error::stopped());
        }
    }

    /// Marks the queue as complete.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Returns whether the queue is empty and complete.
    pub(super) fn is_finished(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && self.jobs().is_empty()
    }

    /// Returns a future that resolves at the next change of the queue.
    pub(super) fn change(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the next request whose caller still waits, unless the request is larger than `bytes_max`.
    pub(super) fn take(&self, bytes_max: usize) -> Option<Job> {
        let mut jobs = self.jobs();
        while jobs.pop_front_if(|job| job.reply_sender.is_closed()).is_some() {}
        jobs.pop_front_if(|job| job.bytes() <= bytes_max)
    }

    /// Same as [`Self::take`], used by a busy worker. Leaves requests to idle workers and to vacant slots.
    pub(super) fn take_ahead(&self, bytes_max: usize) -> Option<Job> {
        let others = self.idle.load(Ordering::Relaxed) + self.vacant.load(Ordering::Relaxed);
        if others == 0 { self.take(bytes_max) } else { None }
    }

    /// Counts an idle process for the lifetime of the guard.
    pub(super) fn idle(&self) -> CountGuard<'_> {
        CountGuard::new(&self.idle, &self.changed)
    }

    /// Asks a slot without a process to start one, because a request will follow.
    pub(super) fn start_worker(&self) {
        self.starts_worker.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Waits for a request that no idle process can take. After [`Self::start_worker`], returns `Some(None)`: the
    /// slot starts a process before there is a request. Returns `None` when no more requests will come.
    pub(super) async fn take_for_vacant_slot(&self) -> Option<Option<Job>> {
        let _vacant = CountGuard::new(&self.vacant, &self.changed);
        loop {
            let change = self.change();
            if self.idle.load(Ordering::Relaxed) == 0
                && let Some(job) = self.take(usize::MAX)
            {
                self.starts_worker.store(false, Ordering::Relaxed);
                return Some(Some(job));
            }
            if self.is_finished() {
                return None;
            }
            if self.starts_worker.swap(false, Ordering::Relaxed) {
                return Some(None);
            }
            change.await;
        }
    }
}

/// Counts one process or slot until it is dropped. The drop notifies the waiters.
#[derive(Debug)]
pub(super) struct CountGuard<'a> {
    count: &'a AtomicUsize,
    changed: &'a Notify,
}

impl<'a> CountGuard<'a> {
    fn new(count: &'a AtomicUsize, changed: &'a Notify) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { count, changed }
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}
