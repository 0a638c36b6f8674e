//! `jp-compact batch --ndjson`: a stream of records in, one answer for each out, in their order. The worker of an engine
//! that exists: it reads when it has room, answers as soon as it can, and outlives whatever a record does.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use jp_compact_core::Bound;
use jp_compact_core::record;
use jp_compact_core::select::Wanted;
use jp_compact_core::spec::Spec;
use jp_compact_engine::compact::{OnLowSaving, Ready, Run};
use jp_compact_engine::config::{self, Config, JpOwn};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::ndjson::{self, How, LINE_BYTES_MAX, Line, Wrong};
use jp_compact_schema::record::{Code, RecordError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::args::Running;
use crate::commands::compact::{Asked, configured};
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use crate::setup::Setup;

/// Records in hand at once.
const RECORDS_MAX: usize = 16;
/// And how long they are together, but for one.
const BYTES_MAX: usize = 64 << 20;
/// Answers that wait to be written.
const ANSWERS_MAX: usize = 4;

/// What says that records come on stdin.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct Records {
    /// Read records from stdin, a line each, and answer each with a line: {"id":..., "transcript":...|"path":..., "format":...}
    ///
    /// `transcript` is the JSON value, an array of records, or a string of the file's text; the answer's is in the same form, JP's with its overlays appended, others with `overlays` beside it. Nothing is written to disk. {"id","ok":true,"transcript","saved"}, or {"id","ok":false,"error":{"code","message","retryable"}}. `jp-compact schema batch-record` and `batch-answer` tell all of it.
    ///
    /// The codes: bad_record, record_too_large, transcript_invalid, strategy_error, strategy_invalid, strategy_not_found, strategy_not_trusted, protocol_violation, protocol_too_old, protocol_too_new, refused, usage, bug; and those that may go well another time, which are retryable: conflict, deadline, model_unavailable, strategy_crashed.
    #[arg(long, conflicts_with_all = ["paths", "jobs", "out", "report", "junit", "shard", "resume", "require_saving", "require_valid", "require_fit", "forbid_growth", "max_failures", "json"])]
    pub(crate) ndjson: bool,
    /// Answer with the `view` that a model is sent, in place of the transcript
    // A demand that conflicts with what is there is none to clap.
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    view: bool,
    /// Exit with 19 where a record was answered with an error, once all are; with 3 where there was no record
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    fail_on_error: bool,
}

/// What is done to the records.
pub(crate) struct Wish<'a> {
    pub(crate) args: &'a Records,
    /// Whether there may be no record.
    pub(crate) allow_empty: bool,
    pub(crate) strategies: &'a [Spec],
    pub(crate) profile: Option<&'a str>,
    pub(crate) bounds: (Option<Bound>, Option<Bound>),
    pub(crate) running: &'a Running,
}

/// Answers every record. An interrupt ends the reading: what is in hand is answered. A second one does not wait.
pub(crate) fn run(wish: &Wish<'_>, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (stop, stopped) = watch::channel(false);
        let work = work(wish, quiet, environment, stopped);
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
    // A name that is being looked up cannot be given up, and would be waited for; nor can a read of stdin.
    runtime.shutdown_background();
    done
}

fn interrupted() -> Report {
    Report::new(
        Exit::Interrupted,
        "interrupted",
        Some("what was in hand is answered, the rest was not begun"),
    )
}

