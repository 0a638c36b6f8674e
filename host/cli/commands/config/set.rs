//! `jp-compact config set`: sets configuration keys for one conversation.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_config::SettingsChange;
use jp_compact_runtime::environment::Environment;

use super::settings;
use crate::error::Report;
use crate::exit::Exit;

/// Set configuration keys for one conversation
///
/// They override the file of the workspace. --config and --set override them. They are stored in a file next to the transcript; the transcript stays unchanged. A conversation of JP has the file next to each of its copies, and `fork` copies it.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact config set --conversation 17738399468 conversation.compaction.keep_last=5\n  jp-compact config set --conversation session.jsonl conversation.compaction.default_profile=light\n  jp-compact config unset --conversation 17738399468 conversation.compaction.keep_last"
)]
pub(crate) struct Args {
    /// Change the configuration of this transcript: a folder, a file, or an id
    #[arg(long, value_name = "TRANSCRIPT", required = true)]
    conversation: OsString,
    /// The keys and their values
    ///
    /// A VALUE that is not TOML is read as a string.
    #[arg(value_name = "KEY=VALUE", required = true)]
    pairs: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    settings::change(&args.conversation, SettingsChange::Set(&args.pairs), args.json, environment)
}
