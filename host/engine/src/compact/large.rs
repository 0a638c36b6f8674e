//! The work on a large transcript that needs no strategy: the estimate of its tokens, and the digest of its raw input.
//! Both read all texts, and neither needs the result of the other, so they run in several threads. The digest is
//! usually needed last, so its thread begins while the transcript is read, and continues while the strategies run. The
//! results are the same as with one thread. No process may be started here, because a process ends together with the
//! thread that started it.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use jp_compact_core::Stream;
use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::event::Event;
use jp_compact_store::ChunkIndexer;
use sha2::{Digest as _, Sha256};

use crate::digest;

/// The minimum size of a transcript for which threads are started. A smaller transcript is read in less than a
/// millisecond.
const LARGE_BYTES: usize = 4 << 20;
/// The maximum number of threads for the estimate. More threads would only wait for memory.
const THREADS_MAX: usize = 4;

/// The digest of the first events of the raw input.
#[derive(Debug, Clone, Default)]
pub(super) struct BegunDigest {
    hash: Sha256,
    events: usize,
}

/// Indexes the chunks of a large transcript. Another thread begins its digest in the meantime.
pub(super) fn index_and_begin_digest(
    chunks: &mut dyn Iterator<Item = &[u8]>,
    indexer: &mut ChunkIndexer,
) -> BegunDigest {
    let is_indexed = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, indexed) = mpsc::channel();
        // Without a thread, the whole digest is computed when it is needed.
        let digest = thread::Builder::new().spawn_scoped(scope, || begin_digest(indexed, &is_indexed)).ok();
        for chunk in chunks {
            // If the thread has panicked, the panic is resumed below.
            let _ = sender.send((chunk, numbered_ranges(indexer.advance(chunk))));
        }
        is_indexed.store(true, Ordering::Relaxed);
        drop(sender);
        digest.map(|digest| result_of(digest.join())).unwrap_or_default()
    })
}

/// Returns the ranges of the events that have a number.
fn numbered_ranges(events: &[Event]) -> Vec<Range<usize>> {
    let numbered = events.iter().filter(|event| event.seq.is_some());
    numbered.map(|event| event.span.start..event.span.end).collect()
}

/// Computes the digest of events until no chunks follow or `is_indexed` is true. Each chunk comes with the events that
/// are complete with it.
fn begin_digest(indexed: mpsc::Receiver<(&[u8], Vec<Range<usize>>)>, is_indexed: &AtomicBool) -> BegunDigest {
    let mut begun = BegunDigest::default();
    // The chunks that are not used completely, and the offset of the first.
    let (mut chunks, mut start) = (VecDeque::new(), 0);
    for (chunk, events) in indexed {
        chunks.push_back(chunk);
        for mut event in events {
            if is_indexed.load(Ordering::Relaxed) {
                return begun;
            }
            while let Some(chunk) = chunks.front().filter(|_| !event.is_empty()) {
                let end = start + chunk.len();
                if event.start < end {
                    begun.hash.update(&chunk[event.start - start..event.end.min(end) - start]);
                    event.start = event.end.min(end);
                } else {
                    chunks.pop_front();
                    start = end;
                }
            }
            begun.hash.update(b"\n");
            begun.events += 1;
        }
    }
    begun
}

/// Estimates the tokens of a transcript. If it is large and `begun` exists, its digest is computed, too.
pub(super) fn measure(
    stream: &Stream,
    estimator: Estimator,
    begun: Option<BegunDigest>,
) -> (Estimate, InputDigest) {
    if stream.bytes().len() < LARGE_BYTES {
        return (Estimate::new(stream, estimator), InputDigest::default());
    }
    let digest = begun.map(|begun| InputDigest::start(stream, begun)).unwrap_or_default();
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    (estimate_in_threads(stream, estimator, threads), digest)
}

fn estimate_in_threads(stream: &Stream, estimator: Estimator, threads: usize) -> Estimate {
    let elements = stream.events().len();
    let start_of = |part: usize| elements * part / threads;
    thread::scope(|scope| {
        let spawn = |part: usize| {
            let part = start_of(part)..start_of(part + 1);
            scope.spawn(move || Estimate::of_elements(stream, part, estimator))
        };
        let others: Vec<_> = (1..threads).map(spawn).collect();
        let mut estimate = Estimate::of_elements(stream, 0..start_of(1), estimator);
        others.into_iter().for_each(|part| estimate.append(&result_of(part.join())));
        estimate
    })
}

/// The digest of the raw input. It is usually needed only for an append, after the strategies. So a thread computes it
/// in the meantime if the transcript is large.
#[derive(Debug, Default)]
pub(super) struct InputDigest {
    known: Option<String>,
    thread: Option<DigestThread>,
}

#[derive(Debug)]
struct DigestThread {
    result: JoinHandle<String>,
    /// Ends the thread early, if the digest is not needed.
    is_unneeded: Arc<AtomicBool>,
}