async fn work(
    wish: &Wish<'_>,
    quiet: bool,
    environment: &Environment,
    mut stopped: watch::Receiver<bool>,
) -> Result<Exit, Report> {
    let mut worker = Worker::open(wish, quiet, environment).await?;
    let (mut lines, unread) = reader()?;
    let (answers, written) = writer()?;
    let mut begun: VecDeque<Begun> = VecDeque::new();
    let (mut bytes, mut records, mut failed, mut ended) = (0, 0_u64, false, false);
    while !(ended && begun.is_empty()) {
        let has_room = begun.len() < RECORDS_MAX && (begun.is_empty() || bytes < BYTES_MAX);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop), if !ended => ended = true,
            () = answers.closed() => break,
            line = lines.recv(), if has_room && !ended => match line {
                Some(line) => {
                    let next = worker.begin(line);
                    bytes += next.bytes;
                    records += 1;
                    begun.push_back(next);
                }
                None => ended = true,
            },
            answer = first(&mut begun), if !begun.is_empty() => {
                if let Some(done) = begun.pop_front() {
                    bytes -= done.bytes;
                }
                failed |= !answer.is_good;
                if answers.send(answer.line).await.is_err() {
                    break;
                }
            }
        }
    }
    // Whoever reads the answers may have gone: nobody waits for what is in hand.
    drop(begun);
    drop(answers);
    worker.setup.close().await;
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
    if records == 0 && !wish.allow_empty {
        // What is demanded of every answer is demanded of one, at least.
        let exit = if wish.args.fail_on_error { Exit::Gate } else { Exit::Transcript };
        let hint = "`--allow-empty` succeeds where there is none";
        return Err(Report::new(exit, "there is no record on stdin", Some(hint)));
    }
    Ok(if failed && wish.args.fail_on_error { Exit::SomeFailed } else { Exit::Done })
}

/// The answer to the oldest record that has none.
async fn first(begun: &mut VecDeque<Begun>) -> Answer {
    let Some(Begun { id, work, .. }) = begun.front_mut() else { return std::future::pending().await };
    match work {
        Work::Done(answer) => std::mem::replace(answer, Answer { line: Vec::new(), is_good: false }),
        Work::Begun(work) => match (&mut work.0).await {
            Ok(answer) => answer,
            // A bug costs the record that it shows in, and no other.
            Err(_) => {
                refused(id, &Report::new(Exit::Bug, "failed to finish a record: a bug in jp-compact", None))
            }
        },
    }
}

/// A record that is worked on.
struct Begun {
    id: Vec<u8>,
    bytes: usize,
    work: Work,
}

enum Work {
    Begun(Aborting),
    Done(Answer),
}

struct Answer {
    line: Vec<u8>,
    is_good: bool,
}

/// Work that ends when nobody waits for it.
struct Aborting(JoinHandle<Answer>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What begins the work on a record.
struct Worker<'a> {
    setup: Setup<'a>,
    strategies: Vec<Ready>,
    config: Config,
    wanted: Wanted,
    how: How,
    environment: Arc<Environment>,
}

impl<'a> Worker<'a> {
    /// What is wrong for every record is found out before any is read.
    async fn open(wish: &Wish<'a>, quiet: bool, environment: &'a Environment) -> Result<Self, Report> {
        let mut setup = Setup::open(wish.running, true, quiet, Asker::User, environment)?;
        let configuration = &wish.running.configured;
        let jp = JpOwn::read(environment, None, None);
        let config = config::load(environment, None, &configuration.files, &configuration.sets, jp)?;
        let (strategies, keep) = match wish.strategies {
            [] => {
                setup.warn(&config);
                let asked = Asked { profile: wish.profile, form: None, bounds: wish.bounds };
                let (strategies, profile) = configured(asked, &mut setup, &config).await?;
                (strategies, config.keep(profile))
            }
            specs => (setup.prepare_typed(specs).await?, config.keep(None)),
        };
        setup.check_focus(&strategies)?;
        let by_model = strategies.iter().any(Ready::needs_model);
        let wanted = Wanted { from: wish.bounds.0, to: wish.bounds.1, keep };
        // What may not be asked for any record is found out before one is read.
        setup.run(strategies.clone(), &config, wanted, OnLowSaving::Warn).allow()?;
        Ok(Self {
            wanted,
            how: How { view: wish.args.view, by_model },
            environment: Arc::new(environment.clone()),
            setup,
            strategies,
            config,
        })
    }

