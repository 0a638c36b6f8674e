//! The threads of a batch. Each has its own async runtime, processes, and window of transcripts. They share
//! only the position of the next transcript, so a slow strategy blocks only its own thread. A thread lives
//! until all transcripts are done. A strategy ends with the thread that started it, and a connection to a
//! model needs the runtime that opened it.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jp_compact_schema::report::TranscriptReport;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Barrier, Semaphore, mpsc, watch};

use super::context::{BatchConfig, Describe, Shared, Thread};
use super::transcript::{Done, run_transcript};
use crate::plan::BatchPlanner;

/// The number of transcripts per thread. High enough that no worker waits for a request, and low enough that
/// they fit into the processor cache.
const WINDOW: usize = 16;
/// Their total size in bytes. One larger transcript is allowed alone.
const WINDOW_BYTES: u64 = 16 << 20;
/// The number of expensive ones among them, which need a process or a model instead of a line to a worker.
const HEAVY_MAX: usize = 8;
/// The number of results that wait to be reported.
const EVENTS_MAX: usize = 256;

/// A message to the caller.
#[derive(Debug)]
pub enum BatchEvent {
    /// A transcript is done.
    Finished {
        /// Its number.
        place: usize,
        /// Its report entry.
        entry: Box<TranscriptReport>,
        /// Its report line, if a report was requested.
        line: Vec<u8>,
        /// Whether an earlier run processed it.
        resumed: bool,
    },
    /// The user interrupted the run. Started transcripts are finished, and no others are started.
    Interrupted,
}

/// The way in which a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// All transcripts were processed.
    Whole,
    /// The user interrupted it, or the caller stopped it.
    Early,
}

/// Runs a batch. `report` is called on this thread, once per transcript, in the order in which they finish. An
/// error of `report` stops the batch like an interrupt does. A second interrupt stops immediately.
///
/// # Errors
/// `report` failed, or no thread could be created.
pub fn run(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    mut report: impl FnMut(BatchEvent) -> io::Result<()>,
) -> io::Result<BatchEnd> {
    let shared = Shared { next: AtomicUsize::new(0), stop: AtomicBool::new(false), copies: Mutex::default() };
    let jobs = config.jobs.min(config.files.len()).max(1);
    let barrier = Barrier::new(jobs);
    let (abort, aborted) = watch::channel(false);
    let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
    let main = runtime()?;
    let (mut interrupt, mut terminate) = {
        let _entered = main.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let runtimes: Vec<Runtime> = (0..jobs).map(|_| runtime()).collect::<io::Result<_>>()?;
    std::thread::scope(|scope| {
        for runtime in runtimes {
            let (shared, barrier, sender, mut aborted) = (&shared, &barrier, sender.clone(), aborted.clone());
            let work = move || {
                runtime.block_on(async {
                    tokio::select! {
                        biased;
                        _ = aborted.wait_for(|abort| *abort) => {}
                        () = serve(planner, config, describe, shared, barrier, sender) => {}
                    }
                });
                // A running name lookup cannot be canceled, so the runtime must not wait for it.
                runtime.shutdown_background();
            };
            if let Err(error) = std::thread::Builder::new().name("batch".into()).spawn_scoped(scope, work) {
                abort.send_replace(true);
                return Err(error);
            }
        }
        drop(sender);
        let mut failed = None;
        main.block_on(async {
            let mut interrupted = false;
            loop {
                let event = tokio::select! {
                    biased;
                    _ = async { tokio::select! { signal = interrupt.recv() => signal, signal = terminate.recv() => signal } } => {
                        if interrupted || shared.stop.swap(true, Ordering::Relaxed) {
                            abort.send_replace(true);
                        }
                        interrupted = true;
                        BatchEvent::Interrupted
                    }
                    done = receiver.recv() => match done {
                        None => break,
                        Some(Done { entry: None, .. }) => continue,
                        Some(Done { place, entry: Some(entry), line, resumed }) => {
                            BatchEvent::Finished { place, entry: Box::new(entry), line, resumed }
                        }
                    }
                };
                if failed.is_none()
                    && let Err(error) = report(event)
                {
                    shared.stop.store(true, Ordering::Relaxed);
                    failed = Some(error);
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None if shared.stop.load(Ordering::Relaxed) => Ok(BatchEnd::Early),
            None => Ok(BatchEnd::Whole),
        }
    })
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Processes transcripts on one thread.
async fn serve(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    shared: &Shared,
    barrier: &Barrier,
    sender: mpsc::Sender<Done>,
) {
    let thread = Thread { plans: planner.begin_thread(), heavy: Semaphore::new(HEAVY_MAX) };
    let mut flying = FuturesUnordered::new();
    let mut bytes = 0;
    loop {
        while flying.len() < WINDOW && (flying.is_empty() || bytes < WINDOW_BYTES) {
            let Some(place) = shared.next(config.files) else { break };
            bytes += config.files.bytes_of(place);
            flying.push(run_transcript(planner, config, describe, shared, &thread, place));
        }
        let Some(done) = flying.next().await else { break };
        bytes -= config.files.bytes_of(done.place);
        if sender.send(done).await.is_err() {
            break;
        }
    }
    drop(flying);
    thread.plans.sessions().close().await;
    drop(sender);
    barrier.wait().await;
}
