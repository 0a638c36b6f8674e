//! The checks of a strategy as a worker: a real talk with one process, which is sent a request only once it has
//! answered the one before, unless it says that it takes more.

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
use crate::process::{GRACE, ProcessError, Worker};

/// How long a worker has to exit when stdin closes.
const EXIT: Duration = Duration::from_secs(5);
/// How long an answer may take that a single process gave long ago; what does not come by then was not flushed.
const ANSWER: Duration = Duration::from_secs(10);
/// As much as a host sends ahead.
const AHEAD: usize = 64;
const BYTES_AHEAD: usize = 1 << 20;

/// Makes them. `everyday` are the answers of single processes, if they can be compared.
pub(super) async fn check(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    everyday: Option<&[Value]>,
    findings: &mut Findings,
) {
    if !bench.description.has_feature("worker") {
        findings.skip_from(&["W"], "it is no worker");
        return;
    }
    if let Err(failed) = as_single_runs(bench, surveys, everyday).await {
        findings.fail(failed);
        findings.skip_from(&["W"], "the worker failed already");
        return;
    }
    let plain = everyday.and_then(<[Value]>::first);
    if !bench.description.has_feature("pipeline") {
        findings.skip(&["W04"], "it takes one request at a time");
    } else if let Err(error) = at_once(bench, surveys, plain).await {
        findings.fail(failed("W04", error.why));
    }
    let same = |id| bench.request(&surveys.plain, id, None);
    if bench.description.input == Input::Full {
        let long = [bench.request(&surveys.long, "w5-1", None), same("w5-2")];
        findings.extend("W05", in_turn(bench, long, plain).await);
    } else {
        findings.skip(&["W05"], "its requests are one line");
    }
    if single::takes_files(bench) {
        let file = same("w6-1").and_then(|request| request.with_file(bench.spool).ok());
        findings.extend("W06", in_turn(bench, [file, same("w6-2")], plain).await);
    } else {
        findings.skip(&["W06"], "it takes no file");
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

/// A worker, and the ends of its pipes.
struct Talk {
    worker: Worker,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn start(bench: &Bench<'_>) -> Result<Self, Failed> {
        let subject = bench.subject;
        let words = subject.words("worker");
        let mut launch = bench.place.launch(&subject.program, &words, Vec::new());
        launch.deadline = Duration::MAX;
        let (worker, stdin, stdout) = Worker::spawn(&launch).map_err(|error| failed("S01", error))?;
        Ok(Self { worker, stdin, stdout: BufReader::new(stdout).lines() })
    }

    /// Sends and hears at once: a worker may answer before it has read everything.
    async fn put(&mut self, requests: &[u8], ids: &[String]) -> Result<Vec<Terminal>, Failed> {
        let Self { worker, stdin, stdout } = self;
        let send = async {
            // A worker that closes its stdin has heard enough; whether it answers is seen below.
            let _ = stdin.write_all(requests).await;
            let _ = stdin.flush().await;
        };
        let hear = async {
            let mut answers = Vec::new();
            for id in ids {
                answers.push(hear(stdout, id).await?);
            }
            Ok(answers)
        };
        let both = async { tokio::join!(send, hear).1 };
        tokio::select! {
            answers = both => answers,
            // It drains stderr. When the process is gone its output ends as well, and that is told above.
            () = async { worker.exited().await; std::future::pending().await } => Err(failed("W01", "it exited")),
        }
    }

    /// Asks through all rounds, as single processes are asked, but all at once. The answers come in order.
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
        // Whatever it still says is no answer to anything.
        let more = timeout(EXIT, stdout.next_line()).await;
        let ended = worker.end(EXIT, GRACE).await.map_err(|error| failed("W03", error))?;
        if let Some(exceeded) = ended.exceeded {
            return Err(process_failed(&ProcessError::PrivateDirTooLarge(exceeded)));
        }
        match more {
            Ok(Ok(Some(line))) if !line.trim().is_empty() => Err(failed(
                "W03",
                format!("it went on after its last answer: {}", super::shortly(&line.into())),
            )),
            _ if ended.status.success() => Ok(()),
            _ => Err(failed("W03", format!("it ended with {}", ended.status))),
        }
    }
}

/// The line that ends the reply to `id`.
async fn hear(stdout: &mut Lines<BufReader<ChildStdout>>, id: &str) -> Result<Terminal, Failed> {
    loop {
        let line = match timeout(ANSWER, stdout.next_line()).await {
            Err(_) => return Err(failed("W02", format!("no answer came to `{id}` while stdin was open"))),
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => {
                return Err(failed("W01", format!("its output ended before it had answered `{id}`")));
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

/// The requests of every day: each gets the answer that it got from a process of its own.
async fn as_single_runs(
    bench: &Bench<'_>,
    surveys: &Surveys<'_>,
    everyday: Option<&[Value]>,
) -> Result<(), Failed> {
    let mut talk = Talk::start(bench)?;
    for (place, (name, request)) in single::everyday(bench, surveys, "w").into_iter().enumerate() {
        let answers = talk.ask(vec![request]).await;
        let answers = answers.map_err(|error| Failed { why: format!("{name}: {}", error.why), ..error })?;
        compare(&answers, everyday.and_then(|answers| answers.get(place)))?;
    }
    talk.end().await
}

/// Some requests, one after the other; the last is the plain one.
async fn in_turn<const N: usize>(
    bench: &Bench<'_>,
    requests: [Option<Request<'_>>; N],
    plain: Option<&Value>,
) -> Result<(), Failed> {
    let mut talk = Talk::start(bench)?;
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
    let mut talk = Talk::start(bench)?;
    compare(&talk.ask(requests.collect()).await?, plain)?;
    talk.end().await
}

/// A worker and a single run are the same strategy.
fn compare(answers: &[Terminal], same: Option<&Value>) -> Result<(), Failed> {
    let mut answers = answers.iter().cloned().map(without_id);
    match answers.find(|answer| same.is_some_and(|same| answer != same)) {
        Some(other) => Err(failed("W01", format!("it answered {}", super::shortly(&other)))),
        None => Ok(()),
    }
}
