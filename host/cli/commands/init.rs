//! `jp-compact init`: measures a few strategies on the user's latest sessions, and writes the configuration with the
//! best strategy after asking. It must not replace a configuration.

use std::ffi::OsString;
use std::io::ErrorKind;

use clap::Parser;
use jp_compact_help::init::{self, Choice};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file;
use jp_compact_schema::document::EvalReport;
use jp_compact_sessions as sessions;
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::{output, prompt};

/// Write a configuration for your own sessions
///
/// Measures the bundled strategies that need no model on your latest sessions: those of all agents except OpenCode,
/// and JP's in the workspace. A strategy must keep at least 80 % of the names that the sessions used again. Of
/// these strategies, the one that saves most is offered. In a workspace, a profile with it is written to
/// `.jp-compact.toml`, and elsewhere to your own configuration. If sessions of agents other than JP were measured, the
/// profile keeps the newest 3 steps in any turn. An existing file is never replaced.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  jp-compact init\n  jp-compact init --dry-run --max 10")]
pub(crate) struct Args {
    /// Measure at most N sessions, the newest first
    #[arg(long = "max", value_name = "N", default_value_t = 5)]
    measured_max: usize,
    /// Write without asking
    #[arg(short, long, conflicts_with = "preview")]
    yes: bool,
    /// Measure and print the configuration, but write nothing
    #[arg(short = 'n', long = "dry-run")]
    preview: bool,
}

/// The permissions of a configuration.
const CONFIG_MODE: u32 = 0o644;

pub(crate) fn run(
    args: &Args,
    environment: &Environment,
    measure: impl FnOnce(&[OsString], &[&str]) -> Result<EvalReport, Report>,
) -> Result<Exit, Report> {
    let Some(target) = init::target(environment) else {
        let hint = "set HOME, or run the command in a workspace";
        return Err(Report::new(Exit::Usage, "failed to find a folder for the configuration", Some(hint)));
    };
    if target.exists() {
        let hint = "`jp-compact config --explain` shows it; change it with an editor";
        return Err(Report::new(Exit::Usage, format!("{} exists", target.display()), Some(hint)));
    }
    let sessions: Vec<OsString> = sessions::recorded_sessions(args.measured_max, environment)
        .into_iter()
        .filter_map(|session| session.path.map(OsString::from))
        .collect();
    if sessions.is_empty() {
        let hint =
            "work with an agent first, or measure other sessions with `jp-compact eval PATH -s STRATEGY`";
        return Err(Report::new(Exit::Transcript, "there are no sessions to measure", Some(hint)));
    }
    let report = measure(&sessions, &init::ROWS)?;
    let choices = init::choices(&report);
    if choices.is_empty() {
        let hint = "use the agent for a while, or give sessions of other folders to `jp-compact eval`";
        return Err(Report::new(Exit::Transcript, "the sessions are too short to measure", Some(hint)));
    }
    output::table(&init::table(&choices))?;
    let Some(best) = init::best(&choices) else {
        let text = "no strategy both saves enough and keeps the names that these sessions used again; nothing was written";
        output::info("nothing was written", &json!({}), &EscapedLines::single(text));
        return Ok(Exit::Done);
    };
    let config = init::config(best, init::has_agents(&report));
    if args.preview {
        let mut text = EscapedLines::single(format_args!("would write {}:", target.display()));
        text.quote("  ", &config);
        let fields = json!({ "path": target.to_string_lossy(), "profile": best.profile });
        output::info("would write the configuration", &fields, &text);
        return Ok(Exit::Done);
    }
    if !is_confirmed(args, best)? {
        output::info("nothing was written", &json!({}), &EscapedLines::single("nothing was written"));
        return Ok(Exit::Done);
    }
    write(&config, &target)?;
    let mut text = EscapedLines::single(format_args!("wrote {}", target.display()));
    text.line("A hook compacts sessions automatically, for example `Stop` in ~/.claude/settings.json:");
    text.line(format_args!("  {}", init::HOOK));
    output::info(
        "wrote the configuration",
        &json!({ "path": target.to_string_lossy(), "profile": best.profile }),
        &text,
    );
    Ok(Exit::Done)
}

fn is_confirmed(args: &Args, best: &Choice) -> Result<bool, Report> {
    if args.yes {
        return Ok(true);
    }
    if !output::can_ask() {
        let message = format!("the best strategy is `{}`, and no user can confirm it here", best.profile);
        let hint = "`jp-compact init --yes` writes it without asking";
        return Err(Report::new(Exit::Usage, message, Some(hint)));
    }
    let text = format_args!("The best strategy for these sessions is `{}`.", best.profile);
    output::introduction("asks", &json!({ "profile": best.profile }), &EscapedLines::single(text));
    Ok(prompt::is_yes(&prompt::read_answer("Make it the default? [y/N] ")?))
}

fn write(config: &str, target: &std::path::Path) -> Result<(), Report> {
    let failed = |error: std::io::Error| {
        let message = format!("failed to write {}", target.display());
        match error.kind() {
            ErrorKind::AlreadyExists => Report::new(Exit::Usage, format!("{message}: it exists"), None),
            _ => Report::of_system(&message, &error),
        }
    };
    if let Some(folder) = target.parent() {
        private_file::make_folder(folder).map_err(failed)?;
    }
    private_file::write_new(target, config.as_bytes(), CONFIG_MODE).map_err(failed)
}
