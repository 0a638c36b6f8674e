//! `jp-compact batch --ndjson`: reads records from stdin and writes one answer for each, in order. A data pipeline
//! starts it once for many records. To bound its memory, it starts a record only if few records are in progress. A bad
//! record or a bug must not end the stream.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use jp_compact_config::{self as config, Config, JpSettings};
use jp_compact_core::select::Selection;
use jp_compact_engine::compact::{OnGrowth, OnLowSaving, PreparedStrategy, RunSettings};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::ndjson::{self, InputLine, LINE_BYTES_MAX, RecordFailure, RecordOptions};
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_eval::{EvalOptions, RowKind, RowSpec, prepare_run};
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

/// The maximum number of records in progress.
const RECORDS_MAX: usize = 16;
/// While the records in progress have this many bytes, no other record is started.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// The maximum number of answers that wait for the writer.
const ANSWERS_MAX: usize = 4;

/// The options for records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct RecordArgs {
    /// Read a record from each line of stdin, and answer with a line
    ///
    /// A record is {"id":..., "transcript":...|"path":..., "format":...}. `transcript` is the file's JSON value, an
    /// array of the file's JSON lines, or a string with the file's text. Nothing is written to disk.
    ///
    /// An answer is {"id","ok":true,"transcript","tokens","saved"} or
    /// {"id","ok":false,"error":{"code","kind","message","retryable"}}. Its `transcript` has the same form as in the
    /// record. The overlays are appended to a transcript of JP; for other formats they are in the member `overlays`.
    /// `jp-compact schema batch-record` and `jp-compact schema batch-answer` print the schemas.
    ///
    /// Kinds of errors: bad_record, record_too_large, transcript_invalid, strategy_error, strategy_invalid,
    /// strategy_not_found, strategy_not_trusted, protocol_violation, protocol_too_old, protocol_too_new, refused,
    /// gate_not_met, usage, bug. Kinds that can be retryable: conflict, deadline, model_unavailable, strategy_crashed.
    #[arg(long, conflicts_with_all = ["paths", "jobs", "out", "report", "junit", "shard", "resume", "require_saving", "require_valid", "require_fit", "forbid_growth", "max_failures", "json"])]
    pub(crate) ndjson: bool,
    /// Answer with the `view` instead of the transcript
    // clap ignores `requires` if the required option conflicts, so the conflict is repeated.
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    view: bool,
    /// Add the evaluation of the strategies to each answer
    ///
    /// It is the document of `jp-compact eval --json`, with a row for each strategy.
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    eval: bool,
    /// Exit with 19 if a record failed, or with 3 if there was no record
    #[arg(long, requires = "ndjson", conflicts_with = "paths")]
    fail_on_error: bool,
}

/// The arguments of a run on records.
pub(crate) struct Request<'a> {
    pub(crate) args: &'a RecordArgs,
    /// Whether zero records are a success.
    pub(crate) allow_empty: bool,
    /// Whether a proposal may make a view larger.
    pub(crate) restore: bool,
    pub(crate) typed: CommandLineChoice<'a>,
    pub(crate) run_args: &'a RunArgs,
}

/// Answers every record. An interrupt ends the reading, and the records in progress are still answered. A second
/// interrupt ends the command immediately.
pub(crate) fn run(request: &Request<'_>, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (stop, stop_requested) = watch::channel(false);
        let answering = answer_all(request, quiet, environment, stop_requested);
        tokio::pin!(answering);
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                outcome = &mut answering => return outcome,
            }
            let was_stopped = stop.send_replace(true);
            if was_stopped {
                return Err(interrupted("the records in progress were not answered"));
            }
        }
    });
    // A name lookup and a read of stdin cannot be canceled; a normal shutdown would wait for them.
    runtime.shutdown_background();
    outcome
}

fn interrupted(hint: &str) -> Report {
    Report::new(Exit::Interrupted, "interrupted", Some(hint))
}