    fn begin(&mut self, line: Line) -> Begun {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(beginning) => {
                let what = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                return bad(&ndjson::id_of(&beginning), Code::RecordTooLarge, what);
            }
        };
        let bytes = line.len();
        let record = match record::read(&line) {
            Ok(mut record) => {
                record.format = record.format.or(self.setup.format());
                record
            }
            Err(wrong) => return bad(&wrong.id, Code::BadRecord, wrong.what),
        };
        let id = record.id.to_vec();
        let run = self.setup.run(self.strategies.clone(), &self.config, self.wanted, OnLowSaving::Warn);
        let work = answer(run, record, self.how, Arc::clone(&self.environment));
        Begun { id, bytes, work: Work::Begun(Aborting(tokio::spawn(work))) }
    }
}

async fn answer(run: Run, record: record::Record, how: How, environment: Arc<Environment>) -> Answer {
    let id = record.id.clone();
    match ndjson::answer(run, record, how, &environment).await {
        Ok(line) => Answer { line, is_good: true },
        Err(Wrong::Record(what)) => {
            let error = RecordError::new(Code::BadRecord, what);
            Answer { line: ndjson::refusal(&id, &error), is_good: false }
        }
        Err(Wrong::Failed(failure)) => refused(&id, &failure.into()),
    }
}

fn bad(id: &[u8], code: Code, what: String) -> Begun {
    let line = ndjson::refusal(id, &RecordError::new(code, what));
    Begun { id: id.to_vec(), bytes: 0, work: Work::Done(Answer { line, is_good: false }) }
}

fn refused(id: &[u8], report: &Report) -> Answer {
    let mut message = report.message.clone();
    for cause in &report.causes {
        message.push_str(": ");
        message.push_str(cause);
    }
    let error = RecordError::new(code(report.exit), message);
    Answer { line: ndjson::refusal(id, &error), is_good: false }
}

/// An exit code as a record's error has it.
fn code(exit: Exit) -> Code {
    match exit {
        Exit::Usage => Code::Usage,
        Exit::Transcript => Code::TranscriptInvalid,
        Exit::Conflict => Code::Conflict,
        Exit::NotFound => Code::StrategyNotFound,
        Exit::NotTrusted => Code::StrategyNotTrusted,
        Exit::BadDescription => Code::StrategyInvalid,
        Exit::Crashed => Code::StrategyCrashed,
        Exit::Deadline => Code::Deadline,
        Exit::Violation => Code::ProtocolViolation,
        Exit::Reported => Code::StrategyError,
        Exit::Refused => Code::Refused,
        Exit::Model => Code::ModelUnavailable,
        Exit::TooOld => Code::ProtocolTooOld,
        Exit::TooNew => Code::ProtocolTooNew,
        Exit::Done | Exit::Bug | Exit::Gate | Exit::SomeFailed | Exit::Interrupted => Code::Bug,
    }
}

/// How a thread ended.
type Ended = oneshot::Receiver<io::Result<()>>;

/// Reads lines on a thread of its own, one ahead. It is not waited for: a read of stdin cannot be given up.
fn reader() -> io::Result<(mpsc::Receiver<Line>, Ended)> {
    let (sender, lines) = mpsc::channel(1);
    let (tell, told) = oneshot::channel();
    let read = move || {
        let done = ndjson::each(io::stdin().lock(), |line| sender.blocking_send(line).is_ok());
        // Whoever has gone wants to know nothing.
        let _ = tell.send(done);
    };
    std::thread::Builder::new().name("reader".into()).spawn(read)?;
    Ok((lines, told))
}

/// Writes answers on a thread of its own: a reader that is slow must not cost a strategy its deadline.
fn writer() -> io::Result<(mpsc::Sender<Vec<u8>>, Ended)> {
    let (answers, mut lines) = mpsc::channel::<Vec<u8>>(ANSWERS_MAX);
    let (tell, told) = oneshot::channel();
    let write = move || {
        let mut done = Ok(());
        while let Some(line) = lines.blocking_recv() {
            done = output::line(&line);
            if done.is_err() {
                break;
            }
        }
        drop(lines);
        let _ = tell.send(done);
    };
    std::thread::Builder::new().name("writer".into()).spawn(write)?;
    Ok((answers, told))
}
