//! The checks of a strategy as a worker, with a real connection to one process. A request is sent only after
//! the previous answer, unless the strategy supports `pipeline`.

use std::time::Duration;

use jp_compact_core::reply::{self, Terminal};
use jp_compact_schema::{Input, Reply};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::ask::Request;
use super::conversation::Surveys;
use super::exchange::{Case, Failed, Rounds, failed, process_failed, violated, without_id};
use super::{Bench, Findings, single};
use jp_compact_runtime::process::{GRACE, ProcessError, Worker};

/// The time that a worker gets to exit after stdin was closed.
const EXIT: Duration = Duration::from_secs(5);
/// The time limit for an answer that a single process gave quickly. A later answer was not flushed.
const ANSWER: Duration = Duration::from_secs(10);
/// The limits of the host for requests that are sent ahead.
const AHEAD: usize = 64;
const BYTES_AHEAD: usize = 1 << 20;

/// Runs the checks. `everyday` contains the answers of single processes, if they can be compared.
pub(super) async fn check(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    everyday: Option<&[Value]>,
    findings: &mut Findings,
) {
    if !bench.description.has_feature("worker") {
        findings.skip_from(&["W"], "it is not a worker");
        return;
    }
    if let Err(failed) = as_single_runs(bench, surveys, everyday).await {
        findings.fail(failed);
        findings.skip_from(&["W"], "the worker already failed");
        return;
    }
    let plain = everyday.and_then(<[Value]>::first);
    if !bench.description.has_feature("pipeline") {
        findings.skip(&["W04"], "it does not support `pipeline`");
    } else if let Err(error) = at_once(bench, surveys, plain).await {
        findings.fail(failed("W04", error.why));
    }
    let same = |id| bench.request(&surveys.plain, id, None);
    if bench.description.input == Input::Full {
        let long = [bench.request(&surveys.long, "w5-1", None), same("w5-2")];
        findings.extend("W05", in_turn(bench, long, plain).await);
    } else {
        findings.skip(&["W05"], "its requests have a single line");
    }
    if single::takes_files(bench) {
        let file = same("w6-1").and_then(|request| request.with_file(bench.spool).ok());
        findings.extend("W06", in_turn(bench, [file, same("w6-2")], plain).await);
    } else {
        findings.skip(&["W06"], "it does not accept a file");
    }
    let odd = [
        same("w7-1").map(Request::with_unknown_keys),
        same("w7-2").map(Request::with_unknown_messages),
        same("w7-3").map(Request::with_blank_lines),
        bench.request(&surveys.unknown, "w7-4", None),
        same("w7-5"),
    ];
    findings.extend("W07", in_turn(bench, odd, plain).await);
}

