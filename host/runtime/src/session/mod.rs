//! Sessions: exchanges with the processes of strategies. A process serves one request, or workers serve many. Requests
//! and answers are the same in both cases. The output of a failed process must never be used (PROTOCOL.md, "How a
//! request ends").

mod confined;
mod connection;
mod denied;
mod describe;
mod error;
mod job;
mod needs;
mod one_shot;
mod pool;
pub mod spool;
mod stderr_log;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{self, CompleteReply, Terminal};
use jp_compact_core::request;
use jp_compact_schema::version::COMPACT_DEADLINE_MS;
use jp_compact_schema::{CompactRequest, Description, Events, EventsEnd, Mode};

use crate::describe_cache::CheckedDescription;
use pool::Pool;

pub use confined::Confined;
pub use denied::guess;
pub use describe::check;
pub use error::{Error, Lacking};
pub use job::OnStop;
pub use needs::{AnswerFuture, Answers, NoModel, Recorded, key};
pub use one_shot::{Starter, describe_deadline};
pub use spool::{Lines, Spool, Spooled};
pub use watch::{Unwatched, Watch};

/// A plugin that may run, with its description.
#[derive(Debug, Clone)]
pub struct Described {
    /// The plugin and its confinement.
    pub confined: Confined,
    /// The description of the plugin.
    pub description: Description,
    /// Whether its default options are valid.
    pub takes_defaults: bool,
}

impl Described {
    /// Combines a plugin with its checked description.
    ///
    /// # Errors
    /// The description is for another plugin, or the host cannot use it.
    pub fn new(confined: Confined, known: CheckedDescription) -> Result<Self, Error> {
        check(&known, &confined.cleared.plugin)?;
        let CheckedDescription { description, takes_defaults } = known;
        Ok(Self { confined, description, takes_defaults })
    }
}

/// The events after the header of a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// No lines. The header is the whole request, or it names the file with the lines.
    Nothing,
    /// Event lines.
    Events {
        /// The lines with their newlines.
        lines: Bytes,
        /// The number of lines.
        count: u64,
    },
}

/// Sends the requests of a run to strategies.
#[derive(Debug)]
pub struct Sessions {
    starter: Starter,
    /// The value of `--deadline`.
    deadline: Option<Duration>,
    workers_max: usize,
    answers: Arc<dyn Answers>,
    watch: Arc<dyn Watch>,
    next_id: AtomicU64,
    is_stopping: AtomicBool,
    has_started_workers: AtomicBool,
    /// One pool per strategy and confinement. The same bytes with other permissions need another pool.
    pools: Mutex<Vec<(Confined, Arc<Pool>)>>,
}

/// Reports the end of a wait, also if the future is dropped after an interrupt. Otherwise the line of the request would
/// stay on the terminal.
struct EndedOnDrop<'a> {
    watch: &'a dyn Watch,
    id: &'a str,
}

impl Drop for EndedOnDrop<'_> {
    fn drop(&mut self) {
        self.watch.ended(self.id);
    }
}

impl Sessions {
    /// Creates sessions with no model, no watcher, and a maximum of 0 workers. The deadline applies to one round. If it
    /// is `None`, the manifest of a strategy may set its own.
    #[must_use]
    pub fn new(starter: Starter, deadline: impl Into<Option<Duration>>) -> Self {
        Self {
            starter,
            deadline: deadline.into(),
            workers_max: 0,
            answers: Arc::new(NoModel),
            watch: Arc::new(Unwatched),
            next_id: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            has_started_workers: AtomicBool::new(false),
            pools: Mutex::default(),
        }
    }

    /// Sets the maximum number of workers per strategy. With 0, only strategies with `mode = "worker"` have a worker.
    #[must_use]
    pub fn with_workers(self, workers_max: usize) -> Self {
        Self { workers_max, ..self }
    }

    /// Sets the source of answers to `needs`.
    #[must_use]
    pub fn answered_by(self, answers: Arc<dyn Answers>) -> Self {
        Self { answers, ..self }
    }

