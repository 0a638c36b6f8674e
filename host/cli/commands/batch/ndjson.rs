//! `jp-compact batch --ndjson`: reads records from stdin and writes one answer for each, in order. A pipeline engine runs
//! it as a worker. Memory is bounded: it reads only when it has room. A bad record or a bug must not end the stream.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use jp_compact_core::select::Selection;
use jp_compact_engine::compact::{OnLowSaving, Ready, RunSettings};
use jp_compact_engine::config::{self, Config, JpOwn};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::ndjson::{self, InputLine, LINE_BYTES_MAX, RecordFailure, RecordOptions};
use jp_compact_engine::plan::Typed;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ErrorKind, ErrorReport};
use jp_compact_transcripts::Format;
use jp_compact_transcripts::record;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use crate::setup::Setup;

/// The limit of records in progress.
const RECORDS_MAX: usize = 16;
/// The limit of their total size. A single record may exceed it.
const BYTES_MAX: usize = 64 << 20;
/// The limit of answers that wait for the writer.
const ANSWERS_MAX: usize = 4;

/// Arguments of the mode for records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct RecordArgs {
    /// Read a record from each line of stdin, and answer with a line
    ///
    /// A record is {"id":..., "transcript":...|"path":..., "format":...}. `transcript` is a JSON value, an array of records, or a string with the text of the file. An answer is {"id","ok":true,"transcript","tokens","saved"} or {"id","ok":false,"error":{"code","kind","message","retryable"}}. It has the transcript in the form of the record. JP's transcripts have the overlays appended; the answer of another format has them in `overlays`. Nothing is written to disk. `jp-compact schema batch-record` and `jp-compact schema batch-answer` print the schemas.
    ///
    /// The kinds of errors: bad_record, record_too_large, transcript_invalid, strategy_error, strategy_invalid, strategy_not_found, strategy_not_trusted, protocol_violation, protocol_too_old, protocol_too_new, refused, usage, bug. Retryable kinds: conflict, deadline, model_unavailable, strategy_crashed.
    #[arg(long, conflicts_with_all = ["paths", "jobs", "out", "report", "junit", "shard", "resume", "require_saving", "require_valid", "require_fit", "forbid_growth", "max_failures", "json"])]
    pub(crate) ndjson: bool,
    /// Answer with the `view` instead of the transcript
    // clap ignores `requires` if the required option conflicts, so the conflict is repeated.
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    view: bool,
    /// Exit with 19 if a record failed, or with 3 without any record
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    fail_on_error: bool,
}

/// The arguments of a run on records.
pub(crate) struct Request<'a> {
    pub(crate) args: &'a RecordArgs,
    /// Whether zero records are a success.
    pub(crate) allow_empty: bool,
    pub(crate) typed: Typed<'a>,
    pub(crate) running: &'a RunArgs,
}

/// Answers every record. An interrupt ends the reading, and the records in progress are still answered. A second interrupt
/// ends the command at once.
pub(crate) fn run(request: &Request<'_>, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (stop, stopped) = watch::channel(false);
        let work = work(request, quiet, environment, stopped);
        tokio::pin!(work);
        loop {
            let was_stopped = *stop.borrow();
            tokio::select! {
                biased;
                _ = async { tokio::select! { it = interrupt.recv() => it, it = terminate.recv() => it } } => {
                    if was_stopped {
                        return Err(interrupted());
                    }
                    stop.send_replace(true);
                }
                done = &mut work => return done,
            }
        }
    });
    // A name lookup and a read of stdin cannot be cancelled; a normal shutdown would wait for them.
    runtime.shutdown_background();
    done
}

fn interrupted() -> Report {
    Report::new(
        Exit::Interrupted,
        "interrupted",
        Some("the records in progress were answered; the rest were not started"),
    )
}

async fn work(
    request: &Request<'_>,
    quiet: bool,
    environment: &Environment,
    mut stopped: watch::Receiver<bool>,
) -> Result<Exit, Report> {
    let mut worker = Worker::open(request, quiet, environment).await?;
    let (mut lines, unread) = reader()?;
    let (answers, written) = writer()?;
    let mut started: VecDeque<Started> = VecDeque::new();
    let (mut bytes, mut records, mut failed, mut ended) = (0, 0_u64, false, false);
    while !(ended && started.is_empty()) {
        let has_room = started.len() < RECORDS_MAX && (started.is_empty() || bytes < BYTES_MAX);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop), if !ended => ended = true,
            () = answers.closed() => break,
            line = lines.recv(), if has_room && !ended => match line {
                Some(line) => {
                    let next = worker.begin(line);
                    bytes += next.bytes;
                    records += 1;
                    started.push_back(next);
                }
                None => ended = true,
            },
            answer = first(&mut started), if !started.is_empty() => {
                if let Some(done) = started.pop_front() {
                    bytes -= done.bytes;
                }
                failed |= !answer.is_good;
                if answers.send(answer.line).await.is_err() {
                    break;
                }
            }
        }
    }
    // The reader of the answers may be gone, so the records in progress are dropped.
    drop(started);
    drop(answers);
    worker.setup.planner.close().await;
    match written.await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
        Ok(Err(error)) => return Err(error.into()),
        Ok(Ok(())) | Err(_) => {}
    }
    if *stopped.borrow() {
        return Err(interrupted());
    }
    if let Ok(Err(error)) = unread.await {
        let mut report = Report::new(Exit::Transcript, "failed to read the records on stdin", None);
        report.causes.push(error.to_string());
        return Err(report);
    }
    if records == 0 && !request.allow_empty {
        // `--fail-on-error` requires at least one answer.
        let exit = if request.args.fail_on_error { Exit::Gate } else { Exit::Transcript };
        let hint = "`--allow-empty` makes this a success";
        return Err(Report::new(exit, "stdin has no record", Some(hint)));
    }
    Ok(if failed && request.args.fail_on_error { Exit::SomeFailed } else { Exit::Done })
}

