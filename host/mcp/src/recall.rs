//! The answers of the tools `search`, `expand`, `diff`, and `list`. `search` and `expand` return raw events even if
//! overlays hide them. This module must not write.

use std::path::Path;

use jp_compact_core::Pairs;
use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_diff::{Comparison, OverlayChoice, SizedChanges, overlay_origins, view_tokens};
use jp_compact_reports::diff;
use jp_compact_reports::palette::Palette;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{DiffReport, ListedSession, SessionListReport};
use jp_compact_sessions as sessions;
use jp_compact_terminal::lines::EscapedLines;
use jp_compact_transcripts::Transcript;
use serde_json::Value;

use crate::arguments::{ExpandArguments, SearchArguments};
use crate::documents::{SearchAnswer, TextPage};
use crate::page::{Page, page};
use crate::search::{event_text, search};

/// The output of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    pub text: String,
    /// `None` if there is only text.
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
    let page = TextPage { text: part.to_owned(), offset, next_offset: next, total_chars: total };
    let note = next.map(|next| format!("\n[{total} characters; the next page has `offset` {next}]\n"));
    ToolAnswer { text: part.to_owned() + &note.unwrap_or_default(), json: serde_json::to_value(page).ok() }
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
    let json = serde_json::to_value(SearchAnswer { matches: found }).ok();
    ToolAnswer { text: text.as_str().to_owned(), json }
}

/// Returns a page of the text of an event. `None` if the event does not exist.
#[must_use]
pub fn expand(events: &[Value], arguments: &ExpandArguments) -> Option<ToolAnswer> {
    let event = events.get(arguments.event)?;
    Some(page_of(&event_text(event), arguments.offset, arguments.max_chars))
}

/// A transcript that was read.
#[derive(Debug, Clone, Copy)]
pub struct ReadTranscript<'a> {
    pub path: &'a Path,
    pub id: Option<&'a str>,
    pub stream: &'a Transcript,
}

/// Returns the changes by the overlays. The text lists the largest changes, and the document all, without hunks.
#[must_use]
pub fn changes(read: ReadTranscript<'_>, estimator: Estimator) -> ToolAnswer {
    let stream = read.stream.stream();
    let (pairs, choice) = (Pairs::new(stream), OverlayChoice::all(stream.overlays()));
    let comparison = Comparison::new(stream, &pairs, &choice);
    let estimate = Estimate::new(stream, estimator);
    let changes = SizedChanges::new(&comparison, &estimate, None);
    let (tokens, origins) = (view_tokens(&comparison, &choice, &estimate), overlay_origins(stream));
    let report = DiffReport {
        path: read.path.to_string_lossy().into_owned(),
        format: read.stream.format().to_string(),
        conversation_id: read.id.map(str::to_owned),
        dry_run: false,
        estimator: estimator.name().to_owned(),
        tokens,
        saved: tokens.saved_of_view(),
        events: changes.counts,
        overlays: changes.overlays(&choice.after, |index| origins.get(index).cloned().flatten()),
        declines: Vec::new(),
        would: Vec::new(),
        nothing: None,
        changes: changes.changes.iter().map(|change| changes.document(change)).collect::<Vec<_>>(),
    };
    let text = diff::stat(&changes, &Palette::default()).as_str().to_owned();
    ToolAnswer { text, json: serde_json::to_value(report).ok() }
}

/// Lists the sessions of agents that worked in this folder, and JP's conversations inside it.
#[must_use]
pub fn sessions_of(
    folder: &Path,
    max: Option<usize>,
    add_counts: fn(&mut [ListedSession], &Environment),
    environment: &Environment,
) -> ToolAnswer {
    let mut rows = sessions::recorded_sessions(READ_MAX, environment);
    rows.retain(|row| is_served(row, folder));
    rows.truncate(max.unwrap_or(LISTED_MAX));
    add_counts(&mut rows, environment);
    let mut text = EscapedLines::new();
    for row in &rows {
        let title = row.title.as_deref().unwrap_or_default();
        text.line(format_args!("{}  {}  {}  {title}", row.modified, row.agent, row.id));
    }
    if rows.is_empty() {
        text.line("no session was found for this folder");
    }
    let json = serde_json::to_value(SessionListReport { sessions: rows, notes: Vec::new() }).ok();
    ToolAnswer { text: text.as_str().to_owned(), json }
}

/// Returns the file of an agent's session of this folder, by its id. Sessions of other folders and JP's are not found.
#[must_use]
pub fn session_path(id: &str, folder: &Path, environment: &Environment) -> Option<std::path::PathBuf> {
    let mut rows = sessions::recorded_sessions(READ_MAX, environment).into_iter();
    let row = rows.find(|row| row.id == id && row.agent != "jp" && is_served(row, folder))?;
    Path::new(&row.path?).canonicalize().ok()
}

/// Returns whether a session belongs to the served folder: its agent worked in this folder, or it is a conversation of
/// JP inside this folder. If the folder is below a workspace, other conversations of the workspace are not served.
fn is_served(row: &ListedSession, folder: &Path) -> bool {
    let real = |path: &Option<String>| path.as_deref().and_then(|path| Path::new(path).canonicalize().ok());
    match row.agent.as_str() {
        "jp" => real(&row.path).is_some_and(|path| path.starts_with(folder)),
        _ => real(&row.folder).is_some_and(|own| own == folder),
    }
}