async fn answer_all(
    request: &Request<'_>,
    quiet: bool,
    environment: &Environment,
    mut stop_requested: watch::Receiver<bool>,
) -> Result<Exit, Report> {
    let mut compactor = RecordCompactor::open(request, quiet, environment).await?;
    let (mut lines, read_result) = spawn_reader()?;
    let (answers, write_result) = spawn_writer()?;
    let mut in_progress: VecDeque<StartedRecord> = VecDeque::new();
    let mut bytes_in_progress = 0;
    let mut record_count = 0_u64;
    let mut has_failed = false;
    let mut input_ended = false;
    while !(input_ended && in_progress.is_empty()) {
        let has_room = in_progress.len() < RECORDS_MAX
            && (in_progress.is_empty() || bytes_in_progress < RECORD_BYTES_MAX);
        tokio::select! {
            biased;
            _ = stop_requested.wait_for(|stop| *stop), if !input_ended => input_ended = true,
            () = answers.closed() => break,
            line = lines.recv(), if has_room && !input_ended => match line {
                Some(line) => {
                    let record = compactor.start(line);
                    bytes_in_progress += record.bytes;
                    record_count += 1;
                    in_progress.push_back(record);
                }
                None => input_ended = true,
            },
            answer = oldest_answer(&mut in_progress), if !in_progress.is_empty() => {
                if let Some(record) = in_progress.pop_front() {
                    bytes_in_progress -= record.bytes;
                }
                has_failed |= !answer.is_success;
                if answers.send(answer.line).await.is_err() {
                    break;
                }
            }
        }
    }
    // If the writer failed, this aborts the records in progress.
    drop(in_progress);
    drop(answers);
    compactor.setup.planner.close().await;
    match write_result.await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
        Ok(Err(error)) => return Err(error.into()),
        Ok(Ok(())) | Err(_) => {}
    }
    if *stop_requested.borrow() {
        return Err(interrupted("the records in progress were answered; the rest were not started"));
    }
    if let Ok(Err(error)) = read_result.await {
        let mut report = Report::new(Exit::Transcript, "failed to read the records on stdin", None);
        report.causes.push(error.to_string());
        return Err(report);
    }
    if record_count == 0 && !request.allow_empty {
        // `--fail-on-error` requires at least one answer.
        let exit = if request.args.fail_on_error { Exit::Gate } else { Exit::Transcript };
        let hint = "`--allow-empty` makes this a success";
        return Err(Report::new(exit, "stdin has no record", Some(hint)));
    }
    Ok(if has_failed && request.args.fail_on_error { Exit::SomeFailed } else { Exit::Done })
}

/// Waits for the answer to the oldest record.
async fn oldest_answer(in_progress: &mut VecDeque<StartedRecord>) -> Answer {
    let Some(StartedRecord { id, work, .. }) = in_progress.front_mut() else {
        return std::future::pending().await;
    };
    match work {
        Work::Done(answer) => std::mem::replace(answer, Answer { line: Vec::new(), is_success: false }),
        Work::Running(task) => match (&mut task.0).await {
            Ok(answer) => answer,
            // A bug fails one record, not the stream.
            Err(_) => {
                let bug = Report::new(Exit::Bug, "failed to finish a record: a bug in jp-compact", None);
                failure_answer(id, &bug.document())
            }
        },
    }
}

/// A record whose answer is not written yet.
struct StartedRecord {
    id: Vec<u8>,
    /// The size of the line.
    bytes: usize,
    work: Work,
}

enum Work {
    Running(AbortOnDrop),
    Done(Answer),
}

struct Answer {
    line: Vec<u8>,
    is_success: bool,
}

/// A task that is aborted when it is dropped.
struct AbortOnDrop(JoinHandle<Answer>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a task for each record.
struct RecordCompactor<'a> {
    setup: Setup<'a>,
    strategies: Vec<PreparedStrategy>,
    config: Config,
    selection: Selection,
    options: RecordOptions,
    /// The parameters of the evaluation, if the answers have one.
    evaluation: Option<Arc<EvalOptions>>,
    on_growth: OnGrowth,
    /// The format of records that do not name one.
    format: Option<Format>,
    environment: Arc<Environment>,
}

impl<'a> RecordCompactor<'a> {
    /// Rejects a wrong command line or configuration before a record is read.
    async fn open(request: &Request<'a>, quiet: bool, environment: &'a Environment) -> Result<Self, Report> {
        let mut setup = Setup::open(request.run_args, true, quiet, Asker::User, environment)?;
        let configuration = &request.run_args.configured;
        let jp = JpSettings::read(environment, None, None);
        let config = config::load(environment, None, &configuration.files, &configuration.sets, jp)?;
        let (strategies, selection) = setup.planner.prepare_strategies(&request.typed, &config).await?;
        let needs_model = strategies.iter().any(PreparedStrategy::needs_model);
        // A missing consent affects every record, so it is reported before the first one is read.
        setup.planner.run_settings(strategies.clone(), &config, selection, OnLowSaving::Warn).allow()?;
        let estimator = request.run_args.counting.tokens.estimator(environment)?;
        let evaluation = request.args.eval.then(|| Arc::new(EvalOptions::new(estimator)));
        Ok(Self {
            selection,
            options: RecordOptions { view: request.args.view, needs_model },
            evaluation,
            on_growth: OnGrowth::in_batch(request.restore),
            format: request.run_args.input.format,
            environment: Arc::new(environment.clone()),
            setup,
            strategies,
            config,
        })
    }

    /// Prepares the evaluation of a record: a row for each strategy.
    fn evaluation_job(&self, options: Arc<EvalOptions>) -> EvaluationJob {
        let mut rows = Vec::from(RowSpec::fixed_controls());
        let mut runs: Vec<Option<RunSettings>> = rows.iter().map(|_| None).collect();
        for strategy in &self.strategies {
            let name = &strategy.described.description.name;
            rows.push(RowSpec {
                kind: RowKind::Strategy,
                name: name.clone(),
                label: name.clone(),
                options: strategy.options.clone(),
                answers: None,
            });
            let strategy = PreparedStrategy { range: None, ..strategy.clone() };
            let mut run = self.setup.planner.run_settings(
                vec![strategy],
                &self.config,
                self.selection,
                OnLowSaving::Warn,
            );
            prepare_run(&mut run);
            runs.push(Some(run));
        }
        EvaluationJob { options, rows, runs }
    }

