//! The protocol of a worker, over any reader and writer: when a request may be sent, which request a line
//! belongs to, and which deadline applies (PROTOCOL.md, "worker"). It must not know processes.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::bounded::Logs;
use jp_compact_core::reply::{self, CompleteReply, ReplyLine, ReplyViolation};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::job::{Job, Queue};
use crate::process::ProcessError;

/// The maximum number of unanswered requests for a worker with the feature `pipeline`.
const AHEAD_REQUESTS_MAX: usize = 64;
/// The same limit in bytes. The first limit that is reached applies.
const AHEAD_BYTES_MAX: usize = 1 << 20;
/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;
/// Small requests are combined into writes of about this size.
const WRITE_BYTES: usize = 64 << 10;

/// The limits of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Whether a request may be sent before the previous request was answered.
    pub(super) pipeline: bool,
    /// A new process takes over after this many requests.
    pub(super) requests_max: usize,
    /// The maximum size of one reply.
    pub(super) reply_bytes_max: usize,
}

impl Limits {
    /// Returns the limits of the protocol.
    pub(super) fn new(pipeline: bool) -> Self {
        let reply_bytes_max = usize::try_from(RESULT_BYTES_MAX).unwrap_or(usize::MAX);
        Self { pipeline, requests_max: 1_000, reply_bytes_max }
    }
}

/// The reason why the connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The work is done, or the process takes no more requests: it has served its maximum, or closed its stdin.
    Finished,
    /// The output of the process has ended.
    Died,
    /// The process has violated the protocol. The affected requests have already failed.
    Violated,
    /// The first unanswered request has exceeded its deadline.
    Deadline,
    /// The process has answered a request but does not read the rest of the request.
    Stuck,
}

/// A request that was sent, or is being sent.
struct InFlight {
    job: Job,
    /// The number of bytes that are not written yet.
    unwritten_bytes: usize,
    lines: usize,
    logs: Logs,
}

/// The connection to one process.
///
/// Invariant: `flights` is in the order of the expected answers. `outbox` begins with `orphan_bytes` bytes of answered
/// requests. The unwritten bytes of all flights follow in order.
pub(super) struct WorkerConnection<'a> {
    queue: &'a Queue,
    limits: Limits,
    /// Called for progress and logs, with the id of the request.
    on_line: &'a (dyn Fn(&str, &ReplyLine) + Send + Sync),
    /// Requests that are sent first, one at a time: those that another process left unanswered, or the one for which
    /// this process was started.
    leftover: VecDeque<Job>,
    retrying: bool,
    flights: VecDeque<InFlight>,
    outbox: VecDeque<Bytes>,
    orphan_bytes: usize,
    /// An answer that is not delivered yet. Another line for its request from the same read would invalidate it.
    undelivered: Option<(Job, CompleteReply)>,
    /// The start and length of the current deadline.
    deadline_start: Instant,
    deadline_length: Duration,
    taken_requests: usize,
    input: Vec<u8>,
    /// The number of input bytes that are known to contain no newline.
    scanned_bytes: usize,
    reply_bytes: usize,
    has_output: bool,
}

impl<'a> WorkerConnection<'a> {
    pub(super) fn new(
        queue: &'a Queue,
        limits: Limits,
        leftover: VecDeque<Job>,
        retrying: bool,
        on_line: &'a (dyn Fn(&str, &ReplyLine) + Send + Sync),
    ) -> Self {
        Self {
            queue,
            limits,
            on_line,
            leftover,
            retrying,
            flights: VecDeque::new(),
            outbox: VecDeque::new(),
            orphan_bytes: 0,
            undelivered: None,
            deadline_start: Instant::now(),
            deadline_length: Duration::MAX,
            taken_requests: 0,
            input: Vec::new(),
            scanned_bytes: 0,
            reply_bytes: 0,
            has_output: false,
        }
    }

