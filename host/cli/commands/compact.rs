//! `jp-compact TRANSCRIPT...`: runs strategies and appends their overlays, or removes overlays.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use jp_compact_core::inline;
use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;

use crate::args::{RunArgs, StrategyChoiceArgs, typed_options};
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::resolve::{self, CommandNames};
use crate::selection::SelectionArgs;
use crate::setup::Setup;
use crate::transcript_results::TranscriptResults;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, or another transcript
    ///
    /// Another transcript is, for example, the session file of another agent.
    #[arg(value_name = "TRANSCRIPT")]
    transcripts: Vec<OsString>,
    #[command(flatten)]
    choice: StrategyChoiceArgs,
    /// Run a profile or JP's inline form: s:..-3, r+t, t=sreq:5..-3
    ///
    /// The turns of the inline form count from 1, as in JP. Without a value, this runs the default profile.
    #[arg(help_heading = "Selection", long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true, conflicts_with_all = ["strategies", "profile"])]
    compact: Option<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Remove every overlay, or overlay N of `jp-compact show`
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = reset_number, conflicts_with_all = ["strategies", "profile", "compact", "from", "to", "keep_first", "keep_last", "keep_steps", "keep_tokens", "focus", "model", "provider"])]
    reset: Option<Reset>,
    #[command(flatten)]
    running: RunArgs,
}

fn reset_number(text: &str) -> Result<Reset, String> {
    match text.parse() {
        _ if text == "all" => Ok(Reset::All),
        Ok(number) if number > 0 => Ok(Reset::One(number)),
        _ => {
            Err("expected the number of an overlay, from 1; `--reset` without a number removes all overlays"
                .into())
        }
    }
}

/// The id of a conversation counts tenths of seconds since 1970, so a shorter number is not an id.
const ID_DIGITS_MIN: usize = 6;
/// The limit of transcripts in memory.
const TRANSCRIPTS_MAX: usize = 16;

pub(crate) fn run(
    args: &Args,
    quiet: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Exit, Report> {
    if args.transcripts.is_empty() {
        let hint = "give a conversation: `jp-compact .jp/conversations/17738399468-review`, or see `jp-compact --help`";
        return Err(Report::new(Exit::Usage, "no TRANSCRIPT was given", Some(hint)));
    }
    reject_detached_values(args, environment)?;
    let transcripts = &args.transcripts;
    if let Some(exit) =
        resolve::report_unresolved(transcripts, args.running.json, quiet, environment, commands)?
    {
        return Ok(exit);
    }
    if let Some(reset) = args.reset {
        return reset_all(args, reset, quiet, environment);
    }
    until_interrupted(compact_all(args, quiet, environment))
}

/// Rejects `--reset 2` and `--compact heavy`. Without a `=`, clap parses the value as a transcript.
fn reject_detached_values(args: &Args, environment: &Environment) -> Result<(), Report> {
    for argument in args.transcripts.iter().filter_map(|transcript| transcript.to_str()) {
        if environment.cwd.join(argument).exists() {
            continue;
        }
        let is_number = argument.len() < ID_DIGITS_MIN && argument.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && !argument.is_empty() && matches!(args.reset, Some(Reset::All)) {
            let hint = format!(
                "`--reset={argument}` removes only overlay {argument}; `--reset` removes all overlays"
            );
            return Err(Report::new(Exit::Usage, format!("`{argument}` is not a transcript"), Some(&hint)));
        }
        // `--compact heavy` would run the default profile on a conversation `heavy`.
        let is_name = || argument.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte));
        if args.compact.as_deref() == Some("") && (is_name() || inline::parse(argument).is_ok()) {
            let hint = format!("`--compact={argument}` runs the profile or inline form `{argument}`");
            return Err(Report::new(Exit::Usage, format!("`{argument}` is not a transcript"), Some(&hint)));
        }
    }
    Ok(())
}

async fn compact_all(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let mut setup = Setup::open(&args.running, args.transcripts.len() > 1, quiet, Asker::User, environment)?;
    // An invalid strategy affects every transcript, so it is reported before the first one is read.
    setup.planner.prepare_typed(&args.choice.strategies).await?;
    let typed_options = typed_options(&args.choice, args.selection.selection(), args.compact.as_deref());
    let mut results = TranscriptResults::new("compacted", args.running.json, quiet);
    let mut waiting = args.transcripts.iter();
    let mut started: VecDeque<Started<'_>> = VecDeque::new();
    loop {
        while started.len() < TRANSCRIPTS_MAX
            && let Some(transcript) = waiting.as_slice().first()
        {
            let path = store::locate(transcript, environment).map(|place| place.path().to_owned()).ok();
            // Concurrent runs on one transcript would not see each other's overlays.
            if path.is_some() && started.iter().any(|other| other.path == path) {
                break;
            }
            waiting.next();
            let running = RunningCompaction::start(&mut setup, &typed_options, transcript).await;
            started.push_back(Started { transcript, path, running });
        }
        let Some(next) = started.pop_front() else { break };
        let outcome = match next.running {
            Ok(running) => running.report(environment).await,
            Err(report) => Err(report),
        };
        setup.progress.suspend(|| results.print(next.transcript, outcome))?;
    }
    setup.planner.close().await;
    Ok(results.exit())
}

/// A transcript whose compaction runs, or could not be started.
struct Started<'a> {
    transcript: &'a OsStr,
    path: Option<PathBuf>,
    running: Result<RunningCompaction, Report>,
}

fn reset_all(args: &Args, reset: Reset, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let mut results = TranscriptResults::new("reset", args.running.json, quiet);
    let estimator = args.running.counting.tokens.estimator();
    let settings = (args.running.dry_run, args.running.lock_timeout);
    for transcript in &args.transcripts {
        let done = compaction::reset(transcript, reset, estimator, settings, environment);
        results.print(transcript, done)?;
    }
    Ok(results.exit())
}