/// Waits for the answer to the oldest record.
async fn first(started: &mut VecDeque<Started>) -> Answer {
    let Some(Started { id, work, .. }) = started.front_mut() else { return std::future::pending().await };
    match work {
        Work::Done(answer) => std::mem::replace(answer, Answer { line: Vec::new(), is_good: false }),
        Work::Started(work) => match (&mut work.0).await {
            Ok(answer) => answer,
            // A bug fails one record, not the stream.
            Err(_) => {
                refused(id, &Report::new(Exit::Bug, "failed to finish a record: a bug in jp-compact", None))
            }
        },
    }
}

/// A record in progress.
struct Started {
    id: Vec<u8>,
    bytes: usize,
    work: Work,
}

enum Work {
    Started(AbortOnDrop),
    Done(Answer),
}

struct Answer {
    line: Vec<u8>,
    is_good: bool,
}

/// A task that is aborted when it is dropped.
struct AbortOnDrop(JoinHandle<Answer>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts the work on records.
struct Worker<'a> {
    setup: Setup<'a>,
    strategies: Vec<Ready>,
    config: Config,
    wanted: Selection,
    options: RecordOptions,
    /// The typed format.
    format: Option<Format>,
    environment: Arc<Environment>,
}

impl<'a> Worker<'a> {
    /// Rejects a wrong command line or configuration before a record is read.
    async fn open(request: &Request<'a>, quiet: bool, environment: &'a Environment) -> Result<Self, Report> {
        let mut setup = Setup::open(request.running, true, quiet, Asker::User, environment)?;
        let configuration = &request.running.configured;
        let jp = JpOwn::read(environment, None, None);
        let config = config::load(environment, None, &configuration.files, &configuration.sets, jp)?;
        let (strategies, wanted) = setup.planner.strategies(&request.typed, &config).await?;
        let by_model = strategies.iter().any(Ready::needs_model);
        // A missing consent concerns every record, so it is reported before one is read.
        setup.planner.run(strategies.clone(), &config, wanted, OnLowSaving::Warn).allow()?;
        Ok(Self {
            wanted,
            options: RecordOptions { view: request.args.view, by_model },
            format: request.running.input.format,
            environment: Arc::new(environment.clone()),
            setup,
            strategies,
            config,
        })
    }

    fn begin(&mut self, line: InputLine) -> Started {
        let line = match line {
            InputLine::Whole(line) => line,
            InputLine::TooLong(beginning) => {
                let what = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                return bad(&ndjson::id_of(&beginning), ErrorKind::RecordTooLarge, what);
            }
        };
        let bytes = line.len();
        let record = match record::read(&line) {
            Ok(mut record) => {
                record.format = record.format.or(self.format);
                record
            }
            Err(wrong) => return bad(&wrong.id, ErrorKind::BadRecord, wrong.what),
        };
        let id = record.id.to_vec();
        let run =
            self.setup.planner.run(self.strategies.clone(), &self.config, self.wanted, OnLowSaving::Warn);
        let work = answer(run, record, self.options, Arc::clone(&self.environment));
        Started { id, bytes, work: Work::Started(AbortOnDrop(tokio::spawn(work))) }
    }
}

async fn answer(
    run: RunSettings,
    record: record::Record,
    options: RecordOptions,
    environment: Arc<Environment>,
) -> Answer {
    let id = record.id.clone();
    match ndjson::answer(run, record, options, &environment).await {
        Ok(line) => Answer { line, is_good: true },
        Err(RecordFailure::Record(what)) => {
            let error = ErrorReport::new(ErrorKind::BadRecord, what);
            Answer { line: ndjson::refusal(&id, &error), is_good: false }
        }
        Err(RecordFailure::Failed(failure)) => refused(&id, &failure.into()),
    }
}

fn bad(id: &[u8], kind: ErrorKind, what: String) -> Started {
    let line = ndjson::refusal(id, &ErrorReport::new(kind, what));
    Started { id: id.to_vec(), bytes: 0, work: Work::Done(Answer { line, is_good: false }) }
}

fn refused(id: &[u8], report: &Report) -> Answer {
    Answer { line: ndjson::refusal(id, &report.document()), is_good: false }
}

/// The result of a thread.
type Ended = oneshot::Receiver<io::Result<()>>;

/// Reads lines on a thread, one ahead. Nothing joins the thread, because a read of stdin cannot be cancelled.
fn reader() -> io::Result<(mpsc::Receiver<InputLine>, Ended)> {
    let (sender, lines) = mpsc::channel(1);
    let (ended, end) = oneshot::channel();
    let read = move || {
        let done = ndjson::each(io::stdin().lock(), |line| sender.blocking_send(line).is_ok());
        // The receiver is gone after an interrupt.
        let _ = ended.send(done);
    };
    std::thread::Builder::new().name("reader".into()).spawn(read)?;
    Ok((lines, end))
}

/// Writes answers on a thread. A slow reader must not use up the deadline of a strategy.
fn writer() -> io::Result<(mpsc::Sender<Vec<u8>>, Ended)> {
    let (answers, mut lines) = mpsc::channel::<Vec<u8>>(ANSWERS_MAX);
    let (ended, end) = oneshot::channel();
    let write = move || {
        let mut done = Ok(());
        while let Some(line) = lines.blocking_recv() {
            done = output::line(&line);
            if done.is_err() {
                break;
            }
        }
        drop(lines);
        let _ = ended.send(done);
    };
    std::thread::Builder::new().name("writer".into()).spawn(write)?;
    Ok((answers, end))
}
