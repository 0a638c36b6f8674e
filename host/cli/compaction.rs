//! The compaction and the reset of one transcript, with their reports. The command line and the MCP server share them.

use std::ffi::OsStr;

use jp_compact_core::estimate::Estimator;
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::project_with_pairs;
use jp_compact_core::source::Reset;
use jp_compact_core::{Survey, View};
use jp_compact_engine::compact::{self, Opened, RunSettings};
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{CompactionReport, JpTokens, ResetDocument, TokenCounts};
use jp_compact_transcripts::Format;
use tokio::task::JoinHandle;

use crate::args::{FormatArgs, RunArgs};
use crate::error::Report;
use crate::human::{counted, relative_path};
use crate::lines::EscapedLines;
use crate::reports::compaction;
use crate::setup::Setup;

/// A running compaction. Dropping it aborts the task.
pub(crate) struct RunningCompaction(JoinHandle<(RunSettings, Result<compact::RunReport, compact::Error>)>);

impl RunningCompaction {
    /// Reads a transcript, plans its run, and starts it.
    pub(crate) async fn start(
        setup: &mut Setup<'_>,
        typed: &CommandLineChoice<'_>,
        transcript: &OsStr,
    ) -> Result<Self, Report> {
        let opened = setup.read_to_append(transcript)?;
        let settings = setup.planner.plan(typed, &opened).await?;
        Ok(Self(tokio::spawn(compact_with(settings, opened))))
    }

    /// Waits for the end, and returns the report.
    pub(crate) async fn report(
        mut self,
        environment: &Environment,
    ) -> Result<(CompactionReport, EscapedLines), Report> {
        let (settings, result) = (&mut self.0).await.map_err(|_| Report::bug())?;
        let report = result?;
        Ok((compaction::document(&report, &settings), compaction::text(&report, &settings, environment)))
    }
}

impl Drop for RunningCompaction {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn compact_with(
    settings: RunSettings,
    opened: Opened,
) -> (RunSettings, Result<compact::RunReport, compact::Error>) {
    let result = compact::compact(&settings, &opened).await;
    (settings, result)
}

/// Removes overlays of a transcript, and returns the report.
pub(crate) fn reset(
    transcript: &OsStr,
    target: Reset,
    estimator: Estimator,
    run_args: &RunArgs,
    environment: &Environment,
) -> Result<(ResetDocument, EscapedLines), Report> {
    let &RunArgs { input: FormatArgs { format }, dry_run, lock_timeout, .. } = run_args;
    let tokens = tokens_of_reset(transcript, format, target, estimator, environment);
    let report = compact::reset(transcript, target, format, dry_run, lock_timeout, environment)?;
    let document = ResetDocument {
        path: report.path.to_string_lossy().into_owned(),
        conversation_id: report.id,
        dry_run,
        estimator: estimator.name().to_owned(),
        removed: report.removed,
        tokens,
        saved: tokens.map(|tokens| tokens.saved_of_view()),
    };
    let path = relative_path(&report.path, environment);
    let verb = if dry_run { "would be removed from" } else { "removed from" };
    let text = match report.removed {
        0 => format!("no overlay to remove in {path}"),
        removed => format!("{} {verb} {path}", counted(removed, "overlay")),
    };
    Ok((document, EscapedLines::single(text)))
}

/// Returns the tokens before and after a reset. `None` if the conversation cannot be read. Its overlays can still be
/// removed.
fn tokens_of_reset(
    transcript: &OsStr,
    format: Option<Format>,
    target: Reset,
    estimator: Estimator,
    environment: &Environment,
) -> Option<TokenCounts> {
    let opened = compact::open_as(transcript, format, environment).ok()?;
    let stream = &opened.stream;
    let survey = Survey::with_estimator(stream, estimator);
    let remaining: Vec<_> = match target {
        Reset::All => Vec::new(),
        Reset::One(removed) => {
            let numbered = (1_usize..).zip(stream.overlays());
            numbered.filter(|(number, _)| *number != removed).map(|(_, overlay)| overlay.clone()).collect()
        }
    };
    let view_after = project_with_pairs(stream, &survey.pairs, &remaining);
    let raw = survey.estimate.stream_tokens();
    // `jp_view_with` returns `None` if JP sends our view.
    let jp_tokens = |overlays: &[Overlay], view: &View| {
        let jp_view = jp_view_with(stream, &survey.pairs, overlays);
        survey.estimate.view_tokens(jp_view.as_ref().map_or(view, |jp_view| &jp_view.view))
    };
    let jp = stream.is_jp().then(|| JpTokens {
        raw,
        view_before: jp_tokens(stream.overlays(), &survey.view),
        view_after: jp_tokens(&remaining, &view_after),
    });
    Some(TokenCounts {
        raw,
        view_before: survey.estimate.view_tokens(&survey.view),
        view_after: survey.estimate.view_tokens(&view_after),
        jp,
    })
}
