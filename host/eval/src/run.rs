//! The threads of an evaluation. Each has its own async runtime and processes. A thread that has finished a transcript
//! takes the next one. The results are in the order of the transcripts, so the report does not depend on the number of
//! threads.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use jp_compact_engine::compact::{Error, Opened, RunSettings};
use jp_compact_schema::document::EvalReport;
use tokio::runtime::Builder;

use crate::options::{DescribeError, EvalOptions, MakeRuns, RowSpec};
use crate::page::Evaluation;
use crate::report;
use crate::transcript::{TranscriptOutcome, evaluate_transcript};

/// Reads a transcript.
pub type OpenTranscript<'a> = dyn Fn(&std::path::Path) -> Result<Opened, Error> + Sync + 'a;

/// The transcripts and the rows of an evaluation.
pub struct EvalRequest<'a> {
    pub transcripts: &'a [PathBuf],
    pub rows: &'a [RowSpec],
    pub options: &'a EvalOptions,
    /// The number of threads.
    pub jobs: usize,
    pub open: &'a OpenTranscript<'a>,
    pub make_runs: &'a MakeRuns<'a>,
    pub describe: &'a DescribeError<'a>,
}

/// Evaluates all rows on all transcripts. `progress` is called on this thread, with the number of rows that have been
/// finished on any transcript since the last call.
///
/// # Errors
/// A thread or its async runtime could not be created.
pub fn evaluate(request: &EvalRequest<'_>, mut progress: impl FnMut(usize)) -> io::Result<Evaluation> {
    let count = request.transcripts.len();
    let jobs = request.jobs.min(count).max(1);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut outcomes: Vec<Option<TranscriptOutcome>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, sender) = (&next, sender.clone());
            let runs = (request.make_runs)();
            let thread = ThreadRequest::new(request);
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let run_thread = move || {
                let mut runs = runs;
                runtime.block_on(thread.run(next, &mut runs, &sender));
                // A running name lookup cannot be canceled, so the runtime must not wait for it.
                runtime.shutdown_background();
            };
            std::thread::Builder::new().name("eval".into()).spawn_scoped(scope, run_thread)?;
        }
        drop(sender);
        for message in receiver {
            match message {
                Message::Row => progress(1),
                Message::Transcript(index, outcome) => {
                    // A transcript without a cut has no rows.
                    progress(request.rows.len() - outcome.rows.len());
                    outcomes[index] = Some(*outcome);
                }
            }
        }
        io::Result::Ok(())
    })?;
    Ok(report::evaluation(request.rows, request.options, outcomes.into_iter().flatten().collect()))
}

/// Evaluates all rows on one transcript that was read.
pub async fn evaluate_opened(
    opened: Opened,
    (rows, runs): (&[RowSpec], &mut [Option<RunSettings>]),
    options: &EvalOptions,
    describe: &DescribeError<'_>,
) -> EvalReport {
    let outcome = evaluate_transcript(opened, (rows, runs), options, describe, &|| {}).await;
    report::evaluation(rows, options, vec![outcome]).report
}

enum Message {
    Row,
    Transcript(usize, Box<TranscriptOutcome>),
}

/// The part of a request that all threads share.
struct ThreadRequest<'a> {
    transcripts: &'a [PathBuf],
    rows: &'a [RowSpec],
    options: &'a EvalOptions,
    open: &'a OpenTranscript<'a>,
    describe: &'a DescribeError<'a>,
}

impl<'a> ThreadRequest<'a> {
    fn new(request: &EvalRequest<'a>) -> Self {
        let &EvalRequest { transcripts, rows, options, open, describe, .. } = request;
        Self { transcripts, rows, options, open, describe }
    }

    async fn run(
        &self,
        next: &AtomicUsize,
        runs: &mut [Option<RunSettings>],
        sender: &mpsc::Sender<Message>,
    ) {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = self.transcripts.get(index) else { break };
            let outcome = match (self.open)(path) {
                Ok(opened) => {
                    let progress = || drop(sender.send(Message::Row));
                    evaluate_transcript(opened, (self.rows, runs), self.options, self.describe, &progress)
                        .await
                }
                Err(error) => TranscriptOutcome::unreadable(path, (self.describe)(error)),
            };
            if sender.send(Message::Transcript(index, Box::new(outcome))).is_err() {
                break;
            }
        }
        for run in runs.iter().flatten() {
            run.io.sessions.close().await;
        }
    }
}