impl InputDigest {
    /// Continues a digest.
    fn start(stream: &Stream, begun: BegunDigest) -> Self {
        let bytes = stream.bytes().clone();
        let mut events = numbered_ranges(stream.events());
        events.drain(..begun.events.min(events.len()));
        // Some formats have events whose bytes are not in the file. Their digest is computed when it is needed.
        if events.iter().any(|event| event.end > bytes.len()) {
            return Self::default();
        }
        let is_unneeded = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_unneeded);
        let digest_events = move || {
            let events = events.into_iter().take_while(|_| !ends.load(Ordering::Relaxed));
            digest::of_more_events(begun.hash, events.map(|event| &bytes[event]))
        };
        // Without a thread, the digest is computed when it is needed.
        let thread = thread::Builder::new().spawn(digest_events).ok();
        Self { known: None, thread: thread.map(|result| DigestThread { result, is_unneeded }) }
    }

    /// Returns a digest that is already known.
    pub(super) fn from_known(known: String) -> Self {
        Self { known: Some(known), thread: None }
    }

    /// Returns the digest. `stream` is the transcript.
    pub(super) fn get(&mut self, stream: &Stream) -> &str {
        let thread = self.thread.take();
        self.known.get_or_insert_with(|| match thread {
            Some(thread) => result_of(thread.result.join()),
            None => digest::of_raw_input(stream),
        })
    }

    /// Returns the digest if it was needed before.
    pub(super) fn known(&self) -> Option<&str> {
        self.known.as_deref()
    }
}

impl Drop for InputDigest {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.is_unneeded.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the result of a thread. If it panicked, this thread panics too.
fn result_of<T>(joined: thread::Result<T>) -> T {
    joined.unwrap_or_else(|panic| resume_unwind(panic))
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
        let mut events: Vec<_> = (0..events).map(event).collect();
        let delta = r#"{"timestamp":"2026-01-01 00:00:00.0","type":"config_delta"}"#;
        events.insert(events.len() / 2, delta.to_owned());
        let stream = Stream::parse(Bytes::from(format!("[{}]", events.join(",")))).unwrap();
        let estimate = estimate_in_threads(&stream, Estimator::Pieces, threads);
        let weights = |estimate: &Estimate| -> Vec<u64> {
            (0..stream.events().len()).map(|element| estimate.weight(element)).collect()
        };
        assert_eq!(weights(&estimate), weights(&Estimate::new(&stream, Estimator::Pieces)));
        for chunk_bytes in [1 << 20, 1000, 7] {
            check_digest(&stream, chunk_bytes);
        }
    }

    #[track_caller]
    fn check_digest(stream: &Stream, chunk_bytes: usize) {
        let bytes = stream.bytes().clone();
        let mut indexer = ChunkIndexer::default();
        let begun = index_and_begin_digest(&mut bytes.chunks(chunk_bytes), &mut indexer);
        let indexed = Stream::from_index(indexer.into_indexer().finish(bytes.clone()).unwrap()).unwrap();
        check_rest_of_digest(&indexed, begun);
        let ranges = numbered_ranges(indexed.events());
        for events in [0, 1.min(ranges.len()), ranges.len() / 2, ranges.len()] {
            let (sender, indexed_events) = mpsc::channel();
            sender.send((&bytes[..], ranges[..events].to_vec())).unwrap();
            drop(sender);
            let begun = begin_digest(indexed_events, &AtomicBool::new(false));
            assert_eq!(begun.events, events);
            check_rest_of_digest(&indexed, begun);
        }
    }

    #[track_caller]
    fn check_rest_of_digest(stream: &Stream, begun: BegunDigest) {
        let mut digest = InputDigest::start(stream, begun);
        assert!(digest.known().is_none() && digest.thread.is_some());
        assert_eq!(digest.get(stream), digest::of_raw_input(stream));
        assert_eq!(digest.known(), Some(&*digest::of_raw_input(stream)));
    }

    #[test]
    fn begun_digest_has_all_events_that_were_indexed_in_time() {
        let text = br#"[1,22,{"type": "x"} ,"three"]"#;
        let (sender, indexed) = mpsc::channel();
        sender.send((&text[..9], [1..2, 3..5].into())).unwrap();
        sender.send((&text[9..12], Vec::new())).unwrap();
        sender.send((&text[12..], [6..19, 21..28].into())).unwrap();
        drop(sender);
        let begun = begin_digest(indexed, &AtomicBool::new(false));
        assert_eq!(begun.events, 4);
        let expected = Sha256::digest("1\n22\n{\"type\": \"x\"}\n\"three\"\n");
        assert_eq!(begun.hash.finalize(), expected);
    }

    #[test]
    fn threads_do_not_change_the_result() {
        check(101, 4);
        check(101, 2);
        check(3, 4);
        check(0, 4);
    }
}