    fn start(&mut self, line: InputLine) -> StartedRecord {
        let line = match line {
            InputLine::Whole(line) => line,
            InputLine::TooLong(beginning) => {
                let message = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
                return invalid(&ndjson::find_id(&beginning), ErrorKind::RecordTooLarge, message);
            }
        };
        let bytes = line.len();
        let record = match record::read(&line) {
            Ok(mut record) => {
                record.format = record.format.or(self.format);
                record
            }
            Err(error) => return invalid(&error.id, ErrorKind::BadRecord, error.what),
        };
        let id = record.id.to_vec();
        let strategies = self.strategies.clone();
        let mut run =
            self.setup.planner.run_settings(strategies, &self.config, self.selection, OnLowSaving::Warn);
        run.policy.on_growth = self.on_growth;
        let evaluation = self.evaluation.clone().map(|options| self.evaluation_job(options));
        let task = tokio::spawn(answer(run, record, self.options, evaluation, Arc::clone(&self.environment)));
        StartedRecord { id, bytes, work: Work::Running(AbortOnDrop(task)) }
    }
}

/// The evaluation of the strategies on one record.
struct EvaluationJob {
    options: Arc<EvalOptions>,
    rows: Vec<RowSpec>,
    /// The settings of each row. `None` for a control.
    runs: Vec<Option<RunSettings>>,
}

impl EvaluationJob {
    /// Adds the evaluation to the line of an answer.
    async fn add_to(
        mut self,
        line: &mut Vec<u8>,
        record: &record::Record,
        environment: &Environment,
    ) -> Result<(), RecordFailure> {
        let (opened, _) = ndjson::open(record, environment)?;
        let describe = |error| Report::from(error).document();
        let report =
            jp_compact_eval::evaluate_opened(opened, (&self.rows, &mut self.runs), &self.options, &describe)
                .await;
        let end = line.iter().rposition(|byte| *byte == b'}').unwrap_or_default();
        line.truncate(end);
        line.extend_from_slice(b",\"eval\":");
        line.extend_from_slice(&serde_json::to_vec(&report).unwrap_or_default());
        line.extend_from_slice(b"}\n");
        Ok(())
    }
}

async fn answer(
    run: RunSettings,
    record: record::Record,
    options: RecordOptions,
    evaluation: Option<EvaluationJob>,
    environment: Arc<Environment>,
) -> Answer {
    let id = record.id.clone();
    let evaluated = evaluation.as_ref().map(|_| record.clone());
    let mut result = ndjson::answer(run, record, options, &environment).await;
    if let (Ok(line), Some(job), Some(record)) = (&mut result, evaluation, evaluated)
        && let Err(error) = job.add_to(line, &record, &environment).await
    {
        result = Err(error);
    }
    match result {
        Ok(line) => Answer { line, is_success: true },
        Err(RecordFailure::Record(message)) => {
            failure_answer(&id, &ErrorReport::new(ErrorKind::BadRecord, message))
        }
        Err(RecordFailure::Failed(error)) => failure_answer(&id, &Report::from(error).document()),
    }
}

/// Returns an invalid record, with its answer.
fn invalid(id: &[u8], kind: ErrorKind, message: String) -> StartedRecord {
    let answer = failure_answer(id, &ErrorReport::new(kind, message));
    StartedRecord { id: id.to_vec(), bytes: 0, work: Work::Done(answer) }
}

fn failure_answer(id: &[u8], error: &ErrorReport) -> Answer {
    Answer { line: ndjson::error_answer(id, error), is_success: false }
}

type ThreadResult = oneshot::Receiver<io::Result<()>>;

/// Reads lines on a thread, at most two ahead. Nothing joins the thread, because a read of stdin cannot be canceled.
fn spawn_reader() -> io::Result<(mpsc::Receiver<InputLine>, ThreadResult)> {
    let (line_sender, lines) = mpsc::channel(1);
    let (result_sender, result) = oneshot::channel();
    let read = move || {
        let outcome =
            ndjson::for_each_line(io::stdin().lock(), |line| line_sender.blocking_send(line).is_ok());
        // The receiver is gone after an interrupt.
        let _ = result_sender.send(outcome);
    };
    std::thread::Builder::new().name("reader".into()).spawn(read)?;
    Ok((lines, result))
}

/// Writes answers on a thread. A slow reader must not use up the deadline of a strategy.
fn spawn_writer() -> io::Result<(mpsc::Sender<Vec<u8>>, ThreadResult)> {
    let (answers, mut lines) = mpsc::channel::<Vec<u8>>(ANSWERS_MAX);
    let (result_sender, result) = oneshot::channel();
    let write = move || {
        let mut outcome = Ok(());
        while let Some(line) = lines.blocking_recv() {
            outcome = output::line(&line);
            if outcome.is_err() {
                break;
            }
        }
        // After a failure, the closed channel stops the work on records.
        drop(lines);
        let _ = result_sender.send(outcome);
    };
    std::thread::Builder::new().name("writer".into()).spawn(write)?;
    Ok((answers, result))
}
