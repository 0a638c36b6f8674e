//! `jp-compact auto`: compacts a conversation only if it is too large for its model (RFD D17, "Automatic Compaction").

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::AutoRequest;
use jp_compact_runtime::environment::Environment;
use jp_compact_sessions::{self as sessions, HookInput};
use jp_compact_store as store;

use crate::args::RunArgs;
use crate::automatic;
use crate::error::Report;
use crate::exit::Exit;
use crate::give_back;
use crate::interrupt::{append_until_interrupted, until_interrupted};
use crate::output;
use crate::resolve::{self, CommandNames};
use crate::selection::SelectionArgs;
use crate::setup::Setup;
use crate::transcript_results::TranscriptResults;

/// The time limit of a hook.
const HOOK_TIME: Duration = Duration::from_secs(2);

/// Compact conversations that are too large for their model
///
/// Runs even if `auto.enabled` is false. All keys named here are in `[conversation.compaction.auto]`.
///
/// A compaction is due if the conversation has more than `min_turns` turns, and its view has more than
/// `token_threshold` tokens. Without a `token_threshold`, the limit is the share `trigger_ratio` of the model's context
/// window. `--context-window` overrides `token_threshold`. The profiles in `always` run first, even if nothing is due.
/// If the conversation is still too large afterwards, `fallback_profile` runs. If nothing is due, the exit code is 0.
///
/// The context window of the first known model is used: `--model`, the model in a transcript of another program, the
/// conversation's model, the configured model. If its window is neither configured nor in the built-in table, its
/// provider is asked, at most once a day and not with `--dry-run`. The provider must be named in your own configuration
/// or by `--model`. Otherwise, the smallest window of similar models is assumed, with a warning. Without any window the
/// conversation is skipped, with a warning that `--quiet` does not suppress.
///
/// A policy applies to the turns after the last compaction of its kind. A new summary includes the earlier ones and
/// hides them. The kept turns are never compacted. If a summary fails, the conversation stays unchanged and a warning
/// is printed; with `on_failure = "fail"` the exit code is 18.
///
/// The report has the cost of the compaction in the provider's prompt cache. With `cost = "prefer-cold"`, a compaction
/// that would not pay back waits until the cache is cold, up to 90 % of the window.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact auto 17738399468\n  jp-compact auto 17738399468 --context-window 200000 --dry-run\n  jp-compact auto 17738399468 --set conversation.compaction.auto.profile=heavy"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, or another agent's file
    #[arg(value_name = "TRANSCRIPT", required_unless_present = "hook")]
    transcripts: Vec<OsString>,
    /// Run this profile [default: auto.profile]
    #[arg(short, long, value_name = "NAME")]
    profile: Option<String>,
    /// Fail with exit code 3 if a context window is unknown, or a conversation stays too large
    ///
    /// The view is measured at the end, also if a summary failed. A compaction that waits for a cold cache is not a
    /// failure, and a dry run does not know the size of a model's summary.
    #[arg(long)]
    strict: bool,
    /// Run as a hook of Claude Code, Codex, or Gemini CLI
    ///
    /// Reads the hook's JSON from stdin, and compacts the session that it names. Always exits with 0, and gives up
    /// after 2 seconds. Without --give-back, prints nothing to stdout. Each failure, and an unknown context window, is
    /// one line on stderr.
    #[arg(long, conflicts_with_all = ["transcripts", "strict", "json"])]
    hook: bool,
    /// With --hook, after a compaction: print facts of the compacted part
    ///
    /// For the hook `SessionStart` of Claude Code and Codex. If its `source` is `compact`, prints the answer that adds
    /// paths, commands, open errors, and constraints to the context, in at most 4,000 tokens. Otherwise, prints
    /// nothing. No model is asked, and nothing is compacted.
    #[arg(long, requires = "hook")]
    give_back: bool,
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
    if args.hook {
        run_hook(args, environment);
        return Ok(Exit::Done);
    }
    let (transcripts, json) = (&args.transcripts, args.run_args.json);
    if let Some(exit) = resolve::report_unresolved(transcripts, json, environment, commands)? {
        return Ok(exit);
    }
    append_until_interrupted(args.run_args.dry_run, async {
        let mut setup = Setup::open(&args.run_args, transcripts.len() > 1, quiet, Asker::User, environment)?;
        let mut results = TranscriptResults::new("checked the size", json, quiet);
        let mut has_warning = false;
        for transcript in transcripts {
            let outcome =
                automatic::compact_if_due(&request(args, environment)?, &mut setup, transcript, environment)
                    .await;
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

fn request<'a>(args: &'a Args, environment: &Environment) -> Result<AutoRequest<'a>, Report> {
    Ok(AutoRequest {
        profile: args.profile.as_deref(),
        context_window: args.run_args.models.context_window,
        selection: args.selection.selection(),
        estimator: args.run_args.counting.tokens.estimator(environment)?,
        foreign_auto: None,
    })
}

/// Runs as a hook of an agent. The agent interprets stdout and the exit code as an answer, so a failure is only a
/// warning.
fn run_hook(args: &Args, environment: &Environment) {
    let result = until_interrupted(async {
        match tokio::time::timeout(HOOK_TIME, compact_for_hook(args, environment)).await {
            Ok(result) => result,
            Err(_) => Err(Report::new(Exit::Deadline, "gave up after 2 seconds", None)),
        }
    });
    if let Err(report) = result {
        print_failure(&report);
    }
}

fn print_failure(report: &Report) {
    let causes: String = report.causes.iter().map(|cause| format!(": {cause}")).collect();
    output::warning(&format!("hook: {}{causes}", report.message));
}

async fn compact_for_hook(args: &Args, environment: &Environment) -> Result<(), Report> {
    // An agent may leave stdin open, so reading must not stop this thread.
    let stdin = tokio::task::spawn_blocking(store::read_stdin).await.map_err(|_| Report::bug())??;
    let input: HookInput = serde_json::from_slice(&stdin).map_err(|error| {
        let mut report = Report::new(Exit::Usage, "failed to read the hook's JSON from stdin", None);
        report.causes.push(error.to_string());
        report
    })?;
    if args.give_back && input.source.as_deref() != Some("compact") {
        return Ok(());
    }
    let session = sessions::session_of_hook(&input, environment)?;
    let mut setup = Setup::open(&args.run_args, false, true, Asker::User, environment)?;
    if args.give_back {
        let facts = give_back::facts(&session, &mut setup).await;
        setup.planner.close().await;
        return match facts? {
            Some(facts) => Ok(output::json_line(&sessions::context_answer(&facts))?),
            None => Ok(()),
        };
    }
    let result =
        automatic::compact_if_due(&request(args, environment)?, &mut setup, session.as_os_str(), environment)
            .await;
    setup.planner.close().await;
    let (report, _) = result?;
    // A conversation that stays too large is not a failure of the hook.
    if report.still_due.is_none()
        && let Some(warning) = automatic::limit_warning(&report, environment)
    {
        output::important_warning(&format!("hook: {warning}"));
    }
    let others = report.always.iter().chain(&report.fallback).filter_map(|other| other.warning.as_ref());
    others.chain(&report.warning).for_each(|failure| print_failure(&Report::from_document(failure)));
    Ok(())
}
