//! The checks of a strategy as a worker: a real talk with one process, which is sent a request only once it has
//! answered the one before, unless it says that it takes more.

use std::time::Duration;

use jp_compact_core::Survey;
use jp_compact_core::reply::{self, Terminal};
use jp_compact_schema::Reply;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::exchange::{Failed, failed, violated, without_id};
use super::{Bench, Findings, conversation};
use crate::process::{GRACE, Worker};

/// How long a worker has to exit when stdin closes.
const EXIT: Duration = Duration::from_secs(5);
/// How long an answer may take that a single process gave long ago; what does not come by then was not flushed.
const ANSWER: Duration = Duration::from_secs(10);
/// As many as a host sends ahead.
const AHEAD: usize = 64;

/// Makes them.
pub(super) async fn check(bench: &Bench<'_>, plain: Option<&Value>, findings: &mut Findings) {
    let features = &bench.description.features;
    let has = |feature: &str| features.iter().any(|own| own == feature);
    if !has("worker") {
        findings.skip_from(&["W"], "it is no worker");
        return;
    }
    if !bench.description.needs.is_empty() {
        // Rounds of `needs` are the same in a worker; what they add is the model's.
        findings.skip_from(&["W"], "it needs a model");
        return;
    }
    if let Err(failed) = one_by_one(bench, plain).await {
        findings.fail(failed);
        findings.skip_from(&["W"], "the worker failed already");
        return;
    }
    if !has("pipeline") {
        findings.skip(&["W04"], "it takes one request at a time");
    } else if let Err(error) = at_once(bench, plain).await {
        findings.fail(failed("W04", error.why));
    }
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
        let words: Vec<&str> = subject.args.iter().map(String::as_str).chain(["worker"]).collect();
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

    async fn end(self) -> Result<(), Failed> {
        let Self { worker, stdin, mut stdout } = self;
        drop(stdin);
        // Whatever it still says is no answer to anything.
        let more = timeout(EXIT, stdout.next_line()).await;
        let ended = worker.end(EXIT, GRACE).await.map_err(|error| failed("W03", error))?;
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

async fn one_by_one(bench: &Bench<'_>, plain: Option<&Value>) -> Result<(), Failed> {
    let stream = conversation::plain();
    let survey = Survey::of(&stream);
    let mut talk = Talk::start(bench)?;
    for turn in [None, Some(1), None] {
        let id = format!("w{}", turn.map_or(0, |turn| turn + 1));
        let Some(request) = bench.request(&survey, &id, turn) else { continue };
        let answers = talk.put(&request.bytes(), &[id]).await?;
        if turn.is_none() {
            compare(bench, answers, plain)?;
        }
    }
    talk.end().await
}

async fn at_once(bench: &Bench<'_>, plain: Option<&Value>) -> Result<(), Failed> {
    let stream = conversation::plain();
    let survey = Survey::of(&stream);
    let ids: Vec<_> = (0..AHEAD).map(|number| format!("p{number}")).collect();
    let requests = ids.iter().filter_map(|id| Some(bench.request(&survey, id, None)?.bytes()));
    let mut talk = Talk::start(bench)?;
    let answers = talk.put(&requests.collect::<Vec<_>>().concat(), &ids).await?;
    compare(bench, answers, plain)?;
    talk.end().await
}

/// A worker and a single run are the same strategy.
fn compare(bench: &Bench<'_>, answers: Vec<Terminal>, plain: Option<&Value>) -> Result<(), Failed> {
    let other = answers
        .into_iter()
        .map(without_id)
        .find(|answer| bench.is_pure() && plain.is_some_and(|plain| answer != plain));
    other.map_or(Ok(()), |answer| Err(failed("W01", format!("it answered {}", super::shortly(&answer)))))
}
