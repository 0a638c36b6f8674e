//! A conversation, whole or as a model receives it, in one of several forms.

use std::io::{self, Write};
use std::str::FromStr;

use jp_compact_core::View;
use jp_compact_core::projection::{project, project_through};
use jp_compact_core::render::{Provider, render};
use jp_compact_core::splice::Piece;
use jp_compact_core::view::{self, ItemOrigin, Part, SUMMARY_REQUEST};
use jp_compact_transcripts as transcripts;
use serde_json::Value;

use crate::escape;
use crate::human::covered;
use crate::input::InputTranscript;

/// The printed form of a conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PrintForm {
    Text,
    Json,
    Source,
    Body(Provider),
}

impl PrintForm {
    /// The names of all forms.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        ["text", "json", "source"].into_iter().chain(Provider::ALL.map(Provider::as_str))
    }
}

impl FromStr for PrintForm {
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

/// Writes a conversation, whole or with its overlays applied.
pub(crate) fn write(
    read: &InputTranscript,
    compacted: bool,
    form: PrintForm,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pieces = pieces(read, compacted, form)?;
    pieces.iter().try_for_each(|piece| out.write_all(piece.bytes(read.stream.bytes())))
}

/// Renders a conversation. In the form of the transcript, the pieces refer to its bytes.
pub(crate) fn pieces(read: &InputTranscript, compacted: bool, form: PrintForm) -> io::Result<Vec<Piece>> {
    let stream = &read.stream;
    // A transcript that is such a body keeps its model, its tools and its bytes.
    let form = match form {
        PrintForm::Body(provider) if transcripts::is_request_body(stream, provider) => PrintForm::Source,
        form => form,
    };
    if let (PrintForm::Source, false) = (form, compacted) {
        return Ok(vec![Piece::Old(0..stream.bytes().len())]);
    }
    let view = if compacted { project(stream) } else { project_through(stream, &[]) };
    let mut text = Vec::new();
    match form {
        PrintForm::Source => return Ok(transcripts::render(stream, &view)),
        PrintForm::Text => write_text(read, &view, compacted, &mut text)?,
        PrintForm::Json => view.write_json(stream, &mut text)?,
        PrintForm::Body(provider) => {
            serde_json::to_writer_pretty(&mut text, &render(stream, &view, provider).body)?;
            text.push(b'\n');
        }
    }
    Ok(vec![Piece::New(text)])
}

/// Writes turns, roles and texts. Applied overlays are marked, others are listed at the end.
fn write_text(read: &InputTranscript, view: &View, compacted: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut turn = None;
    let parts = view.items().iter().filter(|item| is_visible(read, &item.part));
    for (event, item) in view.events(&read.stream).zip(parts) {
        if turn != Some(event.turn) {
            turn = Some(event.turn);
            let origin = match event.origin {
                ItemOrigin::Kept(raw) if raw == event.turn => format!("turn {raw}"),
                ItemOrigin::Kept(raw) => format!("turn {} (turn {raw} of the history)", event.turn),
                ItemOrigin::Summary { .. } => {
                    let of = event.origin.summarized().map_or_else(String::new, |range| range.to_string());
                    format!("turn {} [overlay: a summary of {of} of the history]", event.turn)
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
                covered(overlay),
                overlay.kinds().join(", ")
            )?;
        }
    }
    Ok(())
}

/// Whether a part of a view is in [`View::events`].
fn is_visible(read: &InputTranscript, part: &Part) -> bool {
    match part {
        Part::Kept(element) | Part::Short(element) | Part::Emptied(element) | Part::Replaced(element, _) => {
            read.stream.events()[*element].kind.is_provider_visible()
        }
        Part::SummaryStart { .. } => false,
        Part::SummaryRequest { .. } | Part::SummaryResponse { .. } | Part::SummaryNote { .. } => {
            !SUMMARY_REQUEST.is_empty()
        }
    }
}
