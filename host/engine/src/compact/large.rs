//! The work on a large transcript that needs no strategy: the estimate of its tokens, and the digest of its raw input.
//! Both read all texts, and neither needs the result of the other, so they run in several threads. The results are the
//! same as with one thread. No process may be started here, because a process ends together with the thread that
//! started it.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use jp_compact_core::Stream;
use jp_compact_core::estimate::{Estimate, Estimator};

use crate::digest;

/// The minimum size of a transcript for which threads are started. A smaller transcript is read in less than a
/// millisecond.
const LARGE_BYTES: usize = 4 << 20;
/// The maximum number of threads for the estimate. More threads would only wait for memory.
const THREADS_MAX: usize = 4;

/// Estimates the tokens of a transcript. Also returns the digest of the raw input, if `needs_digest` and the transcript
/// is large.
pub(super) fn measure(
    stream: &Stream,
    estimator: Estimator,
    needs_digest: bool,
) -> (Estimate, Option<String>) {
    if stream.bytes().len() < LARGE_BYTES {
        return (Estimate::new(stream, estimator), None);
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    measure_in_threads(stream, estimator, needs_digest, threads)
}

fn measure_in_threads(
    stream: &Stream,
    estimator: Estimator,
    needs_digest: bool,
    threads: usize,
) -> (Estimate, Option<String>) {
    let elements = stream.events().len();
    let start_of = |part: usize| elements * part / threads;
    thread::scope(|scope| {
        let digest = needs_digest.then(|| scope.spawn(|| digest::of_raw_input(stream)));
        let spawn = |part: usize| {
            let part = start_of(part)..start_of(part + 1);
            scope.spawn(move || Estimate::of_elements(stream, part, estimator))
        };
        let others: Vec<_> = (1..threads).map(spawn).collect();
        let mut estimate = Estimate::of_elements(stream, 0..start_of(1), estimator);
        others.into_iter().for_each(|part| estimate.append(&result_of(part)));
        (estimate, digest.map(result_of))
    })
}

/// Waits for the end of a thread. If it panicked, this thread panics too.
fn result_of<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[track_caller]
    fn check(events: usize, threads: usize) {
        let event = |number: usize| {
            let text = "a word ".repeat(number % 50 + 1);
            format!(
                r#"{{"timestamp":"2026-01-01 00:00:00.0","type":"chat_request","content":"{number} {text}"}}"#
            )
        };
        let events: Vec<_> = (0..events).map(event).collect();
        let stream = Stream::parse(Bytes::from(format!("[{}]", events.join(",")))).unwrap();
        let (estimate, digest) = measure_in_threads(&stream, Estimator::Pieces, true, threads);
        let weights = |estimate: &Estimate| -> Vec<u64> {
            (0..stream.events().len()).map(|element| estimate.weight(element)).collect()
        };
        assert_eq!(weights(&estimate), weights(&Estimate::new(&stream, Estimator::Pieces)));
        assert_eq!(digest, Some(digest::of_raw_input(&stream)));
    }

    #[test]
    fn threads_do_not_change_the_result() {
        check(101, 4);
        check(101, 2);
        check(3, 4);
        check(0, 4);
    }
}
