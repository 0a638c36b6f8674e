//! `jp-compact print`: a conversation, whole or as a model is sent it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jp_compact_core::formats;
use jp_compact_core::projection::{project, project_through};
use jp_compact_core::render::{Provider, render};
use jp_compact_core::splice::Piece;
use jp_compact_core::view::{self, Origin, Part, SUMMARY_REQUEST};
use jp_compact_core::{View, source};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::store;
use serde_json::Value;

use crate::args::Written;
use crate::commands::{Read, read_as, turns};
use crate::error::Report;
use crate::exit::Exit;
use crate::{escape, output};

/// Print a conversation: whole, or as a model is sent it
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact print 17738399468 --compacted | less\n  jp-compact print events.json --compacted --as source > smaller.json\n  jp-compact print 17738399468 --compacted --as anthropic > body.json\n  jq '.[].type' < events.json; jp-compact print - --json < events.json"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, a conversation's id, another agent's transcript, or - for stdin
    transcript: OsString,
    #[command(flatten)]
    written: Written,
    /// Apply the overlays: what a model is sent
    #[arg(long)]
    compacted: bool,
    /// text for people, json (the events a provider is sent, decoded), source (the transcript's own form), or the
    /// conversation of a provider's request body
    #[arg(long = "as", value_name = "FORM", value_parser = forms(), default_value = "text")]
    form: Form,
    /// Write to FILE, which is not there yet, instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Short for --as json
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

/// What a conversation is printed as.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Text,
    Json,
    Source,
    Body(Provider),
}

impl Form {
    /// Their names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ["text", "json", "source"].into_iter().chain(Provider::ALL.map(Provider::as_str))
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "source" => Ok(Self::Source),
            name => name.parse().map(Self::Body),
        }
    }
}

fn forms() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(Form::names()).try_map(|text| text.parse())
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.written.format, environment)?;
    let form = if args.json { Form::Json } else { args.form };
    match &args.output {
        Some(path) => {
            let (path, old) = (environment.cwd.join(path), read.stream.bytes());
            store::write_new(&path, Some(&read.path), &pieces(&read, args.compacted, form)?, old)?;
        }
        None => output::data(|out| write(&read, args.compacted, form, out))?,
    }
    Ok(Exit::Done)
}

/// Writes a conversation, whole or as a model is sent it.
pub(crate) fn write(read: &Read, compacted: bool, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let pieces = pieces(read, compacted, form)?;
    pieces.iter().try_for_each(|piece| out.write_all(piece.bytes(read.stream.bytes())))
}

/// What is written, by pieces of the transcript where it is in its own form.
fn pieces(read: &Read, compacted: bool, form: Form) -> io::Result<Vec<Piece>> {
    let stream = &read.stream;
    // What is such a body already keeps its model, its tools and its bytes.
    let form = match form {
        Form::Body(provider) if formats::is_body(stream, provider) => Form::Source,
        form => form,
    };
    if let (Form::Source, false) = (form, compacted) {
        return Ok(vec![Piece::Old(0..stream.bytes().len())]);
    }
    let view = if compacted { project(stream) } else { project_through(stream, &[]) };
    let mut text = Vec::new();
    match form {
        Form::Source => return Ok(source::render(stream, &view)),
        Form::Text => write_text(read, &view, compacted, &mut text)?,
        Form::Json => view.write_json(stream, &mut text)?,
        Form::Body(provider) => {
            serde_json::to_writer_pretty(&mut text, &render(stream, &view, provider).body)?;
            text.push(b'\n');
        }
    }
    Ok(vec![Piece::New(text)])
}

/// Turns, roles, texts; overlays are marked where they act, or listed where they do not.
fn write_text(read: &Read, view: &View, compacted: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut turn = None;
    let parts = view.items().iter().filter(|item| is_visible(read, &item.part));
    for (event, item) in view.events(&read.stream).zip(parts) {
        if turn != Some(event.turn) {
            turn = Some(event.turn);
            let origin = match event.origin {
                Origin::Kept(raw) if raw == event.turn => format!("turn {raw}"),
                Origin::Kept(raw) => format!("turn {} (turn {raw} of the history)", event.turn),
                Origin::Summary { from, to } if from == to => {
                    format!("turn {} [overlay: a summary of turn {from} of the history]", event.turn)
                }
                Origin::Summary { from, to } => {
                    format!("turn {} [overlay: a summary of turns {from}-{to} of the history]", event.turn)
                }
            };
            writeln!(out, "--- {origin} ---")?;
        }
        let text = |key: &str| event.event.get(key).and_then(Value::as_str).unwrap_or_default();
        let mark = if matches!(item.part, Part::Kept(_) | Part::Short(_)) { "" } else { " [overlay]" };
        let (head, body) = match (text("type"), event.event.get("reasoning"), event.event.get("data")) {
            ("chat_request", ..) => ("user".to_owned(), text("content").to_owned()),
            ("chat_response", Some(_), _) => ("assistant, reasoning".into(), text("reasoning").into()),
            ("chat_response", _, Some(data)) => ("assistant, data".into(), data.to_string()),
            ("chat_response", ..) => ("assistant".into(), text("message").into()),
            ("tool_call_request", ..) => {
                let arguments = event.event.get("arguments").map(Value::to_string).unwrap_or_default();
                (format!("tool call {}{mark}", text("name")), arguments)
            }
            _ => {
                let failed = event.event.get("is_error") == Some(&Value::Bool(true));
                let what = if failed { "tool error" } else { "tool result" };
                (format!("{what}{mark}"), text("content").into())
            }
        };
        writeln!(out, "{}:", escape::line(&head))?;
        for line in escape::text(&body).lines() {
            writeln!(out, "  {line}")?;
        }
    }
    if !compacted {
        for (place, overlay) in read.stream.overlays().iter().enumerate() {
            writeln!(
                out,
                "[overlay {}, {}: {}, {}; --compacted applies it]",
                place + 1,
                view::timestamp_text(overlay.stamp),
                turns(overlay.from_turn, overlay.to_turn),
                overlay.kinds().join(", ")
            )?;
        }
    }
    Ok(())
}

/// Whether a part of a view is among [`View::events`].
fn is_visible(read: &Read, part: &Part) -> bool {
    match part {
        Part::Kept(element) | Part::Short(element) | Part::Emptied(element) | Part::Replaced(element, _) => {
            read.stream.events()[*element].kind.is_provider_visible()
        }
        Part::SummaryStart { .. } => false,
        Part::SummaryRequest { .. } | Part::SummaryResponse { .. } => !SUMMARY_REQUEST.is_empty(),
    }
}
