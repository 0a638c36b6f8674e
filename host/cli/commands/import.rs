//! `jp-compact import`: a transcript of another agent as a conversation of JP's.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use jp_compact_core::Stream;
use jp_compact_core::import::import;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::store;
use serde_json::json;

use crate::args::Written;
use crate::commands::{counted, read_as, short};
use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Make a conversation of JP's of another agent's transcript
///
/// Its events are copied as a model was sent them, with the overlays that lie beside it. The transcript is only read. Model and system prompt are written to base_config.json where the transcript names them.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact import ~/.claude/projects/x/0a1b2c3d.jsonl --to .jp/conversations/17738399471-imported\n  jp-compact import messages.json --format openai-chat --to ./copy"
)]
pub(crate) struct Args {
    /// Another agent's transcript, or - for stdin
    #[arg(value_name = "FILE")]
    transcript: OsString,
    #[command(flatten)]
    written: Written,
    /// The new conversation's folder, which is not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.written.format, environment)?;
    let format = read.stream.format();
    if format == jp_compact_core::formats::Format::Jp {
        let hint = "`jp-compact fork TRANSCRIPT DEST` copies a conversation";
        let message = format!("{} is a conversation of JP's already", short(&read.path, environment));
        return Err(Report::new(Exit::Usage, message, Some(hint)));
    }
    let dest = store::free(&args.to, environment)?;
    let imported = import(&read.stream);
    // What could not be read back would be lost with the transcript.
    Stream::parse(imported.events.clone().into())
        .map_err(|source| Failure::Unreadable { path: dest.join("events.json"), source })?;
    store::create_new(&dest, &imported)?;
    let (turns, events) = (read.stream.turns(), read.stream.conversation_events());
    let overlays = read.stream.overlays().iter().filter(|overlay| !overlay.stale).count();
    if args.json {
        output::json_line(&json!({
            "path": dest.to_string_lossy(),
            "source": read.path.to_string_lossy(),
            "format": format.as_str(),
            "turns": turns,
            "events": events,
            "overlays": overlays,
        }))?;
    } else if !quiet {
        let text = format!(
            "{}: {}, {}, {} imported from {} ({format})",
            short(&dest, environment),
            counted(turns, "turn"),
            counted(events, "event"),
            counted(overlays, "overlay"),
            short(&read.path, environment),
        );
        output::say(text);
    }
    Ok(Exit::Done)
}
