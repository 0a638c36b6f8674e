//! The workers of one strategy. Each slot runs one process at a time, which serves requests. A slot starts a process
//! only when a request waits or will follow.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{ReplyLine, ReplyViolation};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::{ExitReason, Limits, WorkerConnection};
use super::error::Error;
use super::job::{Job, OnStop, Queue, Reply};
use super::stderr_log::{self, StderrLog};
use super::{Confined, Described, Starter, Watch};
use crate::process::{GRACE, ProcessError, Worker, WorkerEnded};

/// The time that a worker gets to exit when it is no longer needed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The maximum time from the exit of a worker to the end of its output, and from the end of its output to its exit.
const HALF_CLOSED_MAX: Duration = Duration::from_millis(250);
/// A request fails after this many workers have died while serving it.
const ATTEMPTS_MAX: u32 = 2;

#[derive(Debug)]
pub(super) struct Pool {
    queue: Arc<Queue>,
    slots: Mutex<JoinSet<()>>,
    retiring: Arc<Retiring>,
}

/// Workers that are exiting, each with its remaining time. Dropping them kills them.
#[derive(Debug, Default)]
struct Retiring(Mutex<JoinSet<()>>);

impl Retiring {
    fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, shutdown: impl Future<Output = ()> + Send + 'static) {
        let mut workers = self.workers();
        // Removes workers that have exited.
        while workers.try_join_next().is_some() {}
        workers.spawn(shutdown);
    }
}

impl Pool {
    /// Creates the slots. Needs an async runtime, and the thread that polls it must live as long as the workers.
    pub(super) fn new(
        starter: &Starter,
        described: &Described,
        workers_max: usize,
        watch: &Arc<dyn Watch>,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let (mut slots, retiring) = (JoinSet::new(), Arc::new(Retiring::default()));
        for _ in 0..workers_max.max(1) {
            let slot = WorkerSlot {
                starter: starter.clone(),
                described: described.clone(),
                limits: Limits::new(described.description.has_feature("pipeline")),
                queue: Arc::clone(&queue),
                watch: Arc::clone(watch),
                retiring: Arc::clone(&retiring),
            };
            slots.spawn(slot.work());
        }
        Self { queue, slots: Mutex::new(slots), retiring }
    }

    /// Sends a request to any free worker.
    pub(super) async fn ask(
        &self,
        id: &str,
        request: Vec<Bytes>,
        deadline: Duration,
        on_stop: OnStop,
    ) -> Reply {
        let (reply_sender, reply) = oneshot::channel();
        self.queue.push(Job {
            id: id.to_owned(),
            request,
            deadline,
            on_stop,
            failed_attempts: 0,
            reply_sender,
        });
        reply.await.unwrap_or_else(|_| {
            Err(Error::Process(ProcessError::Io(io::Error::other("the worker was stopped"))))
        })
    }

    /// Starts a worker before the first request.
    pub(super) fn start_worker(&self) {
        self.queue.start_worker();
    }

    /// Refuses the requests that no worker has taken, except those with [`OnStop::Send`].
    pub(super) fn refuse_waiting(&self) {
        self.queue.refuse_waiting();
    }

    /// Starts to end the workers.
    pub(super) fn begin_close(&self) {
        self.queue.close();
    }

    /// Ends the workers and waits for them.
    pub(super) async fn close(&self) {
        self.begin_close();
        let slots = std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner));
        slots.join_all().await;
        let retiring = std::mem::take(&mut *self.retiring.workers());
        retiring.join_all().await;
    }
}

/// Runs one process after another.
struct WorkerSlot {
    starter: Starter,
    described: Described,
    limits: Limits,
    queue: Arc<Queue>,
    watch: Arc<dyn Watch>,
    retiring: Arc<Retiring>,
}

impl WorkerSlot {
    async fn work(self) {
        // Requests for the next process, in order: those that earlier processes left unanswered, or one from the queue.
        let mut leftover = VecDeque::new();
        let mut retrying = false;
        loop {
            if leftover.is_empty() {
                retrying = false;
                match self.queue.take_for_vacant_slot().await {
                    Some(job) => leftover.extend(job),
                    None => return,
                }
            }
            match self.starter.worker(&self.described) {
                Ok((worker, stdin, stdout)) => {
                    leftover = self.serve_process(worker, stdin, stdout, leftover, retrying).await;
                    retrying = true;
                }
                Err(error) => fail_first(&mut leftover, Error::Process(error)),
            }
        }
    }

