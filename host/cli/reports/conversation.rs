//! A conversation, printed in one of several forms, with all raw events or only with the view.

use std::io::{self, Write};
use std::str::FromStr;

use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::render::{Provider, Rendered, ViewPosition, render};
use jp_compact_core::splice::Piece;
use jp_compact_core::view::{self, Item, ItemOrigin, Part};
use jp_compact_core::{Pairs, Stream};
use jp_compact_diff::{Comparison, DiffEntry, OverlayChoice};
use jp_compact_images as images;
use jp_compact_schema::document::ChangeKind;
use jp_compact_transcripts as transcripts;
use serde_json::{Map, Value};

use crate::escape;
use crate::human::{counted, grouped, overlay_range};
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
    /// Returns the names of all forms.
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
            name => name.parse().map(Self::Body).map_err(|_: String| {
                let names: Vec<_> = Self::names().map(|name| format!("`{name}`")).collect();
                format!("expected one of {}, not `{name}`", names.join(", "))
            }),
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
    printed(input, compacted, false, form)?.write(input, out)
}

/// A printed conversation.
pub(crate) struct Printed {
    /// With [`PrintForm::Source`], pieces refer to the bytes of the transcript.
    pub(crate) pieces: Vec<Piece>,
    /// The warning about the images that a request lacks.
    pub(crate) warning: Option<String>,
}

impl Printed {
    pub(crate) fn write(&self, input: &InputTranscript, out: &mut dyn Write) -> io::Result<()> {
        self.pieces.iter().try_for_each(|piece| out.write_all(piece.bytes(input.stream.bytes())))
    }
}

impl From<Vec<Piece>> for Printed {
    fn from(pieces: Vec<Piece>) -> Self {
        Self { pieces, warning: None }
    }
}

/// Renders a conversation. `no_continue` leaves out the message that the renderer adds to the end of a request.
pub(crate) fn printed(
    input: &InputTranscript,
    compacted: bool,
    no_continue: bool,
    form: PrintForm,
) -> io::Result<Printed> {
    let stream = &input.stream;
    // A transcript that is already a body for this provider keeps its model, its tools, and its bytes.
    let form = match form {
        PrintForm::Body(provider) if transcripts::is_request_body(stream, provider) => PrintForm::Source,
        form => form,
    };
    if let (PrintForm::Source, false) = (form, compacted) {
        return Ok(vec![Piece::Old(0..stream.bytes().len())].into());
    }
    let view = || if compacted { project(stream) } else { project_with_overlays(stream, &[]) };
    let (mut text, mut warning) = (Vec::new(), None);
    match form {
        PrintForm::Source => return Ok(transcripts::render(stream, &view()).into()),
        PrintForm::Text => {
            write_text(stream, compacted, &mut text)?;
            if !compacted {
                write_overlays(input, &mut text)?;
            }
        }
        PrintForm::Json => view().write_json(stream, &mut text)?,
        PrintForm::Body(provider) => {
            let view = view();
            let Rendered { mut body, positions, .. } = render(stream, &view, provider);
            // Only an added message has no position.
            if no_continue
                && positions.last() == Some(&ViewPosition::default())
                && let Some(messages) = body[provider.conversation()].as_array_mut()
            {
                messages.pop();
            }
            warning = images::place(stream, &view, provider, &mut body).warning(provider);
            serde_json::to_writer_pretty(&mut text, &body)?;
            text.push(b'\n');
        }
    }
    Ok(Printed { pieces: vec![Piece::New(text)], warning })
}

/// Writes the turns, roles, and texts of a view. Each change by an overlay is marked with its size.
fn write_text(stream: &Stream, compacted: bool, out: &mut dyn Write) -> io::Result<()> {
    let pairs = Pairs::new(stream);
    let overlays = if compacted { stream.overlays() } else { &[] };
    let comparison = Comparison::new(stream, &pairs, &OverlayChoice::all(overlays));
    let mut text = ViewText { comparison: &comparison, turn: None, hidden: Hidden::default(), out };
    comparison.entries.iter().try_for_each(|entry| text.add(entry))?;
    text.write_hidden()
}

/// Consecutive events that the view does not show, because of one overlay.
#[derive(Default)]
struct Hidden {
    overlay: Option<usize>,
    events: usize,
    characters: u64,
}

/// The text form of a view, while it is written.
struct ViewText<'a> {
    comparison: &'a Comparison<'a>,
    /// The turn of the last title.
    turn: Option<usize>,
    hidden: Hidden,
    out: &'a mut dyn Write,
}

