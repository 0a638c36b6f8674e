//! RunningCompaction and reset of one transcript, with the reports. The command line and the MCP server share them.

use std::ffi::OsStr;
use std::time::Duration;

use jp_compact_core::estimate::Estimator;
use jp_compact_core::jp_view::jp_view_with;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::project_with;
use jp_compact_core::source::Reset;
use jp_compact_core::{Survey, View};
use jp_compact_engine::compact::{self, Opened, RunSettings};
use jp_compact_engine::plan::Typed;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{CompactionReport, JpTokens, ResetDocument, TokenCounts};
use tokio::task::JoinHandle;

use crate::error::Report;
use crate::human::{counted, short};
use crate::lines::EscapedLines;
use crate::reports::compaction;
use crate::setup::Setup;

/// A running compaction. Dropping it aborts the task.
pub(crate) struct RunningCompaction(JoinHandle<(RunSettings, Result<compact::RunReport, compact::Error>)>);

impl RunningCompaction {
    /// Reads a transcript, plans its run, and starts it.
    pub(crate) async fn start(
        setup: &mut Setup<'_>,
        typed: &Typed<'_>,
        transcript: &OsStr,
    ) -> Result<Self, Report> {
        let opened = setup.read(transcript)?;
        let run = setup.planner.plan(typed, &opened).await?;
        Ok(Self(tokio::spawn(finish(run, opened))))
    }

    /// Waits for the end, and returns the report.
    pub(crate) async fn report(
        mut self,
        environment: &Environment,
    ) -> Result<(CompactionReport, EscapedLines), Report> {
        let (run, done) = (&mut self.0).await.map_err(|_| Report::bug())?;
        let report = done?;
        Ok((compaction::document(&report, &run), compaction::text(&report, &run, environment)))
    }
}

impl Drop for RunningCompaction {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn finish(
    run: RunSettings,
    opened: Opened,
) -> (RunSettings, Result<compact::RunReport, compact::Error>) {
    let done = compact::compact(&run, &opened).await;
    (run, done)
}

/// Removes overlays of a transcript, and returns the report.
pub(crate) fn reset(
    transcript: &OsStr,
    which: Reset,
    estimator: Estimator,
    (dry_run, lock_timeout): (bool, Duration),
    environment: &Environment,
) -> Result<(ResetDocument, EscapedLines), Report> {
    let tokens = tokens_of_reset(transcript, which, estimator, environment);
    let report = compact::reset(transcript, which, dry_run, lock_timeout, environment)?;
    let document = ResetDocument {
        path: report.path.to_string_lossy().into_owned(),
        conversation_id: report.id,
        dry_run,
        estimator: estimator.name().to_owned(),
        removed: report.removed,
        tokens,
        saved: tokens.map(|tokens| tokens.saved_of_view()),
    };
    let path = short(&report.path, environment);
    let would = if dry_run { "would be removed from" } else { "removed from" };
    let text = match report.removed {
        0 => format!("no overlay to remove in {path}"),
        removed => format!("{} {would} {path}", counted(removed, "overlay")),
    };
    Ok((document, EscapedLines::single(text)))
}

/// The tokens before and after a reset. None if the conversation cannot be read; its overlays can still be removed.
fn tokens_of_reset(
    transcript: &OsStr,
    which: Reset,
    estimator: Estimator,
    environment: &Environment,
) -> Option<TokenCounts> {
    let opened = compact::open(transcript, environment).ok()?;
    let stream = &opened.stream;
    let survey = Survey::with(stream, estimator);
    let rest: Vec<_> = match which {
        Reset::All => Vec::new(),
        Reset::One(number) => {
            let numbered = (1_usize..).zip(stream.overlays());
            numbered.filter(|(other, _)| *other != number).map(|(_, overlay)| overlay.clone()).collect()
        }
    };
    let view = project_with(stream, &survey.pairs, &rest);
    let raw = survey.estimate.stream_tokens();
    let sent = |overlays: &[Overlay], view: &View| {
        let of_jp = jp_view_with(stream, &survey.pairs, overlays);
        survey.estimate.view_tokens(of_jp.as_ref().map_or(view, |of_jp| &of_jp.view))
    };
    let jp = stream.is_jp().then(|| JpTokens {
        raw,
        view_before: sent(stream.overlays(), &survey.view),
        view_after: sent(&rest, &view),
    });
    let (before, after) = (survey.estimate.view_tokens(&survey.view), survey.estimate.view_tokens(&view));
    Some(TokenCounts { raw, view_before: before, view_after: after, jp })
}
