//! The checks of a strategy as a worker, with a real connection to one process. A request is sent only after
//! the previous answer, unless the strategy supports `pipeline`.

use std::io;
use std::pin::pin;
use std::time::Duration;

use jp_compact_core::reply::{self, Terminal};
use jp_compact_schema::{Input, Reply};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, timeout, timeout_at};

use super::ask::Request;
use super::conversation::Surveys;
use super::exchange::{Case, CheckFailure, Rounds, failure, process_failure, violation_failure, without_id};
use super::{CheckContext, Findings, single};
use jp_compact_runtime::process::{GRACE, ProcessError, Worker};

/// The time that a worker gets to exit after stdin was closed.
const EXIT_TIME_MAX: Duration = Duration::from_secs(5);
/// The time limit for an answer. A single process already answered the same request, so a missing answer was
/// probably not flushed.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The limits of the host for requests that are sent ahead.
const AHEAD_REQUESTS_MAX: usize = 64;
const AHEAD_BYTES_MAX: usize = 1 << 20;

/// Runs the checks. `ordinary` contains the answers of single processes, if they can be compared.
pub(super) async fn check(
    context: &CheckContext<'_>,
    surveys: &Surveys,
    ordinary: Option<&[Value]>,
    findings: &mut Findings,
) {
    if !context.description.has_feature("worker") {
        findings.skip_prefixes(&["W"], "it is not a worker");
        return;
    }
    if let Err(failure) = compare_with_single_runs(context, surveys, ordinary).await {
        findings.fail(failure);
        findings.skip_prefixes(&["W"], "the worker already failed");
        return;
    }
    let plain_answer = ordinary.and_then(<[Value]>::first);
    if !context.description.has_feature("pipeline") {
        findings.skip(&["W04"], "it does not support `pipeline`");
    } else if let Err(error) = check_pipeline(context, surveys, plain_answer).await {
        findings.fail(failure("W04", error.why));
    }
    let plain_request = |id| context.request(&surveys.plain, id, None);
    if context.description.input == Input::Full {
        let requests = [context.request(&surveys.long, "w5-1", None), plain_request("w5-2")];
        findings.add("W05", check_in_order(context, requests, plain_answer).await);
    } else {
        findings.skip(&["W05"], "its requests have a single line");
    }
    if single::accepts_files(context) {
        let file = plain_request("w6-1").and_then(|request| request.with_file(context.spool).ok());
        findings.add("W06", check_in_order(context, [file, plain_request("w6-2")], plain_answer).await);
    } else {
        findings.skip(&["W06"], "it does not accept a file");
    }
    let unusual = [
        plain_request("w7-1").map(Request::with_unknown_keys),
        plain_request("w7-2").map(Request::with_unknown_messages),
        plain_request("w7-3").map(Request::with_blank_lines),
        context.request(&surveys.unknown, "w7-4", None),
        plain_request("w7-5"),
    ];
    findings.add("W07", check_in_order(context, unusual, plain_answer).await);
}

