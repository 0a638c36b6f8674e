//! `jp-compact show`: lists the overlays of a conversation, their origin, and their savings.

use std::ffi::OsString;

use clap::Parser;
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
    /// A conversation folder, events.json, id, other transcript, or -
    ///
    /// Also another agent's transcript; `-` reads stdin.
    transcript: OsString,
    #[command(flatten)]
    input: FormatArgs,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    counting: TokenArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.input.format, environment)?;
    let (line, text) = overlays::report(&read, args.counting.tokens.estimator(), environment);
    if args.json {
        output::json_line(&line)?;
    } else {
        output::text(&text)?;
    }
    Ok(Exit::Done)
}
