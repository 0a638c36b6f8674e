//! The threads of a batch. Each has its own async runtime, processes, and window of transcripts. They take
//! transcripts from one list, so a slow strategy blocks only its own thread. A thread lives until all transcripts
//! are finished, because a strategy ends with the thread that started it, and a connection to a model needs the runtime
//! that opened it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jp_compact_schema::report::TranscriptReport;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Barrier, Notify, mpsc, watch};

use super::context::{BatchConfig, Describe, Shared};
use super::transcript::{FinishedTranscript, run_transcript};
use crate::disk_queue::DiskQueue;
use crate::plan::BatchPlanner;

/// The maximum number of transcripts that a thread processes concurrently. It is high enough that no worker waits for a
/// request. More transcripts need more memory and leave the processor cache.
const WINDOW: usize = 8;
/// A thread adds no transcript to a window that has this many bytes.
const WINDOW_BYTES: u64 = 16 << 20;
/// The maximum number of results that wait to be reported.
const EVENTS_MAX: usize = 1_024;

/// The pause of the caller's thread between two groups of results.
const REPORT_PAUSE: Duration = Duration::from_millis(1);

/// A message to the caller.
#[derive(Debug)]
pub enum BatchEvent {
    /// A transcript is finished.
    Finished {
        /// Its number.
        index: usize,
        entry: Box<TranscriptReport>,
        /// Its report line, if a report was requested.
        line: Vec<u8>,
        /// Whether an earlier run processed it.
        resumed: bool,
    },
    /// A file is not reported: it is not a transcript, it is a copy of another transcript, or an interrupt stopped its
    /// run before anything was written.
    NotReported {
        /// Its number.
        index: usize,
    },
    /// The user interrupted the run. See [`run`].
    Interrupted,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// All transcripts are finished.
    Complete,
    /// The user interrupted the batch.
    Stopped,
}

/// Whether the threads stop, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    /// Requests that a strategy already has are finished, and so is each transcript for which a model was asked.
    WhenAnswered,
    Now,
}

