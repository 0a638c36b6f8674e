//! Tests with in-memory pipes and a paused clock, which advances when all tasks wait.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::super::job::{OnStop, Reply};
use super::*;

const DEADLINE: Duration = Duration::from_secs(60);
/// Shorter than any deadline. On a paused clock, this timeout fires only if the task would wait forever.
const A_WHILE: Duration = Duration::from_secs(1);

/// The worker at the other ends of both pipes.
struct FakeWorker {
    reader: BufReader<DuplexStream>,
    writer: DuplexStream,
}

impl FakeWorker {
    async fn reads(&mut self, expect: &str) {
        let mut line = String::new();
        timeout(A_WHILE, self.reader.read_line(&mut line)).await.expect("nothing to read").unwrap();
        assert_eq!(line.trim_end(), expect);
    }

    async fn has_nothing_to_read(&mut self) {
        let mut byte = [0];
        assert!(timeout(A_WHILE, self.reader.read(&mut byte)).await.is_err());
    }

    async fn writes(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    async fn declines(&mut self, id: &str) {
        self.writes(&decline(id)).await;
    }
}

fn decline(id: &str) -> String {
    format!("{{\"type\":\"decline\",\"id\":\"{id}\",\"reason\":\"r\"}}\n")
}

/// Creates a request: a line with its id, and `more_bytes` more bytes.
fn job(id: &str, more_bytes: usize) -> (Job, oneshot::Receiver<Reply>) {
    let (reply_sender, answer) = oneshot::channel();
    let request = vec![Bytes::from(format!("{id}\n")), Bytes::from(vec![b'\n'; more_bytes])];
    (
        Job {
            id: id.to_owned(),
            request,
            deadline: DEADLINE,
            on_stop: OnStop::Refuse,
            failed_attempts: 0,
            reply_sender,
        },
        answer,
    )
}

/// Serves these jobs over a pipe of this size while `worker` acts as the worker. Returns the end reason and the
/// unanswered requests.
fn serve<F: AsyncFnOnce(FakeWorker)>(
    limits: Limits,
    jobs: Vec<Job>,
    leftover: Vec<Job>,
    pipe_bytes: usize,
    worker: F,
) -> (ExitReason, Vec<String>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let queue = Queue::default();
        jobs.into_iter().for_each(|job| queue.push(job));
        queue.close();
        let retrying = !leftover.is_empty();
        let ignore_line = |_: &str, _: &ReplyLine| {};
        let mut connection = WorkerConnection::new(&queue, limits, leftover.into(), retrying, &ignore_line);
        let ((stdin, reader), (stdout, writer)) = (duplex(pipe_bytes), duplex(pipe_bytes));
        let worker = worker(FakeWorker { reader: BufReader::new(reader), writer });
        let (end, ()) = tokio::join!(connection.serve(stdin, stdout), worker);
        (end, connection.unanswered().into_iter().map(|job| job.id).collect())
    })
}

#[track_caller]
fn check(
    limits: Limits,
    jobs: Vec<Job>,
    worker: impl AsyncFnOnce(FakeWorker),
    end: ExitReason,
    unanswered: &[&str],
) {
    assert_eq!(serve(limits, jobs, Vec::new(), 1 << 16, worker), (end, names(unanswered)));
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn is_declined(mut answer: oneshot::Receiver<Reply>) -> bool {
    answer.try_recv().is_ok_and(|reply| reply.is_ok())
}

fn error_of(mut answer: oneshot::Receiver<Reply>) -> String {
    answer.try_recv().unwrap().unwrap_err().to_string()
}

#[test]
fn without_pipeline_requests_wait_for_the_previous_answer() {
    let ((a, first), (b, second)) = (job("a", 0), job("b", 0));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.has_nothing_to_read().await;
        worker.declines("a").await;
        worker.reads("b").await;
        worker.declines("b").await;
    };
    check(Limits::new(false), vec![a, b], worker, ExitReason::Finished, &[]);
    assert!(is_declined(first) && is_declined(second));
}

#[test]
fn finishes_sending_a_request_that_was_answered_early() {
    let ((a, first), (b, _second)) = (job("a", 1000), job("b", 0));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.declines("a").await;
        // The pipe holds 64 bytes, and the reader has its own buffer.
        let mut rest_bytes = vec![0; 1000];
        worker.reader.read_exact(&mut rest_bytes).await.unwrap();
        assert!(rest_bytes.iter().all(|byte| *byte == b'\n'));
        worker.reads("b").await;
    };
    let (end, unanswered) = serve(Limits::new(false), vec![a, b], Vec::new(), 64, worker);
    assert_eq!((end, unanswered), (ExitReason::Died, names(&["b"])));
    assert!(is_declined(first));
}