/// A worker and the ends of its pipes.
struct TestConnection {
    worker: Worker,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl TestConnection {
    fn start(context: &CheckContext<'_>) -> Result<Self, CheckFailure> {
        let plugin = context.plugin;
        let arguments = plugin.arguments("worker");
        let mut launch = context.setup.launch(&plugin.program, &arguments, Vec::new());
        launch.deadline = Duration::MAX;
        let (worker, stdin, stdout) = Worker::spawn(&launch).map_err(|error| failure("S01", error))?;
        Ok(Self { worker, stdin, stdout: BufReader::new(stdout).lines() })
    }

    /// Writes and reads at the same time, because a worker may answer before it has read everything. A worker that does
    /// not read fails after [`ANSWER_TIME_MAX`], without an answer or after the last one.
    async fn exchange(&mut self, requests: &[u8], ids: &[String]) -> Result<Vec<Terminal>, CheckFailure> {
        let Self { worker, stdin, stdout } = self;
        let send = async {
            // A worker may close stdin when it has read enough. A missing answer is detected below.
            let _ = stdin.write_all(requests).await;
            let _ = stdin.flush().await;
        };
        let receive = async {
            let mut answers = Vec::new();
            for id in ids {
                answers.push(read_answer(stdout, id).await?);
            }
            Ok(answers)
        };
        let send_and_receive = async {
            let (mut send, mut receive) = (pin!(send), pin!(receive));
            let answers = tokio::select! {
                answers = &mut receive => answers?,
                () = &mut send => return receive.await,
            };
            let is_sent = timeout(ANSWER_TIME_MAX, send).await.is_ok();
            if is_sent {
                Ok(answers)
            } else {
                Err(failure("W05", "it did not read its last request to the end"))
            }
        };
        tokio::select! {
            answers = send_and_receive => answers,
            // Drains stderr. If the process exits, its stdout ends, and `receive` reports that.
            () = async { worker.exited().await; std::future::pending().await } => Err(failure("W01", "it exited")),
        }
    }

    /// Sends all requests through all rounds, one round at a time. The answers must be in order.
    async fn ask(&mut self, requests: Vec<Request<'_>>) -> Result<Vec<Terminal>, CheckFailure> {
        let mut finished: Vec<Option<Terminal>> = requests.iter().map(|_| None).collect();
        let mut pending: Vec<_> =
            requests.into_iter().map(|request| (request, Rounds::default())).enumerate().collect();
        while !pending.is_empty() {
            let ids: Vec<_> = pending.iter().map(|(_, (request, _))| request.id.clone()).collect();
            let bytes: Vec<_> = pending.iter().map(|(_, (request, _))| request.bytes()).collect();
            let answers = self.exchange(&bytes.concat(), &ids).await?;
            for ((index, (request, rounds)), answer) in pending.iter_mut().zip(answers) {
                let next = rounds.next(request, answer, Case::Plain);
                finished[*index] = next.map_err(|error| failure("W01", error.why))?;
            }
            pending.retain(|(index, _)| finished[*index].is_none());
        }
        Ok(finished.into_iter().flatten().collect())
    }

    /// Closes stdin and checks how the worker exits.
    async fn end(self) -> Result<(), CheckFailure> {
        let Self { mut worker, stdin, mut stdout } = self;
        drop(stdin);
        let exit_deadline = Instant::now() + EXIT_TIME_MAX;
        let extra_line = tokio::select! {
            line = timeout_at(exit_deadline, next_nonblank(&mut stdout)) => line.unwrap_or(Ok(None)),
            // Drains stderr. If the process exits, its stdout ends.
            () = async { worker.exited().await; std::future::pending().await } => Ok(None),
        };
        let has_exited = timeout_at(exit_deadline, worker.exited()).await.is_ok();
        let ended = worker.end(Duration::ZERO, GRACE).await.map_err(|error| failure("W03", error))?;
        if let Some(exceeded) = ended.exceeded {
            return Err(process_failure(&ProcessError::PrivateDirTooLarge(exceeded)));
        }
        if let Some(line) = extra_line.map_err(|error| failure("W03", error))? {
            let line = super::truncated(&line.into());
            return Err(failure("W03", format!("it wrote more after its last answer: {line}")));
        }
        if !has_exited {
            return Err(failure(
                "W03",
                format!("it did not exit within {EXIT_TIME_MAX:?} after stdin was closed"),
            ));
        }
        if ended.status.success() {
            Ok(())
        } else {
            Err(failure("W03", format!("it ended with {}", ended.status)))
        }
    }
}

/// Returns the next line that is not blank.
async fn next_nonblank(stdout: &mut Lines<BufReader<ChildStdout>>) -> io::Result<Option<String>> {
    loop {
        match stdout.next_line().await? {
            Some(line) if line.trim().is_empty() => {}
            line => return Ok(line),
        }
    }
}

/// Reads the line that ends the reply to `id`.
async fn read_answer(stdout: &mut Lines<BufReader<ChildStdout>>, id: &str) -> Result<Terminal, CheckFailure> {
    loop {
        let line = match timeout(ANSWER_TIME_MAX, stdout.next_line()).await {
            Err(_) => return Err(failure("W02", format!("it did not answer `{id}` while stdin was open"))),
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => {
                return Err(failure("W01", format!("its output ended before it answered `{id}`")));
            }
            Ok(Err(error)) => return Err(failure("W01", error)),
        };
        let is_terminal = Reply::parse(&line).map_or(true, |reply| reply.is_terminal());
        if is_terminal && !line.trim().is_empty() {
            let reply = reply::read(line.as_bytes(), id);
            let answer =
                reply.map_err(|error| failure("W01", violation_failure(&error, line.as_bytes()).why))?;
            return Ok(answer.terminal);
        }
    }
}

/// Sends the ordinary requests and compares the answers with the answers of single processes.
async fn compare_with_single_runs(
    context: &CheckContext<'_>,
    surveys: &Surveys,
    ordinary: Option<&[Value]>,
) -> Result<(), CheckFailure> {
    let mut connection = TestConnection::start(context)?;
    for (index, (name, request)) in single::ordinary_requests(context, surveys, "w").into_iter().enumerate() {
        let answers = connection.ask(vec![request]).await;
        let answers =
            answers.map_err(|error| CheckFailure { why: format!("{name}: {}", error.why), ..error })?;
        compare(&answers, ordinary.and_then(|answers| answers.get(index)))?;
    }
    connection.end().await
}

/// Sends requests one after another. The last request is the plain request.
async fn check_in_order<const N: usize>(
    context: &CheckContext<'_>,
    requests: [Option<Request<'_>>; N],
    plain_answer: Option<&Value>,
) -> Result<(), CheckFailure> {
    let mut connection = TestConnection::start(context)?;
    let mut last = Vec::new();
    for request in requests.into_iter().flatten() {
        last = connection.ask(vec![request]).await?;
    }
    compare(&last, plain_answer)?;
    connection.end().await
}

/// Sends as many requests at once as the host may send ahead.
async fn check_pipeline(
    context: &CheckContext<'_>,
    surveys: &Surveys,
    plain_answer: Option<&Value>,
) -> Result<(), CheckFailure> {
    let mut bytes = 0;
    let requests = (0..AHEAD_REQUESTS_MAX)
        .filter_map(|number| context.request(&surveys.plain, &format!("p{number}"), None));
    let requests = requests.take_while(|request| {
        bytes += request.bytes().len();
        bytes <= AHEAD_BYTES_MAX
    });
    let mut connection = TestConnection::start(context)?;
    compare(&connection.ask(requests.collect()).await?, plain_answer)?;
    connection.end().await
}

/// Checks that a worker gives the same answer as a single run.
fn compare(answers: &[Terminal], expected: Option<&Value>) -> Result<(), CheckFailure> {
    let mut answers = answers.iter().cloned().map(without_id);
    match answers.find(|answer| expected.is_some_and(|expected| answer != expected)) {
        Some(different) => Err(failure("W01", format!("it answered {}", super::truncated(&different)))),
        None => Ok(()),
    }
}
