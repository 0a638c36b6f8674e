//! Waiting for somebody else's lock, without standing still: a thread has more transcripts than one in hand.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::failure::{Failure, Overtaken};
use crate::store::{ReplaceError, StoreError};

/// How long a lock is left alone between two attempts, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Tries to write until it is done, for as long as somebody else may hold the lock. An attempt must not wait itself.
pub(super) async fn under_lock(
    path: &Path,
    lock_wait: Duration,
    mut attempt: impl FnMut() -> Result<(), ReplaceError<Overtaken>>,
) -> Result<(), Failure> {
    let (began, mut pause) = (Instant::now(), PAUSE.0);
    loop {
        let done = attempt();
        let left = lock_wait.saturating_sub(began.elapsed());
        match done {
            Ok(()) => return Ok(()),
            Err(ReplaceError::Build(source)) => {
                return Err(Failure::Overtaken { path: path.to_owned(), source });
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
    use crate::environment::Environment;

    /// Writes under a lock that somebody else holds until this thread has time for him.
    async fn write(lock_wait: Duration, is_released: bool) -> Result<(), Failure> {
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
    async fn others_on_this_thread_go_on_while_a_lock_is_waited_for() {
        write(Duration::from_secs(5), true).await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_is_not_released_is_waited_for_no_longer_than_was_said() {
        for wait in [0, 5] {
            let wait = Duration::from_millis(wait);
            let error = write(wait, false).await.unwrap_err();
            let Failure::Store(StoreError::Locked { waited, .. }) = error else { panic!("{error}") };
            assert_eq!(waited, wait);
        }
    }
}
