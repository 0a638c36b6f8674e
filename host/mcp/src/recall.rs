//! The tools that return events that overlays hide, and the tool that lists the sessions of the served folder. They
//! must not write.

use std::path::Path;

use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::{Pairs, Stream};
use jp_compact_diff::{Comparison, OverlayChoice, SizedChanges};
use jp_compact_reports::diff;
use jp_compact_reports::palette::Palette;
use jp_compact_runtime::environment::Environment;
use jp_compact_sessions as sessions;
use jp_compact_terminal::lines::EscapedLines;
use serde_json::{Value, json};

use crate::arguments::{ExpandArguments, SearchArguments};
use crate::page::{Page, page};
use crate::search::{event_text, search};

/// The output of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    pub text: String,
    /// None if there is only text.
    pub json: Option<Value>,
}

const PAGE_CHARS: usize = 100_000;
const LISTED_MAX: usize = 20;
/// The maximum number of sessions to read in search of the sessions of one folder.
const READ_MAX: usize = 2_000;

/// Returns a page of a text.
#[must_use]
pub fn page_of(text: &str, offset: Option<usize>, max_chars: Option<usize>) -> ToolAnswer {
    let offset = offset.unwrap_or_default();
    let Page { text: part, total, next } = page(text, offset, max_chars.unwrap_or(PAGE_CHARS));
    let is_whole = offset == 0 && next.is_none();
    let json = json!({ "offset": offset, "next_offset": next, "total_chars": total });
    let note = next.map(|next| format!("\n[{total} characters; the next page has `offset` {next}]\n"));
    ToolAnswer {
        text: part.to_owned() + &note.unwrap_or_default(),
        json: if is_whole { None } else { Some(json) },
    }
}

/// Returns the events that contain a text.
#[must_use]
pub fn find_text(events: &[Value], arguments: &SearchArguments) -> ToolAnswer {
    let found = search(events, &arguments.query, arguments.max.unwrap_or(LISTED_MAX));
    let mut text = EscapedLines::new();
    for found in &found {
        let label = format!("event {}, turn {}, {}: ", found.event, found.turn, found.kind);
        text.labeled(&label, "  ", &found.excerpt);
    }
    if found.is_empty() {
        text.line("no event contains this text");
    }
    let matches: Vec<Value> = found
        .iter()
        .map(|found| {
            json!({ "event": found.event, "turn": found.turn, "type": found.kind, "excerpt": found.excerpt })
        })
        .collect();
    ToolAnswer { text: text.as_str().to_owned(), json: Some(json!({ "matches": matches })) }
}

/// Returns the whole text of an event, if it exists.
#[must_use]
pub fn expand(events: &[Value], arguments: &ExpandArguments) -> Option<ToolAnswer> {
    let event = events.get(arguments.event)?;
    Some(page_of(&event_text(event), arguments.offset, arguments.max_chars))
}

/// Returns what the overlays remove, one line for each changed event.
#[must_use]
pub fn changes(stream: &Stream, estimator: Estimator) -> ToolAnswer {
    let (pairs, choice) = (Pairs::new(stream), OverlayChoice::all(stream.overlays()));
    let comparison = Comparison::new(stream, &pairs, &choice);
    let estimate = Estimate::new(stream, estimator);
    let changes = SizedChanges::new(&comparison, &estimate, None);
    ToolAnswer { text: diff::stat(&changes, &Palette::default()).as_str().to_owned(), json: None }
}

/// Lists the sessions that recorded this folder, and the conversations of its workspace.
#[must_use]
pub fn sessions_of(folder: &Path, max: Option<usize>, environment: &Environment) -> ToolAnswer {
    let mut rows = sessions::recorded_sessions(READ_MAX, environment);
    let is_here = |own: &str| Path::new(own).canonicalize().is_ok_and(|own| own == folder);
    rows.retain(|row| row.agent == "jp" || row.folder.as_deref().is_some_and(is_here));
    rows.truncate(max.unwrap_or(LISTED_MAX));
    let mut text = EscapedLines::new();
    for row in &rows {
        let title = row.title.as_deref().unwrap_or_default();
        text.line(format_args!("{}  {}  {}  {title}", row.modified, row.agent, row.id));
    }
    if rows.is_empty() {
        text.line("no session recorded this folder");
    }
    let json = json!({ "sessions": rows, "notes": [] });
    ToolAnswer { text: text.as_str().to_owned(), json: Some(json) }
}

/// Returns the file of a session of this folder, by its id. A session of another folder is not found.
#[must_use]
pub fn session_path(id: &str, folder: &Path, environment: &Environment) -> Option<std::path::PathBuf> {
    let is_here = |own: &str| Path::new(own).canonicalize().is_ok_and(|own| own == folder);
    let rows = sessions::recorded_sessions(READ_MAX, environment).into_iter();
    let mut named =
        rows.filter(|row| row.id == id && row.folder.as_deref().is_some_and(is_here) && row.agent != "jp");
    Path::new(&named.next()?.path?).canonicalize().ok()
}
