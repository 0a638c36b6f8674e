//! `jp-compact show`: lists the overlays of a conversation with their origin and savings, or the steps of its turns.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_reports::steps;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;

use crate::args::{FormatArgs, TokenArgs};
use crate::error::Report;
use crate::exit::Exit;
use crate::input::read_as;
use crate::output;
use crate::reports::overlays;

/// List the overlays of a conversation and their savings
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact show 17738399468\n  jp-compact show 17738399468 --json | jq .tokens"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, another agent's file, or -
    ///
    /// `-` reads stdin.
    transcript: OsString,
    #[command(flatten)]
    input: FormatArgs,
    /// List the steps of each turn instead of the overlays
    ///
    /// A step is one response of the model and the tool results that answer it. `open` marks the steps that cannot be compacted yet.
    #[arg(long, conflicts_with = "json")]
    steps: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    counting: TokenArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.input.format, environment)?;
    let estimator = args.counting.tokens.estimator(environment)?;
    if args.steps {
        output::text(&steps::text(&read.stream, estimator))?;
        return Ok(Exit::Done);
    }
    let (document, text) = overlays::report(&read, estimator, environment, &Clock::System.local_now());
    if args.json {
        output::json_line(&document)?;
    } else {
        output::text(&text)?;
    }
    Ok(Exit::Done)
}
