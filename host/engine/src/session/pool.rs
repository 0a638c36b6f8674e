//! The workers of one strategy: so many seats, in each of which one process after the other serves requests. A
//! seat starts no process before there is work for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{Line, Violation};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::job::{Job, Queue, Reply};
use super::talk::{End, Limits, Talk};
use super::tell::{self, Tell};
use super::{Confined, Described, Starter, Watch};
use crate::failure::StrategyFailure;
use crate::process::{GRACE, ProcessError, Worker, WorkerEnded};

/// How long a worker that is no longer needed has to go.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long its output may stay open after a worker exited, and how long it may live after its output ended.
const HALF_GONE_MAX: Duration = Duration::from_millis(250);
/// So often a request is tried when workers die of it.
const ATTEMPTS_MAX: u32 = 2;

/// The workers of one strategy.
#[derive(Debug)]
pub(super) struct Pool {
    queue: Arc<Queue>,
    seats: Mutex<JoinSet<()>>,
    retiring: Arc<Retiring>,
}

/// Workers that have done their share, each with the time that it has to go. Dropped, they are killed.
#[derive(Debug, Default)]
struct Retiring(Mutex<JoinSet<()>>);

impl Retiring {
    fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, farewell: impl Future<Output = ()> + Send + 'static) {
        let mut workers = self.workers();
        // Those that have gone are no longer counted.
        while workers.try_join_next().is_some() {}
        workers.spawn(farewell);
    }
}

impl Pool {
    /// Makes the seats. Needs a runtime, and the thread that polls it must live as long as the host.
    pub(super) fn new(
        starter: &Starter,
        described: &Described,
        seats_max: usize,
        watch: &Arc<dyn Watch>,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let (mut seats, retiring) = (JoinSet::new(), Arc::new(Retiring::default()));
        for _ in 0..seats_max.max(1) {
            let seat = Seat {
                starter: starter.clone(),
                described: described.clone(),
                limits: Limits::new(described.description.has_feature("pipeline")),
                queue: Arc::clone(&queue),
                watch: Arc::clone(watch),
                retiring: Arc::clone(&retiring),
            };
            seats.spawn(seat.work());
        }
        Self { queue, seats: Mutex::new(seats), retiring }
    }

    /// Puts a request to whichever worker is free.
    pub(super) async fn ask(&self, id: &str, request: Vec<Bytes>, deadline: Duration) -> Reply {
        let (asker, answer) = oneshot::channel();
        self.queue.push(Job { id: id.to_owned(), request, deadline, attempts: 0, asker });
        answer.await.unwrap_or_else(|_| {
            let gone = std::io::Error::other("the worker's seat was given up");
            Err(StrategyFailure::Process(ProcessError::Io(gone)))
        })
    }

    /// Lets the workers go, and waits until they have.
    pub(super) async fn close(&self) {
        self.queue.close();
        let seats = std::mem::take(&mut *self.seats.lock().unwrap_or_else(PoisonError::into_inner));
        seats.join_all().await;
        let retiring = std::mem::take(&mut *self.retiring.workers());
        retiring.join_all().await;
    }
}

/// Where one process after the other serves.
struct Seat {
    starter: Starter,
    described: Described,
    limits: Limits,
    queue: Arc<Queue>,
    watch: Arc<dyn Watch>,
    retiring: Arc<Retiring>,
}

impl Seat {
    async fn work(self) {
        // What processes have left unanswered, in order.
        let mut leftover = VecDeque::new();
        let mut careful = false;
        loop {
            if leftover.is_empty() {
                careful = false;
                match self.queue.take_for_a_vacant_seat().await {
                    Some(job) => leftover.push_back(job),
                    None => return,
                }
            }
            match self.starter.worker(&self.described) {
                Ok((worker, stdin, stdout)) => {
                    leftover = self.follow(worker, stdin, stdout, leftover, careful).await;
                    careful = true;
                }
                Err(error) => fail_first(&mut leftover, StrategyFailure::Process(error)),
            }
        }
    }

