//! `jp-compact auto`: compacts a conversation only if it is too large for its model (RFD D17, "Automatic Compaction").

use std::ffi::OsString;

use clap::Parser;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::AutoRequest;
use jp_compact_runtime::environment::Environment;

use crate::args::RunArgs;
use crate::automatic;
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::output;
use crate::resolve::{self, CommandNames};
use crate::selection::SelectionArgs;
use crate::setup::Setup;
use crate::transcript_results::TranscriptResults;

/// Compact conversations that are too large for their model
///
/// Runs even if `auto.enabled` is false. All keys named here are in `[conversation.compaction.auto]`.
///
/// A compaction is due if the conversation has more than `min_turns` turns, and its view has more than `token_threshold` tokens. Without a `token_threshold`, the limit is the share `trigger_ratio` of the model's context window. `--context-window` overrides `token_threshold`. The profiles in `always` run first, even if nothing is due. If the conversation is still too large afterwards, `fallback_profile` runs. If nothing is due, the exit code is 0.
///
/// The window is that of `--model`, else of the model in a transcript of another program, else of the conversation's model, else of the configured model. If it is not configured and not in the built-in table, a provider that your own configuration or `--model` names is asked once a day, but not with `--dry-run`. Otherwise the smallest window of similar models is assumed, with a warning. Without any window the conversation is skipped, with a warning that `--quiet` does not suppress.
///
/// A policy applies to the turns after the last compaction of its kind. A new summary includes the earlier ones and hides them. The kept turns are never compacted. If a summary fails, the conversation stays unchanged and a warning is printed; with `on_failure = "fail"` the exit code is 18.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact auto 17738399468\n  jp-compact auto 17738399468 --context-window 200000 --dry-run\n  jp-compact auto 17738399468 --set conversation.compaction.auto.profile=heavy"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, or an id
    #[arg(value_name = "TRANSCRIPT", required = true)]
    transcripts: Vec<OsString>,
    /// Run this profile [default: auto.profile]
    #[arg(short, long, value_name = "NAME")]
    profile: Option<String>,
    /// Fail with exit code 3 if a context window is unknown, or a conversation stays too large
    ///
    /// A conversation can stay too large if neither its profile nor `fallback_profile` has a summary.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    run_args: RunArgs,
}

pub(crate) fn run(
    args: &Args,
    quiet: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Exit, Report> {
    let (transcripts, json) = (&args.transcripts, args.run_args.json);
    if let Some(exit) = resolve::report_unresolved(transcripts, json, quiet, environment, commands)? {
        return Ok(exit);
    }
    until_interrupted(async {
        let mut setup = Setup::open(&args.run_args, transcripts.len() > 1, quiet, Asker::User, environment)?;
        let mut results = TranscriptResults::new("checked the size", json, quiet);
        let mut has_warning = false;
        for transcript in transcripts {
            let request = AutoRequest {
                profile: args.profile.as_deref(),
                context_window: args.run_args.models.context_window,
                selection: args.selection.selection(),
                estimator: args.run_args.counting.tokens.estimator(),
                foreign_auto: None,
            };
            let outcome = automatic::compact_if_due(&request, &mut setup, transcript, environment).await;
            let report = outcome.as_ref().map(|(report, _)| report);
            let warning = report.ok().and_then(|report| automatic::limit_warning(report, environment));
            has_warning |= warning.is_some();
            setup.progress.suspend(|| {
                warning.iter().for_each(|warning| output::important_warning(warning));
                results.print(transcript, outcome)
            })?;
        }
        setup.planner.close().await;
        Ok(match results.exit() {
            Exit::Done if args.strict && has_warning => Exit::Gate,
            exit => exit,
        })
    })
}
