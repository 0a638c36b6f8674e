//! `jp-compact strategy dev`: shows the effect of a strategy on a conversation, again after every save. The strategy
//! runs in a jail without a trust record, and nothing is appended. `diff` computes the effect; `commands` connects the
//! two.
//!
//! Changes are found by reading the stamps of the strategy's few files five times a second. The crate `notify` is not
//! used: editors save by renaming, after which a watched file must be watched again, and shared folders of containers
//! and virtual machines report no events. Both would need this polling as well.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use jp_compact_conformance::file_stamps;
use jp_compact_runtime::environment::Environment;
use serde_json::json;

use crate::args::SandboxArg;
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;

/// Show the effect of a strategy, and again after every save
///
/// The strategy runs in a jail, with the permissions that its manifest asks for, and without a trust record. Nothing is
/// appended, and no model is asked. Ctrl-C ends the command.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy dev ./mine 17738399468\n  jp-compact strategy dev ./mine session.jsonl --keep-last 0 --stat"
)]
pub(crate) struct Args {
    /// An executable, a shared library, or a folder with a plugin.toml
    path: PathBuf,
    /// A conversation folder, events.json, id, or another agent's file
    transcript: OsString,
    /// Keep the last N turns unchanged
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep_last: usize,
    /// Print a table with a line for each event, without texts
    #[arg(long)]
    stat: bool,
    /// Require a jail, or run with your permissions [default: require]
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<SandboxArg>,
    /// Show the effect once, without waiting for changes
    #[arg(long)]
    once: bool,
}

/// The time between two checks of the files.
const POLL: Duration = Duration::from_millis(200);

impl Args {
    /// Returns the command line of `diff` that shows the effect.
    pub(crate) fn diff_arguments(&self, environment: &Environment) -> Vec<OsString> {
        let path = environment.cwd.join(&self.path);
        let folder = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(&path) };
        let mut arguments: Vec<OsString> = ["jp-compact", "diff"].map(OsString::from).into();
        arguments.push(self.transcript.clone());
        let sandbox = match self.sandbox {
            Some(SandboxArg::Contained) => "--sandbox=contained",
            Some(SandboxArg::Require) | None => "--sandbox=require",
        };
        // The current folder is left out, because a colon in it would begin options.
        let typed = Path::new(".").join(&self.path).into_os_string();
        arguments.extend([sandbox.into(), "--strategy".into(), typed]);
        arguments.extend(["--trust-dir".into(), folder.as_os_str().to_owned()]);
        arguments.extend(["--keep-last".into(), self.keep_last.to_string().into()]);
        arguments.extend(self.stat.then(|| "--stat".into()));
        arguments
    }

    /// Calls `show` now, and after every change of the strategy. An error is printed, because the next save may fix it.
    pub(crate) fn watch(
        &self,
        environment: &Environment,
        mut show: impl FnMut() -> Result<(), Report>,
    ) -> Result<(), Report> {
        let path = environment.cwd.join(&self.path);
        if !path.exists() {
            let message = format!("failed to find a strategy at {}", self.path.display());
            let hint = "`jp-compact strategy new NAME --lang sh` creates one";
            return Err(Report::new(Exit::NotFound, message, Some(hint)));
        }
        loop {
            let stamps = file_stamps(&path);
            match show() {
                Err(report) if self.once || report.exit == Exit::Interrupted => return Err(report),
                Err(report) => output::failure(&report.failure(None), &report.text()),
                Ok(()) => {}
            }
            if self.once {
                return Ok(());
            }
            let line = format_args!("waiting for a change of {} (Ctrl-C to stop)", self.path.display());
            output::info(
                "waiting",
                &json!({ "path": self.path.to_string_lossy() }),
                &EscapedLines::single(line),
            );
            until_interrupted(wait_for_change(&path, &stamps))?;
        }
    }
}

async fn wait_for_change(path: &Path, stamps: &[jp_compact_conformance::FileStamp]) -> Result<(), Report> {
    while file_stamps(path) == stamps {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