/// A worker and the ends of its pipes.
struct TestConnection {
    worker: Worker,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl TestConnection {
    fn start(bench: &Bench<'_>) -> Result<Self, Failed> {
        let subject = bench.subject;
        let words = subject.words("worker");
        let mut launch = bench.place.launch(&subject.program, &words, Vec::new());
        launch.deadline = Duration::MAX;
        let (worker, stdin, stdout) = Worker::spawn(&launch).map_err(|error| failed("S01", error))?;
        Ok(Self { worker, stdin, stdout: BufReader::new(stdout).lines() })
    }

    /// Writes and reads at the same time, because a worker may answer before it has read everything.
    async fn put(&mut self, requests: &[u8], ids: &[String]) -> Result<Vec<Terminal>, Failed> {
        let Self { worker, stdin, stdout } = self;
        let send = async {
            // A worker may close stdin when it has read enough. A missing answer is detected below.
            let _ = stdin.write_all(requests).await;
            let _ = stdin.flush().await;
        };
        let hear = async {
            let mut answers = Vec::new();
            for id in ids {
                answers.push(read_answer(stdout, id).await?);
            }
            Ok(answers)
        };
        let both = async { tokio::join!(send, hear).1 };
        tokio::select! {
            answers = both => answers,
            // Drains stderr. The output of a process that has exited ends too, which is reported above.
            () = async { worker.exited().await; std::future::pending().await } => Err(failed("W01", "it exited")),
        }
    }

    /// Sends all requests through all rounds, one round at a time. The answers must be in order.
    async fn ask(&mut self, requests: Vec<Request<'_>>) -> Result<Vec<Terminal>, Failed> {
        let mut done: Vec<Option<Terminal>> = requests.iter().map(|_| None).collect();
        let mut open: Vec<_> =
            requests.into_iter().map(|request| (request, Rounds::default())).enumerate().collect();
        while !open.is_empty() {
            let ids: Vec<_> = open.iter().map(|(_, (request, _))| request.id.clone()).collect();
            let bytes: Vec<_> = open.iter().map(|(_, (request, _))| request.bytes()).collect();
            let answers = self.put(&bytes.concat(), &ids).await?;
            for ((place, (request, rounds)), answer) in open.iter_mut().zip(answers) {
                let next = rounds.next(request, answer, Case::Plain);
                done[*place] = next.map_err(|error| failed("W01", error.why))?;
            }
            open.retain(|(place, _)| done[*place].is_none());
        }
        Ok(done.into_iter().flatten().collect())
    }

    async fn end(self) -> Result<(), Failed> {
        let Self { worker, stdin, mut stdout } = self;
        drop(stdin);
        // Any further output is an error.
        let more = timeout(EXIT, stdout.next_line()).await;
        let ended = worker.end(EXIT, GRACE).await.map_err(|error| failed("W03", error))?;
        if let Some(exceeded) = ended.exceeded {
            return Err(process_failed(&ProcessError::PrivateDirTooLarge(exceeded)));
        }
        match more {
            Ok(Ok(Some(line))) if !line.trim().is_empty() => Err(failed(
                "W03",
                format!("it wrote more after its last answer: {}", super::truncated(&line.into())),
            )),
            _ if ended.status.success() => Ok(()),
            _ => Err(failed("W03", format!("it ended with {}", ended.status))),
        }
    }
}

/// Reads the line that ends the reply to `id`.
async fn read_answer(stdout: &mut Lines<BufReader<ChildStdout>>, id: &str) -> Result<Terminal, Failed> {
    loop {
        let line = match timeout(ANSWER, stdout.next_line()).await {
            Err(_) => return Err(failed("W02", format!("it did not answer `{id}` while stdin was open"))),
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => {
                return Err(failed("W01", format!("its output ended before it answered `{id}`")));
            }
            Ok(Err(error)) => return Err(failed("W01", error)),
        };
        let is_terminal = Reply::parse(&line).map_or(true, |reply| reply.is_terminal());
        if is_terminal && !line.trim().is_empty() {
            let read = reply::read(line.as_bytes(), id);
            let answer = read.map_err(|error| failed("W01", violated(&error, line.as_bytes()).why))?;
            return Ok(answer.terminal);
        }
    }
}

/// Sends the ordinary requests and compares the answers with those of single processes.
async fn as_single_runs(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    everyday: Option<&[Value]>,
) -> Result<(), Failed> {
    let mut talk = TestConnection::start(bench)?;
    for (place, (name, request)) in single::everyday(bench, surveys, "w").into_iter().enumerate() {
        let answers = talk.ask(vec![request]).await;
        let answers = answers.map_err(|error| Failed { why: format!("{name}: {}", error.why), ..error })?;
        compare(&answers, everyday.and_then(|answers| answers.get(place)))?;
    }
    talk.end().await
}

/// Sends requests one after another. The last one is the plain request.
async fn in_turn<const N: usize>(
    bench: &Bench<'_>,
    requests: [Option<Request<'_>>; N],
    plain: Option<&Value>,
) -> Result<(), Failed> {
    let mut talk = TestConnection::start(bench)?;
    let mut last = Vec::new();
    for request in requests.into_iter().flatten() {
        last = talk.ask(vec![request]).await?;
    }
    compare(&last, plain)?;
    talk.end().await
}

async fn at_once(bench: &Bench<'_>, surveys: &Surveys<'_>, plain: Option<&Value>) -> Result<(), Failed> {
    let mut bytes = 0;
    let requests = (0..AHEAD).filter_map(|number| bench.request(&surveys.plain, &format!("p{number}"), None));
    let requests = requests.take_while(|request| {
        bytes += request.bytes().len();
        bytes <= BYTES_AHEAD
    });
    let mut talk = TestConnection::start(bench)?;
    compare(&talk.ask(requests.collect()).await?, plain)?;
    talk.end().await
}

/// A worker must give the same answer as a single run.
fn compare(answers: &[Terminal], same: Option<&Value>) -> Result<(), Failed> {
    let mut answers = answers.iter().cloned().map(without_id);
    match answers.find(|answer| same.is_some_and(|same| answer != same)) {
        Some(other) => Err(failed("W01", format!("it answered {}", super::truncated(&other)))),
        None => Ok(()),
    }
}