    /// Returns whether a request waits for its answer.
    pub(super) fn has_unanswered(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Returns whether the process has written anything.
    pub(super) fn has_output(&self) -> bool {
        self.has_output
    }

    /// Returns the unanswered requests in order.
    pub(super) fn unanswered(self) -> VecDeque<Job> {
        let mut jobs: VecDeque<_> = self.flights.into_iter().map(|flight| flight.job).collect();
        jobs.extend(self.leftover);
        jobs
    }

    /// Sends requests and reads answers until the process cannot be used any longer.
    pub(super) async fn serve(
        &mut self,
        stdin: impl AsyncWrite + Unpin,
        mut stdout: impl AsyncRead + Unpin,
    ) -> ExitReason {
        let (queue, mut stdin, mut idle) = (self.queue, Some(stdin), None);
        loop {
            // The future is created before the queue is checked, so no notification is missed.
            let change = queue.change();
            if stdin.is_some() {
                self.take_jobs();
            }
            let has_work = self.has_unanswered() || !self.outbox.is_empty();
            if !has_work && (stdin.is_none() || self.has_taken_all() || queue.is_finished()) {
                return ExitReason::Finished;
            }
            idle = if has_work { None } else { idle.or_else(|| Some(queue.idle())) };
            self.combine_chunks();
            let deadline =
                if has_work { self.deadline_start.checked_add(self.deadline_length) } else { None };
            let chunk = self.outbox.front().cloned();
            self.input.reserve(READ_BYTES);
            // Reads available output first, because it may have arrived in time.
            tokio::select! {
                biased;
                read = stdout.read_buf(&mut self.input) => {
                    let ended = !read.is_ok_and(|bytes| bytes > 0);
                    self.has_output |= !self.input.is_empty();
                    if let Some(reason) = self.handle_output(ended) {
                        return reason;
                    }
                    if ended {
                        return ExitReason::Died;
                    }
                }
                written = write(&mut stdin, chunk.as_ref()), if chunk.is_some() => match written {
                    Ok(bytes) if bytes > 0 => self.record_written(bytes),
                    // This is not an error: the worker may still answer requests that it has read. It cannot receive
                    // more.
                    _ => {
                        stdin = None;
                        self.outbox.clear();
                        self.orphan_bytes = 0;
                    }
                },
                () = unconstrained(until(deadline)), if deadline.is_some() => {
                    return if self.has_unanswered() { ExitReason::Deadline } else { ExitReason::Stuck };
                }
                () = change => {}
            }
            // Unread requests go to another process.
            if stdin.is_none()
                && self.flights.front().is_some_and(|flight| flight.unwritten_bytes > 0)
                && self.taken_requests > self.flights.len()
            {
                return ExitReason::Finished;
            }
        }
    }

    /// Returns whether the process has taken its maximum number of requests.
    fn has_taken_all(&self) -> bool {
        self.taken_requests >= self.limits.requests_max
    }

    /// Takes the requests that may be sent now.
    fn take_jobs(&mut self) {
        while !self.has_taken_all() {
            let is_free = self.flights.is_empty() && self.outbox.is_empty();
            self.retrying &= !(is_free && self.leftover.is_empty());
            let job = if is_free {
                self.leftover.pop_front().or_else(|| self.queue.take(usize::MAX))
            } else if self.limits.pipeline && !self.retrying && self.flights.len() < AHEAD_REQUESTS_MAX {
                let ahead_bytes: usize = self.flights.iter().map(|flight| flight.job.bytes()).sum();
                self.queue.take_ahead(AHEAD_BYTES_MAX.saturating_sub(ahead_bytes))
            } else {
                None
            };
            let Some(job) = job else { return };
            if self.flights.is_empty() {
                (self.deadline_start, self.deadline_length) = (Instant::now(), job.deadline);
            }
            self.taken_requests += 1;
            self.outbox.extend(job.request.iter().filter(|chunk| !chunk.is_empty()).cloned());
            let unwritten_bytes = job.bytes();
            self.flights.push_back(InFlight { job, unwritten_bytes, lines: 0, logs: Logs::default() });
        }
    }

    /// Combines many small chunks into one write.
    fn combine_chunks(&mut self) {
        if self.outbox.len() < 2 || self.outbox[0].len() >= WRITE_BYTES / 2 {
            return;
        }
        let (mut bytes, mut count) = (0, 0);
        for chunk in &self.outbox {
            if count > 0 && bytes + chunk.len() > WRITE_BYTES {
                break;
            }
            (bytes, count) = (bytes + chunk.len(), count + 1);
        }
        let mut combined = Vec::with_capacity(bytes);
        self.outbox.drain(..count).for_each(|chunk| combined.extend_from_slice(&chunk));
        self.outbox.push_front(combined.into());
    }

    /// Removes written bytes from the outbox and counts them for their requests.
    fn record_written(&mut self, bytes: usize) {
        if let Some(chunk) = self.outbox.front_mut() {
            let _ = chunk.split_to(bytes);
        }
        let _ = self.outbox.pop_front_if(|chunk| chunk.is_empty());
        let orphan_part = bytes.min(self.orphan_bytes);
        self.orphan_bytes -= orphan_part;
        let mut remaining = bytes - orphan_part;
        for (index, flight) in self.flights.iter_mut().enumerate() {
            let part = remaining.min(flight.unwritten_bytes);
            (remaining, flight.unwritten_bytes) = (remaining - part, flight.unwritten_bytes - part);
            if index == 0 && part > 0 && flight.unwritten_bytes == 0 {
                self.deadline_start = Instant::now();
            }
            if remaining == 0 {
                return;
            }
        }
    }

    /// Handles every complete line. At the end of the output, it also handles an incomplete last line.
    fn handle_output(&mut self, ended: bool) -> Option<ExitReason> {
        let mut input = std::mem::take(&mut self.input);
        let mut start = 0;
        while let Some(offset) = memchr::memchr(b'\n', &input[self.scanned_bytes..]) {
            let end = self.scanned_bytes + offset;
            if let Err(reason) = self.handle_line(&input[start..end]) {
                return Some(reason);
            }
            (start, self.scanned_bytes) = (end + 1, end + 1);
        }
        if ended && start < input.len() {
            if let Err(reason) = self.handle_line(&input[start..]) {
                return Some(reason);
            }
            start = input.len();
        }
        let rest = &input[start..];
        if self.reply_bytes + rest.len() > self.limits.reply_bytes_max {
            self.deliver();
            let bytes_max = self.limits.reply_bytes_max;
            return Some(self.fail_current(Error::Process(ProcessError::OutputTooLarge { bytes_max })));
        }
        // No request is waiting for this answer.
        if self.flights.is_empty() && !rest.trim_ascii().is_empty() {
            return Some(self.handle_unexpected(&String::from_utf8_lossy(rest)));
        }
        self.deliver();
        input.drain(..start);
        (self.scanned_bytes, self.input) = (input.len(), input);
        None
    }

    /// Handles one line of output.
    fn handle_line(&mut self, line: &[u8]) -> Result<(), ExitReason> {
        let bytes_before = self.reply_bytes;
        self.reply_bytes += line.len() + 1;
        if self.reply_bytes > self.limits.reply_bytes_max {
            self.deliver();
            let bytes_max = self.limits.reply_bytes_max;
            return Err(self.fail_current(Error::Process(ProcessError::OutputTooLarge { bytes_max })));
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                self.deliver();
                let at = bytes_before + error.valid_up_to();
                return Err(self.fail_current(Error::Violation(ReplyViolation::NotUtf8 { at })));
            }
        };
        if reply::is_blank(text) {
            return Ok(());
        }
        let Some(front) = self.flights.front_mut() else { return Err(self.handle_unexpected(text)) };
        front.lines += 1;
        let parsed = reply::line(text, front.lines, &front.job.id);
        if let (Err(ReplyViolation::WrongId { found, .. }), Some((job, _))) = (&parsed, &self.undelivered)
            && *found == job.id
        {
            return Err(self.handle_unexpected(text));
        }
        self.deliver();
        let Some(front) = self.flights.front_mut() else { return Ok(()) };
        match parsed {
            Err(violation) => return Err(self.fail_current(Error::Violation(violation))),
            Ok(line @ ReplyLine::Progress(_)) => (self.on_line)(&front.job.id, &line),
            Ok(ReplyLine::Log(log)) => {
                if let Some(log) = front.logs.push(log) {
                    (self.on_line)(&front.job.id, &ReplyLine::Log(log.clone()));
                }
            }
            Ok(ReplyLine::Nothing) => {}
            Ok(ReplyLine::Terminal(terminal)) => {
                if let Some(InFlight { job, unwritten_bytes, logs, .. }) = self.flights.pop_front() {
                    self.orphan_bytes += unwritten_bytes;
                    (self.deadline_start, self.deadline_length) = (Instant::now(), job.deadline);
                    if let Some(next) = self.flights.front() {
                        self.deadline_length = next.job.deadline;
                    }
                    self.reply_bytes = 0;
                    self.undelivered = Some((job, CompleteReply { terminal, logs: logs.into_lines() }));
                }
            }
        }
        Ok(())
    }

    /// Sends the answer that was not delivered yet.
    fn deliver(&mut self) {
        if let Some((job, answer)) = self.undelivered.take() {
            job.answer(answer);
        }
    }

    /// Fails the request that is being answered.
    fn fail_current(&mut self, failure: Error) -> ExitReason {
        if let Some(flight) = self.flights.pop_front() {
            flight.job.fail(failure);
        }
        ExitReason::Violated
    }

    /// Handles a line after the last answer: ends the connection. If both came in the same read, the line also
    /// invalidates the answer.
    fn handle_unexpected(&mut self, text: &str) -> ExitReason {
        match self.undelivered.take() {
            Some((job, _)) => job.fail(Error::Violation(reply::after_terminal(text))),
            None => tracing::debug!("a worker sent unexpected output"),
        }
        ExitReason::Violated
    }
}

async fn write(stdin: &mut Option<impl AsyncWrite + Unpin>, chunk: Option<&Bytes>) -> io::Result<usize> {
    match (stdin, chunk) {
        (Some(stdin), Some(chunk)) => stdin.write(chunk).await,
        _ => Ok(0),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
