//! `jp-compact import`: converts another agent's transcript to a JP conversation. It must not write to the transcript.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use jp_compact_core::Stream;
use jp_compact_core::projection::project_with_overlays;
use jp_compact_engine::compact;
use jp_compact_images as images;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{ImageReport, ImportReport};
use jp_compact_store as store;
use jp_compact_transcripts::Format;
use jp_compact_transcripts::import::import;
use serde_json::json;

use crate::args::FormatArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, relative_path};
use crate::input::read_as;
use crate::lines::EscapedLines;
use crate::output;

/// Convert another agent's transcript to a JP conversation
///
/// Copies the events that the model received, and the overlays of the sidecar file. If the transcript has a model or a
/// system prompt, base_config.json gets them. The transcript is not changed.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact import ~/.claude/projects/x/0a1b2c3d.jsonl --to .jp/conversations/17738399471-imported\n  jp-compact import messages.json --format openai-chat --to ./copy"
)]
pub(crate) struct Args {
    /// Another agent's transcript; `-` reads stdin
    #[arg(value_name = "FILE")]
    transcript: OsString,
    #[command(flatten)]
    input: FormatArgs,
    /// The folder of the new conversation; it must not exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.input.format, environment)?;
    let format = read.stream.format();
    if format == Format::Jp {
        let hint = "`jp-compact fork TRANSCRIPT DEST` copies a conversation";
        let message = format!("{} is already a JP conversation", relative_path(&read.path, environment));
        return Err(Report::new(Exit::Usage, message, Some(hint)));
    }
    let dest = store::check_destination(&args.to, environment)?;
    let imported = import(&read.stream);
    // The user may delete the transcript after the import, so the result is checked before it is written.
    Stream::parse(imported.events.clone().into())
        .map_err(|source| compact::Error::Unreadable { path: dest.join("events.json"), source })?;
    store::create_new(&dest, &imported)?;
    let (turns, events) = (read.stream.turns(), read.stream.conversation_events());
    let overlays = read.stream.overlays().iter().filter(|overlay| !overlay.stale).count();
    let lost = images::count(&read.stream, &project_with_overlays(&read.stream, &[]));
    let document = ImportReport {
        path: dest.to_string_lossy().into_owned(),
        source: read.path.to_string_lossy().into_owned(),
        format: format.to_string(),
        turns,
        events,
        overlays,
        images: ImageReport { kept: 0, lost },
    };
    if args.json {
        output::json_line(&document)?;
    } else if !quiet {
        let mut text = EscapedLines::single(format_args!(
            "{}: {}, {}, {} imported from {} ({format})",
            relative_path(&dest, environment),
            counted(turns, "turn"),
            counted(events, "event"),
            counted(overlays, "overlay"),
            relative_path(&read.path, environment),
        ));
        if lost > 0 {
            let images = counted(lost, "image");
            text.line(format_args!("  {images} left out: JP's conversations have no form for them"));
        }
        output::info("imported", &json!({ "report": document }), &text);
    }
    Ok(Exit::Done)
}
