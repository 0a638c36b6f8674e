//! The asynchronous wait for the lock of a transcript. A blocking wait would stop the other transcripts of the thread.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::{Error, StaleSnapshot};
use jp_compact_store::{ReplaceError, StoreError};

/// The pause after the first attempt. It doubles after each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `attempt` until it gets the lock, for at most `lock_wait`. `attempt` itself must not wait for the lock.
pub(super) async fn under_lock<T>(
    path: &Path,
    lock_wait: Duration,
    mut attempt: impl FnMut() -> Result<T, ReplaceError<StaleSnapshot>>,
) -> Result<T, Error> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let result = attempt();
        let remaining = lock_wait.saturating_sub(start.elapsed());
        match result {
            Ok(value) => return Ok(value),
            Err(ReplaceError::Build(StaleSnapshot::Unseen)) => {
                return Err(Error::Unseen { path: path.to_owned() });
            }
            Err(ReplaceError::Build(source)) => {
                return Err(Error::Stale { path: path.to_owned(), source });
            }
            Err(ReplaceError::Store(StoreError::Locked { .. })) if !remaining.is_zero() => {
                sleep(pause.min(remaining)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(ReplaceError::Store(StoreError::Locked { path, lock, holder, .. })) => {
                return Err(StoreError::Locked { path, lock, waited: lock_wait, holder }.into());
            }
            Err(ReplaceError::Store(error)) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use jp_compact_core::splice::Piece;

    use super::super::{open, replace};
    use super::*;
    use jp_compact_runtime::environment::Environment;

    /// Writes a transcript while another task of this thread holds its lock. With `releases`, that task releases the
    /// lock.
    async fn write_locked(lock_wait: Duration, releases: bool) -> Result<(), Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.json");
        fs::write(&path, "[]").unwrap();
        let opened = open(path.as_os_str(), &Environment::bare(folder.path())).unwrap();
        let lock = File::open(folder.path()).unwrap();
        lock.lock().unwrap();
        let lock_holder = async {
            if releases {
                lock.unlock().unwrap();
            }
        };
        let build = |_| Ok(vec![Piece::Old(0..2)]);
        let writer = replace(&opened.place, &opened.stream, lock_wait, None, build);
        tokio::join!(writer, lock_holder).0
    }

    #[tokio::test]
    async fn waiting_for_a_lock_lets_other_tasks_run() {
        write_locked(Duration::from_secs(5), true).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_for_a_lock_ends_after_lock_wait() {
        for milliseconds in [0, 5] {
            let wait = Duration::from_millis(milliseconds);
            let error = write_locked(wait, false).await.unwrap_err();
            let Error::Store(StoreError::Locked { waited, .. }) = error else { panic!("{error}") };
            assert_eq!(waited, wait);
        }
    }
}