impl ViewText<'_> {
    fn add(&mut self, entry: &DiffEntry) -> io::Result<()> {
        let Some(index) = entry.after else { return self.add_hidden(entry) };
        let items = self.comparison.after.items();
        let summarized = match entry.kind {
            Some(ChangeKind::Added) if self.hidden.overlay == entry.overlay => {
                std::mem::take(&mut self.hidden).characters
            }
            _ => 0,
        };
        self.write_hidden()?;
        match &items[index].part {
            // The user's half of a summary is not a separate entry.
            Part::SummaryResponse { .. } => {
                let title_mark = mark(entry, summarized, 0);
                if let Some(request) = index.checked_sub(1) {
                    self.write_item(&items[request], &title_mark, "")?;
                }
                self.write_item(&items[index], &title_mark, "")
            }
            Part::SummaryNote { .. } => self.write_item(&items[index], "", &mark(entry, summarized, 0)),
            _ if entry.kind.is_none() => self.write_item(&items[index], "", ""),
            _ => {
                let (before, after) = self.comparison.characters(entry);
                self.write_item(&items[index], "", &mark(entry, before, after))
            }
        }
    }

    fn add_hidden(&mut self, entry: &DiffEntry) -> io::Result<()> {
        if self.hidden.events > 0 && self.hidden.overlay != entry.overlay {
            self.write_hidden()?;
        }
        self.hidden.overlay = entry.overlay;
        self.hidden.events += 1;
        self.hidden.characters += self.comparison.characters(entry).0;
        Ok(())
    }

    /// Writes the number of events that are not shown, if there are any.
    fn write_hidden(&mut self) -> io::Result<()> {
        let Hidden { overlay, events, characters } = std::mem::take(&mut self.hidden);
        if events == 0 {
            return Ok(());
        }
        let overlay = overlay.map_or_else(String::new, |index| format!("overlay {}: ", index + 1));
        let events = counted(events, "event");
        writeln!(self.out, "[{overlay}{events}, {} characters removed]", grouped(characters))
    }

    /// Writes an event, after the title of its turn if it is the first event of the turn.
    fn write_item(&mut self, item: &Item, title_mark: &str, mark: &str) -> io::Result<()> {
        let Some(shown) = item.event(self.comparison.stream) else { return Ok(()) };
        if self.turn != Some(shown.turn) {
            self.turn = Some(shown.turn);
            writeln!(self.out, "--- {}{title_mark} ---", turn_title(shown.turn, shown.origin))?;
        }
        let (head, body) = head_and_body(&shown.event);
        writeln!(self.out, "{}{mark}:", escape::line(&head))?;
        for line in escape::text(&body).lines() {
            writeln!(self.out, "  {line}")?;
        }
        Ok(())
    }
}

/// Returns the mark of a change: its overlay, and the number of characters that it removed or added.
fn mark(entry: &DiffEntry, before: u64, after: u64) -> String {
    let overlay =
        entry.overlay.map_or_else(|| "overlay".to_owned(), |index| format!("overlay {}", index + 1));
    let verb = if after > before { "added" } else { "removed" };
    match before.abs_diff(after) {
        0 => format!(" [{overlay}]"),
        count => format!(" [{overlay}: {} characters {verb}]", grouped(count)),
    }
}

/// Returns the title of a turn in the view: its number, and the raw turns of a summary or of a turn that is renumbered.
fn turn_title(turn: usize, origin: ItemOrigin) -> String {
    match origin {
        ItemOrigin::Kept(raw) if raw == turn => format!("turn {turn}"),
        ItemOrigin::Kept(raw) => format!("turn {turn} (turn {raw} of the history)"),
        ItemOrigin::Summary { .. } => {
            let range = origin.summarized().map_or_else(String::new, |range| range.to_string());
            format!("turn {turn} (a summary of {range} of the history)")
        }
    }
}

/// Returns the role and the text of an event.
fn head_and_body(event: &Map<String, Value>) -> (String, String) {
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), event.get("reasoning"), event.get("data")) {
        ("chat_request", ..) => ("user".to_owned(), text("content").to_owned()),
        ("chat_response", Some(_), _) => ("assistant, reasoning".into(), text("reasoning").into()),
        ("chat_response", _, Some(data)) => ("assistant, data".into(), data.to_string()),
        ("chat_response", ..) => ("assistant".into(), text("message").into()),
        ("tool_call_request", ..) => {
            let arguments = event.get("arguments").map(Value::to_string).unwrap_or_default();
            (format!("tool call {}", text("name")), arguments)
        }
        _ => {
            let is_error = event.get("is_error") == Some(&Value::Bool(true));
            let role = if is_error { "tool error" } else { "tool result" };
            (role.to_owned(), text("content").into())
        }
    }
}

/// Lists the overlays, which the printed raw events do not show.
fn write_overlays(input: &InputTranscript, out: &mut dyn Write) -> io::Result<()> {
    for (number, overlay) in (1_usize..).zip(input.stream.overlays()) {
        let has_effect = overlay.effective_range(input.stream.turns()).is_some();
        writeln!(
            out,
            "[overlay {number}, {}: {}, {}; {}]",
            view::timestamp_text(overlay.stamp),
            overlay_range(overlay),
            overlay.policy_names().join(", "),
            if has_effect { "--compacted applies it" } else { "it has no effect" }
        )?;
    }
    Ok(())
}
