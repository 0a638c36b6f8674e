//! `jp-compact lint`: whether a provider would take what a conversation sends it.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_core::lint::{self, Violation};
use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, as_is};
use jp_compact_core::{Stream, Survey};
use jp_compact_engine::environment::Environment;
use serde_json::json;

use crate::args::{Providers, Written, providers};
use crate::commands::{counted, read_as, short};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// Check what a model is sent against the rules that providers have
///
/// Without --provider the rules that all share (G1-G5); exit 3 when one is broken.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact lint 17738399468\n  jp-compact lint events.json --provider all --json | jq .violations\n  jp-compact lint 17738399468 --provider ollama --context-window 8192"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, a conversation's id, another agent's transcript, or - for stdin
    transcript: OsString,
    #[command(flatten)]
    written: Written,
    /// Whose rules hold too, over its request body
    #[arg(long, value_name = "PROVIDER", value_parser = providers())]
    provider: Option<Providers>,
    /// Ollama's num_ctx: what does not fit is a warning
    #[arg(long, value_name = "TOKENS", requires = "provider")]
    context_window: Option<u64>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.written.format, environment)?;
    let found = found(args, &read.stream);
    let warnings = found.iter().filter(|found| found.is_warning()).count();
    let violations = found.len() - warnings;
    if args.json {
        output::json_line(&json!({
            "path": read.path.to_string_lossy(),
            "conversation_id": read.id,
            "providers": args.provider.as_ref().map(|providers| &providers.0),
            "clean": violations == 0,
            "violations": found,
        }))?;
    } else {
        let path = short(&read.path, environment);
        let head = match (violations, warnings) {
            (0, 0) => "clean".into(),
            (0, warnings) => format!("clean, with {}", counted(warnings, "warning")),
            (violations, 0) => counted(violations, "violation"),
            (violations, warnings) => {
                format!("{}, {}", counted(violations, "violation"), counted(warnings, "warning"))
            }
        };
        let mut text = Lines::of(format_args!("{path}: {head}"));
        text.list("  ", found.iter().map(|found| format!("  {found}")));
        output::text(&text)?;
    }
    Ok(if violations == 0 { Exit::Done } else { Exit::Gate })
}

fn found(args: &Args, stream: &Stream) -> Vec<Violation> {
    let view = project(stream);
    let mut found = lint::view(stream, stream.overlays(), &view);
    for provider in args.provider.iter().flat_map(|providers| &providers.0) {
        found.extend(lint::body(*provider, &as_is(stream, &view, *provider)));
        if *provider == Provider::Ollama
            && let Some(window) = args.context_window
        {
            let tokens = Survey::of(stream).estimate.view_tokens(&view);
            found.extend(lint::window(tokens, window));
        }
    }
    found
}
