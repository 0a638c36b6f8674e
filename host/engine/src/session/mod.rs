//! Sessions: the exchanges with strategies' processes. One process for one request, or workers that serve many;
//! the same request and the same answer either way. Takes nothing from a process that failed (PROTOCOL.md,
//! "Ends").

mod confined;
mod describe;
mod job;
mod needs;
mod one_shot;
mod pool;
pub(crate) mod spool;
mod talk;
mod tell;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{self, Answer, Terminal};
use jp_compact_core::request;
use jp_compact_schema::version::COMPACT_DEADLINE_MS;
use jp_compact_schema::{CompactRequest, Description, Events, EventsEnd, Mode};

use crate::failure::StrategyFailure;
use pool::Pool;

pub use confined::Confined;
pub use describe::check;
pub use needs::{Answering, Answers, Nobody, Recorded, key};
pub use one_shot::Starter;
pub use spool::{Lines, Spool, Spooled};
pub use watch::{Unwatched, Watch};

/// A plugin that may run and has described itself.
#[derive(Debug, Clone)]
pub struct Described {
    /// The plugin, what is started of it, and how far it is confined.
    pub confined: Confined,
    /// What it said.
    pub description: Description,
    /// Whether its options are valid where nobody says otherwise.
    pub takes_defaults: bool,
}

/// The events behind a header.
#[derive(Debug, Clone)]
pub enum Body {
    /// None: the header is all, or names a file.
    Nothing,
    /// So many lines.
    Events {
        /// The lines.
        lines: Bytes,
        /// Their number.
        count: u64,
    },
}

/// How the strategies of a run are asked.
#[derive(Debug)]
pub struct Sessions {
    starter: Starter,
    /// What was typed.
    deadline: Option<Duration>,
    workers_max: usize,
    answers: Arc<dyn Answers>,
    watch: Arc<dyn Watch>,
    next_id: AtomicU64,
    /// The same bytes with other permissions, or in another jail, are another's.
    pools: Mutex<Vec<(Confined, Arc<Pool>)>>,
}

impl Sessions {
    /// One process for each request, no model, nobody who watches. The deadline is that of one round; without one
    /// a strategy's manifest may name its own.
    #[must_use]
    pub fn new(starter: Starter, deadline: impl Into<Option<Duration>>) -> Self {
        Self {
            starter,
            deadline: deadline.into(),
            workers_max: 0,
            answers: Arc::new(Nobody),
            watch: Arc::new(Unwatched),
            next_id: AtomicU64::new(1),
            pools: Mutex::default(),
        }
    }

    /// So many workers for each strategy that can be one; 0 for one process a request.
    #[must_use]
    pub fn with_workers(self, workers_max: usize) -> Self {
        Self { workers_max, ..self }
    }

    /// With somebody who fulfils what strategies need.
    #[must_use]
    pub fn answered_by(self, answers: Arc<dyn Answers>) -> Self {
        Self { answers, ..self }
    }

    /// With somebody who watches.
    #[must_use]
    pub fn watched_by(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch, ..self }
    }

    /// How processes are started.
    #[must_use]
    pub fn starter(&self) -> &Starter {
        &self.starter
    }

    /// How long a strategy may take for one round: as typed, else as its manifest says.
    #[must_use]
    pub fn deadline(&self, described: &Described) -> Duration {
        let of_manifest = || described.confined.cleared.plugin.timeout();
        self.deadline.or_else(of_manifest).unwrap_or(Duration::from_millis(COMPACT_DEADLINE_MS))
    }

    /// Whether workers serve a strategy, and not a process for each request.
    #[must_use]
    pub fn has_workers(&self, described: &Described) -> bool {
        self.workers(described) > 0
    }

    /// How many workers serve a strategy; none, and each request gets a process of its own.
    fn workers(&self, described: &Described) -> usize {
        match described.confined.cleared.plugin.mode() {
            Mode::OneShot => 0,
            Mode::Worker => self.workers_max.max(1),
            Mode::Auto if described.description.has_feature("worker") => self.workers_max,
            Mode::Auto => 0,
        }
    }

    /// An id that no other request of the run has.
    #[must_use]
    pub fn id(&self) -> String {
        format!("c{}", self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks a strategy, and does for it what it needs, until it answers in another way. Nothing of its answer
    /// has been validated.
    ///
    /// # Errors
    /// The process did not end well, its output is no reply, it reported an error, it needs what was not
    /// granted, or it gave up when no model answered.
    pub async fn ask(
        &self,
        described: &Described,
        mut header: CompactRequest,
        body: &Body,
    ) -> Result<Answer, StrategyFailure> {
        let mut logs = Vec::new();
        let mut unanswered = None;
        for rounds_before in 0.. {
            let answer = self.once(described, &header, body).await;
            self.watch.ended(&header.id);
            let without = unanswered.take();
            let answer = match (answer, &without) {
                (Err(failure), Some(answer)) => return Err(failure.without_model(answer)),
                (answer, _) => answer?,
            };
            logs.extend(answer.logs);
            let needs = match (answer.terminal, without) {
                (Terminal::Needs(needs), _) => needs,
                // It gave up for want of an answer; that is no reason of its own.
                (Terminal::Decline(decline), Some(answer)) => {
                    return Err(StrategyFailure::Model { answer, said: decline.reason });
                }
                (terminal, _) => return Ok(Answer { terminal, logs }),
            };
            reply::check_needs(&needs, rounds_before, &header.answers).map_err(StrategyFailure::Violation)?;
            // What a description asks for was granted before anything ran; what it does not, never was.
            if let Some(need) = needs::not_granted(&needs, &described.description.needs) {
                return Err(StrategyFailure::NotGranted { need, command: None });
            }
            let foreseen = self.answers.foresee(&needs.requests);
            for (key, request) in needs.requests {
                let model = header.context.llm.as_ref().map(|llm| llm.model.as_str());
                let answer = needs::answer(&request, &*self.answers, model, foreseen.as_ref()).await;
                unanswered = unanswered.or_else(|| needs::unanswered(&request, &answer));
                header.answers.insert(key, answer);
            }
            header.state = needs.state;
        }
        unreachable!("the rounds are counted")
    }

    /// One round.
    async fn once(
        &self,
        described: &Described,
        header: &CompactRequest,
        body: &Body,
    ) -> Result<Answer, StrategyFailure> {
        let mut lines = vec![Bytes::from(request::line(header))];
        if let Body::Events { lines: events, count } = body {
            lines.extend([events.clone(), request::line(&EventsEnd::new(&header.id, *count)).into()]);
        }
        let deadline = self.deadline(described);
        match self.workers(described) {
            0 => self.starter.compact(described, &header.id, lines, deadline, &*self.watch).await,
            workers => self.pool(described, workers).ask(&header.id, lines, deadline).await,
        }
    }

    fn pool(&self, described: &Described, workers: usize) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(confined, _)| *confined == described.confined) {
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::new(&self.starter, described, workers, &self.watch));
        pools.push((described.confined.clone(), Arc::clone(&pool)));
        pool
    }

    /// Lets the workers go, and waits until they have. Dropped without this, they are killed.
    pub async fn close(&self) {
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, pool) in pools {
            pool.close().await;
        }
    }
}

impl Body {
    /// Event lines, and how the header names them.
    #[must_use]
    pub fn of(lines: &Lines, count: u64) -> (Self, Events) {
        match lines {
            Lines::Inline(lines) => (Self::Events { lines: lines.clone(), count }, Events::Inline { count }),
            Lines::File(spooled) => (Self::Nothing, spooled.events()),
        }
    }
}