    /// Sets the receiver of progress.
    #[must_use]
    pub fn watched_by(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch, ..self }
    }

    /// Returns the starter of processes.
    #[must_use]
    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    /// Returns the time limit for one round: from the command line, or from the manifest.
    #[must_use]
    pub fn deadline(&self, described: &Described) -> Duration {
        let from_manifest = || described.confined.cleared.plugin.timeout();
        self.deadline.or_else(from_manifest).unwrap_or(Duration::from_millis(COMPACT_DEADLINE_MS))
    }

    /// Returns whether workers serve this strategy.
    #[must_use]
    pub fn has_workers(&self, described: &Described) -> bool {
        self.workers(described) > 0
    }

    /// Returns the number of workers for a strategy. 0 means one process per request.
    fn workers(&self, described: &Described) -> usize {
        match described.confined.cleared.plugin.mode() {
            Mode::OneShot => 0,
            Mode::Worker => self.workers_max.max(1),
            Mode::Auto if described.description.has_feature("worker") => self.workers_max,
            Mode::Auto => 0,
        }
    }

    /// Returns an id that is unique in this run.
    #[must_use]
    pub fn id(&self) -> String {
        format!("c{}", self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Sends a request and answers the strategy's `needs` until its reply is not `needs`. The content of the reply is not
    /// validated. A dry run asks no model: it returns the first `needs` that request a model. All rounds of a request are
    /// finished, also while the sessions are stopping.
    ///
    /// # Errors
    /// The process failed, its output is not a valid reply, the strategy reported an error, it needs something that was not
    /// granted, or it gave up because no model answered.
    pub async fn ask(
        &self,
        described: &Described,
        mut header: CompactRequest,
        body: &Body,
        mut on_stop: OnStop,
    ) -> Result<CompleteReply, Error> {
        let mut logs = Vec::new();
        let mut unanswered = None;
        let is_refused = on_stop == OnStop::Refuse && self.is_stopping.load(Ordering::Relaxed);
        if is_refused && self.has_workers(described) {
            return Err(Error::stopped());
        }
        for rounds_before in 0.. {
            self.watch.waits(&header.id, &described.description.name);
            let ending = EndedOnDrop { watch: &*self.watch, id: &header.id };
            let answer = self.send_once(described, &header, body, on_stop).await;
            drop(ending);
            let previous_error = unanswered.take();
            let answer = match (answer, &previous_error) {
                (Err(failure), Some(error)) => return Err(failure.without_model(error)),
                (answer, _) => answer?,
            };
            logs.extend(answer.logs);
            let needs = match (answer.terminal, previous_error) {
                (Terminal::Needs(needs), _) => needs,
                // The strategy gave up because it got no answer. The missing answer is the real error.
                (Terminal::Decline(decline), Some(error)) => {
                    return Err(Error::Model { answer: error, reason: decline.reason });
                }
                (terminal, _) => return Ok(CompleteReply { terminal, logs }),
            };
            let many = header.limits.needs_many;
            reply::check_needs(&needs, rounds_before, &header.answers, many).map_err(Error::Violation)?;
            // A need from the description was granted before anything ran. Any other need was never granted.
            if let Some(need) = needs::not_granted(&needs, &described.description.needs) {
                return Err(Error::NotGranted { need });
            }
            if header.dry_run && needs::asks_model(&needs) {
                return Ok(CompleteReply { terminal: Terminal::Needs(needs), logs });
            }
            let model = header.context.llm.as_ref().map(|llm| llm.model.as_str());
            let known_error = self.answers.check_budget(&needs.requests, needs.remaining, model);
            if many {
                header.answers.clear();
            }
            let ending = EndedOnDrop { watch: &*self.watch, id: &header.id };
            for (key, request) in needs.requests {
                if let Some(subject) = needs::subject(&request, model) {
                    self.watch.waits(&header.id, &subject);
                }
                let answer = needs::answer(&request, &*self.answers, model, known_error.as_ref()).await;
                unanswered = unanswered.or_else(|| needs::unanswered(&request, &answer));
                header.answers.insert(key, answer);
            }
            drop(ending);
            header.state = needs.state;
            // A model may have answered, and the user pays for that.
            on_stop = OnStop::Send;
        }
        unreachable!("`check_needs` limits the number of rounds")
    }

    /// Sends one request and returns its reply.
    async fn send_once(
        &self,
        described: &Described,
        header: &CompactRequest,
        body: &Body,
        on_stop: OnStop,
    ) -> Result<CompleteReply, Error> {
        let mut lines = vec![Bytes::from(request::line(header))];
        if let Body::Events { lines: events, count } = body {
            lines.extend([events.clone(), request::line(&EventsEnd::new(&header.id, *count)).into()]);
        }
        let deadline = self.deadline(described);
        match self.workers(described) {
            // Boxed, because this future is large. Unboxed, it would enlarge the future of every request of a batch,
            // where workers serve the requests and this branch is not used.
            0 => {
                let compact = self.starter.compact(described, &header.id, lines, deadline, &*self.watch);
                Box::pin(compact).await
            }
            workers => self.pool(described, workers).ask(&header.id, lines, deadline, on_stop).await,
        }
    }

    /// Starts a worker for each of these strategies that has workers, before its first request, so that the processes
    /// start at the same time. Only the first call has an effect, and only if [`Self::with_workers`] allows workers.
    pub fn start_workers<'a>(&self, strategies: impl Iterator<Item = &'a Described>) {
        let is_batch = self.workers_max > 0 && !self.is_stopping.load(Ordering::Relaxed);
        if !is_batch || self.has_started_workers.swap(true, Ordering::Relaxed) {
            return;
        }
        for described in strategies {
            match self.workers(described) {
                0 => {}
                workers => self.pool(described, workers).start_worker(),
            }
        }
    }

    /// Returns the pool of a strategy. The first call creates it.
    fn pool(&self, described: &Described, workers: usize) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(confined, _)| *confined == described.confined) {
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::new(&self.starter, described, workers, &self.watch));
        pools.push((described.confined.clone(), Arc::clone(&pool)));
        pool
    }

    /// Refuses requests that no worker has taken, except those with [`OnStop::Send`]. The others are answered, with all
    /// of their rounds.
    pub fn stop_accepting(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().for_each(|(_, pool)| pool.refuse_waiting());
    }

    /// Ends the workers and waits for them. Workers are killed if the value is dropped without this call.
    pub async fn close(&self) {
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        // All workers exit at the same time.
        pools.iter().for_each(|(_, pool)| pool.begin_close());
        for (_, pool) in pools {
            pool.close().await;
        }
    }
}

impl Body {
    /// Returns the body for these event lines and their number.
    #[must_use]
    pub fn from_events(events: Option<(Vec<u8>, u64)>) -> Self {
        events.map_or(Self::Nothing, |(lines, count)| Self::Events { lines: lines.into(), count })
    }

    /// Returns the body for these event lines and their description in the header.
    #[must_use]
    pub fn from_lines(lines: &Lines, count: u64) -> (Self, Events) {
        match lines {
            Lines::Inline(lines) => (Self::Events { lines: lines.clone(), count }, Events::Inline { count }),
            Lines::File(spooled) => (Self::Nothing, spooled.events()),
        }
    }
}