    /// Serves one process until it ends, and returns the requests that it left unanswered.
    async fn serve_process(
        &self,
        mut worker: Worker,
        stdin: ChildStdin,
        stdout: ChildStdout,
        leftover: VecDeque<Job>,
        retrying: bool,
    ) -> VecDeque<Job> {
        let name = &self.described.description.name;
        let on_line = |id: &str, line: &ReplyLine| match line {
            ReplyLine::Progress(progress) => self.watch.progress(name, id, progress),
            ReplyLine::Log(log) => stderr_log::log(name, log),
            ReplyLine::Terminal(_) | ReplyLine::Nothing => {}
        };
        let mut stderr_log = StderrLog::new(name, self.described.confined.copy_and_original());
        let mut on_stderr = |bytes: &[u8]| stderr_log.append(bytes);
        let mut connection = WorkerConnection::new(&self.queue, self.limits, leftover, retrying, &on_line);
        let end = {
            let mut serve = std::pin::pin!(connection.serve(stdin, stdout));
            let ended = tokio::select! {
                biased;
                end = &mut serve => Some(end),
                () = worker.exited_with(&mut on_stderr) => None,
            };
            match ended {
                Some(end) => Some(end),
                // Output from before the exit may still arrive.
                None => timeout(HALF_CLOSED_MAX, serve).await.ok(),
            }
        };
        let (exit_time_max, grace) = match end {
            Some(ExitReason::Finished) => (SHUTDOWN_GRACE, GRACE),
            Some(ExitReason::Died) => (HALF_CLOSED_MAX, GRACE),
            Some(ExitReason::Deadline | ExitReason::Stuck) => (Duration::ZERO, GRACE),
            Some(ExitReason::Violated) | None => (Duration::ZERO, Duration::ZERO),
        };
        let (has_unanswered, has_output) = (connection.has_unanswered(), connection.has_output());
        let mut unanswered = connection.unanswered();
        if matches!(end, Some(ExitReason::Finished | ExitReason::Stuck)) {
            // The exit status of this worker does not matter, so the next one starts immediately.
            let (starter, confined) = (self.starter.clone(), self.described.confined.clone());
            self.retiring.add(async move {
                drop(shut_down(&starter, &confined, worker, stderr_log, exit_time_max, grace).await);
            });
            return unanswered;
        }
        let ended =
            shut_down(&self.starter, &self.described.confined, worker, stderr_log, exit_time_max, grace)
                .await;
        match (end, ended) {
            (_, Err(error)) if has_unanswered => fail_first(&mut unanswered, Error::Process(error)),
            (Some(ExitReason::Deadline), Ok(ended)) => {
                let deadline = unanswered.front().map_or(Duration::ZERO, |job| job.deadline);
                let failure = ProcessError::Deadline { deadline, stderr: ended.stderr };
                fail_first(&mut unanswered, Error::Process(failure));
            }
            (Some(ExitReason::Died) | None, Ok(ended)) if has_unanswered => {
                self.handle_death(&mut unanswered, ended, has_output, end);
            }
            _ => {}
        }
        unanswered
    }

    /// Counts an attempt for the first unanswered request only, because the worker did not serve the others yet.
    fn handle_death(
        &self,
        unanswered: &mut VecDeque<Job>,
        ended: WorkerEnded,
        has_output: bool,
        end: Option<ExitReason>,
    ) {
        if let Some(exceeded) = ended.exceeded {
            let failure = ProcessError::PrivateDirTooLarge(exceeded);
            return fail_first(unanswered, Error::Process(failure));
        }
        let confined = &self.described.confined;
        let not_started = if has_output { None } else { ended.not_started(&confined.program) };
        if let Some(reason) = not_started {
            let program = confined.display_path(confined.program.clone());
            let failure = ProcessError::Start { program, reason };
            return fail_first(unanswered, Error::Process(failure));
        }
        let Some(first) = unanswered.front_mut() else { return };
        first.failed_attempts += 1;
        if first.failed_attempts < ATTEMPTS_MAX {
            return;
        }
        let WorkerEnded { status, stderr, .. } = ended;
        let failure = match end {
            None => Error::Process(ProcessError::PipesHeldOpen),
            Some(_) if status.success() => Error::Violation(ReplyViolation::NoTerminal),
            Some(_) => Error::Crashed { status, answered: false, stderr },
        };
        fail_first(unanswered, failure);
    }
}

/// Waits for a worker to exit, kills it if necessary, and logs the result.
async fn shut_down(
    starter: &Starter,
    confined: &Confined,
    worker: Worker,
    mut stderr_log: StderrLog,
    exit_time_max: Duration,
    grace: Duration,
) -> Result<WorkerEnded, ProcessError> {
    let mut ended = worker.end_with(exit_time_max, grace, &mut |bytes| stderr_log.append(bytes)).await?;
    stderr_log.end(&ended.stderr);
    confined.show_original_path(&mut ended.stderr);
    starter.log_exit(confined, "worker", ended.status);
    Ok(ended)
}

fn fail_first(jobs: &mut VecDeque<Job>, failure: Error) {
    if let Some(job) = jobs.pop_front() {
        job.fail(failure);
    }
}
