//! `jp-compact config unset`: removes configuration keys from the settings of one conversation.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_config::SettingsChange;
use jp_compact_runtime::environment::Environment;

use super::settings;
use crate::error::Report;
use crate::exit::Exit;

/// Remove configuration keys from the settings of one conversation
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Change the configuration of this transcript: a folder, a file, or an id
    #[arg(long, value_name = "TRANSCRIPT", required = true)]
    conversation: OsString,
    /// The keys; all keys below them are removed, too
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    settings::change(&args.conversation, SettingsChange::Unset(&args.keys), args.json, environment)
}
