//! Prints a conversation in one of several forms: all raw events, or only the view.

use std::io::{self, Write};
use std::str::FromStr;

use jp_compact_core::View;
use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::render::{Provider, render};
use jp_compact_core::splice::Piece;
use jp_compact_core::view::{self, ItemOrigin, Part};
use jp_compact_transcripts as transcripts;
use serde_json::{Map, Value};

use crate::escape;
use crate::human::overlay_range;
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

/// Writes a conversation. `compacted` selects the view instead of all raw events.
pub(crate) fn write(
    input: &InputTranscript,
    compacted: bool,
    form: PrintForm,
    out: &mut dyn Write,
) -> io::Result<()> {
    let pieces = pieces(input, compacted, form)?;
    pieces.iter().try_for_each(|piece| out.write_all(piece.bytes(input.stream.bytes())))
}

/// Renders a conversation. With [`PrintForm::Source`], pieces refer to the bytes of the transcript.
pub(crate) fn pieces(input: &InputTranscript, compacted: bool, form: PrintForm) -> io::Result<Vec<Piece>> {
    let stream = &input.stream;
    // A transcript that is already a body for this provider keeps its model, its tools, and its bytes.
    let form = match form {
        PrintForm::Body(provider) if transcripts::is_request_body(stream, provider) => PrintForm::Source,
        form => form,
    };
    if let (PrintForm::Source, false) = (form, compacted) {
        return Ok(vec![Piece::Old(0..stream.bytes().len())]);
    }
    let view = if compacted { project(stream) } else { project_with_overlays(stream, &[]) };
    let mut text = Vec::new();
    match form {
        PrintForm::Source => return Ok(transcripts::render(stream, &view)),
        PrintForm::Text => {
            write_text(input, &view, &mut text)?;
            if !compacted {
                write_overlays(input, &mut text)?;
            }
        }
        PrintForm::Json => view.write_json(stream, &mut text)?,
        PrintForm::Body(provider) => {
            serde_json::to_writer_pretty(&mut text, &render(stream, &view, provider).body)?;
            text.push(b'\n');
        }
    }
    Ok(vec![Piece::New(text)])
}

/// Writes the turns, roles, and texts of a view. Overlays are marked where they apply.
fn write_text(input: &InputTranscript, view: &View, out: &mut dyn Write) -> io::Result<()> {
    let mut turn = None;
    // `View::events` has one event for each visible item.
    let items = view.items().iter().filter(|item| is_visible(input, &item.part));
    for (shown, item) in view.events(&input.stream).zip(items) {
        if turn != Some(shown.turn) {
            turn = Some(shown.turn);
            writeln!(out, "--- {} ---", turn_title(shown.turn, shown.origin))?;
        }
        let mark = if matches!(item.part, Part::Kept(_) | Part::Short(_)) { "" } else { " [overlay]" };
        let (head, body) = head_and_body(&shown.event, mark);
        writeln!(out, "{}:", escape::line(&head))?;
        for line in escape::text(&body).lines() {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

/// The title of a turn in the view. It names the raw turns if their numbers differ.
fn turn_title(turn: usize, origin: ItemOrigin) -> String {
    match origin {
        ItemOrigin::Kept(raw) if raw == turn => format!("turn {turn}"),
        ItemOrigin::Kept(raw) => format!("turn {turn} (turn {raw} of the history)"),
        ItemOrigin::Summary { .. } => {
            let range = origin.summarized().map_or_else(String::new, |range| range.to_string());
            format!("turn {turn} [overlay: a summary of {range} of the history]")
        }
    }
}

/// The role and the text of an event.
fn head_and_body(event: &Map<String, Value>, mark: &str) -> (String, String) {
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), event.get("reasoning"), event.get("data")) {
        ("chat_request", ..) => ("user".to_owned(), text("content").to_owned()),
        ("chat_response", Some(_), _) => ("assistant, reasoning".into(), text("reasoning").into()),
        ("chat_response", _, Some(data)) => ("assistant, data".into(), data.to_string()),
        ("chat_response", ..) => ("assistant".into(), text("message").into()),
        ("tool_call_request", ..) => {
            let arguments = event.get("arguments").map(Value::to_string).unwrap_or_default();
            (format!("tool call {}{mark}", text("name")), arguments)
        }
        _ => {
            let is_error = event.get("is_error") == Some(&Value::Bool(true));
            let role = if is_error { "tool error" } else { "tool result" };
            (format!("{role}{mark}"), text("content").into())
        }
    }
}

/// Lists the overlays, which the printed raw events do not show.
fn write_overlays(input: &InputTranscript, out: &mut dyn Write) -> io::Result<()> {
    for (number, overlay) in (1_usize..).zip(input.stream.overlays()) {
        writeln!(
            out,
            "[overlay {number}, {}: {}, {}; --compacted applies it]",
            view::timestamp_text(overlay.stamp),
            overlay_range(overlay),
            overlay.policy_names().join(", ")
        )?;
    }
    Ok(())
}

/// Whether [`View::events`] contains a part of a view.
fn is_visible(input: &InputTranscript, part: &Part) -> bool {
    match part.element() {
        Some(element) => input.stream.events()[element].kind.is_provider_visible(),
        None => !matches!(part, Part::SummaryStart { .. }),
    }
}