/// The error of a whole batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A thread, a runtime, or a signal handler could not be created.
    #[error("failed to start the batch")]
    Start(#[from] io::Error),
    #[error("failed to write the report")]
    Report(#[source] io::Error),
}

/// Runs a batch. `report` is called on this thread for each transcript when it is finished. An error of `report` stops
/// the batch like an interrupt: requests that a strategy already has are finished, and so is each transcript for which a
/// model was asked. The other transcripts stay unchanged. A second interrupt stops immediately.
///
/// # Errors
/// `report` failed, or the batch could not be started.
pub fn run(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    mut report: impl FnMut(BatchEvent) -> io::Result<()>,
) -> Result<BatchEnd, BatchError> {
    let disk = Arc::new(DiskQueue::default());
    let shared = Shared {
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        copies: Mutex::default(),
        disk: Arc::clone(&disk),
    };
    let jobs = config.jobs.min(config.files.len()).max(1);
    let barrier = Barrier::new(jobs);
    let (stop_sender, stop_receiver) = watch::channel(Stop::No);
    let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
    let main_runtime = runtime()?;
    let (mut interrupt, mut terminate) = {
        let _guard = main_runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let runtimes: Vec<Runtime> = (0..jobs).map(|_| runtime()).collect::<io::Result<_>>()?;
    let end = std::thread::scope(|scope| {
        for runtime in runtimes {
            let (shared, barrier, sender) = (&shared, &barrier, sender.clone());
            let stops = stop_receiver.clone();
            let run_thread = move || {
                runtime.block_on(run_window(planner, config, describe, shared, barrier, sender, stops));
                // A running name lookup cannot be canceled, so the runtime must not wait for it.
                runtime.shutdown_background();
            };
            if let Err(error) =
                std::thread::Builder::new().name("batch".into()).spawn_scoped(scope, run_thread)
            {
                stop_sender.send_replace(Stop::Now);
                return Err(error.into());
            }
        }
        drop(sender);
        let mut report_error = None;
        main_runtime.block_on(async {
            let mut is_interrupted = false;
            loop {
                // A pause after each group of results, so that not every result wakes this thread. At the end of the
                // batch, it would save nothing.
                if receiver.is_empty() && shared.has_next(config.files) && !is_interrupted {
                    tokio::time::sleep(REPORT_PAUSE).await;
                }
                let event = tokio::select! {
                    biased;
                    is_immediate = stop_request(&mut interrupt, &mut terminate, config.shut_down) => {
                        let is_second = shared.stop.swap(true, Ordering::Relaxed) || is_interrupted;
                        let stop = if is_immediate || is_second { Stop::Now } else { Stop::WhenAnswered };
                        stop_sender.send_replace(stop);
                        is_interrupted = true;
                        BatchEvent::Interrupted
                    }
                    finished = receiver.recv() => match finished {
                        None => break,
                        Some(FinishedTranscript { index, entry: None, .. }) => BatchEvent::NotReported { index },
                        Some(FinishedTranscript { index, entry: Some(entry), line, resumed }) => {
                            BatchEvent::Finished { index, entry: Box::new(entry), line, resumed }
                        }
                    }
                };
                if report_error.is_none()
                    && let Err(error) = report(event)
                {
                    shared.stop.store(true, Ordering::Relaxed);
                    stop_sender.send_if_modified(|stop| {
                        let is_first = *stop == Stop::No;
                        *stop = (*stop).max(Stop::WhenAnswered);
                        is_first
                    });
                    report_error = Some(error);
                }
            }
        });
        match report_error {
            Some(error) => Err(BatchError::Report(error)),
            None if shared.stop.load(Ordering::Relaxed) => Ok(BatchEnd::Stopped),
            None => Ok(BatchEnd::Complete),
        }
    });
    disk.close();
    end
}

/// Waits for an interrupt, or a request to terminate or to shut down. Returns whether the batch must stop immediately.
async fn stop_request(interrupt: &mut Signal, terminate: &mut Signal, shut_down: &Notify) -> bool {
    tokio::select! {
        _ = interrupt.recv() => false,
        _ = terminate.recv() => false,
        () = shut_down.notified() => true,
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits for a more urgent stop than the handled one, and returns it.
async fn next_stop(stops: &mut watch::Receiver<Stop>, handled: Stop) -> Stop {
    stops.wait_for(|stop| *stop > handled).await.map_or(Stop::Now, |stop| *stop)
}

/// Processes transcripts on one thread, several at a time.
async fn run_window(
    planner: &BatchPlanner<'_>,
    config: &BatchConfig<'_>,
    describe: &Describe,
    shared: &Shared,
    barrier: &Barrier,
    sender: mpsc::Sender<FinishedTranscript>,
    mut stops: watch::Receiver<Stop>,
) {
    let plans = planner.thread_plans(&shared.disk);
    let mut window = FuturesUnordered::new();
    let (mut window_bytes, mut handled_stop) = (0, Stop::No);
    loop {
        while window.len() < WINDOW && (window.is_empty() || window_bytes < WINDOW_BYTES) {
            let Some(index) = shared.take_next(config.files) else { break };
            window_bytes += config.files.bytes_of(index);
            window.push(run_transcript(planner, config, describe, shared, &plans, index));
        }
        let finished = tokio::select! {
            biased;
            stop = next_stop(&mut stops, handled_stop) => {
                handled_stop = stop;
                if stop == Stop::Now {
                    break;
                }
                plans.sessions().stop_accepting();
                continue;
            }
            finished = window.next() => finished,
        };
        let Some(finished) = finished else { break };
        window_bytes -= config.files.bytes_of(finished.index);
        if sender.send(finished).await.is_err() {
            break;
        }
    }
    if handled_stop == Stop::Now {
        // An append is reported if a disk thread has already started it. The others are dropped.
        shared.disk.stop();
        while plans.pending_appends() > 0
            && let Some(finished) = window.next().await
            && sender.send(finished).await.is_ok()
        {}
        return;
    }
    drop(window);
    let end = async {
        plans.sessions().close().await;
        drop(sender);
        barrier.wait().await;
    };
    tokio::select! {
        biased;
        _ = next_stop(&mut stops, Stop::WhenAnswered) => {}
        () = end => {}
    }
}
