//! The report of `diff` as text: unified hunks, or a table with a line for each event. Among the hunks, each line of a
//! transcript begins with `-`, `+`, or a space, and each line of the host with a letter or `@`. The sums follow at the
//! end, and some of their lines are indented. The table has at most 60 columns.

use jp_compact_core::{Position, TurnRange};
use jp_compact_diff::{SizedChange, SizedChanges};
use jp_compact_schema::document::{
    ChangeContent, ChangeCounts, DiffChange, DiffHunk, DiffOverlay, DiffReport, ViewTokens,
};

use crate::palette::Palette;
use crate::sent_tokens::counting_method;
use jp_compact_terminal::escape;
use jp_compact_terminal::lines::{EscapedLines, LISTED_MAX};
use jp_compact_terminal::numbers::{counted, grouped, percent_change};
use jp_compact_terminal::width::{columns, cut_end, padded};

const COLUMNS: usize = 60;
const EVENT_WIDTH: usize = 18;
const BAR_WIDTH: usize = 6;

/// Returns the text of a change, with the compared lines.
pub fn change_text(changes: &SizedChanges<'_>, change: &SizedChange, palette: &Palette) -> EscapedLines {
    let document = changes.document_with_hunks(change);
    let mut text = EscapedLines::new();
    let (tokens, characters) = (document.tokens, document.characters);
    text.styled(
        palette.heading,
        format_args!(
            "{}, {}: {}{}, {} -> {} characters, {} -> {} tokens",
            position_text(&document),
            content_text(&document),
            document.change.as_str(),
            document.overlay.map_or_else(String::new, |number| format!(" by overlay {number}")),
            grouped(characters.view_before),
            grouped(characters.view_after),
            grouped(tokens.view_before),
            grouped(tokens.view_after),
        ),
    );
    for hunk in document.hunks.iter().flatten() {
        add_hunk(&mut text, hunk, palette);
    }
    text
}

fn add_hunk(text: &mut EscapedLines, hunk: &DiffHunk, palette: &Palette) {
    let range = |start: usize, lines: usize| match lines {
        1 => start.to_string(),
        lines => format!("{start},{lines}"),
    };
    let (old, new) = (range(hunk.old_start, hunk.old_lines), range(hunk.new_start, hunk.new_lines));
    text.styled(palette.hunk, format_args!("@@ -{old} +{new} @@"));
    for line in &hunk.lines {
        let style = match line.as_bytes().first() {
            Some(b'-') => palette.removed,
            Some(b'+') => palette.added,
            _ => anstyle::Style::new(),
        };
        text.styled(style, line.replace('\t', "    "));
    }
}

fn position_text(change: &DiffChange) -> String {
    let position = Position { turn: change.turn, step: change.step };
    TurnRange::between(position, position).map_or_else(String::new, |range| range.to_string())
}

fn content_text(change: &DiffChange) -> String {
    let tool = change.tool.as_deref().unwrap_or_default();
    let event = change.event.map_or_else(String::new, |number| format!(" (event {number})"));
    let content = match change.content {
        ChangeContent::User => "user message".to_owned(),
        ChangeContent::Assistant => "assistant message".to_owned(),
        ChangeContent::Reasoning => "reasoning".to_owned(),
        ChangeContent::ToolRequest => format!("call of {tool}"),
        ChangeContent::ToolResponse if change.is_error => format!("error of {tool}"),
        ChangeContent::ToolResponse => format!("result of {tool}"),
        ChangeContent::Summary => "summary".to_owned(),
    };
    content + &event
}

