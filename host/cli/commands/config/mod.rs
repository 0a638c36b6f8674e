//! `jp-compact config`: prints the configuration, changes the settings of a conversation, and manages approvals. With
//! `--explain`, it also prints the origin of each value.

mod approvals;
mod get;
mod set;
mod settings;
mod trust;
mod unset;
mod untrust;

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use jp_compact_config::{self as config, Config, EXAMPLE, JpSettings};
use jp_compact_engine::compact;
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts::Transcript;

use crate::args::ConfigArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::input::read;
use crate::{escape, output};

/// Show, change, or approve the configuration
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact config --explain\n  jp-compact config --example > ~/.config/jp-compact/config.toml\n  jp-compact config 17738399468 --set conversation.compaction.keep_last=5\n  jp-compact config set --conversation 17738399468 conversation.compaction.keep_last=5\n  jp-compact config trust ~/project",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Show the configuration of this transcript
    ///
    /// It includes the file of the transcript's workspace, the conversation's own settings, and the settings of JP.
    transcript: Option<OsString>,
    /// Print the origin of each value
    #[arg(long)]
    explain: bool,
    /// Print a commented example file with every key
    #[arg(long, conflicts_with_all = ["transcript", "explain", "json", "files", "sets"])]
    example: bool,
    /// Print one line of JSON
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    #[command(flatten)]
    configured: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(get::Args),
    Set(set::Args),
    Unset(unset::Args),
    Trust(trust::Args),
    Untrust(untrust::Args),
}

impl Args {
    /// Returns whether the command prints the configuration, and does not change it.
    pub(crate) fn writes_data(&self) -> bool {
        matches!(self.command, None | Some(Command::Get(_)))
    }
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    match &args.command {
        Some(Command::Get(args)) => return get::run(args, environment),
        Some(Command::Set(args)) => return set::run(args, environment),
        Some(Command::Unset(args)) => return unset::run(args, environment),
        Some(Command::Trust(args)) => return trust::run(args, environment),
        Some(Command::Untrust(args)) => return untrust::run(args, environment),
        None => {}
    }
    if args.example {
        output::data(|out| out.write_all(EXAMPLE.as_bytes()))?;
        return Ok(Exit::Done);
    }
    let config = load(args.transcript.as_ref(), &args.configured, environment)?;
    config.warnings.iter().for_each(|warning| output::warning(warning));
    if args.json {
        output::json_line(&config.document())?;
    } else {
        let text = escape::text(&config.to_toml(args.explain, &is_shown));
        output::data(|out| out.write_all(text.as_bytes()))?;
    }
    Ok(Exit::Done)
}

/// Returns whether a text is printed without escapes.
fn is_shown(text: &str) -> bool {
    escape::text(text) == text
}

/// Loads the configuration of the given transcript, or of the current folder.
fn load(
    transcript: Option<&OsString>,
    configured: &ConfigArgs,
    environment: &Environment,
) -> Result<Config, Report> {
    let load_for = |place, stream: Option<&Transcript>| {
        let jp = JpSettings::read(environment, place, stream.map(Transcript::stream));
        let config = config::load(environment, place, &configured.files, &configured.sets, jp)?;
        let is_of_other_agent = stream.is_some_and(|stream| stream.format().is_of_other_agent());
        Ok(if is_of_other_agent { config.for_agent_transcript() } else { config })
    };
    match transcript {
        None => load_for(None, None),
        Some(transcript) if transcript == "-" => load_for(None, Some(&read(transcript, environment)?.stream)),
        Some(transcript) => {
            let opened = compact::open(transcript, environment)?;
            load_for(Some(&opened.place), Some(&opened.stream))
        }
    }
}
