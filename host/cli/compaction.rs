//! RunningCompaction and reset of one transcript, with the reports. The command line and the MCP server share them.

use std::ffi::OsStr;
use std::time::Duration;

use jp_compact_core::source::Reset;
use jp_compact_engine::compact::{self, Opened, RunSettings};
use jp_compact_engine::plan::Typed;
use jp_compact_runtime::environment::Environment;
use serde_json::{Value, json};
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
    pub(crate) async fn report(mut self, environment: &Environment) -> Result<(Value, EscapedLines), Report> {
        let (run, done) = (&mut self.0).await.map_err(|_| Report::bug())?;
        let report = done?;
        Ok((compaction::json(&report, &run), compaction::text(&report, &run, environment)))
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
    (dry_run, lock_timeout): (bool, Duration),
    environment: &Environment,
) -> Result<(Value, EscapedLines), Report> {
    let report = compact::reset(transcript, which, dry_run, lock_timeout, environment)?;
    let json = json!({
        "path": report.path.to_string_lossy(),
        "conversation_id": report.id,
        "dry_run": dry_run,
        "removed": report.removed,
    });
    let path = short(&report.path, environment);
    let would = if dry_run { "would be removed from" } else { "removed from" };
    let text = match report.removed {
        0 => format!("no overlay to remove in {path}"),
        removed => format!("{} {would} {path}", counted(removed, "overlay")),
    };
    Ok((json, EscapedLines::single(text)))
}
