//! `jp-compact config get`: prints one value of the configuration.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_runtime::environment::Environment;

use crate::args::ConfigArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Print one value of the configuration
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact config get conversation.compaction.keep_last\n  jp-compact config get limits.private_dir_bytes"
)]
pub(crate) struct Args {
    /// The key of a value or of a table
    key: String,
    /// Use the configuration of this transcript: a folder, a file, or an id
    #[arg(long, value_name = "TRANSCRIPT")]
    conversation: Option<OsString>,
    #[command(flatten)]
    configured: ConfigArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let config = super::load(args.conversation.as_ref(), &args.configured, environment)?;
    let mut text = EscapedLines::new();
    config.value(&args.key, &super::is_shown)?.lines().for_each(|line| text.line(line));
    output::texts([text])?;
    Ok(Exit::Done)
}