/// Returns the changes as a table. A long table lists only the largest changes.
pub fn stat(changes: &SizedChanges<'_>, palette: &Palette) -> EscapedLines {
    let mut rows: Vec<_> =
        changes.changes.iter().map(|change| changes.document(change)).enumerate().collect();
    let largest = rows.iter().map(|(_, row)| difference(row.tokens)).max().unwrap_or_default();
    let hidden = rows.len().saturating_sub(LISTED_MAX);
    if hidden > 0 {
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(difference(row.tokens)));
        rows.truncate(LISTED_MAX);
        rows.sort_by_key(|(number, _)| *number);
    }
    let mut text = EscapedLines::new();
    for (_, row) in &rows {
        let style =
            if row.tokens.view_after > row.tokens.view_before { palette.added } else { palette.removed };
        text.styled(style, stat_row(row, largest));
    }
    if hidden > 0 {
        text.line(format_args!("... and {hidden} smaller changes; the JSON output lists all"));
    }
    text
}

fn difference(tokens: ViewTokens) -> u64 {
    tokens.view_before.abs_diff(tokens.view_after)
}

/// Returns the position, the overlay, the event, its tokens, and a bar for the difference.
fn stat_row(row: &DiffChange, largest: u64) -> String {
    let position = Position { turn: row.turn, step: row.step }.to_string();
    let overlay = row.overlay.map_or_else(String::new, |number| format!("#{number}"));
    let kind = match row.content {
        ChangeContent::User => "user",
        ChangeContent::Assistant => "assistant",
        ChangeContent::Reasoning => "reasoning",
        ChangeContent::ToolRequest => "call",
        ChangeContent::ToolResponse if row.is_error => "error",
        ChangeContent::ToolResponse => "result",
        ChangeContent::Summary => "summary",
    };
    let event = truncated(&format!("{kind} {}", row.tool.as_deref().unwrap_or_default()), EVENT_WIDTH);
    let ViewTokens { view_before, view_after } = row.tokens;
    let sign = if view_after > view_before { "+" } else { "-" };
    let bar = (u128::from(difference(row.tokens)) * BAR_WIDTH as u128).div_ceil(u128::from(largest.max(1)));
    let bar = sign.repeat(usize::try_from(bar).unwrap_or_default());
    let (before, after) = (grouped(view_before), grouped(view_after));
    let line =
        format!("{position:<7} {overlay:<4} {} {before:>9} -> {after:>8} {bar}", padded(&event, EVENT_WIDTH));
    line.trim_end().to_owned()
}

/// Escapes a name, and cuts it to `width` columns.
fn truncated(name: &str, width: usize) -> String {
    cut_end(&escape::line(name.trim_end()), width, '…')
}

/// Returns the sums of a report: its overlays, its changes, and both views.
pub fn sums<C>(report: &DiffReport<C>, jp_note: Option<&str>) -> EscapedLines {
    let mut text = EscapedLines::new();
    if !report.overlays.is_empty() {
        text.line("");
    }
    for overlay in &report.overlays {
        add_overlay(&mut text, overlay);
    }
    for would in &report.would {
        add_words(&mut text, &format!("{}: {}", would.strategy, would.request));
    }
    for decline in &report.declines {
        add_words(&mut text, &format!("{} made no overlay: {}", decline.strategy, decline.reason));
    }
    if let Some(nothing) = &report.nothing {
        add_words(&mut text, nothing);
    }
    add_counts(&mut text, &report.events);
    let (before, after) = (report.tokens.view_before, report.tokens.view_after);
    text.line(format_args!(
        "{} -> {} tokens ({}, {})",
        grouped(before),
        grouped(after),
        percent_change(before, after),
        counting_method(&report.estimator)
    ));
    if let Some(note) = jp_note {
        add_words(&mut text, note);
    }
    text
}

