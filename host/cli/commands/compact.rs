//! `jp-compact TRANSCRIPT...`: runs strategies and appends their overlays, or removes overlays.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use jp_compact_config::inline;
use jp_compact_core::source::Reset;
use jp_compact_engine::consent::Asker;
use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;

use crate::args::{RunArgs, StrategyChoiceArgs, typed_options};
use crate::compaction::{self, RunningCompaction};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::append_until_interrupted;
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
    run_args: RunArgs,
}

impl Args {
    /// Returns whether a transcript was given.
    pub(crate) fn has_transcript(&self) -> bool {
        !self.transcripts.is_empty()
    }
}

fn reset_number(text: &str) -> Result<Reset, String> {
    if text == "all" {
        return Ok(Reset::All);
    }
    match text.parse() {
        Ok(number) if number > 0 => Ok(Reset::One(number)),
        _ => Err("expected the number of an overlay, 1 or more; `--reset` alone removes all overlays".into()),
    }
}

/// A number with fewer digits is not the id of a conversation: an id counts tenths of seconds since 1970.
const ID_DIGITS_MIN: usize = 6;
/// The maximum number of transcripts in memory.
const TRANSCRIPTS_MAX: usize = 16;

pub(crate) fn run(
    args: &Args,
    quiet: bool,
    environment: &Environment,
    commands: CommandNames,
) -> Result<Exit, Report> {
    if args.transcripts.is_empty() {
        return Err(Report::no_transcript());
    }
    reject_detached_values(args, environment)?;
    let transcripts = &args.transcripts;
    if let Some(exit) = resolve::report_unresolved(transcripts, args.run_args.json, environment, commands)? {
        return Ok(exit);
    }
    if let Some(reset) = args.reset {
        return reset_all(args, reset, quiet, environment);
    }
    append_until_interrupted(args.run_args.dry_run, compact_all(args, quiet, environment))
}

/// Rejects `--reset 2` and `--compact heavy`. Without `=`, clap parses the value as a transcript.
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
        let is_profile_name =
            argument.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte));
        if args.compact.as_deref() == Some("") && (is_profile_name || inline::parse(argument).is_ok()) {
            let hint = format!("`--compact={argument}` runs the profile or inline form `{argument}`");
            let place = store::locate(OsStr::new(argument), environment).ok();
            let (message, hint) = match place.as_ref().and_then(store::Place::id) {
                Some(id) => (
                    "may be a conversation or a value of `--compact`",
                    format!("{hint}; `{id}` is the conversation"),
                ),
                None => ("is not a transcript", hint),
            };
            return Err(Report::new(Exit::Usage, format!("`{argument}` {message}"), Some(&hint)));
        }
    }
    Ok(())
}

async fn compact_all(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let mut setup = Setup::open(&args.run_args, args.transcripts.len() > 1, quiet, Asker::User, environment)?;
    if quiet && !args.run_args.json {
        setup.planner.hide_report();
    }
    // An invalid strategy affects every transcript, so it is reported before the first one is read.
    setup.planner.prepare_typed(&args.choice.strategies).await?;
    let typed_options = typed_options(&args.choice, args.selection.selection(), args.compact.as_deref());
    let mut results = TranscriptResults::new("compacted", args.run_args.json, quiet);
    let mut waiting = args.transcripts.iter().peekable();
    let mut in_progress: VecDeque<StartedTranscript<'_>> = VecDeque::new();
    loop {
        while in_progress.len() < TRANSCRIPTS_MAX
            && let Some(transcript) = waiting.peek().copied()
        {
            let path = store::locate(transcript, environment).map(|place| place.path().to_owned()).ok();
            // Concurrent runs on one transcript would not see each other's overlays.
            if path.is_some() && in_progress.iter().any(|other| other.path == path) {
                break;
            }
            waiting.next();
            let compaction = RunningCompaction::start(&mut setup, &typed_options, transcript).await;
            in_progress.push_back(StartedTranscript { transcript, path, compaction });
        }
        let Some(oldest) = in_progress.pop_front() else { break };
        let outcome = match oldest.compaction {
            Ok(compaction) => compaction.report(environment).await,
            Err(report) => Err(report),
        };
        setup.progress.suspend(|| results.print(oldest.transcript, outcome))?;
    }
    setup.planner.close().await;
    Ok(results.exit())
}

/// A transcript whose compaction runs, or could not be started.
struct StartedTranscript<'a> {
    transcript: &'a OsStr,
    /// `None` if the transcript was not found.
    path: Option<PathBuf>,
    compaction: Result<RunningCompaction, Report>,
}

fn reset_all(args: &Args, reset: Reset, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let mut results = TranscriptResults::new("reset", args.run_args.json, quiet);
    let estimator = args.run_args.counting.tokens.estimator(environment)?;
    for transcript in &args.transcripts {
        let outcome = compaction::reset(transcript, reset, estimator, &args.run_args, environment);
        results.print(transcript, outcome)?;
    }
    Ok(results.exit())
}
