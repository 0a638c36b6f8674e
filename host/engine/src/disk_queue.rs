//! The threads of a batch that wait for the disk. A sync takes longer than all other work on a small transcript, and
//! several syncs at the same time share one write of the file system's journal. No process may be started here.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use jp_compact_store::{PreparedReplacement, StoreError};
use tokio::sync::oneshot;

/// The maximum number of threads. With four times as many, a batch took longer.
const THREADS_MAX: usize = 16;

/// Waits for the disk in other threads. They start with the first replacements.
#[derive(Debug)]
pub struct DiskQueue {
    state: Mutex<QueueState>,
    receiver: Arc<Mutex<Receiver<Job>>>,
    is_stopped: Arc<AtomicBool>,
}

/// The disk queue of one thread of a batch, with the number of its replacements that are not finished.
#[derive(Debug, Clone)]
pub struct ThreadDiskQueue {
    queue: Arc<DiskQueue>,
    pending: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct QueueState {
    /// `None` after the end.
    sender: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Job {
    replacement: PreparedReplacement,
    result: oneshot::Sender<Result<(), StoreError>>,
}

impl Job {
    fn run(self, is_stopped: &AtomicBool) {
        let Self { replacement, result } = self;
        if is_stopped.load(Ordering::Relaxed) {
            let stopped = Err(stopped_error(replacement.path()));
            // The old version stays, and its lock is released before the result is known.
            drop(replacement);
            let _ = result.send(stopped);
            return;
        }
        // After a panic, the receiver gets an error, and the thread continues.
        if let Ok(finished) = catch_unwind(AssertUnwindSafe(|| replacement.finish())) {
            // The caller may be gone.
            let _ = result.send(finished);
        }
    }
}

fn stopped_error(path: &Path) -> StoreError {
    let source = std::io::Error::new(ErrorKind::Interrupted, "the run was stopped");
    StoreError::Unwritable { doing: "replace", path: path.to_path_buf(), source }
}

impl Default for DiskQueue {
    fn default() -> Self {
        // A full queue blocks the sender, so that only a few files are open.
        let (sender, receiver) = sync_channel(THREADS_MAX);
        let state = QueueState { sender: Some(sender), threads: Vec::new() };
        Self {
            state: Mutex::new(state),
            receiver: Arc::new(Mutex::new(receiver)),
            is_stopped: Arc::default(),
        }
    }
}

impl ThreadDiskQueue {
    pub(crate) fn new(queue: &Arc<DiskQueue>) -> Self {
        Self { queue: Arc::clone(queue), pending: Arc::default() }
    }

    /// Returns the number of replacements that are not finished.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Finishes a replacement in another thread.
    pub(crate) async fn finish(&self, replacement: PreparedReplacement) -> Result<(), StoreError> {
        self.pending.fetch_add(1, Ordering::Relaxed);
        let result = self.queue.finish(replacement).await;
        self.pending.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

impl DiskQueue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes a replacement in another thread.
    async fn finish(&self, replacement: PreparedReplacement) -> Result<(), StoreError> {
        let path = replacement.path().to_path_buf();
        let (result, finished) = oneshot::channel();
        let job = Job { replacement, result };
        let sender = {
            let mut state = self.state();
            if state.threads.len() < THREADS_MAX {
                self.start_thread(&mut state);
            }
            state.sender.clone().filter(|_| !state.threads.is_empty())
        };
        match sender {
            Some(sender) => {
                if let Err(error) = sender.send(job) {
                    error.0.run(&self.is_stopped);
                }
            }
            None => job.run(&self.is_stopped),
        }
        finished.await.unwrap_or_else(|_| {
            let source = std::io::Error::other("a thread that waits for the disk panicked");
            Err(StoreError::NotDurable { path, source })
        })
    }

    /// Starts another thread. Without threads, the caller waits for the disk.
    fn start_thread(&self, state: &mut QueueState) {
        let (receiver, is_stopped) = (Arc::clone(&self.receiver), Arc::clone(&self.is_stopped));
        let run_jobs = move || {
            loop {
                let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                match job {
                    Ok(job) => job.run(&is_stopped),
                    Err(_) => return,
                }
            }
        };
        match std::thread::Builder::new().name("disk".into()).spawn(run_jobs) {
            Ok(thread) => state.threads.push(thread),
            Err(error) => tracing::debug!(%error, "failed to start a thread for the disk"),
        }
    }

    /// Drops the replacements that no thread has begun to finish. Their transcripts are unchanged.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Finishes all replacements, and ends the threads.
    pub(crate) fn close(&self) {
        let threads = {
            let mut state = self.state();
            state.sender = None;
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            // A job that panicked has reported an error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use jp_compact_runtime::environment::Environment;
    use jp_compact_store::{self as store, Piece, ReplaceError};

    use super::*;

    /// Creates a conversation `[]` in `folder`, and prepares its replacement with `[1]`.
    fn prepare(folder: &Path) -> PreparedReplacement {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("events.json"), "[]").unwrap();
        let place = store::locate(folder.as_os_str(), &Environment::bare("/")).unwrap();
        let snapshot = store::read(&place).unwrap();
        let build = |_| Ok::<_, StoreError>(vec![Piece::Old(0..1), Piece::New(b"1]".to_vec())]);
        match store::prepare(&place, &snapshot, 2, Duration::ZERO, build) {
            Ok(replacement) => replacement,
            Err(ReplaceError::Store(error) | ReplaceError::Build(error)) => panic!("{error}"),
        }
    }

    fn content(folder: &Path) -> String {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [OsStr::new("events.json")]);
        fs::read_to_string(folder.join("events.json")).unwrap()
    }

    #[tokio::test]
    async fn many_replacements_are_finished_at_the_same_time() {
        let base = tempfile::tempdir().unwrap();
        let folders: Vec<_> =
            (0..3 * THREADS_MAX).map(|number| base.path().join(number.to_string())).collect();
        let queue = DiskQueue::default();
        let replacements = folders.iter().map(|folder| queue.finish(prepare(folder)));
        for result in futures_util::future::join_all(replacements).await {
            result.unwrap();
        }
        assert_eq!(queue.state().threads.len(), THREADS_MAX);
        assert!(folders.iter().all(|folder| content(folder) == "[1]"));
        queue.close();
    }

    #[tokio::test]
    async fn error_is_returned() {
        let base = tempfile::tempdir().unwrap();
        let replacement = prepare(base.path());
        fs::write(base.path().join("events.json"), "[2]").unwrap();
        let queue = DiskQueue::default();
        let error = queue.finish(replacement).await.unwrap_err();
        assert!(matches!(error, StoreError::Changed { .. }), "{error}");
        assert_eq!(content(base.path()), "[2]");
    }

    #[tokio::test]
    async fn close_finishes_replacements_whose_callers_are_gone() {
        let base = tempfile::tempdir().unwrap();
        let queue = DiskQueue::default();
        {
            let mut finish = std::pin::pin!(queue.finish(prepare(base.path())));
            // Polled once, so that the replacement is in the queue.
            let _ = finish.as_mut().now_or_never();
        }
        queue.close();
        assert_eq!(content(base.path()), "[1]");
    }

    #[tokio::test]
    async fn stop_leaves_the_old_version() {
        let base = tempfile::tempdir().unwrap();
        let queue = Arc::new(DiskQueue::default());
        let replacement = prepare(base.path());
        queue.stop();
        let of_thread = ThreadDiskQueue::new(&queue);
        let error = of_thread.finish(replacement).await.unwrap_err();
        // The caller reports a transcript with this kind of error as stopped, not as failed.
        let StoreError::Unwritable { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), ErrorKind::Interrupted);
        assert_eq!((content(base.path()).as_str(), of_thread.pending()), ("[]", 0));
        queue.close();
    }

    #[test]
    fn dropped_replacement_leaves_the_old_version() {
        let base = tempfile::tempdir().unwrap();
        drop(prepare(base.path()));
        assert_eq!(content(base.path()), "[]");
        drop(prepare(base.path()));
    }
}