fn add_overlay(text: &mut EscapedLines, overlay: &DiffOverlay) {
    let from = Position { turn: overlay.from_turn, step: overlay.from_step };
    let to = Position { turn: overlay.to_turn, step: overlay.to_step };
    let range = TurnRange::between(from, to).map_or_else(String::new, |range| format!(", {range}"));
    let origin = match (&overlay.strategy, &overlay.version) {
        (Some(strategy), Some(version)) => format!(" by {strategy} {version}"),
        _ => String::new(),
    };
    text.line(truncated(&format!("overlay {}{origin}{range}", overlay.number), COLUMNS));
    let (tokens, characters) = (overlay.tokens, overlay.characters);
    let events = counted(overlay.events, "event");
    text.line(format_args!(
        "  {events}, {} -> {} tokens",
        grouped(tokens.view_before),
        grouped(tokens.view_after)
    ));
    let (before, after) = (grouped(characters.view_before), grouped(characters.view_after));
    text.line(format_args!("  {before} -> {after} characters"));
}

/// Adds the number of events of each kind of change.
fn add_counts(text: &mut EscapedLines, counts: &ChangeCounts) {
    let &ChangeCounts { kept, removed, shortened, replaced, summarized, added, restored } = counts;
    let named = [
        (removed, "removed"),
        (shortened, "shortened"),
        (replaced, "replaced"),
        (summarized, "summarized"),
        (restored, "restored"),
    ];
    let changed: u64 = named.iter().map(|(count, _)| count).sum();
    let noun = if changed == 1 { "event" } else { "events" };
    text.line(format_args!("{} {noun} changed, {} kept", grouped(changed), grouped(kept)));
    let parts = named.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<_> = parts.map(|(count, name)| format!("{} {name}", grouped(*count))).collect();
    parts.extend((added > 0).then(|| summaries_added(added)));
    for line in wrapped(&parts, ", ", COLUMNS - 2) {
        text.line(format_args!("  {line}"));
    }
}

fn summaries_added(count: u64) -> String {
    if count == 1 { "1 summary added".to_owned() } else { format!("{} summaries added", grouped(count)) }
}

/// Adds a sentence in lines of at most 60 columns, unless a word is longer.
fn add_words(text: &mut EscapedLines, sentence: &str) {
    let words: Vec<_> = sentence.split_whitespace().map(escape::line).collect();
    wrapped(&words, " ", COLUMNS).iter().for_each(|line| text.line(line));
}

/// Joins parts into lines of at most `width` columns.
fn wrapped(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if columns(line) + separator.len() + columns(part) <= width => {
                *line = format!("{line}{separator}{part}");
            }
            _ => lines.push(part.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use jp_compact_schema::document::{ChangeKind, ViewCharacters};

    use super::*;

    fn row() -> DiffChange {
        DiffChange {
            change: ChangeKind::Replaced,
            overlay: Some(123),
            turn: 1234,
            step: Some(12),
            event: Some(9),
            content: ChangeContent::ToolResponse,
            tool: Some("mcp__server__a_long_name\u{1b}[2J".to_owned()),
            is_error: true,
            tokens: ViewTokens { view_before: 9_999_999, view_after: 9_999_999 },
            characters: ViewCharacters::default(),
            hunks: None,
        }
    }

    #[test]
    fn rows_have_at_most_60_columns() {
        let removed = DiffChange { tokens: ViewTokens { view_before: 9_999_999, view_after: 0 }, ..row() };
        for row in [row(), removed] {
            let line = stat_row(&row, 9_999_999);
            assert!(line.chars().count() <= COLUMNS, "{line}");
            assert!(!line.contains('\u{1b}'), "{line}");
        }
    }

    #[test]
    fn counts_are_wrapped() {
        let counts = ChangeCounts {
            kept: 1_000_000,
            removed: 1_000_000,
            shortened: 1_000_000,
            replaced: 1_000_000,
            summarized: 1_000_000,
            added: 1_000_000,
            restored: 1_000_000,
        };
        let mut text = EscapedLines::new();
        add_counts(&mut text, &counts);
        assert!(text.as_str().lines().all(|line| line.chars().count() <= COLUMNS), "{}", text.as_str());
        assert!(text.as_str().contains("1,000,000 restored"), "{}", text.as_str());
    }
}