#[test]
fn sends_at_most_64_requests_ahead() {
    let (jobs, answers): (Vec<_>, Vec<_>) = (0..70).map(|n| job(&format!("j{n}"), 0)).unzip();
    let worker = async |mut worker: FakeWorker| {
        for n in 0..64 {
            worker.reads(&format!("j{n}")).await;
        }
        worker.has_nothing_to_read().await;
        for n in 0..70 {
            worker.declines(&format!("j{n}")).await;
            if n < 6 {
                worker.reads(&format!("j{}", n + 64)).await;
            }
        }
    };
    check(Limits::new(true), jobs, worker, ExitReason::Finished, &[]);
    assert!(answers.into_iter().all(is_declined));
}

#[test]
fn sends_at_most_1_mib_ahead_but_at_least_one_request() {
    let sizes = [600_000, 400_000, 100_000, 3_000_000, 1];
    let (jobs, answers): (Vec<_>, Vec<_>) =
        sizes.iter().enumerate().map(|(n, bytes)| job(&format!("j{n}"), *bytes)).unzip();
    let worker = async |mut worker: FakeWorker| {
        let reads = async |worker: &mut FakeWorker, n: usize| {
            worker.reads(&format!("j{n}")).await;
            let mut rest_bytes = vec![0; sizes[n]];
            worker.reader.read_exact(&mut rest_bytes).await.unwrap();
        };
        reads(&mut worker, 0).await;
        reads(&mut worker, 1).await;
        worker.has_nothing_to_read().await;
        worker.declines("j0").await;
        reads(&mut worker, 2).await;
        worker.declines("j1").await;
        worker.has_nothing_to_read().await;
        worker.declines("j2").await;
        reads(&mut worker, 3).await;
        worker.has_nothing_to_read().await;
        worker.declines("j3").await;
        reads(&mut worker, 4).await;
        worker.declines("j4").await;
    };
    check(Limits::new(true), jobs, worker, ExitReason::Finished, &[]);
    assert!(answers.into_iter().all(is_declined));
}

#[test]
fn sends_leftover_requests_one_at_a_time() {
    let (jobs, answers): (Vec<_>, Vec<_>) = (0..4).map(|n| job(&format!("j{n}"), 0)).unzip();
    let mut jobs = jobs.into_iter();
    let leftover: Vec<_> = jobs.by_ref().take(2).collect();
    let worker = async |mut worker: FakeWorker| {
        for n in 0..2 {
            worker.reads(&format!("j{n}")).await;
            worker.has_nothing_to_read().await;
            worker.declines(&format!("j{n}")).await;
        }
        worker.reads("j2").await;
        worker.reads("j3").await;
        worker.declines("j2").await;
        worker.declines("j3").await;
    };
    assert_eq!(
        serve(Limits::new(true), jobs.collect(), leftover, 1 << 16, worker),
        (ExitReason::Finished, Vec::new())
    );
    assert!(answers.into_iter().all(is_declined));
}

#[test]
fn reads_while_writing() {
    // Neither pipe can hold all of its data, and the worker does one thing at a time.
    let ((a, first), (b, second)) = (job("a", 100_000), job("b", 100_000));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        let log = format!(
            "{{\"type\":\"log\",\"id\":\"a\",\"level\":\"info\",\"message\":\"{}\"}}\n",
            "x".repeat(9000)
        );
        worker.writes(&log).await;
        worker.declines("a").await;
        let mut rest_bytes = vec![0; 100_000];
        worker.reader.read_exact(&mut rest_bytes).await.unwrap();
        worker.reads("b").await;
        worker.declines("b").await;
        worker.reader.read_exact(&mut rest_bytes).await.unwrap();
    };
    assert_eq!(
        serve(Limits::new(true), vec![a, b], Vec::new(), 64, worker),
        (ExitReason::Finished, Vec::new())
    );
    assert!(is_declined(first) && is_declined(second));
}

#[test]
fn the_deadline_starts_at_the_last_byte_or_previous_answer() {
    let ((a, first), (b, second), (c, third)) = (job("a", 1000), job("b", 0), job("c", 0));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        sleep(DEADLINE - A_WHILE).await;
        let mut rest_bytes = vec![0; 1000];
        worker.reader.read_exact(&mut rest_bytes).await.unwrap();
        worker.reads("b").await;
        worker.reads("c").await;
        sleep(DEADLINE - A_WHILE).await;
        worker.declines("a").await;
        sleep(DEADLINE - A_WHILE).await;
        worker.declines("b").await;
        // Never answers the last request.
        let _ = worker.reader.read_u8().await;
    };
    let (end, unanswered) = serve(Limits::new(true), vec![a, b, c], Vec::new(), 64, worker);
    assert_eq!((end, unanswered), (ExitReason::Deadline, names(&["c"])));
    assert!(is_declined(first) && is_declined(second) && !is_declined(third));
}