    /// Follows one process to its end, and returns what it left unanswered.
    async fn follow(
        &self,
        mut worker: Worker,
        stdin: ChildStdin,
        stdout: ChildStdout,
        leftover: VecDeque<Job>,
        careful: bool,
    ) -> VecDeque<Job> {
        let name = &self.described.description.name;
        let seen = |id: &str, line: &Line| match line {
            Line::Progress(progress) => self.watch.progress(name, id, progress),
            Line::Log(log) => tell::log(name, log),
            Line::Terminal(_) | Line::Nothing => {}
        };
        let mut tell = Tell::of(name);
        let mut heard = |bytes: &[u8]| tell.hear(bytes);
        let mut talk = Talk::new(&self.queue, self.limits, leftover, careful, &seen);
        let end = {
            let mut serve = std::pin::pin!(talk.serve(stdin, stdout));
            let ended = tokio::select! {
                biased;
                end = &mut serve => Some(end),
                () = worker.exited_heard(&mut heard) => None,
            };
            match ended {
                Some(end) => Some(end),
                // What it wrote before it exited is still on its way.
                None => timeout(HALF_GONE_MAX, serve).await.ok(),
            }
        };
        let (patience, grace) = match end {
            Some(End::Finished) => (FAREWELL, GRACE),
            Some(End::Died) => (HALF_GONE_MAX, GRACE),
            Some(End::Deadline | End::Stuck) => (Duration::ZERO, GRACE),
            Some(End::Violated) | None => (Duration::ZERO, Duration::ZERO),
        };
        let (waits, has_spoken) = (talk.waits(), talk.has_spoken());
        let mut unanswered = talk.unanswered();
        if matches!(end, Some(End::Finished | End::Stuck)) {
            // Nobody waits for how it ends: the next one need not either.
            let (starter, confined) = (self.starter.clone(), self.described.confined.clone());
            self.retiring.add(async move {
                drop(farewell(&starter, &confined, worker, tell, patience, grace).await);
            });
            return unanswered;
        }
        let ended = farewell(&self.starter, &self.described.confined, worker, tell, patience, grace).await;
        match (end, ended) {
            (_, Err(error)) if waits => fail_first(&mut unanswered, StrategyFailure::Process(error)),
            (Some(End::Deadline), Ok(ended)) => {
                let deadline = unanswered.front().map_or(Duration::ZERO, |job| job.deadline);
                let missed = ProcessError::Deadline { deadline, stderr: ended.stderr };
                fail_first(&mut unanswered, StrategyFailure::Process(missed));
            }
            (Some(End::Died) | None, Ok(ended)) if waits => {
                self.died(&mut unanswered, ended, has_spoken, end);
            }
            _ => {}
        }
        unanswered
    }

    /// The first of the unanswered has used an attempt; the others could do nothing for it.
    fn died(&self, unanswered: &mut VecDeque<Job>, ended: WorkerEnded, has_spoken: bool, end: Option<End>) {
        if let Some(exceeded) = ended.exceeded {
            let failure = ProcessError::PrivateDirTooLarge(exceeded);
            return fail_first(unanswered, StrategyFailure::Process(failure));
        }
        let confined = &self.described.confined;
        let not_started = if has_spoken { None } else { ended.not_started(&confined.program) };
        if let Some(reason) = not_started {
            let program = confined.known_as(confined.program.clone());
            let failure = ProcessError::Start { program, reason };
            return fail_first(unanswered, StrategyFailure::Process(failure));
        }
        let Some(first) = unanswered.front_mut() else { return };
        first.attempts += 1;
        if first.attempts < ATTEMPTS_MAX {
            return;
        }
        let WorkerEnded { status, stderr, .. } = ended;
        let failure = match end {
            None => StrategyFailure::Process(ProcessError::PipesHeldOpen),
            Some(_) if status.success() => StrategyFailure::Violation(Violation::NoTerminal),
            Some(_) => StrategyFailure::Crashed { status, answered: false, stderr },
        };
        fail_first(unanswered, failure);
    }
}

/// Waits for a worker to go, makes it go, and tells the log.
async fn farewell(
    starter: &Starter,
    confined: &Confined,
    worker: Worker,
    mut tell: Tell,
    patience: Duration,
    grace: Duration,
) -> Result<WorkerEnded, ProcessError> {
    let ended = worker.end_heard(patience, grace, &mut |bytes| tell.hear(bytes)).await?;
    tell.end(&ended.stderr);
    starter.report(confined, "worker", ended.status);
    Ok(ended)
}

fn fail_first(jobs: &mut VecDeque<Job>, failure: StrategyFailure) {
    if let Some(job) = jobs.pop_front() {
        job.fail(failure);
    }
}
