//! The evaluation of one transcript: all rows, one after the other.

use std::path::Path;
use std::sync::Arc;

use jp_compact_engine::compact::{Error, Opened, RunSettings};
use jp_compact_schema::document::{ErrorReport, EvalCutPoint, EvalTranscript};
use sha2::{Digest, Sha256};

use crate::options::{DescribeError, EvalOptions, RowSpec};
use crate::outcome::{RowError, RowOutcome};
use crate::page::PageCut;
use crate::subject::Subject;
use crate::{cuts, page_data, replay, rounds};

/// The results of all rows on one transcript.
pub(crate) struct TranscriptOutcome {
    pub(crate) document: EvalTranscript,
    /// One entry for each row. Empty if the transcript has no cut.
    pub(crate) rows: Vec<Result<RowOutcome, RowError>>,
    pub(crate) pages: Vec<PageCut>,
}

impl TranscriptOutcome {
    /// Returns the result for a transcript that could not be read.
    pub(crate) fn unreadable(path: &Path, error: ErrorReport) -> Self {
        let document = EvalTranscript {
            path: path.to_string_lossy().into_owned(),
            sha256: String::new(),
            format: None,
            events: 0,
            results: 0,
            cuts: 0,
            cut_points: Vec::new(),
            not_enough_data: None,
            error: Some(error),
        };
        Self { document, rows: Vec::new(), pages: Vec::new() }
    }
}

/// Evaluates all rows on a transcript. `progress` is called after each row.
pub(crate) async fn evaluate_transcript(
    opened: Opened,
    (specs, runs): (&[RowSpec], &mut [Option<RunSettings>]),
    options: &EvalOptions,
    describe: &DescribeError<'_>,
    progress: &(dyn Fn() + Sync),
) -> TranscriptOutcome {
    // Existing overlays are ignored, because they would hide events that the strategy must compact.
    let base = opened.stream.with_part(opened.stream.without_overlays());
    let opened = Opened::new(opened.place, None, base);
    let subject = Subject::new(&opened, options);
    let document = document(&subject);
    if subject.cuts.is_empty() {
        return TranscriptOutcome { document, rows: Vec::new(), pages: Vec::new() };
    }
    let mut rows = Vec::with_capacity(specs.len());
    for (spec, run) in specs.iter().zip(runs) {
        // Every prefix is the beginning of the same stream, so the texts are measured once.
        if let Some(run) = run {
            run.io.estimate = Some(Arc::clone(&subject.estimate));
        }
        let outcome = evaluate_row(&subject, spec, run.as_mut(), options).await;
        if let Some(run) = run {
            run.io.estimate = None;
        }
        rows.push(outcome.map_err(|error| RowError { error: describe(error) }));
        progress();
    }
    let pages = if options.page { pages(&subject, &mut rows) } else { Vec::new() };
    TranscriptOutcome { document, rows, pages }
}

async fn evaluate_row(
    subject: &Subject<'_>,
    spec: &RowSpec,
    mut run: Option<&mut RunSettings>,
    options: &EvalOptions,
) -> Result<RowOutcome, Error> {
    let mut outcome = cuts::evaluate_cuts(subject, options, spec.kind, run.as_deref()).await?;
    outcome.replay = Some(replay::replay(subject, options, spec.kind, run.as_deref_mut()).await?);
    if options.rounds
        && let Some(run) = run
    {
        outcome.rounds = rounds::evaluate_rounds(subject, run).await?;
    }
    Ok(outcome)
}

fn document(subject: &Subject<'_>) -> EvalTranscript {
    let session = &subject.session;
    let results =
        session.events.iter().filter(|event| event.role == jp_compact_evidence::event_text::TextRole::Result);
    EvalTranscript {
        path: subject.opened.place.path().to_string_lossy().into_owned(),
        sha256: hexadecimal(&Sha256::digest(session.stream.bytes())),
        format: Some(subject.opened.stream.format().to_string()),
        events: session.events.len(),
        results: results.count(),
        cuts: subject.cuts.len(),
        cut_points: subject
            .cuts
            .iter()
            .map(|cut| EvalCutPoint {
                percent: cut.cut.percent,
                events: cut.cut.events,
                results: cut.cut.results,
                assistant_after: cut.cut.assistant_after,
            })
            .collect(),
        not_enough_data: subject.not_enough_data(),
        error: None,
    }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Moves the data of the page from the rows to the cuts.
fn pages(subject: &Subject<'_>, rows: &mut [Result<RowOutcome, RowError>]) -> Vec<PageCut> {
    let events = page_data::events(subject);
    let mut pages = Vec::with_capacity(subject.cuts.len());
    for (cut, subject_cut) in subject.cuts.iter().enumerate() {
        let mut page = PageCut {
            transcript: 0,
            cut,
            events: events.clone(),
            prefix: subject_cut.cut.events,
            rows: Vec::new(),
        };
        for (row, outcome) in rows.iter_mut().enumerate() {
            if let Ok(outcome) = outcome
                && let Some(mut page_row) = outcome.page.get_mut(cut).map(std::mem::take)
            {
                page_row.row = row;
                page.rows.push(page_row);
            }
        }
        pages.push(page);
    }
    pages
}
