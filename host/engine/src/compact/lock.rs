//! Waits asynchronously for the lock of a transcript, because one thread works on several transcripts.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::{Error, StaleSnapshot};
use jp_compact_store::{ReplaceError, StoreError};

/// The first and the longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Repeats `attempt` until it gets the lock, for at most `lock_wait`. An attempt must not wait itself.
pub(super) async fn under_lock(
    path: &Path,
    lock_wait: Duration,
    mut attempt: impl FnMut() -> Result<(), ReplaceError<StaleSnapshot>>,
) -> Result<(), Error> {
    let (began, mut pause) = (Instant::now(), PAUSE.0);
    loop {
        let done = attempt();
        let left = lock_wait.saturating_sub(began.elapsed());
        match done {
            Ok(()) => return Ok(()),
            Err(ReplaceError::Build(StaleSnapshot::Unseen)) => {
                return Err(Error::Unseen { path: path.to_owned() });
            }
            Err(ReplaceError::Build(source)) => {
                return Err(Error::Stale { path: path.to_owned(), source });
            }
            Err(ReplaceError::Store(StoreError::Locked { .. })) if !left.is_zero() => {
                sleep(pause.min(left)).await;
                pause = (pause * 2).min(PAUSE.1);
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

    /// Writes while another task of this thread holds the lock.
    async fn write(lock_wait: Duration, is_released: bool) -> Result<(), Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.json");
        fs::write(&path, "[]").unwrap();
        let opened = open(path.as_os_str(), &Environment::bare(folder.path())).unwrap();
        let held = File::open(folder.path()).unwrap();
        held.lock().unwrap();
        let other = async {
            if is_released {
                held.unlock().unwrap();
            }
        };
        let build = |_| Ok(vec![Piece::Old(0..2)]);
        let write = replace(&opened.place, &opened.stream, lock_wait, build);
        tokio::join!(write, other).0
    }

    #[tokio::test]
    async fn waiting_for_a_lock_lets_other_tasks_run() {
        write(Duration::from_secs(5), true).await.unwrap();
    }

    #[tokio::test]
    async fn waiting_for_a_lock_ends_after_lock_wait() {
        for wait in [0, 5] {
            let wait = Duration::from_millis(wait);
            let error = write(wait, false).await.unwrap_err();
            let Error::Store(StoreError::Locked { waited, .. }) = error else { panic!("{error}") };
            assert_eq!(waited, wait);
        }
    }
}