#[test]
fn a_worker_that_never_reads_times_out_or_is_stuck() {
    let (a, _first) = job("a", 1000);
    let waits = async |worker: FakeWorker| {
        sleep(2 * DEADLINE).await;
        drop(worker);
    };
    assert_eq!(
        serve(Limits::new(false), vec![a], Vec::new(), 64, waits),
        (ExitReason::Deadline, names(&["a"]))
    );
    // After an early answer, no request fails: the first is answered, and the second was not taken.
    let ((a, first), (b, _second)) = (job("a", 1000), job("b", 0));
    let answers = async |mut worker: FakeWorker| {
        worker.declines("a").await;
        sleep(2 * DEADLINE).await;
        drop(worker);
    };
    assert_eq!(
        serve(Limits::new(false), vec![a, b], Vec::new(), 64, answers),
        (ExitReason::Stuck, Vec::new())
    );
    assert!(is_declined(first));
}

#[test]
fn stops_after_the_maximum_number_of_requests() {
    let limits = Limits { requests_max: 2, ..Limits::new(true) };
    let ((a, first), (b, second)) = (job("a", 0), job("b", 0));
    let (c, _third) = job("c", 0);
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.reads("b").await;
        worker.has_nothing_to_read().await;
        worker.declines("a").await;
        worker.declines("b").await;
        assert_eq!(worker.reader.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    };
    check(limits, vec![a, b, c], worker, ExitReason::Finished, &[]);
    assert!(is_declined(first) && is_declined(second));
}

#[test]
fn only_an_extra_line_in_the_same_read_invalidates_an_answer() {
    let ((a, first), (b, _second)) = (job("a", 0), job("b", 0));
    let in_one_read = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.reads("b").await;
        worker.writes(&(decline("a") + &decline("a"))).await;
    };
    check(Limits::new(true), vec![a, b], in_one_read, ExitReason::Violated, &["b"]);
    assert!(error_of(first).starts_with("it sent another line after its terminal reply"));

    let ((a, first), (b, second)) = (job("a", 0), job("b", 0));
    let in_two_reads = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.declines("a").await;
        worker.reads("b").await;
        worker.has_nothing_to_read().await;
        worker.declines("a").await;
    };
    check(Limits::new(true), vec![a, b], in_two_reads, ExitReason::Violated, &[]);
    assert!(is_declined(first));
    assert_eq!(error_of(second), "it replied to request `a`, but the request is `b`");
}

#[test]
fn reads_answers_of_a_worker_with_closed_stdin() {
    let ((a, first), (b, _second)) = (job("a", 1000), job("b", 0));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        let FakeWorker { reader, writer } = &mut worker;
        *reader = BufReader::new(duplex(1).0);
        writer.write_all(decline("a").as_bytes()).await.unwrap();
        // The output stays open, so the host ends the process.
        sleep(A_WHILE).await;
    };
    let (end, unanswered) = serve(Limits::new(true), vec![a, b], Vec::new(), 64, worker);
    assert_eq!((end, unanswered), (ExitReason::Finished, names(&["b"])));
    assert!(is_declined(first));
}

#[test]
fn returns_unanswered_requests_when_output_ends() {
    let ((a, first), (b, _second)) = (job("a", 0), job("b", 0));
    let worker = async |mut worker: FakeWorker| {
        worker.reads("a").await;
        worker.writes(decline("a").trim_end()).await;
    };
    check(Limits::new(true), vec![a, b], worker, ExitReason::Died, &["b"]);
    assert!(is_declined(first), "a last line without newline counts");
}

#[test]
fn limits_a_reply_with_and_without_newlines() {
    let limits = Limits { reply_bytes_max: 100, ..Limits::new(true) };
    for text in ["x".repeat(101), format!("{}\n", "\n".repeat(100)), " ".repeat(99) + "\n\n"] {
        let (a, first) = job("a", 0);
        let worker = async |mut worker: FakeWorker| {
            worker.reads("a").await;
            worker.writes(&text).await;
            let _ = worker.reader.read_u8().await;
        };
        check(limits, vec![a], worker, ExitReason::Violated, &[]);
        assert_eq!(error_of(first), "it wrote more than 100 bytes to stdout");
    }
    let ((a, first), (b, second)) = (job("a", 0), job("b", 0));
    let worker = async |mut worker: FakeWorker| {
        for id in ["a", "b"] {
            worker.reads(id).await;
            worker.writes(&format!("{}{}", "\n".repeat(100 - decline(id).len()), decline(id))).await;
        }
    };
    check(limits, vec![a, b], worker, ExitReason::Finished, &[]);
    assert!(is_declined(first) && is_declined(second));
}
